package leasehold

import (
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

const (
	// DefaultEndpoint is where a sidecar listens unless told otherwise.
	DefaultEndpoint = "http://127.0.0.1:50951"
	// EndpointVariable is the environment variable that says where the sidecar is.
	EndpointVariable = "LEASEHOLD_ENDPOINT"
)

// Option says how to reach a sidecar.
type Option func(*options)

type options struct {
	endpoint       string
	tls            TLS
	tlsSource      func(context.Context) (TLS, error)
	serverName     string
	tokenSource    func(context.Context) (string, error)
	keepAlive      *time.Duration
	releaseTimeout time.Duration
	unary          []grpc.UnaryClientInterceptor
	stream         []grpc.StreamClientInterceptor
	metadata       []contextual
	stats          []stats.Handler

	// For tests.
	newClock func() (clock, error)
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// WithEndpoint says where the sidecar is: unix:///path, http://host:port or https://host:port. Default: what
// LEASEHOLD_ENDPOINT says, or [DefaultEndpoint] if it is unset or empty.
func WithEndpoint(endpoint string) Option {
	return func(o *options) { o.endpoint = endpoint }
}

// WithCA trusts the certificate authorities in a PEM text. Needed with https: the system's are not trusted.
func WithCA(pem []byte) Option {
	return func(o *options) { o.tls.CA = pem }
}

// WithClientCertificate shows this certificate (PEM) to a sidecar that asks for one; with https only.
func WithClientCertificate(certificate, key []byte) Option {
	return func(o *options) { o.tls.Certificate, o.tls.Key = certificate, key }
}

// WithTLSSource asks source for the certificates at each new connection, and once in [Connect], so that renewed ones are
// used without a restart. It takes the place of [WithCA] and [WithClientCertificate]; with https only.
func WithTLSSource(source func(context.Context) (TLS, error)) Option {
	return func(o *options) { o.tlsSource = source }
}

// WithServerName says which name the sidecar's certificate must have. Default: the host of the endpoint.
func WithServerName(name string) Option {
	return func(o *options) { o.serverName = name }
}

// WithBearerToken sends "authorization: Bearer …" with each call, to a sidecar that asks for a token.
func WithBearerToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks source for the bearer token at each call, and once in [Connect], so that a renewed token is used
// without a restart. It must be quick, and safe for use by several goroutines. A call whose token it does not give
// fails with UNAUTHENTICATED.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(o *options) { o.tokenSource = source }
}

// WithKeepAlive says how often a connection on which calls wait is checked by an HTTP/2 ping: every 10 s or less often;
// 0 is never. A ping that is not answered within 10 s closes the connection. Default: 30 s, and never for a sidecar on
// this machine (a Unix socket or a loopback address), because that one would read a closed connection as the holder's
// end, when only the machine was paused (S14, S21).
func WithKeepAlive(interval time.Duration) Option {
	return func(o *options) { o.keepAlive = &interval }
}

// WithReleaseTimeout says how long a release waits for the sidecar's answer, also at the end of [Client.WithHold] and in
// [Client.Close]. After that the outcome is unknown, and the lock becomes available when its lease expires, if not
// before. Default: 10 s, because Kubernetes kills a pod 30 s after SIGTERM unless told otherwise.
func WithReleaseTimeout(timeout time.Duration) Option {
	return func(o *options) { o.releaseTimeout = timeout }
}

// WithUnaryInterceptors has interceptors of gRPC see each unary call, for traces and metrics; the first is the
// outermost. May be given several times.
func WithUnaryInterceptors(interceptors ...grpc.UnaryClientInterceptor) Option {
	return func(o *options) { o.unary = append(o.unary, interceptors...) }
}

// WithStreamInterceptors has interceptors of gRPC see each stream (holds and watches), for traces and metrics; the
// first is the outermost. May be given several times.
func WithStreamInterceptors(interceptors ...grpc.StreamClientInterceptor) Option {
	return func(o *options) { o.stream = append(o.stream, interceptors...) }
}

func gather(opts []Option) *options {
	o := &options{
		endpoint: os.Getenv(EndpointVariable), releaseTimeout: defaultReleaseTimeout,
		newClock: newBootClock,
		// No keep-alive of TCP's own, which would close connections to a sidecar on this machine (S14, S21).
		dial: (&net.Dialer{KeepAlive: -1}).DialContext,
	}
	if o.endpoint == "" {
		o.endpoint = DefaultEndpoint
	}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// pings says how often to ping; 0 is never.
func (o *options) pings(network, address string) (time.Duration, error) {
	switch {
	case o.keepAlive == nil && isLocal(network, address):
		return 0, nil
	case o.keepAlive == nil:
		return defaultKeepAlive, nil
	case *o.keepAlive != 0 && *o.keepAlive < shortestKeepAlive:
		return 0, o.invalidEndpoint("the keep-alive interval is " + o.keepAlive.String() + "; it must be 0 (never) or at least 10s")
	default:
		return *o.keepAlive, nil
	}
}

// isLocal is whether an address is on this machine for sure.
func isLocal(network, address string) bool {
	if network == "unix" {
		return true
	}
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// address says what to dial, and whether by TLS.
func (o *options) address() (network, address string, secure bool, err error) {
	if path, isUnix := strings.CutPrefix(o.endpoint, "unix://"); isUnix {
		if !strings.HasPrefix(path, "/") || path == "/" {
			return "", "", false, o.invalidEndpoint("a socket is named by its absolute path, unix:///path")
		}
		return "unix", path, false, nil
	}
	parsed, parseErr := url.Parse(o.endpoint)
	if parseErr != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return "", "", false, o.invalidEndpoint("it must be unix:///path, http://host:port or https://host:port")
	}
	if parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", "", false, o.invalidEndpoint("it may have only a host and a port; give a token by WithBearerToken")
	}
	port := parsed.Port()
	secure = parsed.Scheme == "https"
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	return "tcp", net.JoinHostPort(parsed.Hostname(), port), secure, nil
}

func (o *options) invalidEndpoint(problem string) error {
	shown := o.endpoint
	// S20: what stands before an @ may be a password.
	if head, rest, found := strings.Cut(shown, "@"); found {
		scheme, _, _ := strings.Cut(head, "://")
		shown = scheme + "://…@" + rest
	}
	return &EndpointError{Endpoint: shown, Problem: problem}
}
