package leasehold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Checkpoint is a small value stored with a lock: where the next holder goes on from. Only the current holder changes
// it. Anybody who may read locks can read it: not for secrets.
type Checkpoint struct {
	// Value is the value, at most 2,048 bytes.
	Value []byte
	// Version grows with each save of the lock's checkpoint: 1 to 2^53 - 1.
	Version uint64
	// FencingToken is the token of the holder that saved it.
	FencingToken uint64
	// SavedAt is when it was saved, by the store's clock; zero for what this hold has saved itself.
	SavedAt time.Time
}

// JSON reads a value that [Hold.SaveJSON] saved.
func (c *Checkpoint) JSON(into any) error {
	if err := json.Unmarshal(c.Value, into); err != nil {
		return fmt.Errorf("the checkpoint of version %d is not the JSON that is expected: %w", c.Version, err)
	}
	return nil
}

func checkpointFrom(wire *leaseholdv1.Checkpoint) *Checkpoint {
	if wire == nil {
		return nil
	}
	return &Checkpoint{
		Value: bytes.Clone(wire.GetValue()), Version: wire.GetVersion(), FencingToken: wire.GetFencingToken(),
		SavedAt: moment(wire.GetSavedAt()),
	}
}

// CheckpointUnknownError says that nobody knows whether a checkpoint was saved. The next grant tells.
type CheckpointUnknownError struct {
	// Detail is why, for people.
	Detail string
	// Err is the error of the call; nil where it came with the result of a release.
	Err error
}

func (e *CheckpointUnknownError) Error() string {
	return "it is not known whether the checkpoint was saved; the next grant tells: " + e.Detail
}

// Unwrap gives the error of the call.
func (e *CheckpointUnknownError) Unwrap() error { return e.Err }

// CheckpointNotSavedError says that the lock was released, and that the checkpoint was not saved.
type CheckpointNotSavedError struct {
	// Detail is why, for people.
	Detail string
}

func (e *CheckpointNotSavedError) Error() string {
	return "the checkpoint was not saved, and the earlier one stands: " + e.Detail
}

// ReleaseOption is an option of [Hold.Release] and [Client.Release].
type ReleaseOption func(*releasing)

// releasing is what a release is to do besides.
type releasing struct {
	// checkpoint is to be saved, if it is not nil.
	checkpoint []byte
	// outcome is to be recorded, if it is not nil, and wireOutcome is the same for the wire.
	outcome     *RunOutcome
	wireOutcome leaseholdv1.RunOutcome
}

// WithCheckpoint saves a checkpoint before the lock is released: at most 2,048 bytes. Where it cannot be saved, the lock is
// released all the same, and the result says both (S26).
func WithCheckpoint(value []byte) ReleaseOption {
	// An empty value is not the same as none.
	return func(r *releasing) { r.checkpoint = append([]byte{}, value...) }
}

// releasingWith is what the options ask for, if it is valid.
func releasingWith(options []ReleaseOption) (with releasing, err error) {
	for _, option := range options {
		option(&with)
	}
	if with.wireOutcome, err = outcomeToSend(with.outcome); err != nil {
		return with, err
	}
	return with, checkSize(with.checkpoint, "checkpoint")
}

// checkSize refuses a checkpoint that is too large, as the sidecar would.
func checkSize(value []byte, field string) error {
	if len(value) <= checkpointBytes {
		return nil
	}
	return invalidField(field, fmt.Sprintf("it has %d bytes; a checkpoint has at most %d", len(value), checkpointBytes))
}

// invalidField refuses a field as the sidecar would.
func invalidField(field, problem string) error {
	message := field + ": " + problem
	return &RefusedError{
		Code: CodeInvalidArgument, Reason: ReasonInvalidField, Message: message,
		Violations: []FieldViolation{{field, problem}}, err: status.Error(codes.InvalidArgument, message),
	}
}

// Checkpoint is the lock's checkpoint: as the last holder left it, or as this hold has saved it since. It is nil if there
// is none.
func (h *Hold) Checkpoint() *Checkpoint { return h.state.newestCheckpoint() }

// Save replaces the lock's checkpoint, and gives its version: at most 2,048 bytes, not for secrets. It returns when the
// store has the value; a holder whose lease is gone cannot save (S24). At most one save a second reaches the store: one
// that waits is replaced by a newer one, and has its outcome (S26). Saves at the same time have no order.
//
// While the hold is being resumed, this waits for that.
//
// Errors: [*LostError], or [ErrReleased], if the hold is over. [*CheckpointUnknownError] if nobody answered, because the
// validity ended before the store did or because the connection broke: the old value stands or the new one, and the save can be
// repeated as long as the hold is valid. So it is after that of ctx. [*RefusedError] if the sidecar refuses, with
// [ReasonInvalidField] for too large a value.
func (h *Hold) Save(ctx context.Context, value []byte) (uint64, error) {
	if err := checkSize(value, "value"); err != nil {
		return 0, err
	}
	if err := h.resumed(ctx); err != nil {
		return 0, err
	}
	order := h.state.beginSave()
	answer, sent, err := askAbout(ctx, h, func(id holdID) (*leaseholdv1.SaveCheckpointResponse, error) {
		return h.client.save(ctx, id, value, h.Remaining()+saveGrace)
	})
	if toldLost(err) != nil {
		return 0, h.endError()
	}
	if err != nil {
		return 0, err
	}
	if validity := answer.GetValidity(); validity != nil {
		h.state.takeIn(validity, &sent)
	}
	h.savedAs(order, value, answer.GetVersion())
	return answer.GetVersion(), nil
}

// SaveJSON is [Hold.Save] of a value as JSON; [Checkpoint.JSON] reads it.
//
// Errors: that of json.Marshal, and as Save.
func (h *Hold) SaveJSON(ctx context.Context, value any) (uint64, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("the checkpoint cannot be written as JSON: %w", err)
	}
	return h.Save(ctx, text)
}

func (h *Hold) savedAs(order uint64, value []byte, version uint64) {
	h.state.saveDone(order, &Checkpoint{Value: bytes.Clone(value), Version: version, FencingToken: h.FencingToken()})
}

// SaveCheckpoint replaces the checkpoint of a lock that [Client.Acquire] took: see [Hold.Save].
//
// Errors: [*RefusedError], with [ReasonHoldLost] or [ReasonHoldReleased] if the hold is over; [*CheckpointUnknownError],
// that of ctx, as Save.
func (c *Client) SaveCheckpoint(ctx context.Context, leaseID string, value []byte) (uint64, error) {
	if err := checkSize(value, "value"); err != nil {
		return 0, err
	}
	answer, err := c.save(ctx, c.named(leaseID), value, longestLease+saveGrace)
	return answer.GetVersion(), err
}

func (c *Client) save(
	ctx context.Context, id holdID, value []byte, patience time.Duration,
) (*leaseholdv1.SaveCheckpointResponse, error) {
	request := &leaseholdv1.SaveCheckpointRequest{LeaseId: id.leaseID, Generation: id.generation, Value: value}
	answer, err := callAbout(ctx, id, patience, rpc.SaveCheckpoint, request)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) && (refused.Reason == ReasonCheckpointUnknown || refused.isNoAnswer()):
		return nil, &CheckpointUnknownError{refused.Message, err}
	case err != nil:
		return nil, knowing("checkpoints", err)
	}
	return answer, nil
}

// GetCheckpoint reads the checkpoint of a lock from the store; nil if there is none.
//
// Errors: [*RefusedError], [*UnreachableError], that of ctx.
func (c *Client) GetCheckpoint(ctx context.Context, lock LockSelector) (*Checkpoint, error) {
	request := &leaseholdv1.GetLockRequest{Lock: lock.selector(), WithCheckpoint: true}
	answer, err := call(ctx, c.pool, callTimeout, rpc.GetLock, request)
	if err != nil {
		return nil, err
	}
	return checkpointFrom(answer.GetRecord().GetCheckpoint()), nil
}

// beginSave gives a save its place in the order of all.
func (s *holdState) beginSave() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.saves++
	return s.saves
}

// saveDone takes in what a save has stored, unless a later one was stored before.
func (s *holdState) saveDone(order uint64, checkpoint *Checkpoint) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if order > s.saved {
		s.saved, s.checkpoint = order, checkpoint
	}
}

// newerCheckpoint takes in what the sidecar says that the store has, if it is newer: a save may have lost its answer.
func (s *holdState) newerCheckpoint(checkpoint *Checkpoint) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if checkpoint != nil && (s.checkpoint == nil || checkpoint.Version > s.checkpoint.Version) {
		s.checkpoint = checkpoint
	}
}

func (s *holdState) newestCheckpoint() *Checkpoint {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.checkpoint == nil {
		return nil
	}
	theirs := *s.checkpoint
	theirs.Value = bytes.Clone(theirs.Value)
	return &theirs
}
