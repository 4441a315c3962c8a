package leaseholdotel

import (
	"net"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func TestACallIsInTheTraceOfItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads := make(chan metadata.MD, 2)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, call grpc.ServerStream) error {
		head, _ := metadata.FromIncomingContext(call.Context())
		heads <- head
		return status.Error(codes.Unimplemented, "it only listens")
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	client, err := leasehold.Connect(t.Context(), leasehold.WithEndpoint("http://"+listener.Addr().String()), WithTraceContext())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	traceID, _ := trace.TraceIDFromHex("4bf92f3577b34da6a3ce929d0e0e4736")
	spanID, _ := trace.SpanIDFromHex("00f067aa0ba902b7")
	state, _ := trace.ParseTraceState("vendor=1")
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	_, _ = client.ReportProgress(trace.ContextWithSpanContext(t.Context(), span), "lease-1")
	_, _ = client.ReportProgress(t.Context(), "lease-1")
	traced, untraced := <-heads, <-heads
	for key, wanted := range map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1",
	} {
		if got := traced.Get(key); len(got) != 1 || got[0] != wanted || len(untraced.Get(key)) != 0 {
			t.Error(key, got, untraced)
		}
	}
}
