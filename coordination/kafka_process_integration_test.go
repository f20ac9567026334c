// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package coordination_test

import "testing"

func TestGuardedWritesOfProcessesAreLinearizableOnKafka(t *testing.T) {
	contestOfProcesses.run(t, sharedStage(t))
}

func TestGuardedWritesOfElectedProcessesAreLinearizableOnKafka(t *testing.T) {
	contestOfElected.run(t, sharedStage(t))
}

func TestStandbyTakesOverFromAProcessOnKafka(t *testing.T) { takeOvers(t, sharedStage(t)) }
