package leasehold

import (
	"context"

	"google.golang.org/grpc/stats"
)

// WithContextMetadata asks source for metadata of each call, by the context that the call was made with: the trace that
// the caller is in, say. A hold that is resumed after its stream broke carries that of the call that asked for it. It must be
// quick, and safe for use by several goroutines. May be given several times.
func WithContextMetadata(source func(context.Context) map[string]string) Option {
	return func(o *options) { o.metadata = append(o.metadata, contextual{source}) }
}

// WithStatsHandler has a handler of gRPC see each call and stream, such as that of OpenTelemetry's otelgrpc, which makes
// spans of them. May be given several times.
func WithStatsHandler(handler stats.Handler) Option {
	return func(o *options) { o.stats = append(o.stats, handler) }
}

// contextual adds to each call what its context says.
type contextual struct {
	source func(context.Context) map[string]string
}

// GetRequestMetadata asks the source.
func (c contextual) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return c.source(ctx), nil
}

// RequireTransportSecurity is false, because a Unix socket or the loopback needs none.
func (contextual) RequireTransportSecurity() bool { return false }
