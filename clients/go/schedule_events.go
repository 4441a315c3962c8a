package leasehold

import (
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// ScheduleEvent is what happens between runs: one of [Subscribed], [Standby], [DefinitionInForce], [Draining],
// [Interrupted]. Later versions may have more.
type ScheduleEvent interface{ scheduleEvent() }

// Subscribed says how the sidecar has understood the schedule, at the beginning and after each time that it was away.
type Subscribed struct {
	// Understood is how.
	Understood UnderstoodSchedule
}

// Standby says that the caller waits for an occurrence. It is repeated when something of it changes, and at least every
// 30 s.
type Standby struct {
	// NextAt is the occurrence that is waited for; zero if there is none.
	NextAt time.Time
	// Last is what ended last; nil if nothing has.
	Last *EndedRun
	// RunningElsewhere is whether a run goes on elsewhere, as far as is known.
	RunningElsewhere bool
	// Paused is whether the schedule is paused.
	Paused bool
}

// DefinitionInForce says that another definition is in force than the one that this caller came with (T16).
type DefinitionInForce struct {
	// Expression is its expression, in the canonical form.
	Expression string
	// TimeZone is its time zone.
	TimeZone string
	// Description is the same for people.
	Description string
	// Revision is its revision.
	Revision uint64
	// Conflict is whether it has the same revision as this caller's: then two deployments differ by accident.
	Conflict bool
}

func (Subscribed) scheduleEvent()        {}
func (Standby) scheduleEvent()           {}
func (DefinitionInForce) scheduleEvent() {}
func (Draining) scheduleEvent()          {}
func (Interrupted) scheduleEvent()       {}

func standbyFrom(wire *leaseholdv1.Standby) Standby {
	return Standby{
		moment(wire.GetNextAt()), endedFrom(wire.GetLast()), wire.GetRunningElsewhere(), wire.GetPaused(),
	}
}

func definitionFrom(wire *leaseholdv1.DefinitionInForce) DefinitionInForce {
	return DefinitionInForce{
		wire.GetExpression(), wire.GetTimeZone(), wire.GetDescription(), wire.GetRevision(), wire.GetConflict(),
	}
}
