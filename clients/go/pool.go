package leasehold

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	// places is how many are taken on it: by streams, by holds and by calls. givenUp is whether no stream is opened over it
	// any more. Both are guarded by the pool's mutex.
	places  int
	givenUp bool
}

// place is a hold's on the connection of its stream, which it keeps open until the hold's end was answered: another
// connection may meet another sidecar, which does not know the hold. What is known by its id alone is at the general one,
// unless it was granted over another.
type place struct {
	pool *pool
	// connection is guarded by the pool's mutex.
	connection *connection
}

// pool has a client's connections. One is for calls of what no stream is known of; the others carry the streams of holds,
// waits and watches, and the calls about what has come by those. A hold takes a place there beside its stream's, which is
// room for a call about it: a release never stands behind holds.
type pool struct {
	dial     func() (*grpc.ClientConn, error)
	endpoint string

	// general connects when the first call over it comes.
	general *connection

	mutex   sync.Mutex
	lasting []*connection
	// granted are the places of what unary calls were granted over other connections than the general one, by lease id.
	granted map[string]*granted
	closed  bool
}

// granted is the place of a hold that is known by its lease id, which is given back when MaxHold has ended that.
type granted struct {
	*place
	over *time.Timer
}

func (p *pool) connect() (*connection, error) {
	conn, err := p.dial()
	if err != nil {
		return nil, err
	}
	rpc := services{leaseholdv1.NewLeaseServiceClient(conn), leaseholdv1.NewScheduleServiceClient(conn)}
	return &connection{rpc: rpc, conn: conn, pool: p}, nil
}

// take gives a connection with so many places, the preferred one if it has them: one for a call that lasts, which is to
// be left when that is over, and one for a hold that comes by it.
func (p *pool) take(places int, preferred ...*connection) (*connection, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	for _, connection := range append(preferred, p.lasting...) {
		if connection.places+places <= streamsPerConnection && !connection.givenUp {
			connection.places += places
			return connection, nil
		}
	}
	connection, err := p.connect()
	if err != nil {
		return nil, err
	}
	connection.places = places
	p.lasting = append(p.lasting, connection)
	return connection, nil
}

// stay gives one place more, while a stream has some: for the hold that comes next by it.
func (c *connection) stay() *place {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.places++
	return &place{c.pool, c}
}

// move puts the hold where another place is, which then has the hold's old one; unless the hold's was given back.
func (p *place) move(to *place) {
	p.pool.mutex.Lock()
	defer p.pool.mutex.Unlock()
	if p.connection != p.pool.general {
		p.connection, to.connection = to.connection, p.connection
	}
}

// giveBack says that the hold's end was answered, or that nobody will ask for it. It may be repeated.
func (p *place) giveBack() {
	p.pool.mutex.Lock()
	defer p.pool.mutex.Unlock()
	if from := p.connection; from != p.pool.general {
		p.connection = p.pool.general
		from.leaveLocked()
	}
}

// keep has the calls about a lease id go over the connection that it was granted over, whose place for that call is the
// hold's from then on, until it is released or MaxHold has ended it.
func (p *pool) keep(leaseID string, c *connection, ends *leaseholdv1.Deadline) {
	// A call that was repeated may be granted the same hold.
	p.forget(leaseID)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	over := time.AfterFunc(longestHold(ends), func() { p.forget(leaseID) })
	p.granted[leaseID] = &granted{&place{p, c}, over}
}

// longestHold is how long a hold may last that a unary call was granted: a day, where the sidecar does not say it (S14).
func longestHold(ends *leaseholdv1.Deadline) time.Duration {
	if ends == nil {
		return 24 * time.Hour
	}
	return duration(ends.GetAfter())
}

// placeOf is the place of what is known by its lease id.
func (p *pool) placeOf(leaseID string) *place {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if granted := p.granted[leaseID]; granted != nil {
		return granted.place
	}
	return &place{p, p.general}
}

// extended takes in the new end of a hold.
func (p *pool) extended(leaseID string, ends *leaseholdv1.Deadline) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if granted := p.granted[leaseID]; granted != nil {
		granted.over.Reset(longestHold(ends))
	}
}

// forget says that nobody will ask for a hold any more.
func (p *pool) forget(leaseID string) {
	p.mutex.Lock()
	granted := p.granted[leaseID]
	delete(p.granted, leaseID)
	p.mutex.Unlock()
	if granted != nil {
		granted.over.Stop()
		granted.giveBack()
	}
}

// enter gives the connection for a call about the hold; leave it when the call is over.
func (p *place) enter() *connection {
	p.pool.mutex.Lock()
	defer p.pool.mutex.Unlock()
	p.connection.places++
	return p.connection
}

// leave says that a call is over. A connection that is not needed any more is closed, but for the general one.
func (c *connection) leave() {
	c.pool.mutex.Lock()
	defer c.pool.mutex.Unlock()
	c.leaveLocked()
}

func (c *connection) leaveLocked() {
	c.places--
	c.closeUnneededLocked()
}

func (c *connection) closeUnneededLocked() {
	replaces := func(other *connection) bool { return other != c && !other.givenUp }
	isNeeded := c == c.pool.general || !c.givenUp && !slices.ContainsFunc(c.pool.lasting, replaces)
	if c.places == 0 && !isNeeded && !c.pool.closed {
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
	c.closeUnneededLocked()
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

func (p *pool) isClosed() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.closed
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

// pauses is whether the connection waits until it is tried anew, as tries have failed.
func (c *connection) pauses() bool { return c.conn.GetState() == connectivity.TransientFailure }

// retry has the connection tried anew at once, if it pauses. Else ResetConnectBackoff is not to be called: without a
// lock it walks what a first call over a new connection writes, which ends the process (grpc/grpc-go#9155).
func (c *connection) retry() {
	if c.pauses() {
		c.conn.ResetConnectBackoff()
	}
}

// wake makes the connection anew at once, if it pauses after failed tries and another one shows that the sidecar is
// back: what went through over the one must not be refused over the other.
func (c *connection) wake(ctx context.Context) {
	if !c.pauses() || !c.isBack() {
		return
	}
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.retry()
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
	if refused.isNoAnswer() && c.pool.isClosed() {
		return ErrClosed
	}
	// A sidecar that refuses the certificate has made the connection before: no try to connect has failed.
	isAway := c.pauses() || strings.Contains(refused.Error(), wantsCertificate)
	if code == codes.Unavailable && refused.Reason == "" && isAway {
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
	connection := id.place.enter()
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
