package leasehold

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
)

// traceKey is where these tests keep what OpenTelemetry would keep in a context.
type traceKey struct{}

func traceOf(ctx context.Context) map[string]string {
	if parent, isTraced := ctx.Value(traceKey{}).(string); isTraced {
		return map[string]string{"traceparent": parent}
	}
	return nil
}

// heads notes the traceparent of each call that comes to a sidecar, by its method.
type heads struct {
	mutex sync.Mutex
	seen  []string
}

func (h *heads) note(ctx context.Context, method string) {
	head, _ := metadata.FromIncomingContext(ctx)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, parent := range head.Get("traceparent") {
		h.seen = append(h.seen, method+" "+parent)
	}
}

func (h *heads) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(
			ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (any, error) {
			h.note(ctx, info.FullMethod)
			return handle(ctx, request)
		}),
		grpc.StreamInterceptor(func(
			server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
		) error {
			h.note(stream.Context(), info.FullMethod)
			return handle(server, stream)
		}),
	}
}

// counter counts the calls that begin.
type counter struct {
	mutex   sync.Mutex
	methods []string
}

func (c *counter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.methods = append(c.methods, info.FullMethodName)
	return ctx
}

func (*counter) HandleRPC(context.Context, stats.RPCStats) {}

func (*counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*counter) HandleConn(context.Context, stats.ConnStats) {}

func TestACallCarriesWhatItsContextSaysAndAHoldToo(t *testing.T) {
	heads, counter := &heads{}, &counter{}
	b := newBenchWith(t, []Option{WithContextMetadata(traceOf), WithStatsHandler(counter)}, heads.options()...)
	traced := context.WithValue(t.Context(), traceKey{}, "00-1")
	asked := make(chan error, 1)
	go func() {
		_, err := b.client.Hold(traced, LeaseSpec{Key: LockKey{Function: "nightly"}})
		asked <- err
	}()
	call := <-b.sidecar.holds
	call.answers <- granted(validity(ours, 1_058, 58))
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	// Of another context; what it answers does not matter.
	_, _ = b.client.ReportProgress(t.Context(), "lease-1")
	heads.mutex.Lock()
	defer heads.mutex.Unlock()
	if want := []string{"/leasehold.v1.LeaseService/HoldLease 00-1"}; !slices.Equal(heads.seen, want) {
		t.Error(heads.seen)
	}
	counter.mutex.Lock()
	defer counter.mutex.Unlock()
	if !slices.Contains(counter.methods, "/leasehold.v1.LeaseService/HoldLease") {
		t.Error(counter.methods)
	}
}
