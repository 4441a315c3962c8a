package leasehold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// rpc has the calls of both services.
type rpc interface {
	leaseholdv1.LeaseServiceClient
	leaseholdv1.ScheduleServiceClient
}

// services are those calls over one connection.
type services struct {
	leaseholdv1.LeaseServiceClient
	leaseholdv1.ScheduleServiceClient
}

// connection is one connection to the sidecar, and the calls over it.
type connection struct {
	rpc
	conn *grpc.ClientConn
	pool *pool
	// calls is how many calls it carries that are counted, and given up whether no stream is opened over it any more; both
	// are guarded by the pool's mutex.
	calls   int
	givenUp bool
}

// pool has a client's connections. One is for calls of what no stream is known of; the others carry the streams of holds,
// waits and watches, and the calls about what has come by those: another connection may meet another sidecar, which does
// not know the hold. They have room for more calls than streams, so that a release never stands behind holds.
type pool struct {
	dial     func() (*grpc.ClientConn, error)
	endpoint string
	silence  time.Duration

	// general connects when the first call over it comes.
	general *connection

	mutex   sync.Mutex
	lasting []*connection
	closed  bool
}

func (p *pool) connect() (*connection, error) {
	conn, err := p.dial()
	if err != nil {
		return nil, err
	}
	rpc := services{leaseholdv1.NewLeaseServiceClient(conn), leaseholdv1.NewScheduleServiceClient(conn)}
	return &connection{rpc: rpc, conn: conn, pool: p}, nil
}

// take gives a connection with room for a call that lasts, the preferred one if it has; leave it when that is over.
func (p *pool) take(preferred ...*connection) (*connection, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	for _, connection := range append(preferred, p.lasting...) {
		if connection.calls < streamsPerConnection && !connection.givenUp {
			connection.calls++
			return connection, nil
		}
	}
	connection, err := p.connect()
	if err != nil {
		return nil, err
	}
	connection.calls = 1
	p.lasting = append(p.lasting, connection)
	return connection, nil
}

// enter gives the connection for a call about what has come over c: c itself, or the general one where c was closed, as
// nothing goes over it any more. Leave it when the call is over.
func (c *connection) enter() *connection {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	if !slices.Contains(c.pool.lasting, c) {
		c = c.pool.general
	}
	c.calls++
	return c
}

// leave says that a call is over. A connection that is not needed any more is closed, but for the general one.
func (c *connection) leave() {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.calls--
	replaces := func(other *connection) bool { return other != c && !other.givenUp }
	isNeeded := c == c.pool.general || !c.givenUp && !slices.ContainsFunc(c.pool.lasting, replaces)
	if c.calls == 0 && !isNeeded {
		c.pool.lasting = slices.DeleteFunc(c.pool.lasting, func(other *connection) bool { return other == c })
		_ = c.conn.Close()
	}
}

// giveUp says that no stream is to be opened over the connection any more: nothing was heard over it for long, or its
// sidecar is too old (S37), and a new one may meet another.
func (c *connection) giveUp() {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.givenUp = true
}

// close closes the connections.
func (p *pool) close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	errs := []error{p.general.conn.Close()}
	for _, connection := range p.lasting {
		errs = append(errs, connection.conn.Close())
	}
	p.lasting = nil
	return errors.Join(errs...)
}

// isBack is whether another connection than c stands, so that the sidecar is there.
func (c *connection) isBack() bool {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	for _, other := range append([]*connection{c.pool.general}, c.pool.lasting...) {
		if other != c && other.conn.GetState() == connectivity.Ready {
			return true
		}
	}
	return false
}

// wake makes the connection anew at once, if it pauses after failed tries and another one shows that the sidecar is
// back: what went through over the one must not be refused over the other.
func (c *connection) wake(ctx context.Context) {
	if c.conn.GetState() != connectivity.TransientFailure || !c.isBack() {
		return
	}
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.conn.ResetConnectBackoff()
	c.conn.WaitForStateChange(within, connectivity.TransientFailure)
}

// over is whether a context is over. The sidecar knows its deadline, and may end the call before this side's timer does:
// then this waits for the timer.
func over(ctx context.Context) bool {
	if deadline, has := ctx.Deadline(); has && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// failure gives an error of gRPC its type.
func (c *connection) failure(ctx context.Context, err error) error {
	code := status.Code(err)
	if (code == codes.Canceled || code == codes.DeadlineExceeded) && over(ctx) {
		return gaveUp(ctx)
	}
	refused := refusal(err)
	if code == codes.Unavailable && refused.Reason == "" && c.conn.GetState() == connectivity.TransientFailure {
		return &UnreachableError{Endpoint: c.pool.endpoint, Err: refused}
	}
	return refused
}

// call makes a short call over the general connection, which takes so long at the most.
func call[Q, A any](
	ctx context.Context, p *pool, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	return callOver(ctx, p.general, patience, method, request)
}

// callAbout makes a short call about a hold.
func callAbout[Q, A any](
	ctx context.Context, id holdID, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	connection := id.connection.enter()
	defer connection.leave()
	return callOver(ctx, connection, patience, method, request)
}

func callOver[Q, A any](
	ctx context.Context, c *connection, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.wake(within)
	answer, err := method(c.rpc, within, request)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	return answer, nil
}
