package leaseholdotel

import (
	"context"
	"net"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	leasehold "github.com/leasehold/leasehold/clients/go"
	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// sidecar answers one call, and hands on its metadata.
type sidecar struct {
	leaseholdv1.UnimplementedLeaseServiceServer
	heads chan metadata.MD
}

func (s *sidecar) ReportProgress(
	ctx context.Context, _ *leaseholdv1.ReportProgressRequest,
) (*leaseholdv1.ReportProgressResponse, error) {
	head, _ := metadata.FromIncomingContext(ctx)
	s.heads <- head
	return &leaseholdv1.ReportProgressResponse{Validity: &leaseholdv1.Validity{}}, nil
}

func connect(t *testing.T) (*leasehold.Client, *sidecar) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := &sidecar{heads: make(chan metadata.MD, 1)}
	server := grpc.NewServer()
	leaseholdv1.RegisterLeaseServiceServer(server, served)
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	endpoint := leasehold.WithEndpoint("http://" + listener.Addr().String())
	client, err := leasehold.Connect(t.Context(), endpoint, WithTraceContext())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, served
}

func TestACallIsInTheTraceOfItsContext(t *testing.T) {
	client, served := connect(t)
	traceID, _ := trace.TraceIDFromHex("4bf92f3577b34da6a3ce929d0e0e4736")
	spanID, _ := trace.SpanIDFromHex("00f067aa0ba902b7")
	state, _ := trace.ParseTraceState("vendor=1")
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	traced := trace.ContextWithSpanContext(t.Context(), span)
	for _, test := range []struct {
		ctx           context.Context
		parent, state string
	}{
		{traced, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1"},
		{t.Context(), "", ""},
	} {
		// What it answers does not matter here.
		_, _ = client.ReportProgress(test.ctx, "lease-1")
		head := <-served.heads
		if got := first(head, "traceparent"); got != test.parent {
			t.Error(got)
		}
		if got := first(head, "tracestate"); got != test.state {
			t.Error(got)
		}
	}
}

func first(head metadata.MD, key string) string {
	for _, value := range head.Get(key) {
		return value
	}
	return ""
}
