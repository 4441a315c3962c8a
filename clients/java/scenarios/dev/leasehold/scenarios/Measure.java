package dev.leasehold.scenarios;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import dev.leasehold.v1.ReleaseLeaseRequest;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** How fast the client holds and releases, compared with the bare stub. */
final class Measure {
  private static final int TURN = 50;

  /** What the JVM needs to compile both alike. */
  private static final int WARM_UP_TURNS = 100;

  /** Work that is timed. */
  private interface Round {
    void run() throws InterruptedException, ExecutionException;
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
  Map<String, Double> run(String function, int times)
      throws InterruptedException, ExecutionException {
    EventLoopGroup loop = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
    // As the client does it: one for holds, one for releases, and no thread but the connections'.
    ManagedChannel lasting = channel(loop);
    ManagedChannel brief = channel(loop);
    try {
      LeaseServiceStub holds = LeaseServiceGrpc.newStub(lasting);
      LeaseServiceFutureStub releases = LeaseServiceGrpc.newFutureStub(brief);
      LeaseSpec request = LeaseSpec.of(function);
      Round byClient = () -> client.withHold(request, Hold::fencingToken);
      Round byStub = () -> holdAndRelease(holds, releases, request);
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
      lasting.shutdownNow();
      brief.shutdownNow();
      loop.shutdownGracefully();
    }
  }

  private ManagedChannel channel(EventLoopGroup loop) {
    if (!endpoint.getScheme().equals("unix")) {
      return NettyChannelBuilder.forAddress(endpoint.getHost(), endpoint.getPort())
          .eventLoopGroup(loop)
          .channelType(NioSocketChannel.class)
          .directExecutor()
          .disableRetry()
          .usePlaintext()
          .build();
    }
    return NettyChannelBuilder.forAddress(UnixDomainSocketAddress.of(endpoint.getPath()))
        .eventLoopGroup(loop)
        .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
        .withOption(ChannelOption.SO_KEEPALIVE, null)
        .overrideAuthority("localhost")
        .directExecutor()
        .disableRetry()
        .usePlaintext()
        .build();
  }

  private static void holdAndRelease(
      LeaseServiceStub holds, LeaseServiceFutureStub releases, LeaseSpec request)
      throws InterruptedException, ExecutionException {
    Events events = new Events();
    holds.holdLease(HoldLeaseRequest.newBuilder().setSpec(request.toMessage()).build(), events);
    String leaseId = events.granted.get();
    releases.releaseLease(ReleaseLeaseRequest.newBuilder().setLeaseId(leaseId).build()).get();
    events.ended.get();
  }

  /** Reads a stream from the grant to the end, which comes after word of the release. */
  private static final class Events implements StreamObserver<HoldLeaseResponse> {
    private final CompletableFuture<String> granted = new CompletableFuture<>();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    @Override
    public void onNext(HoldLeaseResponse event) {
      if (event.hasGranted()) {
        granted.complete(event.getGranted().getLeaseId());
      }
    }

    @Override
    public void onError(Throwable error) {
      granted.completeExceptionally(error);
      ended.completeExceptionally(error);
    }

    @Override
    public void onCompleted() {
      granted.completeExceptionally(new IllegalStateException("somebody else has the lock"));
      ended.complete(null);
    }
  }

  private static Duration timed(Round round, int times)
      throws InterruptedException, ExecutionException {
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
