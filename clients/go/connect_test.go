package leasehold

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestInvalidEndpointsAreRefusedWithWhatWouldBeValid(t *testing.T) {
	for _, endpoint := range []string{
		"127.0.0.1:50951", "ftp://host", "unix://", "unix://relative", "http://", "http://a b", "http://h:1/path",
		"http://user:hunter2@host:1",
	} {
		_, err := Connect(t.Context(), WithEndpoint(endpoint))
		var invalid *EndpointError
		if !errors.As(err, &invalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	if _, err := Connect(t.Context(), WithEndpoint("127.0.0.1:1")); !strings.Contains(err.Error(), "http://host:port") {
		t.Error(err)
	}
}

func TestNobodyThereIsSaidWithWhatToDo(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	for _, endpoint := range []string{"http://" + free.Addr().String(), "unix:///nowhere/leasehold.sock"} {
		t.Setenv(EndpointVariable, endpoint)
		err := firstCall(t)
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) {
			t.Fatal(err)
		}
		if text := err.Error(); !strings.Contains(text, endpoint) || !strings.Contains(text, "leasehold serve") {
			t.Error(text)
		}
	}
}

// firstCall is what the first call of a client fails with.
func firstCall(t *testing.T, opts ...Option) error {
	t.Helper()
	client, err := Connect(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Hold(t.Context(), LeaseSpec{})
	return err
}

func TestAWaitCoversASidecarThatStartsLater(t *testing.T) {
	tried := make(chan struct{}, 100)
	watching := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, conn, method, opts...)
		if status.Code(err) == codes.Unavailable {
			tried <- struct{}{}
		}
		return stream, err
	}
	for _, wait := range []time.Duration{time.Hour, Forever} {
		b := connected(t, WithStreamInterceptors(watching))
		answer := b.ask(t.Context(), LeaseSpec{Wait: wait})
		receive(t, "a try", tried)
		b.start()
		call := b.call()
		if spec := call.request.GetSpec(); wait != Forever && spec.GetWait().AsDuration() >= wait {
			t.Errorf("what was waited for the sidecar counts, too: %v", spec)
		}
		call.tell(grantedHere())
		b.got(answer)
	}
}

func TestTheWaitOfAUnaryCallCoversASidecarThatStartsLater(t *testing.T) {
	b := connected(t)
	answer := make(chan error, 1)
	go func() {
		_, err := b.client.Acquire(t.Context(), LeaseSpec{Wait: time.Hour})
		answer <- err
	}()
	eventually(t, "a try", func() bool {
		return b.client.pool.general.conn.GetState() == connectivity.TransientFailure
	})
	b.start()
	if err := receive(t, "the answer", answer); err != nil {
		t.Error(err)
	}
}

func TestTLSOptionsMustFitTheEndpoint(t *testing.T) {
	for wanted, opts := range map[string][]Option{
		"only https":            {WithEndpoint("http://127.0.0.1:1"), WithCA([]byte("pem"))},
		"certificate authority": {WithEndpoint("https://127.0.0.1:1")},
		"PEM":                   {WithEndpoint("https://127.0.0.1:1"), WithCA([]byte("nonsense"))},
	} {
		if _, err := Connect(t.Context(), opts...); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v", wanted, err)
		}
	}
}

func TestS20ATokenThatCannotBeSentIsNotShown(t *testing.T) {
	_, err := Connect(t.Context(), WithEndpoint("http://127.0.0.1:1"), WithBearerToken("se\ncret"))
	if err == nil || !strings.Contains(err.Error(), "bearer token") || strings.Contains(err.Error(), "cret") {
		t.Error(err)
	}
}

func TestAFirstCallIsGivenUpWithItsContext(t *testing.T) {
	// It takes connections and says nothing.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client, err := Connect(t.Context(), WithEndpoint("http://"+silent.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, wait := range []time.Duration{0, time.Hour, Forever} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := client.Hold(ctx, LeaseSpec{Wait: wait}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := client.Acquire(ctx, LeaseSpec{Wait: wait}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
}

func TestTLSWithClientCertificateAndBearerToken(t *testing.T) {
	authority := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.pem)
	serverPair, err := tls.X509KeyPair(authority.issue(t, "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sidecar := &fakeSidecar{answers: map[reflect.Type]func(any) (any, error){}}
	fails[leaseholdv1.AcquireLeaseRequest](sidecar, status.Error(codes.ResourceExhausted, "enough"))
	server := grpc.NewServer(grpc.UnaryInterceptor(sidecar.unary), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{serverPair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})))
	leaseholdv1.RegisterLeaseServiceServer(server, sidecar)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	endpoint := WithEndpoint(fmt.Sprintf("https://localhost:%d", listener.Addr().(*net.TCPAddr).Port))
	certificate, key := authority.issue(t, "client")
	client, err := Connect(t.Context(), endpoint, WithCA(authority.pem), WithClientCertificate(certificate, key),
		WithBearerToken(" secret\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Acquire(t.Context(), LeaseSpec{})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != CodeResourceExhausted {
		t.Error(err)
	}
	if token := sidecar.heads[0].Get("authorization"); !slices.Equal(token, []string{"Bearer secret"}) {
		t.Error(token)
	}
	strangers := newAuthority(t)
	wantRefusal(t, endpoint, WithCA(authority.pem))
	current := atomic.Pointer[TLS]{}
	strange, strangeKey := strangers.issue(t, "client")
	current.Store(&TLS{CA: authority.pem, Certificate: strange, Key: strangeKey})
	source := WithTLSSource(func(context.Context) (TLS, error) { return *current.Load(), nil })
	wantRefusal(t, endpoint, source)
	current.Store(&TLS{CA: authority.pem, Certificate: certificate, Key: key})
	reloading, err := Connect(t.Context(), endpoint, source)
	if err != nil {
		t.Fatal(err)
	}
	_ = reloading.Close()
	for name, opts := range map[string][]Option{
		"another authority": {endpoint, WithCA(strangers.pem), WithClientCertificate(certificate, key)},
		"another name": {
			endpoint, WithCA(authority.pem), WithClientCertificate(certificate, key), WithServerName("elsewhere"),
		},
	} {
		var unreachable *UnreachableError
		if err := firstCall(t, opts...); !errors.As(err, &unreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// wantRefusal makes a call with a certificate that the sidecar does not trust, or none.
func wantRefusal(t *testing.T, opts ...Option) {
	t.Helper()
	var unreachable *UnreachableError
	err := firstCall(t, opts...)
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), wantsCertificate) {
		t.Error(err)
	}
}

func TestTheNextConnectionHasTheNewestCertificates(t *testing.T) {
	authority := newAuthority(t)
	var asked atomic.Int32
	credentials, err := gather([]Option{WithTLSSource(func(context.Context) (TLS, error) {
		if asked.Add(1) == 3 {
			return TLS{}, errors.New("no such file")
		}
		return TLS{CA: authority.pem}, nil
	})}).credentials(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ours, theirs := net.Pipe()
		_ = theirs.Close()
		_, _, err = credentials.ClientHandshake(t.Context(), "localhost", ours)
	}
	if asked.Load() != 3 || !strings.Contains(err.Error(), "its certificates cannot be loaded: no such file") {
		t.Error(asked.Load(), err)
	}
}

// authority issues certificates for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{certificate: &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}, key: key}
	der := a.sign(t, a.certificate, key)
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) sign(t *testing.T, certificate *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	certificate.SerialNumber = big.NewInt(1)
	certificate.NotBefore, certificate.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, certificate, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// issue gives a certificate for a name, and its key.
func (a *authority) issue(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, private)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}
