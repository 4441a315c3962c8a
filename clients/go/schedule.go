package leasehold

import (
	"slices"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// EndedRun is a run that has ended, or occurrences that were skipped up to and with this one.
type EndedRun struct {
	// Kind is why there was a run.
	Kind RunKind
	// ScheduledAt is the occurrence; zero for a run by hand.
	ScheduledAt time.Time
	// RequestID is the id of the request; for runs by hand only.
	RequestID string
	// Outcome is how it ended.
	Outcome RunOutcome
	// Attempt is which attempt it was, from 1; 0 if there was no run.
	Attempt uint32
	// FencingToken is the token of the run; 0 if there was none.
	FencingToken uint64
}

func endedFrom(wire *leaseholdv1.EndedRun) *EndedRun {
	if wire == nil {
		return nil
	}
	return &EndedRun{
		Kind: runKindFrom(wire.GetKind()), ScheduledAt: moment(wire.GetScheduledAt()), RequestID: wire.GetRequestId(),
		Outcome: runOutcomeFrom(wire.GetOutcome()), Attempt: wire.GetAttempt(), FencingToken: wire.GetFencingToken(),
	}
}

// StartedRun is a run that was granted and has no outcome. If the lock is available, it was abandoned.
type StartedRun struct {
	// Kind is why there is a run.
	Kind RunKind
	// ScheduledAt is the occurrence; zero for a run by hand.
	ScheduledAt time.Time
	// RequestID is the id of the request; for runs by hand only.
	RequestID string
	// Attempt is which attempt it is, from 1.
	Attempt uint32
	// FencingToken is the token of the run.
	FencingToken uint64
	// StartedAt is when it was started, by the store's clock.
	StartedAt time.Time
	// DeadlineAt is when it is to be over, by the store's clock; zero if it has no deadline.
	DeadlineAt time.Time
}

func startedFrom(wire *leaseholdv1.StartedRun) *StartedRun {
	if wire == nil {
		return nil
	}
	return &StartedRun{
		Kind: runKindFrom(wire.GetKind()), ScheduledAt: moment(wire.GetScheduledAt()), RequestID: wire.GetRequestId(),
		Attempt: wire.GetAttempt(), FencingToken: wire.GetFencingToken(), StartedAt: moment(wire.GetStartedAt()),
		DeadlineAt: moment(wire.GetDeadlineAt()),
	}
}

// ScheduleState is what the runs of a schedule have decided, as it stands in the lock's record.
type ScheduleState struct {
	// NextAt is the occurrence that is waited for: due, running or still to come; zero if there is none.
	NextAt time.Time
	// Watermark is the newest instant that is final: no occurrence up to it is run again.
	Watermark time.Time
	// WatermarkOutcome is how the occurrence at Watermark ended; [RunOutcomeNone] if that is the instant of the first
	// subscription.
	WatermarkOutcome RunOutcome
	// Run is the run that has no outcome yet; nil if there is none.
	Run *StartedRun
	// RetryAt is when the next attempt is made, after one that failed; zero if none is waited for.
	RetryAt time.Time
	// Missed is how many occurrences were missed in all. Those that a pause has skipped do not count.
	Missed uint64
	// Ended is what ended last, the newest first: as many as the record has room for.
	Ended []EndedRun
}

func stateFrom(wire *leaseholdv1.ScheduleState) *ScheduleState {
	if wire == nil {
		return nil
	}
	state := &ScheduleState{
		NextAt: moment(wire.GetNextAt()), Watermark: moment(wire.GetWatermark()),
		WatermarkOutcome: runOutcomeFrom(wire.GetWatermarkOutcome()), Run: startedFrom(wire.GetRun()),
		RetryAt: moment(wire.GetRetryAt()), Missed: wire.GetMissed(),
	}
	for _, ended := range wire.GetEnded() {
		state.Ended = append(state.Ended, *endedFrom(ended))
	}
	return state
}

// Schedule is a schedule: its definition, and what is known of its runs.
type Schedule struct {
	// LockPath is the lock path.
	LockPath string
	// Key is the key, as far as the lock's record has it.
	Key LockKey
	// Spec is the definition in force, as it was given; nil if it cannot be read.
	Spec *ScheduleSpec
	// Expression is its expression in the canonical form, also where the spec says Every.
	Expression string
	// Description is the same for people: "every day at 02:30, Europe/Copenhagen".
	Description string
	// ZoneData is the version of the zone data that the next occurrence was computed with.
	ZoneData string
	// Paused is whether it is paused.
	Paused bool
	// WaitingRequestIDs are the request ids of runs by hand that wait, in their order.
	WaitingRequestIDs []string
	// NextAt is the occurrence that is waited for, also before the first run; zero if there is none.
	NextAt time.Time
	// State is what its runs have decided; nil if there was none yet.
	State *ScheduleState
	// Record is who holds the schedule's lock, as far as is known; nil in lists.
	Record *LockRecord
	// SubscribersHere is how many streams subscribe to it at this sidecar.
	SubscribersHere uint32
	// Problem is why its definition cannot be read, for people; empty if it can.
	Problem string
	// Removed is who has removed it, and why; nil if nobody has.
	Removed *ScheduleIntervention
	// Reset is who has reset it last, and why; nil if nobody has.
	Reset *ScheduleIntervention
	// RunAbandoned is whether the run in State was abandoned: it has no outcome, and its lock is available.
	RunAbandoned bool
}

// ScheduleIntervention is what an operator has done to a whole schedule (T25).
type ScheduleIntervention struct {
	// At is when, by the store's clock.
	At time.Time
	// Reason is why, as the operator said.
	Reason string
	// Caller is who, as far as the sidecar knew.
	Caller string
}

func interventionFrom(wire *leaseholdv1.ScheduleIntervention) *ScheduleIntervention {
	if wire == nil {
		return nil
	}
	return &ScheduleIntervention{moment(wire.GetAt()), wire.GetReason(), wire.GetCaller()}
}

func scheduleFrom(wire *leaseholdv1.Schedule) *Schedule {
	if wire == nil {
		return nil
	}
	key := keyFrom(wire.GetKey())
	schedule := &Schedule{
		LockPath: wire.GetLockPath(), Key: key, Spec: specFrom(key, wire.GetSpec()), Expression: wire.GetExpression(),
		Description: wire.GetDescription(), ZoneData: wire.GetZoneData(), Paused: wire.GetPaused(),
		WaitingRequestIDs: slices.Clone(wire.GetWaitingRequestIds()), NextAt: moment(wire.GetNextAt()),
		State: stateFrom(wire.GetState()), SubscribersHere: wire.GetSubscribersHere(), Problem: wire.GetProblem(),
		Removed: interventionFrom(wire.GetRemoved()), Reset: interventionFrom(wire.GetReset_()),
		RunAbandoned: wire.GetRunAbandoned(),
	}
	if wire.GetRecord() != nil {
		record := recordFrom(wire.GetRecord())
		schedule.Record = &record
	}
	return schedule
}

// UnderstoodSchedule is how a spec was understood.
type UnderstoodSchedule struct {
	// Expression is the expression in its canonical form.
	Expression string
	// TimeZone is the time zone.
	TimeZone string
	// Description is the same for people: "every day at 02:30, Europe/Copenhagen".
	Description string
	// ZoneData is the version of the time zone data that the sidecar has, such as 2026b.
	ZoneData string
	// Warning is what is said of the spec though it is allowed: that other schedulers read it otherwise; else empty.
	Warning string
}

func understoodFrom(wire *leaseholdv1.UnderstoodSchedule) UnderstoodSchedule {
	return UnderstoodSchedule{
		wire.GetExpression(), wire.GetTimeZone(), wire.GetDescription(), wire.GetZoneData(), wire.GetWarning(),
	}
}

// SchedulePreview is how a spec was understood, and its next occurrences.
type SchedulePreview struct {
	// Understood is how the spec was understood.
	Understood UnderstoodSchedule
	// Occurrences are the next ones. Fewer than asked for if there are no more.
	Occurrences []Occurrence
}

// Occurrence is one instant of a schedule.
type Occurrence struct {
	// At is the nominal instant.
	At time.Time
	// LocalTime is the same as the clocks of the schedule's zone show it.
	LocalTime string
	// StartsAt is when it starts, with the offset of Spread; zero if the spec has no key.
	StartsAt time.Time
}
