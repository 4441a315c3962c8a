package leasehold

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLS has the certificates for an https endpoint, all PEM.
type TLS struct {
	// CA has the certificate authorities to trust. Needed: the system's are not trusted.
	CA []byte
	// Certificate is shown to a sidecar that asks for one; nil for none.
	Certificate []byte
	// Key is the private key of Certificate.
	Key []byte
}

// String shows none of it, because the key is a secret (S20).
func (TLS) String() string { return "TLS certificates" }

// GoString is String.
func (t TLS) GoString() string { return t.String() }

// wantsCertificate is what an error says when the sidecar ends a connection because of this client's certificate.
const wantsCertificate = "the sidecar wants a client certificate that it trusts"

// credentials gives what secures connections.
func (o *options) credentials(ctx context.Context, secure bool) (credentials.TransportCredentials, error) {
	isGiven := o.tls.CA != nil || o.tls.Certificate != nil || o.tls.Key != nil
	switch {
	case !secure && (isGiven || o.tlsSource != nil):
		return nil, o.invalidEndpoint("certificates were given, and only https:// uses them")
	case !secure:
		return insecure.NewCredentials(), nil
	case isGiven && o.tlsSource != nil:
		return nil, o.invalidEndpoint("WithTLSSource replaces WithCA and WithClientCertificate; use one or the other")
	}
	source := o.tlsSource
	if source == nil {
		source = func(context.Context) (TLS, error) { return o.tls, nil }
	}
	reloading := &reloadingTLS{source: source, serverName: o.serverName}
	if _, err := reloading.config(ctx); err != nil {
		return nil, o.invalidEndpoint(err.Error())
	}
	return reloading, nil
}

// reloadingTLS asks for the certificates anew at each connection.
type reloadingTLS struct {
	source     func(context.Context) (TLS, error)
	serverName string
}

func (r *reloadingTLS) config(ctx context.Context) (*tls.Config, error) {
	given, err := r.source(ctx)
	if err != nil {
		return nil, fmt.Errorf("its certificates cannot be loaded: %w", err)
	}
	if given.CA == nil {
		return nil, errors.New("https needs the certificate authority to trust (WithCA)")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(given.CA) {
		return nil, errors.New("the certificate authority is not a PEM text with a certificate")
	}
	if given.Certificate != nil || given.Key != nil {
		pair, err := tls.X509KeyPair(given.Certificate, given.Key)
		if err != nil {
			return nil, fmt.Errorf("its client certificate cannot be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ClientHandshake secures a connection.
func (r *reloadingTLS) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := r.config(ctx)
	if err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	if r.serverName != "" {
		authority = r.serverName
	}
	conn, info, err := credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, explained(err)
	}
	return &explainedConn{Conn: conn}, info, nil
}

// ServerHandshake is not for clients.
func (*reloadingTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("a client's credentials serve nobody")
}

// Info says what these credentials are.
func (*reloadingTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone gives a copy.
func (r *reloadingTLS) Clone() credentials.TransportCredentials {
	clone := *r
	return &clone
}

// OverrideServerName sets the name to expect.
func (r *reloadingTLS) OverrideServerName(name string) error {
	r.serverName = name
	return nil
}

// explainedConn says why a sidecar ends a connection that it has just made: with TLS 1.3 the client's handshake is over
// before its certificate was looked at.
type explainedConn struct {
	net.Conn
	// heard is whether the sidecar has said anything.
	heard atomic.Bool
}

// Read reads.
func (c *explainedConn) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	if count > 0 {
		c.heard.Store(true)
	}
	return count, c.explained(err)
}

// Write writes.
func (c *explainedConn) Write(from []byte) (int, error) {
	count, err := c.Conn.Write(from)
	return count, c.explained(err)
}

func (c *explainedConn) explained(err error) error {
	if err == nil || c.heard.Load() || errors.Is(err, net.ErrClosed) {
		return err
	}
	if told := explained(err); !errors.Is(told, err) {
		return told
	}
	// The alert may be lost when the connection is reset.
	return fmt.Errorf("%w (the connection ended right after the TLS handshake: maybe %s)", err, wantsCertificate)
}

// explained says it if an error is about this client's certificate.
func explained(err error) error {
	var alert *net.OpError
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return err
	}
	text := alert.Err.Error()
	for _, word := range []string{"certificate", "access denied", "handshake failure"} {
		if strings.Contains(text, word) {
			return errors.New(wantsCertificate + ": " + text)
		}
	}
	return err
}
