// Package leasehold holds singleton locks through a Leasehold sidecar, and tells at once when one is lost.
//
// A lock alone does not keep a holder that was paused from acting late: check [Hold.Valid] before each step, and let
// the resource that the lock protects refuse fencing tokens smaller than it has seen ([Hold.FencingToken]).
//
// [Client.WithHold] runs a function under a lock; [Client.Hold] is for those who cannot put their work into one. The
// rules S1 to S21 that the comments name are those of docs/semantics.md in Leasehold's repository.
//
// The package works on Linux and macOS, because a holder's clock must go on counting while the machine sleeps; elsewhere
// [Connect] gives a [*PlatformError].
package leasehold
