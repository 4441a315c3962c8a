package leasehold

import (
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// ScheduleSpec is a schedule: when it is due, how its runs are handled, and who takes part. The zero value of each field
// but Key and Cron or Every is its default. Durations are whole seconds. The sidecar refuses what is out of its range,
// naming the field (S19).
type ScheduleSpec struct {
	// Key is the lock that the schedule is attached to: all that name the same one share it. Function and Scope have at
	// most 256 bytes together.
	Key LockKey
	// Cron is when it is due: five fields as cron has them, six with seconds first, a nickname such as @daily, or
	// "@every 90s". At most 256 bytes (T15). Either this or Every is needed.
	Cron string
	// Every is the same span again and again, counted from the Unix epoch: 10 s to 366 days.
	Every time.Duration
	// TimeZone is the IANA name of the time zone whose clocks Cron is about, such as Europe/Copenhagen. Default: UTC.
	TimeZone string
	// Revision says which of two different definitions is in force: the one with the higher one. Default: 0, which never
	// replaces a positive one (T16).
	Revision uint64
	// CatchUp is what becomes of missed occurrences. Default: [CatchUpLatest].
	CatchUp CatchUp
	// CatchUpMax is how many occurrences before the newest one are run: 1 to 100. With [CatchUpAll] only, and needed
	// there.
	CatchUpMax uint32
	// CatchUpWindow is how old an occurrence may be and still be run: 1 min to 366 days. Default: as CatchUp may run, and 25 h
	// at least.
	CatchUpWindow time.Duration
	// Grace is how late the newest occurrence still counts as on time: at least twice the lease duration and 10 s more,
	// which is the default; at most 7 days.
	Grace time.Duration
	// Overlap is what becomes of occurrences that fall due during a run. Default: [OverlapFollow].
	Overlap Overlap
	// MaxAttempts is how many attempts an occurrence has that fail or are abandoned: 1 to 100. Default: 3.
	MaxAttempts uint32
	// Backoff is the wait before the second attempt, which doubles with each further one: 1 s to 10 min. Default: 10 s.
	Backoff time.Duration
	// RunTimeout is how long a run may take: 1 s to 366 days, or [Forever]. Default: until the next occurrence is due, but
	// at least as long as the gap between the two (T12).
	RunTimeout time.Duration
	// StopGrace is how long a run may take to end after its deadline, and still say how it ended: up to 1 h. Default: 10 s
	// (T12).
	StopGrace time.Duration
	// ProgressTimeout is how long a run may go without [Run.ReportProgress]: 1 s to 24 h. Default: for ever (S11).
	ProgressTimeout time.Duration
	// Spread is up to how much later the schedule starts, by an offset of its own that does not change: at most 24 h, and
	// half the gap to the next occurrence. Default: 0 (T13).
	Spread time.Duration
	// TakeoverCheck is the longest time after which a sidecar looks whether a run elsewhere was abandoned: 1 s to 10 min.
	// Default: the time doubles from the lease duration up to 10 min (T17).
	TakeoverCheck time.Duration
	// LeaseDuration is the duration of the lease in the store: 15 s to 60 s. Default: the sidecar's.
	LeaseDuration time.Duration
	// FirstNow is whether a schedule that nobody has subscribed to before runs at once, in one replica (T25).
	FirstNow bool
	// Holder is who runs, for people to read: at most 256 bytes. Default: this pod or host, and the process id.
	Holder string
	// Labels are free key-value pairs for people and tools, shown in the lock's record: at most 16. Not for secrets.
	Labels map[string]string
	// OnEvent, if it is not nil, is told what happens between runs, one event after the other, on a goroutine of its own.
	OnEvent func(ScheduleEvent)
	// OnHoldEvent is the same for the holds of the runs.
	OnHoldEvent func(HoldEvent)
}

// wire gives the message for the definition alone.
func (s ScheduleSpec) wire() (*leaseholdv1.ScheduleSpec, error) {
	spec := &leaseholdv1.ScheduleSpec{
		TimeZone: s.TimeZone, Revision: s.Revision,
		CatchUp: leaseholdv1.CatchUp(s.CatchUp), CatchUpMax: s.CatchUpMax, CatchUpWindow: wireDuration(s.CatchUpWindow),
		Grace: wireDuration(s.Grace), Overlap: leaseholdv1.Overlap(s.Overlap),
		MaxAttempts: s.MaxAttempts, Backoff: wireDuration(s.Backoff), Spread: wireDuration(s.Spread),
		TakeoverCheck: wireDuration(s.TakeoverCheck), LeaseDuration: wireDuration(s.LeaseDuration),
		StopGrace: wireDuration(s.StopGrace), ProgressTimeout: wireDuration(s.ProgressTimeout),
	}
	switch {
	case s.Cron != "" && s.Every != 0:
		return nil, invalidField("spec.timetable", "Cron and Every are both set; a schedule has one of them")
	case s.Every != 0:
		spec.Timetable = &leaseholdv1.ScheduleSpec_Every{Every: wireDuration(s.Every)}
	case s.Cron != "":
		spec.Timetable = &leaseholdv1.ScheduleSpec_Cron{Cron: s.Cron}
	}
	switch {
	case s.RunTimeout == Forever:
		spec.Timeout = &leaseholdv1.ScheduleSpec_NoRunTimeout{NoRunTimeout: true}
	case s.RunTimeout != 0:
		spec.Timeout = &leaseholdv1.ScheduleSpec_RunTimeout{RunTimeout: wireDuration(s.RunTimeout)}
	}
	return spec, nil
}

// subscription gives the message of a new subscriber.
func (s ScheduleSpec) subscription() (*leaseholdv1.SubscribeScheduleRequest, error) {
	spec, err := s.wire()
	if err != nil {
		return nil, err
	}
	request := &leaseholdv1.SubscribeScheduleRequest{
		Key: s.Key.wire(), Spec: spec, Holder: holderOrThis(s.Holder), Labels: s.Labels,
	}
	if s.FirstNow {
		request.First = leaseholdv1.FirstRun_FIRST_RUN_NOW
	}
	return request, nil
}

// specFrom is a definition as the sidecar tells it; nil if it does not say when it is due, so that it cannot be read.
func specFrom(key LockKey, wire *leaseholdv1.ScheduleSpec) *ScheduleSpec {
	if wire.GetTimetable() == nil {
		return nil
	}
	spec := &ScheduleSpec{
		Key: key, Cron: wire.GetCron(), Every: duration(wire.GetEvery()), TimeZone: wire.GetTimeZone(),
		Revision: wire.GetRevision(), CatchUp: CatchUp(wire.GetCatchUp()), CatchUpMax: wire.GetCatchUpMax(),
		CatchUpWindow: duration(wire.GetCatchUpWindow()), Grace: duration(wire.GetGrace()),
		Overlap: Overlap(wire.GetOverlap()), MaxAttempts: wire.GetMaxAttempts(), Backoff: duration(wire.GetBackoff()),
		RunTimeout: duration(wire.GetRunTimeout()), Spread: duration(wire.GetSpread()),
		TakeoverCheck: duration(wire.GetTakeoverCheck()), LeaseDuration: duration(wire.GetLeaseDuration()),
		StopGrace: duration(wire.GetStopGrace()), ProgressTimeout: duration(wire.GetProgressTimeout()),
	}
	if wire.GetNoRunTimeout() {
		spec.RunTimeout = Forever
	}
	return spec
}
