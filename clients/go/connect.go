package leasehold

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
)

// connectTimeout is how long a connection may take to be made.
const connectTimeout = 5 * time.Second

// Connect gives a client of a sidecar, which may start later: the client connects when a call needs it. Then a call that
// waits for a lock waits for the sidecar, too, and others fail with an [*UnreachableError] while none answers. Close the
// client when no hold is needed any more. ctx is for the sources of certificates and tokens.
//
// Errors: [*EndpointError] when the endpoint, or what was given with it, is invalid; [*PlatformError] on a platform other
// than Linux and macOS.
func Connect(ctx context.Context, opts ...Option) (*Client, error) {
	o := gather(opts)
	clock, err := o.newClock()
	if err != nil {
		return nil, err
	}
	dial, err := o.dialer(ctx, clock)
	if err != nil {
		return nil, err
	}
	pool := &pool{dial: dial, endpoint: o.endpoint, granted: map[string]*granted{}}
	if pool.general, err = pool.connect(); err != nil {
		return nil, err
	}
	return newClient(pool, clock, o.releaseTimeout), nil
}

// dialer gives what makes a connection, which connects when the first call comes.
func (o *options) dialer(ctx context.Context, clock clock) (func() (*grpc.ClientConn, error), error) {
	network, address, secure, err := o.address()
	if err != nil {
		return nil, err
	}
	transport, err := o.credentials(ctx, secure)
	if err != nil {
		return nil, err
	}
	pings, err := o.pings(network, address)
	if err != nil {
		return nil, err
	}
	if o.releaseTimeout <= 0 {
		return nil, o.invalidEndpoint("the release timeout is " + o.releaseTimeout.String() + "; it must be more than 0")
	}
	target := address
	if network == "unix" {
		target = "localhost"
	}
	dialOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return o.dial(ctx, network, address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: nap},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithChainUnaryInterceptor(o.unary...),
		grpc.WithChainStreamInterceptor(o.stream...),
	}
	if pings != 0 {
		dialOptions = append(dialOptions,
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pings, Timeout: pingTimeout}))
	}
	if bootID := clock.bootID(); bootID != "" {
		dialOptions = append(dialOptions, grpc.WithPerRPCCredentials(kernel{bootID}))
	}
	for _, metadata := range o.metadata {
		dialOptions = append(dialOptions, grpc.WithPerRPCCredentials(metadata))
	}
	for _, handler := range o.stats {
		dialOptions = append(dialOptions, grpc.WithStatsHandler(handler))
	}
	if o.tokenSource != nil {
		token := bearer{o.tokenSource}
		if _, err := token.GetRequestMetadata(ctx); err != nil {
			return nil, o.invalidEndpoint(err.Error())
		}
		dialOptions = append(dialOptions, grpc.WithPerRPCCredentials(token))
	}
	return func() (*grpc.ClientConn, error) {
		conn, err := grpc.NewClient("passthrough:///"+target, dialOptions...)
		if err != nil {
			return nil, o.invalidEndpoint(err.Error())
		}
		return conn, nil
	}, nil
}

// awaitSidecar waits until a connection stands, for so long at the most, and gives how long that took; nothing where the
// first try succeeds. Whether a connection stands, the next call tells.
func (p *pool) awaitSidecar(ctx context.Context, wait time.Duration) time.Duration {
	if wait != Forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	hasFailed := false
	for began, conn := time.Now(), p.general.conn; ; {
		state := conn.GetState()
		switch state {
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			hasFailed = true
		}
		if state == connectivity.Ready || state == connectivity.Shutdown || !conn.WaitForStateChange(ctx, state) {
			if !hasFailed {
				return 0
			}
			return time.Since(began)
		}
	}
}

// bearer adds the bearer token to each call.
type bearer struct {
	source func(context.Context) (string, error)
}

// GetRequestMetadata asks for the token.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.source(ctx)
	if err != nil {
		return nil, fmt.Errorf("the bearer token cannot be loaded: %w", err)
	}
	token = strings.TrimSpace(token)
	if !sendable(token) {
		return nil, fmt.Errorf("the bearer token is empty or has characters that cannot be sent")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity is false, because a Unix socket or the loopback needs none.
func (bearer) RequireTransportSecurity() bool { return false }

// kernel adds to each call which kernel this process runs on, so that a sidecar on the same one knows that the end of
// a stream is this process's doing (S14).
type kernel struct{ bootID string }

// GetRequestMetadata gives the boot id.
func (k kernel) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"leasehold-boot-id": k.bootID}, nil
}

// RequireTransportSecurity is false, because it is no secret.
func (kernel) RequireTransportSecurity() bool { return false }

// sendable is whether a token can be sent in a header.
func sendable(token string) bool {
	for _, char := range []byte(token) {
		if char < ' ' || char > '~' {
			return false
		}
	}
	return token != ""
}
