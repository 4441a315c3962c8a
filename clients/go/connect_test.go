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
	"math/big"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestInvalidEndpointsAreRefusedWithWhatWouldBeValid(t *testing.T) {
	for _, endpoint := range []string{
		"127.0.0.1:50951", "ftp://host", "unix://", "unix://relative", "http://", "http://a b", "http://h:1/path",
		"http://user:hunter2@host:1",
	} {
		err := as[*EndpointError](t, errOf(Connect(t.Context(), WithEndpoint(endpoint))))
		want(t, !strings.Contains(err.Error(), "hunter2"), err)
	}
	for wanted, opts := range map[string][]Option{
		"http://host:port":      {WithEndpoint("127.0.0.1:1")},
		"only https":            {WithEndpoint("http://127.0.0.1:1"), WithCA([]byte("pem"))},
		"certificate authority": {WithEndpoint("https://127.0.0.1:1")},
		"PEM":                   {WithEndpoint("https://127.0.0.1:1"), WithCA([]byte("nonsense"))},
		"bearer token":          {WithEndpoint("http://127.0.0.1:1"), WithBearerToken("se\ncret")},
		"release timeout":       {WithReleaseTimeout(0)},
	} {
		err := errOf(Connect(t.Context(), opts...))
		want(t, err != nil && strings.Contains(err.Error(), wanted) && !strings.Contains(err.Error(), "cret"), "S20:", wanted, err)
	}
}

func (stories) NobodyThereIsSaidWithWhatToDo(s *stage) {
	s.kill()
	for _, endpoint := range []string{"http://127.0.0.1:1", "unix:///nowhere/leasehold.sock"} {
		s.Setenv(EndpointVariable, endpoint)
		client := must(s.connect())
		text := as[*UnreachableError](s, errOf(client.Hold(s.Context(), LeaseSpec{}))).Error()
		want(s, strings.Contains(text, endpoint) && strings.Contains(text, "leasehold serve"), text)
		_ = client.Close()
	}
}

func TestAWaitCoversASidecarThatStartsLater(t *testing.T) {
	for _, wait := range []time.Duration{time.Hour, Forever} {
		staged(t, func(s *stage) {
			s.kill()
			asked := s.asks(s.Context(), LeaseSpec{Wait: wait})
			s.pass(10_000)
			s.start()
			s.pass(12_000)
			// What was waited for the sidecar counts, too.
			held := request[*leaseholdv1.HoldLeaseRequest](s).GetSpec().GetWait().AsDuration().Round(10 * time.Second)
			s.granted(asked)
			s.kill()
			s.always("GetServerInfo", &leaseholdv1.GetServerInfoResponse{})
			acquired := later(func() (Grant, error) { return s.client.Acquire(s.Context(), LeaseSpec{Wait: wait}) })
			s.pass(20_000)
			s.start()
			ok(s, (<-acquired).err)
			acquire := request[*leaseholdv1.AcquireLeaseRequest](s).GetSpec().GetWait().AsDuration().Round(10 * time.Second)
			want(s, wait == Forever || held == 3_590*time.Second && acquire == held, held, acquire)
		})
	}
}

func TestAFirstCallIsGivenUpWithItsContext(t *testing.T) {
	// It takes connections and says nothing.
	silent := func(o *options) {
		o.dial = func(context.Context, string, string) (net.Conn, error) { ours, _ := net.Pipe(); return ours, nil }
	}
	staged(t, func(s *stage) {
		for _, wait := range []time.Duration{0, time.Hour, Forever} {
			ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
			wantIs(s, errOf(s.client.Hold(ctx, LeaseSpec{Wait: wait})), context.DeadlineExceeded)
			wantIs(s, errOf(s.client.Acquire(ctx, LeaseSpec{Wait: wait})), context.DeadlineExceeded)
			cancel()
		}
	}, Option(silent))
}

func TestTLSWithBearerTokenAndTheClientCertificateThatIsTheNewestWhenItConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, serverKey := certificate("localhost")
		client, clientKey := certificate("client")
		strange, strangeKey := certificate("client")
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(client)
		s := newStage(t, "ours", grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{must(tls.X509KeyPair(server, serverKey))}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool,
		})))
		defer s.leave()
		s.always("", status.Error(codes.ResourceExhausted, "enough"))
		first := func(opts ...Option) error {
			client := must(s.connect(append([]Option{WithEndpoint("https://localhost:1")}, opts...)...))
			defer client.Close()
			return errOf(client.Acquire(s.Context(), LeaseSpec{}))
		}
		// The source is asked when the client is made, and for each connection.
		then := func(certificate, key []byte, err error) Option {
			var asked atomic.Int32
			return WithTLSSource(func(context.Context) (TLS, error) {
				if asked.Add(1) == 1 {
					return TLS{CA: server}, nil
				}
				return TLS{CA: server, Certificate: certificate, Key: key}, err
			})
		}
		ours := WithClientCertificate(client, clientKey)
		for _, opts := range [][]Option{
			{WithCA(server), ours, WithBearerToken(" secret\n")}, {then(client, clientKey, nil)},
		} {
			refused := as[*RefusedError](t, first(opts...))
			want(t, refused.Code == CodeResourceExhausted, refused)
		}
		same(t, "token", s.calls[0].head.Get("authorization"), []string{"Bearer secret"})
		gone := as[*UnreachableError](t, first(then(nil, nil, errors.New("no such file"))))
		want(t, strings.Contains(gone.Error(), "its certificates cannot be loaded: no such file"), gone)
		for name, opts := range map[string][]Option{
			"no certificate":    {WithCA(server)},
			"a strange one":     {then(strange, strangeKey, nil)},
			"another authority": {WithCA(strange), ours},
			"another name":      {WithCA(server), ours, WithServerName("elsewhere")},
		} {
			text := as[*UnreachableError](t, first(opts...)).Error()
			want(t, strings.Contains(text, wantsCertificate) != strings.HasPrefix(name, "another"), name, text)
		}
	})
}

// certificate gives one for a name, which is an authority that has issued only this, and its key.
func certificate(name string) (certificate, key []byte) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, of, of, private.Public(), private))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))})
}

func TestS21OnlyConnectionsOverANetworkArePingedAndNotTooOften(t *testing.T) {
	pings := func(opts ...Option) (time.Duration, error) {
		o := gather(opts)
		network, address, _, err := o.address()
		ok(t, err)
		return o.pings(network, address)
	}
	for endpoint, wanted := range map[string]time.Duration{
		"unix:///run/leasehold.sock": 0, "http://127.0.0.1:1": 0, "http://127.8.9.1:1": 0, "http://[::1]:1": 0, "http://LocalHost:1": 0,
		"http://10.0.0.1:1": 30 * time.Second, "http://localhost.example.com:1": 30 * time.Second, "http://[fd00::1]:1": 30 * time.Second,
	} {
		every := must(pings(WithEndpoint(endpoint)))
		want(t, every == wanted, endpoint, every)
	}
	for asked, isValid := range map[time.Duration]bool{
		0: true, 10 * time.Second: true, time.Hour: true, 9 * time.Second: false, -time.Second: false,
	} {
		every, err := pings(WithKeepAlive(asked))
		want(t, (err == nil) == isValid && (!isValid || every == asked), asked, every, err)
	}
}

func TestATokenIsAskedForAtEachCall(t *testing.T) {
	var asked atomic.Int32
	source := func(context.Context) (string, error) {
		if number := asked.Add(1); number < 4 {
			return strings.Repeat("x", int(number)), nil
		}
		return "", errors.New("the vault is closed")
	}
	staged(t, func(s *stage) {
		for range 2 {
			ok(t, errOf(s.client.Acquire(s.Context(), LeaseSpec{})))
		}
		// The first was asked for when the client connected. S14: the kernel goes with each call, too.
		for i, token := range []string{"Bearer xx", "Bearer xxx"} {
			head := s.calls[i].head
			want(t, head.Get("authorization")[0] == token && head.Get("leasehold-boot-id")[0] == ours, head)
		}
		_, err := s.client.Acquire(s.Context(), LeaseSpec{})
		refused := as[*RefusedError](t, err)
		want(t, refused.Code == CodeUnauthenticated && strings.Contains(err.Error(), "vault"), err)
	}, WithTokenSource(source))
}

func TestEachCallCarriesWhatItsContextSaysAndIsSeen(t *testing.T) {
	type traceKey struct{}
	var unary, streams atomic.Int32
	counts := &connections{}
	staged(t, func(s *stage) {
		hold := s.granted(s.asks(context.WithValue(s.Context(), traceKey{}, "00-1"), LeaseSpec{}))
		// Of another context.
		s.releases(hold)
		parent, other := s.calls[0].head.Get("traceparent"), s.calls[1].head.Get("traceparent")
		same(s, "traces", append(parent, other...), []string{"00-1"})
		same(s, "seen", []int32{unary.Load(), streams.Load(), counts.made.Load()}, []int32{1, 1, 1})
	}, WithContextMetadata(func(ctx context.Context) map[string]string {
		if parent, isTraced := ctx.Value(traceKey{}).(string); isTraced {
			return map[string]string{"traceparent": parent}
		}
		return nil
	}), WithStatsHandler(counts), WithUnaryInterceptors(func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		unary.Add(1)
		return invoke(ctx, method, request, reply, conn, options...)
	}), WithStreamInterceptors(func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		streams.Add(1)
		return open(ctx, desc, conn, method, options...)
	}))
}

func TestAPlatformWithoutTheClockIsSaidAtConnect(t *testing.T) {
	newClock := func() (clock, error) { return nil, &PlatformError{Platform: "windows"} }
	err := as[*PlatformError](t, errOf(Connect(t.Context(), func(o *options) { o.newClock = newClock })))
	want(t, strings.Contains(err.Error(), "Leasehold's client needs Linux or macOS: windows"), err)
}

func TestThePublicInterfaceHasNoTypesOfOthers(t *testing.T) {
	shown, seen := must(exec.Command("go", "doc", "-all", ".").CombinedOutput()), 0
	for line := range strings.Lines(string(shown)) {
		// But for comments, and the hooks.
		if strings.HasPrefix(line, "    ") || strings.Contains(line, "interceptors ...grpc.") {
			continue
		}
		for _, other := range []string{"leaseholdv1.", "grpc.", "codes.", "status.", "durationpb.", "proto."} {
			want(t, !strings.Contains(line, other), line)
		}
		seen++
	}
	want(t, seen >= 100, "there is more to see:", string(shown))
}
