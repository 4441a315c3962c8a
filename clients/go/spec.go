package leasehold

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Forever as [LeaseSpec.Wait] waits without end, until the context is cancelled. The wait of a hold survives broken
// connections and restarts of the sidecar. [Client.Acquire] asks for the longest wait that the sidecar allows, again and
// again, and goes to the end of the queue each time.
const Forever time.Duration = -1

const (
	// longestWait is the longest wait of the API, and longestLease the longest duration of a lease.
	longestWait  = 24 * time.Hour
	longestLease = time.Minute
)

// LockSelector says which lock is meant: a [LockKey], a [LockPath] or a [LockPermit].
type LockSelector interface {
	selector() *leaseholdv1.LockSelector
}

// LockKey is the name of a lock, as a caller says it. With the host id it gives the lock path; two callers exclude
// each other exactly when their lock paths are equal.
type LockKey struct {
	// Function is what the lock is for: a job, a function, a resource. At most 1,024 bytes, no invisible characters. May
	// be empty for a lock of the whole host, if Scope is not.
	Function string
	// Scope is the part that splits a function's lock: a tenant, an order, a shard. At most 1,024 bytes, no control
	// characters. May be empty, if Function is not.
	Scope string
	// Mode is whether the lock is held while a function runs (the default), or while a listener listens.
	Mode LockMode
	// HostID overrides the sidecar's host id, if it is not empty and the operator allows it.
	HostID string
	// HostType overrides the sidecar's host type, if it is not empty and the operator allows it.
	HostType string
}

func (k LockKey) selector() *leaseholdv1.LockSelector {
	return &leaseholdv1.LockSelector{Lock: &leaseholdv1.LockSelector_Key{Key: k.wire()}}
}

func (k LockKey) wire() *leaseholdv1.LockKey {
	key := &leaseholdv1.LockKey{Function: k.Function, Scope: k.Scope, Mode: leaseholdv1.LockMode(k.Mode)}
	if k.HostID != "" {
		key.HostId = proto.String(k.HostID)
	}
	if k.HostType != "" {
		key.HostType = proto.String(k.HostType)
	}
	return key
}

func keyFrom(wire *leaseholdv1.LockKey) LockKey {
	return LockKey{
		Function: wire.GetFunction(), Scope: wire.GetScope(), Mode: LockMode(wire.GetMode()),
		HostID: wire.GetHostId(), HostType: wire.GetHostType(),
	}
}

// LockPath is the path of a lock as it stands in a grant or a record: container, slash, name in the container.
type LockPath string

func (p LockPath) selector() *leaseholdv1.LockSelector {
	return &leaseholdv1.LockSelector{Lock: &leaseholdv1.LockSelector_LockPath{LockPath: string(p)}}
}

// LockPermit is one permit of a lock whose holders ask for several (LeaseSpec.Permits).
type LockPermit struct {
	// Key is the lock.
	Key LockKey
	// Permit is which of its permits: 0 to 31. 0 is the lock's own path.
	Permit uint32
}

func (p LockPermit) selector() *leaseholdv1.LockSelector {
	selector := p.Key.selector()
	selector.Permit = p.Permit
	return selector
}

// LeaseSpec is what a caller asks for. The zero value of each field but Key is its default. The sidecar refuses what
// is out of its range, naming the field (S19).
type LeaseSpec struct {
	// Key is the lock.
	Key LockKey
	// LeaseDuration is the duration of the lease in the store, which renewals restart: whole seconds, 15 s to 60 s. It
	// bounds how long the lock stays taken after a crash, and how long an outage of the store a hold survives. Default:
	// 60 s.
	LeaseDuration time.Duration
	// Wait is how long to wait while the lock is busy: at most 24 h, or [Forever]. A hold that waits goes on waiting when
	// the connection breaks or the sidecar restarts. Default: one try.
	Wait time.Duration
	// MaxHold is how long the hold may last in all: at its end it is lost unless it was extended before. Default: no
	// such bound for Hold and WithHold, 10 min for Acquire.
	MaxHold time.Duration
	// MinHold is how long the lock stays taken at least, counted from the grant, also when it is released before.
	MinHold time.Duration
	// ProgressTimeout is how long the holder may go without reporting progress: 1 s to 24 h. Default: not watched.
	ProgressTimeout time.Duration
	// NoRenewal leaves the lease alone: the hold lasts one lease duration and no more.
	NoRenewal bool
	// RequestID makes Acquire repeatable: a call with the id of an earlier one for the same lock gives the same grant
	// as long as that hold lives. At most 128 bytes; use a fresh random one for each hold. Hold and WithHold make no
	// use of it.
	RequestID string
	// Holder is who is asking, for people to read: at most 256 bytes. Default: this pod or host, and the process id.
	Holder string
	// Labels are free key-value pairs for people and tools, shown in the lock's record: at most 16. Not for secrets.
	Labels map[string]string
	// Permits is how many callers may hold the lock at the same time: 1 to 32. Each permit has a path, a fencing token and
	// a checkpoint of its own, so let the resource compare tokens permit by permit ([Hold.Permit]). Give the same number
	// everywhere. Default: 1.
	Permits uint32
	// Priority is how important this caller is: 0 to 2^31 - 1. Callers of a lock are served by priority, then by arrival. One
	// that has waited for a lease duration takes the lock over from a holder of smaller priority that yields: that one is
	// told ([Hold.Revoked]), and has what is left of its lease to finish. With a number that grows with each version, such as
	// a build number, the newest version takes over (S33). Not with Permits above 1. Default: 0.
	Priority uint32
	// Yields is whether this holder gives the lock up to a greater priority, or to an equal one that rebalances. Not with
	// Permits above 1 (S33, S35).
	Yields bool
	// Share is the group of like locks, such as all listeners of a deployment, that its sidecars spread among themselves: at
	// most 256 bytes, no invisible characters (S34). Not with Permits above 1. Default: none.
	Share string
	// Rebalance is whether the sidecar of this caller may take a lock of the share from a sidecar that holds at least two
	// more: one at a time, at most one a minute, and only from holders of equal priority that yield. Only with Share and
	// Yields (S35).
	Rebalance bool
	// Occurrence is the occurrence that the caller is about to run, for callers with a scheduler of their own: whole
	// seconds, at most 5 s after the store's time. It is granted until an outcome was recorded for it ([WithOutcome]), and
	// never after: then, or when a newer one has an outcome, the answer is an [*OccurrenceOverError] (T2). Not with Permits
	// above 1, nor MinHold, nor on a lock that has a schedule. Default: none.
	Occurrence time.Time
	// OccurrenceMaxAttempts is how often Occurrence may fail or be abandoned before that is final: 1 to 100. Default: no
	// limit.
	OccurrenceMaxAttempts uint32
	// OnEvent, if it is not nil, is told what happens to the hold, one event after the other, on a goroutine of its
	// own. Hold and WithHold only.
	OnEvent func(HoldEvent)
	// paced is whether the caller pauses where no sidecar answers, so that the wait is not one for the sidecar.
	paced bool
}

// wire gives the message for one call that waits so long.
func (s LeaseSpec) wire(wait time.Duration) *leaseholdv1.LeaseSpec {
	withoutEnd := wait == Forever
	if withoutEnd {
		wait = 0
	}
	spec := &leaseholdv1.LeaseSpec{
		WaitWithoutEnd:  withoutEnd,
		Key:             s.Key.wire(),
		LeaseDuration:   wireDuration(s.LeaseDuration),
		Wait:            wireDuration(wait),
		MaxHold:         wireDuration(s.MaxHold),
		MinHold:         wireDuration(s.MinHold),
		ProgressTimeout: wireDuration(s.ProgressTimeout),
		RequestId:       s.RequestID,
		Holder:          holderOrThis(s.Holder),
		Labels:          s.Labels,
		Priority:        s.Priority,
		Yields:          s.Yields,
		Share:           s.Share,
		Rebalance:       s.Rebalance,

		OccurrenceMaxAttempts: s.OccurrenceMaxAttempts,
	}
	if !s.Occurrence.IsZero() {
		spec.OccurrenceAt = timestamppb.New(s.Occurrence)
	}
	if s.Permits > 0 {
		spec.Permits = proto.Uint32(s.Permits)
	}
	if s.NoRenewal {
		spec.AutoRenew = proto.Bool(false)
	}
	return spec
}

// wireDuration is a duration for the wire; absent if it is zero, which is the default.
func wireDuration(duration time.Duration) *durationpb.Duration {
	if duration == 0 {
		return nil
	}
	return durationpb.New(duration)
}
