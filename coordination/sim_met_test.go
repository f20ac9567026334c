// SPDX-License-Identifier: Apache-2.0

package coordination_test

// simEnough is the number of elections in which everything below happens.
const simEnough = 500

// What has to happen in the simulated elections for them to prove something.
const (
	metLostRequest    = "a request is lost"
	metLostAnswer     = "an answer is lost, to " // and the kind of the request
	metBusy           = "a broker asks for patience"
	metDeaf           = "a call ignores its context"
	metGivesUp        = "a client gives a request up"
	metPause          = "a holder is paused for longer than its lease"
	metRestart        = "a process dies and starts under its old name"
	metReplacement    = "a process dies and another takes its place"
	metCut            = "a process is cut off"
	metClockBack      = "a clock steps back"
	metClockAhead     = "a clock steps ahead"
	metCoordinator    = "the coordinator moves"
	metRemovedHolder  = "an operator removes a holder from the roster"
	metOpenOther      = "a transaction of another role stays open"
	metBehind         = "a read goes on behind an open transaction"
	metBrokers        = "the brokers restart"
	metOperator       = "an operator mints"
	metForgotten      = "a transactional id expires"
	metUpgrade        = "the brokers are upgraded"
	metMovingEpoch    = "a transaction advances the epoch"
	metOpenMint       = "a mint meets an open transaction"
	metExtraBump      = "a mint advances the epoch by two"
	metTimeout        = "a transaction times out"
	metRotation       = "a producer id rotates to a larger one"
	metSmallerID      = "a producer id rotates to a smaller one"
	metNotDue         = "a mint is not due any more"
	metLoading        = "a mint waits for a new cluster"
	metDuel           = "a mint comes before the first lease of the one before"
	metLateRenewal    = "a lease is renewed after its deadline"
	metFenced         = "a leadership ends by a fence"
	metExpired        = "a leadership expires"
	metResigned       = "a leadership is resigned"
	metClosed         = "a leadership ends with its process"
	metFencedWrite    = "a guarded write is fenced"
	metUnknownOutcome = "a guarded write has an unknown outcome"
	metStaleCommand   = "a device refuses a command"
)

// simMet lists what has to happen.
var simMet = []string{
	metLostRequest, metLostAnswer + "mint", metLostAnswer + "read", metLostAnswer + "append", metLostAnswer + "add",
	metLostAnswer + "produce", metLostAnswer + "commit", metLostAnswer + "describe", metBusy, metDeaf, metGivesUp, metPause,
	metRestart, metReplacement, metCut, metClockBack, metClockAhead, metCoordinator, metRemovedHolder, metOpenOther,
	metBehind, metBrokers, metOperator, metForgotten, metUpgrade, metMovingEpoch, metOpenMint, metExtraBump, metTimeout, metRotation,
	metSmallerID, metNotDue, metLoading, metDuel, metLateRenewal, metFenced, metExpired, metResigned, metFencedWrite, metUnknownOutcome,
	metStaleCommand,
}
