package leasehold

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

type rpc = leaseholdv1.LeaseServiceClient

// link is one of a client's two connections, and the calls over it.
type link struct {
	rpc
	conn     *grpc.ClientConn
	other    *grpc.ClientConn
	endpoint string
}

func newLink(conn, other *grpc.ClientConn, endpoint string) *link {
	return &link{rpc: leaseholdv1.NewLeaseServiceClient(conn), conn: conn, other: other, endpoint: endpoint}
}

// wake makes the connection anew at once, if it pauses after failed tries and the other one shows that the sidecar is
// back: what went through over the one must not be refused over the other.
func (l *link) wake(ctx context.Context) {
	if l.conn.GetState() != connectivity.TransientFailure || l.other.GetState() != connectivity.Ready {
		return
	}
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l.conn.ResetConnectBackoff()
	l.conn.WaitForStateChange(within, connectivity.TransientFailure)
}

// failure gives an error of gRPC its type.
func (l *link) failure(ctx context.Context, err error) error {
	code := status.Code(err)
	if ctx.Err() != nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		return gaveUp(ctx)
	}
	refused := refusal(err)
	if code == codes.Unavailable && refused.Reason == "" && l.conn.GetState() == connectivity.TransientFailure {
		return &UnreachableError{Endpoint: l.endpoint, Err: refused}
	}
	return refused
}

// call makes a unary call that takes so long at the most.
func call[Q, A any](
	ctx context.Context, l *link, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.wake(within)
	answer, err := method(l.rpc, within, request)
	if err != nil {
		return nil, l.failure(ctx, err)
	}
	return answer, nil
}
