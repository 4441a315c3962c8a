package leasehold

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errSilent is the end of a stream over which nothing was heard for so long that the connection is taken for dead.
var errSilent = status.Error(codes.Unavailable, "nothing was received from the sidecar for a long time")

// errNoReason is the end of a stream without a word of the sidecar's.
var errNoReason = status.Error(codes.Unavailable, "the sidecar ended the stream without a reason")

// errStopped says that nobody waits for the stream any more. It says nothing of the stream.
var errStopped = errors.New("nobody waits any more")

// listening is a stream of answers that is not waited for without end.
type listening[A any] struct {
	connection *connection
	// place is beside the stream's, for the hold that may come over it; nil of a watch.
	place    *place
	received chan *A
	// err is why nothing more was received; for who has found received closed.
	err error
	// cancel ends the stream, which keeps its place on the connection until then.
	cancel context.CancelFunc
}

// listenForHold opens a stream over a connection that has room for it and for calls about a hold.
func listenForHold[Q, A any](
	ctx context.Context, p *pool, again bool,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error), request *Q,
) (*listening[A], error) {
	connection, err := p.take(2)
	if err != nil {
		return nil, err
	}
	l := listen(ctx, connection, again, method, request)
	l.place = &place{p, connection}
	return l, nil
}

// listen opens a stream over a connection where it has a place. With again it does not wait until a connection that
// failed lately is tried anew by itself.
func listen[Q, A any](
	ctx context.Context, connection *connection, again bool,
	method func(rpc, context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error), request *Q,
) *listening[A] {
	within, cancel := context.WithCancel(ctx)
	l := &listening[A]{connection: connection, received: make(chan *A), cancel: cancel}
	go func() {
		defer connection.leave()
		if again {
			connection.retry()
		}
		connection.wake(within)
		// Where the sidecar carries fewer streams than are opened, this waits for one to end.
		stream, err := method(connection.rpc, within, request)
		for err == nil {
			var answer *A
			if answer, err = stream.Recv(); err != nil {
				break
			}
			select {
			case l.received <- answer:
			case <-within.Done():
				err = status.FromContextError(within.Err()).Err()
			}
		}
		if isBelowNeeds(err) {
			connection.giveUp()
		}
		l.err = err
		close(l.received)
		<-within.Done()
	}()
	return l
}

// leave ends the stream, which carries no hold.
func (l *listening[A]) leave() {
	l.cancel()
	l.place.giveBack()
}

// next waits for the next answer. An error of gRPC or io.EOF is the end of the stream; after errSilent it may still
// live, and is to be cancelled.
func (l *listening[A]) next() (*A, error) { return l.nextUntil(nil) }

// nextUntil is next, which gives errStopped when stop is closed. Then nothing of the stream was missed.
func (l *listening[A]) nextUntil(stop <-chan struct{}) (*A, error) {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case answer, more := <-l.received:
		if !more {
			return nil, l.err
		}
		return answer, nil
	case <-stop:
		return nil, errStopped
	case <-timer.C:
		l.connection.giveUp()
		return nil, errSilent
	}
}

// comesBack is whether an error is the end of a connection or of a sidecar that another may follow, and not an answer.
func comesBack(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Canceled:
		reason := refusal(err).Reason
		return reason == "" || reason == ReasonShuttingDown
	}
	return false
}
