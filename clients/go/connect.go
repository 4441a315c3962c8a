package leasehold

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// DefaultEndpoint is where a sidecar listens unless told otherwise.
	DefaultEndpoint = "http://127.0.0.1:50951"
	// EndpointVariable is the environment variable that says where the sidecar is.
	EndpointVariable = "LEASEHOLD_ENDPOINT"

	connectTimeout = 5 * time.Second
)

// Option says how to reach a sidecar.
type Option func(*options)

type options struct {
	endpoint    string
	ca          []byte
	certificate []byte
	key         []byte
	serverName  string
	token       *string
	clock       clock
}

// WithEndpoint says where the sidecar is: unix:///path, http://host:port or https://host:port. Default: what
// LEASEHOLD_ENDPOINT says, or [DefaultEndpoint] if it is unset or empty.
func WithEndpoint(endpoint string) Option {
	return func(o *options) { o.endpoint = endpoint }
}

// WithCA trusts the certificate authorities in a PEM text. Needed with https: the system's are not trusted.
func WithCA(pem []byte) Option {
	return func(o *options) { o.ca = pem }
}

// WithClientCertificate shows this certificate (PEM) to a sidecar that asks for one; with https only.
func WithClientCertificate(certificate, key []byte) Option {
	return func(o *options) { o.certificate, o.key = certificate, key }
}

// WithServerName says which name the sidecar's certificate must have. Default: the host of the endpoint.
func WithServerName(name string) Option {
	return func(o *options) { o.serverName = name }
}

// WithBearerToken sends "authorization: Bearer …" with each call, to a sidecar that asks for a token.
func WithBearerToken(token string) Option {
	return func(o *options) { o.token = &token }
}

// Connect connects to a sidecar, and gives up after 5 s. Close the client when no hold is needed any more.
//
// Errors: [*EndpointError] when the endpoint or what goes with it makes no sense; [*UnreachableError] when nobody
// answers there; that of ctx.
func Connect(ctx context.Context, opts ...Option) (*Client, error) {
	o := gather(opts)
	lasting, err := o.dial(ctx)
	if err != nil {
		return nil, err
	}
	short, err := o.lazy()
	if err != nil {
		_ = lasting.Close()
		return nil, err
	}
	return newClient(lasting, short, o.endpoint, o.clock), nil
}

// Dial connects as [Connect] does, for another service at the same address, such as gRPC health.
func Dial(ctx context.Context, opts ...Option) (*grpc.ClientConn, error) {
	return gather(opts).dial(ctx)
}

func gather(opts []Option) *options {
	o := &options{endpoint: os.Getenv(EndpointVariable), clock: newBootClock()}
	if o.endpoint == "" {
		o.endpoint = DefaultEndpoint
	}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// dial makes a connection, and waits until it stands.
func (o *options) dial(ctx context.Context) (*grpc.ClientConn, error) {
	conn, err := o.lazy()
	if err != nil {
		return nil, err
	}
	if err := o.awaitReady(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// lazy gives a connection that is made when the first call comes.
func (o *options) lazy() (*grpc.ClientConn, error) {
	network, address, secure, err := o.address()
	if err != nil {
		return nil, err
	}
	transport, err := o.credentials(secure)
	if err != nil {
		return nil, err
	}
	target := address
	if network == "unix" {
		target = "localhost"
	}
	// No keep-alive of our own, neither of HTTP/2 nor of TCP: an unanswered one would close the connection, which the
	// sidecar on the same machine reads as the holder being gone (S13, S14).
	dialer := net.Dialer{KeepAlive: -1}
	dialOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: nap},
			MinConnectTimeout: connectTimeout,
		}),
	}
	if bootID := o.clock.bootID(); bootID != "" {
		dialOptions = append(dialOptions, grpc.WithPerRPCCredentials(kernel{bootID}))
	}
	if o.token != nil {
		token := strings.TrimSpace(*o.token)
		if !sendable(token) {
			return nil, o.useless("the bearer token is empty or has characters that cannot be sent")
		}
		dialOptions = append(dialOptions, grpc.WithPerRPCCredentials(bearer{token}))
	}
	conn, err := grpc.NewClient("passthrough:///"+target, dialOptions...)
	if err != nil {
		return nil, o.useless(err.Error())
	}
	return conn, nil
}

// awaitReady waits until the connection stands.
func (o *options) awaitReady(ctx context.Context, conn *grpc.ClientConn) error {
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		if state == connectivity.TransientFailure {
			// Only a call tells what the failure is.
			_, err := healthv1.NewHealthClient(conn).Check(within, &healthv1.HealthCheckRequest{})
			if err != nil && conn.GetState() != connectivity.Ready {
				return &UnreachableError{Endpoint: o.endpoint, Err: refusal(err)}
			}
			continue
		}
		if !conn.WaitForStateChange(within, state) {
			if ctx.Err() != nil {
				return gaveUp(ctx)
			}
			return &UnreachableError{Endpoint: o.endpoint, Err: within.Err()}
		}
	}
}

// address says what to dial, and whether by TLS.
func (o *options) address() (network, address string, secure bool, err error) {
	if path, isUnix := strings.CutPrefix(o.endpoint, "unix://"); isUnix {
		if !strings.HasPrefix(path, "/") || path == "/" {
			return "", "", false, o.useless("a socket is named by its whole path, unix:///path")
		}
		return "unix", path, false, nil
	}
	parsed, parseErr := url.Parse(o.endpoint)
	if parseErr != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return "", "", false, o.useless("it must be unix:///path, http://host:port or https://host:port")
	}
	if parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", "", false, o.useless("nothing but host and port belongs into it; a token is given by WithBearerToken")
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

func (o *options) credentials(secure bool) (credentials.TransportCredentials, error) {
	if !secure {
		if o.ca != nil || o.certificate != nil || o.key != nil {
			return nil, o.useless("certificates were given, and only https:// makes use of them")
		}
		return insecure.NewCredentials(), nil
	}
	if o.ca == nil {
		return nil, o.useless("https needs the certificate authority to trust (WithCA)")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: o.serverName}
	if !config.RootCAs.AppendCertsFromPEM(o.ca) {
		return nil, o.useless("the certificate authority is not a PEM text with a certificate")
	}
	if o.certificate != nil || o.key != nil {
		pair, err := tls.X509KeyPair(o.certificate, o.key)
		if err != nil {
			return nil, o.useless("its client certificate cannot be used: " + err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

func (o *options) useless(problem string) error {
	shown := o.endpoint
	// S20: what stands before an @ may be a password.
	if head, rest, found := strings.Cut(shown, "@"); found {
		scheme, _, _ := strings.Cut(head, "://")
		shown = scheme + "://…@" + rest
	}
	return &EndpointError{Endpoint: shown, Problem: problem}
}

// bearer adds the bearer token to each call.
type bearer struct{ token string }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity is false, because a Unix socket or the loopback needs none.
func (bearer) RequireTransportSecurity() bool { return false }

// kernel adds to each call which kernel this process runs on, so that a sidecar on the same one knows that the end of
// a stream is this process's doing (S14).
type kernel struct{ bootID string }

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
