package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	leasehold "github.com/leasehold/leasehold/clients/go"
	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// turn is how many holds the client and the stub make before it is the other's turn.
const turn = 50

// measure compares hold and release through the client with the same through the generated stub.
func (d *driver) measure(ctx context.Context, client *leasehold.Client, c command) error {
	// The client has one connection for holds and one for releases, too.
	var stubs [2]leaseholdv1.LeaseServiceClient
	for i := range stubs {
		conn, err := grpc.NewClient(target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		stubs[i] = leaseholdv1.NewLeaseServiceClient(conn)
	}

	byClient := func() error {
		return client.WithHold(ctx, c.spec(), func(context.Context, *leasehold.Hold) error { return nil })
	}
	byStub := func() error { return holdByStub(ctx, stubs[0], stubs[1], c) }
	var took [2]time.Duration
	for done := 0; done < c.Times; done += turn {
		for i, hold := range []func() error{byClient, byStub} {
			start := time.Now()
			for range min(turn, c.Times-done) {
				if err := hold(); err != nil {
					return err
				}
			}
			took[i] += time.Since(start)
		}
	}
	d.emit(c.ID, "measured", fields{
		"client_per_second": perSecond(c.Times, took[0]), "stub_per_second": perSecond(c.Times, took[1]),
	})
	return nil
}

// target is gRPC's name of the endpoint.
func target() string {
	endpoint := cmp.Or(os.Getenv(leasehold.EndpointVariable), leasehold.DefaultEndpoint)
	return strings.TrimPrefix(endpoint, "http://")
}

func holdByStub(ctx context.Context, lasting, short leaseholdv1.LeaseServiceClient, c command) error {
	key := &leaseholdv1.LockKey{Function: c.Function, Scope: c.Scope}
	spec := &leaseholdv1.LeaseSpec{Key: key}
	request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Spec{Spec: spec}}
	stream, err := lasting.HoldLease(ctx, request)
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if granted := answer.GetGranted(); granted != nil {
			release := &leaseholdv1.ReleaseLeaseRequest{LeaseId: granted.GetLeaseId()}
			if _, err := short.ReleaseLease(ctx, release); err != nil {
				return err
			}
			break
		}
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the stream ended without Released")
		}
		if err != nil {
			return err
		}
		if answer.GetReleased() != nil {
			return nil
		}
	}
}
