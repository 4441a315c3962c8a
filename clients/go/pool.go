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
	// short carries the short calls about what this one carries; nil of one for short calls.
	short *connection
	// streams is how many calls that last it carries, and given up whether no further one goes over it; both are guarded
	// by the pool's mutex.
	streams int
	givenUp bool
}

// pool has a client's connections. One is for short calls, so that a release never stands behind holds; the others
// carry the calls that take as long as a hold, a wait or a watch.
type pool struct {
	dial     func() (*grpc.ClientConn, error)
	endpoint string
	silence  time.Duration

	mutex sync.Mutex
	// short is for what no connection carries. It connects when the first short call comes.
	short   *connection
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

// take gives a connection with room for a call that lasts; leave it when that is over.
func (p *pool) take() (*connection, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	for _, connection := range p.lasting {
		if connection.streams < streamsPerConnection && !connection.givenUp {
			connection.streams++
			return connection, nil
		}
	}
	connection, err := p.connect()
	if err != nil {
		return nil, err
	}
	connection.streams, connection.short = 1, p.short
	p.lasting = append(p.lasting, connection)
	return connection, nil
}

// leave says that a call that lasted is over. A connection that is not needed any more is closed.
func (c *connection) leave() {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.streams--
	if c.streams == 0 && (c.givenUp || len(c.pool.lasting) > 1) {
		c.pool.lasting = slices.DeleteFunc(c.pool.lasting, func(other *connection) bool { return other == c })
		_ = c.conn.Close()
		hasShort := func(other *connection) bool { return other.short == c.short }
		if c.short != c.pool.short && !slices.ContainsFunc(c.pool.lasting, hasShort) {
			// Calls may be under way there.
			time.AfterFunc(completionTimeout, func() { _ = c.short.conn.Close() })
		}
	}
}

// giveUp says that nothing was heard over the connection for long, so that no further call goes over it.
func (c *connection) giveUp() {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.givenUp = true
}

// look gives the error of a lasting call as it is. A sidecar that is too old for it is left: new connections may meet
// another one (S37).
func (c *connection) look(err error) error {
	if !isBelowNeeds(err) {
		return err
	}
	c.giveUp()
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	// One that is idle connects anew when it is needed.
	if c.short == c.pool.short && c.short.conn.GetState() != connectivity.Idle && !c.pool.closed {
		if short, failed := c.pool.connect(); failed == nil {
			c.pool.short = short
		}
	}
	return err
}

// forShort is the connection for short calls of what nothing is known of.
func (p *pool) forShort() *connection {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.short
}

// close closes the connections.
func (p *pool) close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	errs := []error{p.short.conn.Close()}
	for _, connection := range p.lasting {
		errs = append(errs, connection.conn.Close())
		if connection.short != p.short {
			_ = connection.short.conn.Close()
		}
	}
	p.lasting = nil
	return errors.Join(errs...)
}

// isBack is whether another connection than c stands, so that the sidecar is there.
func (c *connection) isBack() bool {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	for _, other := range append([]*connection{c.pool.short}, c.pool.lasting...) {
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

// call makes a short call that takes so long at the most.
func call[Q, A any](
	ctx context.Context, p *pool, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	return callOver(ctx, p.forShort(), patience, method, request)
}

// callLasting makes a unary call that may last.
func callLasting[Q, A any](
	ctx context.Context, p *pool, patience time.Duration,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q,
) (*A, error) {
	connection, err := p.take()
	if err != nil {
		return nil, err
	}
	defer connection.leave()
	answer, err := callOver(ctx, connection, patience, method, request)
	return answer, connection.look(err)
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
