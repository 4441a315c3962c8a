package leasehold

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
)

func TestS21OnlyConnectionsOverANetworkArePinged(t *testing.T) {
	for endpoint, wanted := range map[string]time.Duration{
		"unix:///run/leasehold.sock":     0,
		"http://127.0.0.1:1":             0,
		"http://127.8.9.1:1":             0,
		"http://[::1]:1":                 0,
		"http://LocalHost:1":             0,
		"http://10.0.0.1:1":              30 * time.Second,
		"http://localhost.example.com:1": 30 * time.Second,
		"http://[fd00::1]:1":             30 * time.Second,
	} {
		o := gather([]Option{WithEndpoint(endpoint)})
		network, address, _, err := o.address()
		if err != nil {
			t.Fatal(err)
		}
		pings, err := o.pings(network, address)
		want(t, pings == wanted && err == nil, endpoint, pings, err)
	}
}

func TestPingsAreAsOftenAsWasAskedForButNotTooOften(t *testing.T) {
	for asked, isValid := range map[time.Duration]bool{
		0: true, 10 * time.Second: true, time.Hour: true, 9 * time.Second: false, -time.Second: false,
	} {
		o := gather([]Option{WithKeepAlive(asked)})
		pings, err := o.pings("unix", "/s")
		want(t, (err == nil) == isValid && (!isValid || pings == asked), asked, pings, err)
	}
}

func TestATokenIsAskedForAtEachCall(t *testing.T) {
	var asked atomic.Int32
	source := func(context.Context) (string, error) {
		if number := asked.Add(1); number < 4 {
			return strings.Repeat("x", int(number)), nil
		}
		return "", errors.New("the vault is closed")
	}
	staged(t, func(s *stage) {
		for range 2 {
			ok(t, errOf(s.client.Acquire(s.Context(), LeaseSpec{})))
		}
		// The first was asked for when the client connected. S14: the kernel goes with each call, too.
		for i, token := range []string{"Bearer xx", "Bearer xxx"} {
			head := s.requests[i].head
			want(t, head.Get("authorization")[0] == token && head.Get("leasehold-boot-id")[0] == ours, head)
		}
		_, err := s.client.Acquire(s.Context(), LeaseSpec{})
		refused := as[*RefusedError](t, err)
		want(t, refused.Code == CodeUnauthenticated && strings.Contains(err.Error(), "vault"), err)
	}, WithTokenSource(source))
}

func TestEachCallCarriesWhatItsContextSaysAndIsSeen(t *testing.T) {
	type traceKey struct{}
	var unary, streams atomic.Int32
	counts := &connections{}
	staged(t, func(s *stage) {
		hold := s.granted(s.asks(context.WithValue(s.Context(), traceKey{}, "00-1"), LeaseSpec{}))
		// Of another context.
		s.releases(hold)
		parent, other := s.requests[0].head.Get("traceparent"), s.requests[1].head.Get("traceparent")
		want(t, slices.Equal(parent, []string{"00-1"}) && len(other) == 0, parent, other)
		want(t, unary.Load() == 1 && streams.Load() == 1 && counts.made.Load() == 1, unary.Load(), streams.Load(), counts.made.Load())
	}, WithContextMetadata(func(ctx context.Context) map[string]string {
		if parent, isTraced := ctx.Value(traceKey{}).(string); isTraced {
			return map[string]string{"traceparent": parent}
		}
		return nil
	}), WithStatsHandler(counts), WithUnaryInterceptors(func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		unary.Add(1)
		return invoke(ctx, method, request, reply, conn, options...)
	}), WithStreamInterceptors(func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		streams.Add(1)
		return open(ctx, desc, conn, method, options...)
	}))
}

func TestAPlatformWithoutTheClockIsSaidAtConnect(t *testing.T) {
	windows := func(o *options) {
		o.newClock = func() (clock, error) { return nil, &PlatformError{Platform: "windows"} }
	}
	var platform *PlatformError
	_, err := Connect(t.Context(), windows)
	want(t, errors.As(err, &platform) && strings.Contains(err.Error(), "Leasehold's client needs Linux or macOS: windows"), err)
}

func TestThePublicInterfaceHasNoTypesOfOthers(t *testing.T) {
	shown, err := exec.Command("go", "doc", "-all", ".").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(shown))
	}
	seen := 0
	for line := range strings.Lines(string(shown)) {
		if strings.HasPrefix(line, "    ") {
			// A comment.
			continue
		}
		for _, other := range []string{"leaseholdv1.", "grpc.", "codes.", "status.", "durationpb.", "proto."} {
			isHook := strings.Contains(line, "interceptors ...grpc.")
			want(t, !strings.Contains(line, other) || isHook, line)
		}
		seen++
	}
	want(t, seen >= 100, "there is more to see:", string(shown))
}
