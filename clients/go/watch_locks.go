package leasehold

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// WatchOptions says which locks [Client.WatchLocks] follows. The zero value: all under the sidecar's host id.
type WatchOptions struct {
	// HostID follows those under this host id, in the sidecar's container and prefix.
	HostID string
	// Prefix follows those whose lock path begins with this text. HostID must be empty then.
	Prefix string
	// Labels follows only those whose record has all of these labels, with these values. Default: all.
	Labels map[string]string
	// Share follows only those whose holder, or last holder, named this share. Default: all.
	Share string
}

// LocksEvent is what [Client.WatchLocks] tells: one of [LockChanged], [LockGone], [LocksListed]. Later versions may have
// more.
type LocksEvent interface{ locksEvent() }

// LockChanged is the record of a lock: when the watch begins, and after each change.
type LockChanged struct {
	// Record is what is known of the lock.
	Record LockRecord
}

// LockGone says that a lock was deleted, or does not have the labels or the share any more.
type LockGone struct {
	// LockPath is the path of the lock.
	LockPath string
}

// LocksListed says that everything that is known was told. It is repeated at least every 30 s.
type LocksListed struct {
	// Locks is how many there are.
	Locks uint32
	// At is when the store was listed, by the wall clock; for people.
	At time.Time
}

func (LockChanged) locksEvent() {}
func (LockGone) locksEvent()    {}
func (LocksListed) locksEvent() {}

// WatchLocks follows many locks: their records, then each change, until ctx ends or the loop is left. For people and
// dashboards: it excludes nobody. A watch whose connection breaks goes on by itself, and tells then what has changed
// meanwhile; an error is the last that it yields, as for [Client.WatchLock].
func (c *Client) WatchLocks(ctx context.Context, options WatchOptions) iter.Seq2[LocksEvent, error] {
	return func(yield func(LocksEvent, error) bool) {
		request := &leaseholdv1.WatchLocksRequest{Labels: options.Labels, Share: options.Share}
		switch {
		case options.HostID != "" && options.Prefix != "":
			yield(nil, errors.New("locks are watched by host id or by prefix, not by both"))
			return
		case options.HostID != "":
			request.Under = &leaseholdv1.WatchLocksRequest_HostId{HostId: options.HostID}
		case options.Prefix != "":
			request.Under = &leaseholdv1.WatchLocksRequest_Prefix{Prefix: options.Prefix}
		}
		known := &knownLocks{records: map[string]*leaseholdv1.LockRecord{}, yield: yield}
		watch := &watch[leaseholdv1.WatchLocksRequest, leaseholdv1.WatchLocksResponse]{
			pool: c.pool, method: rpc.WatchLocks, request: request, begin: known.begin, tell: known.tell,
		}
		if err := watch.run(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// knownLocks are the locks that a watch has told, so that a stream that follows another one repeats nothing.
type knownLocks struct {
	records map[string]*leaseholdv1.LockRecord
	// missing are those of which the present stream has said nothing yet; nil once it has listed all.
	missing map[string]struct{}
	yield   func(LocksEvent, error) bool
}

// begin begins a stream.
func (k *knownLocks) begin() {
	k.missing = map[string]struct{}{}
	for path := range k.records {
		k.missing[path] = struct{}{}
	}
}

// tell tells an answer, if it is news; false if nobody listens any more.
func (k *knownLocks) tell(answer *leaseholdv1.WatchLocksResponse) bool {
	switch event := answer.GetEvent().(type) {
	case *leaseholdv1.WatchLocksResponse_Changed:
		path := event.Changed.GetLockPath()
		delete(k.missing, path)
		if proto.Equal(event.Changed, k.records[path]) {
			return true
		}
		k.records[path] = event.Changed
		return k.yield(LockChanged{recordFrom(event.Changed)}, nil)
	case *leaseholdv1.WatchLocksResponse_Gone:
		return k.gone(event.Gone)
	case *leaseholdv1.WatchLocksResponse_Listed:
		for _, path := range slices.Sorted(maps.Keys(k.missing)) {
			if !k.gone(path) {
				return false
			}
		}
		k.missing = nil
		return k.yield(LocksListed{event.Listed.GetLocks(), moment(event.Listed.GetAt())}, nil)
	}
	return true
}

// gone tells that a lock is gone, if it was known.
func (k *knownLocks) gone(path string) bool {
	delete(k.missing, path)
	if _, known := k.records[path]; !known {
		return true
	}
	delete(k.records, path)
	return k.yield(LockGone{path}, nil)
}
