// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package coordination_test

import "testing"

func TestGuardedWritesOfProcessesAreLinearizableOnKafka(t *testing.T) {
	t.Parallel()
	contestOfProcesses.run(t, sharedStage(t))
}

func TestGuardedWritesOfElectedProcessesAreLinearizableOnKafka(t *testing.T) {
	t.Parallel()
	contestOfElected.run(t, sharedStage(t))
}

func TestStandbyTakesOverFromAProcessOnKafka(t *testing.T) { takeOvers(t, sharedStage(t)) }
