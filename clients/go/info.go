package leasehold

import (
	"context"
	"slices"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Deadline is a moment that lies ahead, in the sidecar's words.
type Deadline struct {
	// BootID says whose boot clock At is a reading of: readings compare only where it is the same and not empty.
	BootID string
	// At is the moment on that clock.
	At BootInstant
	// After is the duration from when the message was made to the moment. Count it only from before the request that the
	// message answers (S21).
	After time.Duration
}

// HoldInfo is what a sidecar knows of a hold that is not over.
type HoldInfo struct {
	// LockPath is the path of the lock.
	LockPath string
	// FencingToken is the token of the hold.
	FencingToken uint64
	// State is the state of the hold.
	State HoldState
	// Validity is until when the holder may act, unless renewed.
	Validity Validity
	// MaxHoldEnds is when MaxHold ends; nil if there is no limit.
	MaxHoldEnds *Deadline
	// ProgressDue is when the hold is lost unless progress is reported before; nil if that is not watched.
	ProgressDue *Deadline
	// BreakNote is who broke the lock and why; in state REVOKED only, and only if it is known.
	BreakNote *BreakNote
	// Generation grows each time that the hold is resumed (S16).
	Generation uint64
	// Permit is which permit of the lock is held: 0 for the lock's own path.
	Permit uint32
}

// GetHold asks for the validity, the limits and the state of a hold, and changes nothing.
//
// Errors: [*RefusedError], with [ReasonHoldLost] or [ReasonHoldReleased] if the hold is over; [*UnreachableError]; that
// of ctx.
func (c *Client) GetHold(ctx context.Context, leaseID string) (HoldInfo, error) {
	answer, err := c.getHold(ctx, c.named(leaseID))
	if err != nil {
		return HoldInfo{}, err
	}
	return holdInfoFrom(answer), nil
}

func (c *Client) getHold(
	ctx context.Context, id holdID,
) (*leaseholdv1.GetHoldResponse, error) {
	request := &leaseholdv1.GetHoldRequest{LeaseId: id.leaseID, Generation: id.generation}
	answer, err := callAbout(ctx, id, callTimeout, rpc.GetHold, request)
	if err != nil {
		return nil, err
	}
	if answer.GetValidity() == nil {
		return nil, &ProtocolError{"it has no validity of the hold"}
	}
	return answer, nil
}

func holdInfoFrom(wire *leaseholdv1.GetHoldResponse) HoldInfo {
	return HoldInfo{
		LockPath: wire.GetLockPath(), FencingToken: wire.GetFencingToken(),
		State:    holdStateFrom(wire.GetState()),
		Validity: validityFrom(wire.GetValidity()), MaxHoldEnds: deadlineFrom(wire.GetMaxHoldEnds()),
		ProgressDue: deadlineFrom(wire.GetProgressDue()), BreakNote: noteFrom(wire.GetBreakNote()),
		Generation: wire.GetGeneration(), Permit: wire.GetPermit(),
	}
}

func deadlineFrom(wire *leaseholdv1.Deadline) *Deadline {
	if wire == nil {
		return nil
	}
	return &Deadline{
		BootID: wire.GetAt().GetBootId(), At: BootInstant(duration(wire.GetAt().GetSinceBoot())),
		After: duration(wire.GetAfter()),
	}
}

// ServerInfo is what a sidecar is. Behind an address that several sidecars share, another one may answer the next call.
type ServerInfo struct {
	// Version is the version of the program.
	Version string
	// BootID is its kernel's boot id; empty if there is none.
	BootID string
	// Limits are the configured limits.
	Limits ServerLimits
	// Features are what the sidecar can do, such as checkpoints, notice, permits, sharing and wait-without-end. Ignore a
	// name that you do not know.
	Features []string
	// HostID is the host id of the configured provider.
	HostID string
	// HostType is the host type; empty if there is none.
	HostType string
	// Layout is how lock names are made from keys: readable, webjobs or hashed.
	Layout string
	// Store is the kind of store: azure, sqlite or memory.
	Store string
	// Revision is which requests the sidecar serves: those that need this one or a smaller one (S37).
	Revision uint32
}

// ServerLimits are what a sidecar accepts at the most.
type ServerLimits struct {
	// Wait is the longest wait of a call.
	Wait time.Duration
	// MaxHold is the longest MaxHold of Acquire and Extend.
	MaxHold time.Duration
	// DefaultMaxHold is the MaxHold of Acquire where the caller gives none.
	DefaultMaxHold time.Duration
	// DefaultLeaseDuration is the lease duration where the caller gives none.
	DefaultLeaseDuration time.Duration
	// Holds is the greatest number of holds at a time.
	Holds uint32
	// Waiters is the greatest number of callers that wait at a time.
	Waiters uint32
	// StreamsPerConnection is the greatest number of streams of one connection.
	StreamsPerConnection uint32
	// Permits is the greatest number of permits of a lock; 1 where the layout allows no more.
	Permits uint32
	// CheckpointBytes is the greatest size of a checkpoint; 0 where the layout allows none.
	CheckpointBytes uint32
}

// GetServerInfo asks a sidecar what it is.
//
// Errors: [*RefusedError], [*UnreachableError], that of ctx.
func (c *Client) GetServerInfo(ctx context.Context) (ServerInfo, error) {
	answer, err := call(ctx, c.pool, callTimeout, rpc.GetServerInfo, &leaseholdv1.GetServerInfoRequest{})
	if err != nil {
		return ServerInfo{}, err
	}
	limits := answer.GetLimits()
	return ServerInfo{
		Version: answer.GetVersion(), BootID: answer.GetBootId(), Features: slices.Clone(answer.GetFeatures()),
		HostID: answer.GetHostId(), HostType: answer.GetHostType(), Layout: answer.GetLayout(), Store: answer.GetStore(),
		Revision: answer.GetRevision(),
		Limits: ServerLimits{
			Wait: duration(limits.GetWait()), MaxHold: duration(limits.GetMaxHold()),
			DefaultMaxHold:       duration(limits.GetDefaultMaxHold()),
			DefaultLeaseDuration: duration(limits.GetDefaultLeaseDuration()),
			Holds:                limits.GetHolds(), Waiters: limits.GetWaiters(),
			StreamsPerConnection: limits.GetStreamsPerConnection(),
			Permits:              limits.GetPermits(), CheckpointBytes: limits.GetCheckpointBytes(),
		},
	}, nil
}

// Info asks the sidecar for the validity, the limits and the state of this hold, and changes nothing.
//
// Errors: as [Hold.ReportProgress].
func (h *Hold) Info(ctx context.Context) (HoldInfo, error) {
	answer, sent, err := askAbout(ctx, h, func(id holdID) (*leaseholdv1.GetHoldResponse, error) {
		return h.client.getHold(ctx, id)
	})
	if err != nil {
		return HoldInfo{}, err
	}
	h.state.takeInLimit(answer.GetMaxHoldEnds(), &sent)
	h.state.takeIn(answer.GetValidity(), &sent)
	return holdInfoFrom(answer), nil
}
