package dev.leasehold.client;

import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.ExtendLeaseRequest;
import dev.leasehold.v1.ExtendLeaseResponse;
import dev.leasehold.v1.GetHoldRequest;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.GetServerInfoRequest;
import dev.leasehold.v1.GetServerInfoResponse;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceImplBase;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.ReleaseLeaseRequest;
import dev.leasehold.v1.ReleaseLeaseResponse;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.ReportProgressRequest;
import dev.leasehold.v1.ReportProgressResponse;
import dev.leasehold.v1.SaveCheckpointRequest;
import dev.leasehold.v1.SaveCheckpointResponse;
import dev.leasehold.v1.Validity;
import dev.leasehold.v1.WatchLockRequest;
import dev.leasehold.v1.WatchLockResponse;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.Attributes;
import io.grpc.Server;
import io.grpc.ServerTransportFilter;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerDomainSocketChannel;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** A sidecar in process, on a Unix socket of its own, that does what a test says. */
final class FakeSidecar extends LeaseServiceImplBase implements AutoCloseable {
  /** How long a test waits for what must come. */
  static final long PATIENCE_SECONDS = 60;

  /** A HoldLease call that the test answers. */
  static final class HoldCall extends StreamCall<HoldLeaseRequest, HoldLeaseResponse> {
    HoldCall(HoldLeaseRequest request, StreamObserver<HoldLeaseResponse> events) {
      super(request, events);
    }
  }

  /** A streaming call that the test answers. */
  static class StreamCall<Q, A> {
    final Q request;
    private final ServerCallStreamObserver<A> events;
    private final CountDownLatch ended = new CountDownLatch(1);

    StreamCall(Q request, StreamObserver<A> events) {
      this.request = request;
      this.events = (ServerCallStreamObserver<A>) events;
      this.events.setOnCancelHandler(ended::countDown);
    }

    void tell(A event) {
      events.onNext(event);
    }

    void fail(StatusRuntimeException status) {
      events.onError(status);
    }

    void complete() {
      events.onCompleted();
    }

    /** Waits until the client has ended the stream. */
    void awaitEnd() throws InterruptedException {
      if (!ended.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        throw new AssertionError("the client does not end the stream");
      }
    }

    boolean isOpen() {
      return ended.getCount() > 0;
    }
  }

  /** What unary calls are answered with. */
  volatile Function<ReportProgressRequest, Validity> report =
      request -> {
        throw new AssertionError("the test does not say what to answer to " + request);
      };

  volatile Function<GetHoldRequest, GetHoldResponse> holdInfo =
      request -> {
        throw new AssertionError("the test does not say what to answer to " + request);
      };

  volatile Function<SaveCheckpointRequest, SaveCheckpointResponse> save =
      request -> {
        throw new AssertionError("the test does not say what to answer to " + request);
      };

  volatile Function<AcquireLeaseRequest, AcquireLeaseResponse> acquire =
      request -> {
        throw new AssertionError("the test does not say what to answer to " + request);
      };
  volatile Function<ListLocksRequest, ListLocksResponse> list =
      request -> {
        throw new AssertionError("the test does not say what to answer to " + request);
      };
  volatile List<WatchLockResponse> records = List.of();
  volatile boolean endsWatches = true;

  /** The WatchLock calls, of which each was sent {@link #records}. */
  final BlockingQueue<StreamObserver<WatchLockResponse>> watches = new LinkedBlockingQueue<>();

  private final BlockingQueue<StreamObserver<WatchLocksResponse>> locksWatches =
      new LinkedBlockingQueue<>();

  volatile ReleaseResult released =
      ReleaseResult.newBuilder().setOutcome(ReleaseOutcome.RELEASE_OUTCOME_RELEASED).build();
  volatile Runnable onRelease = () -> {};

  /** The calls about schedules. */
  final FakeSchedules schedules = new FakeSchedules(this::note);

  private final BlockingQueue<HoldCall> holds = new LinkedBlockingQueue<>();
  private final List<String> asked = new ArrayList<>();
  private final AtomicInteger connections = new AtomicInteger();
  private final Path folder;
  private final int callsPerConnection;

  /** Of all tests: it must outlive the last answer. */
  private static final EventLoopGroup LOOPS =
      new MultiThreadIoEventLoopGroup(
          2, ClientContext.daemons("fake-sidecar"), NioIoHandler.newFactory());

  private Server server;

  /** {@code callsPerConnection} is how many calls it takes at once on one connection. */
  FakeSidecar(int callsPerConnection) throws IOException {
    this(callsPerConnection, Files.createTempDirectory("leasehold"));
  }

  private FakeSidecar(int callsPerConnection, Path folder) throws IOException {
    this.callsPerConnection = callsPerConnection;
    this.folder = folder;
    start();
  }

  /** Another one, which new connections meet. Those that stand stay here. */
  FakeSidecar replacement() throws IOException {
    Files.delete(socket());
    return new FakeSidecar(callsPerConnection, folder);
  }

  String endpoint() {
    return "unix://" + socket();
  }

  private Path socket() {
    return folder.resolve("sidecar.sock");
  }

  void start() throws IOException {
    server =
        NettyServerBuilder.forAddress(UnixDomainSocketAddress.of(socket()))
            .channelType(NioServerDomainSocketChannel.class)
            .bossEventLoopGroup(LOOPS)
            .workerEventLoopGroup(LOOPS)
            // Unknown to such sockets, which netty warns of.
            .withChildOption(ChannelOption.SO_KEEPALIVE, null)
            .maxConcurrentCallsPerConnection(callsPerConnection)
            .addTransportFilter(new Counter())
            .addService(this)
            .addService(schedules)
            .build()
            .start();
  }

  /** Ends as a killed process does. */
  void kill() throws IOException {
    try {
      server.shutdownNow().awaitTermination();
    } catch (InterruptedException interrupted) {
      throw new AssertionError("the server was not waited for", interrupted);
    }
    Files.deleteIfExists(socket());
  }

  /** The next HoldLease call. */
  HoldCall hold() throws InterruptedException {
    HoldCall call = holds.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no HoldLease call comes");
    }
    return call;
  }

  /** The next WatchLocks call. */
  StreamObserver<WatchLocksResponse> locksWatch() throws InterruptedException {
    StreamObserver<WatchLocksResponse> call = locksWatches.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no WatchLocks call comes");
    }
    return call;
  }

  /** Whether there is a HoldLease call that the test has not seen. */
  boolean isAskedToHold() {
    return !holds.isEmpty();
  }

  /** How many connections are open. */
  int connections() {
    return connections.get();
  }

  /** The unary calls about holds. */
  List<String> asked() {
    synchronized (asked) {
      return List.copyOf(asked);
    }
  }

  private void note(String call) {
    synchronized (asked) {
      asked.add(call);
    }
  }

  @Override
  public void holdLease(HoldLeaseRequest request, StreamObserver<HoldLeaseResponse> events) {
    holds.add(new HoldCall(request, events));
  }

  @Override
  public void releaseLease(
      ReleaseLeaseRequest request, StreamObserver<ReleaseLeaseResponse> answer) {
    String with = request.hasCheckpoint() ? " with " + request.getCheckpoint().toStringUtf8() : "";
    String as = request.getOutcomeValue() == 0 ? "" : " as " + request.getOutcome();
    note(
        "release "
            + request.getLeaseId()
            + " of generation "
            + request.getGeneration()
            + as
            + with);
    answer(
        answer,
        () -> {
          onRelease.run();
          return ReleaseLeaseResponse.newBuilder().setResult(released).build();
        });
  }

  @Override
  public void reportProgress(
      ReportProgressRequest request, StreamObserver<ReportProgressResponse> answer) {
    note("report of generation " + request.getGeneration());
    answer(
        answer,
        () -> ReportProgressResponse.newBuilder().setValidity(report.apply(request)).build());
  }

  @Override
  public void getHold(GetHoldRequest request, StreamObserver<GetHoldResponse> answer) {
    note("get hold of generation " + request.getGeneration());
    answer(answer, () -> holdInfo.apply(request));
  }

  @Override
  public void saveCheckpoint(
      SaveCheckpointRequest request, StreamObserver<SaveCheckpointResponse> answer) {
    String text = request.getValue().toStringUtf8();
    note("save " + text + " of generation " + request.getGeneration());
    answer(answer, () -> save.apply(request));
  }

  @Override
  public void getServerInfo(
      GetServerInfoRequest request, StreamObserver<GetServerInfoResponse> answer) {
    GetServerInfoResponse info =
        GetServerInfoResponse.newBuilder().setVersion("0.2.0").addFeatures("permits").build();
    answer(answer, () -> info);
  }

  @Override
  public void extendLease(ExtendLeaseRequest request, StreamObserver<ExtendLeaseResponse> answer) {
    note(
        "extend "
            + request.getMaxHold().getSeconds()
            + " of generation "
            + request.getGeneration());
    Validity validity = Messages.validity(ManualClock.OURS, 1_090, 90);
    answer(
        answer,
        () ->
            ExtendLeaseResponse.newBuilder()
                .setValidity(validity)
                .setResumeToken("resume-extended")
                .setMaxHoldEnds(
                    Deadline.newBuilder()
                        .setAt(validity.getValidUntil())
                        .setAfter(validity.getValidFor()))
                .build());
  }

  @Override
  public void acquireLease(
      AcquireLeaseRequest request, StreamObserver<AcquireLeaseResponse> answer) {
    answer(answer, () -> acquire.apply(request));
  }

  @Override
  public void listLocks(ListLocksRequest request, StreamObserver<ListLocksResponse> answer) {
    answer(answer, () -> list.apply(request));
  }

  @Override
  public void watchLock(WatchLockRequest request, StreamObserver<WatchLockResponse> answer) {
    records.forEach(answer::onNext);
    if (endsWatches) {
      answer.onCompleted();
    }
    watches.add(answer);
  }

  @Override
  public void watchLocks(WatchLocksRequest request, StreamObserver<WatchLocksResponse> answer) {
    locksWatches.add(answer);
  }

  static <T> void answer(StreamObserver<T> observer, java.util.function.Supplier<T> answer) {
    try {
      observer.onNext(answer.get());
      observer.onCompleted();
    } catch (StatusRuntimeException error) {
      observer.onError(error);
    }
  }

  private final class Counter extends ServerTransportFilter {
    @Override
    public Attributes transportReady(Attributes attributes) {
      connections.incrementAndGet();
      return attributes;
    }

    @Override
    public void transportTerminated(Attributes attributes) {
      connections.decrementAndGet();
    }
  }

  @Override
  public void close() throws IOException {
    kill();
    Files.deleteIfExists(folder);
  }
}
