package leasehold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestAnAcquireGivesTheGrantOrABusyError(t *testing.T) {
	b := newBench(t)
	for _, holder := range []string{"", "somebody"} {
		b.sidecar.acquire = func(spec *leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
			if holder != "" {
				busy := busyWith(holder).GetBusy()
				return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Busy{Busy: busy}}, nil
			}
			grant := &leaseholdv1.Grant{LockPath: spec.GetKey().GetFunction(), FencingToken: 7}
			return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grant}}, nil
		}
		grant, err := b.client.Acquire(t.Context(), LeaseSpec{Key: LockKey{Function: "f"}})
		var busy *BusyError
		if errors.As(err, &busy) != (holder != "") || (holder == "" && grant.LockPath != "f") {
			t.Error(grant, err)
		}
	}
}

func TestAnOutcomeThatIsUnknownIsNoGrant(t *testing.T) {
	b := newBench(t)
	b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		return &leaseholdv1.AcquireLeaseResponse{}, nil
	}
	var protocol *ProtocolError
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{}); !errors.As(err, &protocol) {
		t.Error(err)
	}
}

func TestAllThatIsAskedForIsSent(t *testing.T) {
	b := newBench(t)
	var sent *leaseholdv1.LeaseSpec
	b.sidecar.acquire = func(spec *leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		sent = spec
		return nil, status.Error(codes.Unavailable, "not now")
	}
	spec := LeaseSpec{
		Key: LockKey{
			Function: "f", Scope: "s", Mode: LockModeListener, HostID: "id", HostType: "type",
		},
		LeaseDuration: 15 * time.Second, Wait: 2 * time.Second, MaxHold: 3 * time.Second, MinHold: 4 * time.Second,
		ProgressTimeout: 5 * time.Second, NoRenewal: true, RequestID: "r", Holder: "me", Labels: map[string]string{"k": "v"},
		Permits: 3,
	}
	_, _ = b.client.Acquire(t.Context(), spec)
	key := sent.GetKey()
	if key.GetFunction() != "f" || key.GetScope() != "s" || key.GetMode() != leaseholdv1.LockMode_LOCK_MODE_LISTENER || key.GetHostId() != "id" ||
		key.GetHostType() != "type" || sent.GetLeaseDuration().AsDuration() != spec.LeaseDuration ||
		sent.GetWait().AsDuration() != spec.Wait || sent.GetMaxHold().AsDuration() != spec.MaxHold ||
		sent.GetMinHold().AsDuration() != spec.MinHold || sent.GetProgressTimeout().AsDuration() != spec.ProgressTimeout ||
		sent.GetAutoRenew() || sent.AutoRenew == nil || sent.GetRequestId() != "r" || sent.GetHolder() != "me" ||
		sent.GetLabels()["k"] != "v" || sent.GetPermits() != 3 {
		t.Error(sent)
	}
	_, _ = b.client.Acquire(t.Context(), LeaseSpec{})
	if sent.WaitWithoutEnd || sent.Permits != nil || sent.LeaseDuration != nil || sent.Wait != nil || sent.MaxHold != nil || sent.AutoRenew != nil || sent.Key.HostId != nil {
		t.Error("defaults are the sidecar's:", sent)
	}
}

func TestAcquireWithoutEndRepeatsTheLongestWaitThatTheSidecarTells(t *testing.T) {
	b := newBench(t)
	b.sidecar.info = &leaseholdv1.GetServerInfoResponse{
		Limits: &leaseholdv1.ServerLimits{Wait: wireDuration(6 * time.Hour)},
	}
	var waits []time.Duration
	b.sidecar.acquire = func(spec *leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		if spec.GetWaitWithoutEnd() {
			t.Error("it is only for holds by stream")
		}
		waits = append(waits, spec.GetWait().AsDuration())
		if len(waits) < 3 {
			return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Busy{}}, nil
		}
		grant := &leaseholdv1.AcquireLeaseResponse_Granted{Granted: &leaseholdv1.Grant{}}
		return &leaseholdv1.AcquireLeaseResponse{Outcome: grant}, nil
	}
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{Wait: Forever}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(waits, []time.Duration{6 * time.Hour, 6 * time.Hour, 6 * time.Hour}) {
		t.Error(waits)
	}
}

func TestForeverDoesNotHideOtherErrors(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: Forever})
	call := b.call()
	call.tell(waitingAt(1))
	call.fail(status.Error(codes.PermissionDenied, "no"))
	var refused *RefusedError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &refused) || refused.Code != CodePermissionDenied {
		t.Error(err)
	}
}

func TestAListingGoesThroughAllPages(t *testing.T) {
	b := newBench(t)
	b.sidecar.pages = [][]string{{"a", "b"}, {}, {"c"}}
	var paths []string
	for record, err := range b.client.ListLocks(t.Context(), ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, record.LockPath)
	}
	if !slices.Equal(paths, []string{"a", "b", "c"}) {
		t.Error(paths)
	}
	for range b.client.ListLocks(t.Context(), ListOptions{}) {
		break
	}
	if calls := b.sidecar.calls(); len(calls) != 4 {
		t.Error("a loop that is left asks no more:", calls)
	}
	for _, err := range b.client.ListLocks(t.Context(), ListOptions{HostID: "h", Prefix: "p"}) {
		if err == nil {
			t.Error("host id and prefix were given")
		}
	}
}

func TestCallsThatTheSidecarDoesNotKnowAreRefused(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	key := LockKey{Function: "f"}
	calls := map[string]func() error{
		"get":     func() error { _, err := b.client.GetLock(ctx, LockPath("p")); return err },
		"check":   func() error { _, err := b.client.CheckToken(ctx, key, 1); return err },
		"break":   func() error { _, err := b.client.BreakLock(ctx, key, BreakOptions{Reason: "r", Now: true}); return err },
		"resolve": func() error { _, err := b.client.ResolvePath(ctx, key); return err },
		"watch": func() error {
			for _, err := range b.client.WatchLock(ctx, key) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		var refused *RefusedError
		if err := call(); !errors.As(err, &refused) || refused.Code != CodeUnimplemented || status.Code(err) != codes.Unimplemented {
			t.Error(name, err)
		}
	}
}
