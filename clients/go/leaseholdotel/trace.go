// Package leaseholdotel has the calls of Leasehold's client carry the trace that their context is in. It is a module of its own, so
// that the client needs no OpenTelemetry.
package leaseholdotel

import (
	"context"

	"go.opentelemetry.io/otel/propagation"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

// WithTraceContext sends the trace of each call's context as W3C Trace Context (traceparent and tracestate), whatever else the process
// propagates; the sidecar's spans of a hold are in that trace then. A context in no trace sends nothing.
func WithTraceContext() leasehold.Option {
	return leasehold.WithContextMetadata(headers)
}

func headers(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier
}
