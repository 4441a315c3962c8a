package dev.leasehold.driver;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseRequest;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import dev.leasehold.v1.ReleaseLeaseRequest;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** How fast the client holds and releases, compared with the bare stub. */
final class Measure {
  private static final int TURN = 50;

  /** What the JVM needs to compile both alike. */
  private static final int WARM_UP_TURNS = 20;

  /** Work that is timed. */
  private interface Round {
    void run() throws InterruptedException;
  }

  private final LeaseholdClient client;
  private final URI endpoint;

  Measure(LeaseholdClient client, String defaultEndpoint) {
    this.client = client;
    this.endpoint =
        URI.create(
            Optional.ofNullable(System.getenv(LeaseholdClient.ENDPOINT_VARIABLE))
                .filter(given -> !given.isEmpty())
                .orElse(defaultEndpoint));
  }

  /** Measures both, in turns, each as often as {@code times}. */
  Map<String, Double> run(String function, int times) throws InterruptedException {
    EventLoopGroup loop = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
    ManagedChannel channel = channel(loop);
    try {
      LeaseServiceBlockingStub stub = LeaseServiceGrpc.newBlockingStub(channel);
      LeaseRequest request = LeaseRequest.of(function);
      Round byClient = () -> client.withHold(request, Hold::fencingToken);
      Round byStub = () -> holdAndRelease(stub, request);
      // Both are compiled before they count.
      for (int turn = 0; turn < WARM_UP_TURNS; turn++) {
        timed(byClient, TURN);
        timed(byStub, TURN);
      }
      List<Double> ofClient = new ArrayList<>();
      List<Double> ofStub = new ArrayList<>();
      for (int done = 0; done < times; done += TURN) {
        int turn = Math.min(TURN, times - done);
        ofClient.add(perSecond(turn, timed(byClient, turn)));
        ofStub.add(perSecond(turn, timed(byStub, turn)));
      }
      // The median turn: other work on the machine slows down some.
      return Map.of("client_per_second", median(ofClient), "stub_per_second", median(ofStub));
    } finally {
      channel.shutdownNow();
      loop.shutdownGracefully();
    }
  }

  private ManagedChannel channel(EventLoopGroup loop) {
    if (!endpoint.getScheme().equals("unix")) {
      return NettyChannelBuilder.forAddress(endpoint.getHost(), endpoint.getPort())
          .usePlaintext()
          .build();
    }
    return NettyChannelBuilder.forAddress(UnixDomainSocketAddress.of(endpoint.getPath()))
        .eventLoopGroup(loop)
        .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
        .withOption(ChannelOption.SO_KEEPALIVE, null)
        .overrideAuthority("localhost")
        .usePlaintext()
        .build();
  }

  private static void holdAndRelease(LeaseServiceBlockingStub stub, LeaseRequest request) {
    Iterator<HoldLeaseResponse> events =
        stub.holdLease(HoldLeaseRequest.newBuilder().setSpec(request.toSpec()).build());
    while (events.hasNext()) {
      HoldLeaseResponse event = events.next();
      if (event.hasGranted()) {
        ReleaseLeaseRequest release =
            ReleaseLeaseRequest.newBuilder().setLeaseId(event.getGranted().getLeaseId()).build();
        stub.releaseLease(release);
      } else if (event.hasBusy()) {
        throw new IllegalStateException("somebody else has the lock");
      }
    }
  }

  private static Duration timed(Round round, int times) throws InterruptedException {
    long started = System.nanoTime();
    for (int done = 0; done < times; done++) {
      round.run();
    }
    return Duration.ofNanos(System.nanoTime() - started);
  }

  private static double perSecond(int times, Duration taken) {
    return times * 1e9 / taken.toNanos();
  }

  private static double median(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    return sorted.get(sorted.size() / 2);
  }
}
