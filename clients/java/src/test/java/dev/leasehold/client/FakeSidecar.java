package dev.leasehold.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.CompleteRunRequest;
import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.CompletionResult;
import dev.leasehold.v1.GetHoldRequest;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LeaseServiceGrpc;
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
import dev.leasehold.v1.ScheduleServiceGrpc;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.Validity;
import dev.leasehold.v1.WatchLockResponse;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.Attributes;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServerTransportFilter;
import io.grpc.ServiceDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
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
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;

/** A sidecar in process, on a Unix socket of its own, that does what a test says. */
final class FakeSidecar implements AutoCloseable {
  /** How long a test waits for what must come. */
  static final long PATIENCE_SECONDS = 60;

  /** A HoldLease call that the test answers. */
  static final class HoldCall extends StreamCall<HoldLeaseRequest, HoldLeaseResponse> {
    HoldCall(Message request, StreamObserver<Message> events) {
      super((HoldLeaseRequest) request, events);
    }
  }

  /** A streaming call that the test answers. */
  static class StreamCall<Q, A extends Message> {
    final Q request;
    private final ServerCallStreamObserver<Message> events;
    private final CountDownLatch ended = new CountDownLatch(1);

    StreamCall(Q request, StreamObserver<Message> events) {
      this.request = request;
      this.events = (ServerCallStreamObserver<Message>) events;
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
    void awaitEnd() {
      Bench.await(ended);
    }

    boolean isOpen() {
      return ended.getCount() > 0;
    }
  }

  /** What unary calls are answered with; null where the test expects none. */
  volatile Function<ReportProgressRequest, Validity> report;

  volatile Function<GetHoldRequest, GetHoldResponse> holdInfo;
  volatile Function<SaveCheckpointRequest, SaveCheckpointResponse> save;
  volatile Function<AcquireLeaseRequest, AcquireLeaseResponse> acquire;
  volatile Function<ListLocksRequest, ListLocksResponse> list;
  volatile Function<CompleteRunRequest, CompletionResult> complete =
      request -> CompletionResult.COMPLETION_RESULT_RECORDED;
  volatile ReleaseResult released =
      ReleaseResult.newBuilder().setOutcome(ReleaseOutcome.RELEASE_OUTCOME_RELEASED).build();
  volatile Runnable onRelease = () -> {};

  /** All others: with a builder of the answer. */
  volatile BiFunction<Message, Message.Builder, Message> other =
      (request, answer) -> answer.build();

  /** What each WatchLock call is sent at once. */
  volatile List<WatchLockResponse> records = List.of();

  private final BlockingQueue<HoldCall> holds = new LinkedBlockingQueue<>();
  private final BlockingQueue<FakeSchedules.Subscription> subscriptions =
      new LinkedBlockingQueue<>();
  private final BlockingQueue<StreamCall<WatchLocksRequest, WatchLocksResponse>> watches =
      new LinkedBlockingQueue<>();
  private final List<String> asked = new CopyOnWriteArrayList<>();
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
            .addService(service(LeaseServiceGrpc.getServiceDescriptor()))
            .addService(service(ScheduleServiceGrpc.getServiceDescriptor()))
            .build()
            .start();
  }

  /** All methods of a service. */
  private ServerServiceDefinition service(ServiceDescriptor descriptor) {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(descriptor);
    for (MethodDescriptor<?, ?> each : descriptor.getMethods()) {
      @SuppressWarnings("unchecked")
      MethodDescriptor<Message, Message> method = (MethodDescriptor<Message, Message>) each;
      Message answer =
          ((MethodDescriptor.PrototypeMarshaller<Message>) method.getResponseMarshaller())
              .getMessagePrototype();
      service.addMethod(
          method,
          method.getType() == MethodDescriptor.MethodType.UNARY
              ? ServerCalls.asyncUnaryCall(
                  (request, observer) -> answer(request, answer.newBuilderForType(), observer))
              : ServerCalls.asyncServerStreamingCall(this::opened));
    }
    return service.build();
  }

  private void opened(Message request, StreamObserver<Message> events) {
    if (request instanceof HoldLeaseRequest) {
      holds.add(new HoldCall(request, events));
    } else if (request instanceof SubscribeScheduleRequest subscribe) {
      subscriptions.add(new FakeSchedules.Subscription(subscribe, events));
    } else if (request instanceof WatchLocksRequest watch) {
      watches.add(new StreamCall<>(watch, events));
    } else {
      records.forEach(events::onNext);
    }
  }

  private void answer(Message request, Message.Builder answer, StreamObserver<Message> observer) {
    try {
      observer.onNext(answer(request, answer));
      observer.onCompleted();
    } catch (StatusRuntimeException error) {
      observer.onError(error);
    }
  }

  private Message answer(Message request, Message.Builder answer) {
    if (request instanceof ReleaseLeaseRequest release) {
      String as = release.getOutcomeValue() == 0 ? "" : " as " + release.getOutcome();
      String with = with(release.hasCheckpoint(), release.getCheckpoint());
      note("release " + release.getLeaseId(), release.getGeneration(), as + with);
      onRelease.run();
      return ReleaseLeaseResponse.newBuilder().setResult(released).build();
    }
    if (request instanceof CompleteRunRequest run) {
      String outcome = run.getOutcome().name().substring("RUN_OUTCOME_".length());
      String with = with(run.hasCheckpoint(), run.getCheckpoint());
      note(run.getRunId(), run.getGeneration(), ": " + outcome + " " + run.getDetail() + with);
      return CompleteRunResponse.newBuilder().setResult(complete.apply(run)).build();
    }
    if (request instanceof ReportProgressRequest progress) {
      note("report", progress.getGeneration(), "");
      return ReportProgressResponse.newBuilder().setValidity(report.apply(progress)).build();
    }
    if (request instanceof GetHoldRequest question) {
      note("get hold", question.getGeneration(), "");
      return holdInfo.apply(question);
    }
    if (request instanceof SaveCheckpointRequest saved) {
      note("save " + saved.getValue().toStringUtf8(), saved.getGeneration(), "");
      return save.apply(saved);
    }
    if (request instanceof AcquireLeaseRequest acquired) {
      return acquire.apply(acquired);
    }
    return request instanceof ListLocksRequest listed
        ? list.apply(listed)
        : other.apply(request, answer);
  }

  private static String with(boolean is, ByteString checkpoint) {
    return is ? " with " + checkpoint.toStringUtf8() : "";
  }

  private void note(String call, long generation, String more) {
    asked.add(call + " of generation " + generation + more);
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

  private static <T> T next(BlockingQueue<T> calls) throws InterruptedException {
    T call = calls.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no call comes");
    }
    return call;
  }

  /** The next HoldLease call. */
  HoldCall hold() throws InterruptedException {
    return next(holds);
  }

  /** The next SubscribeSchedule call. */
  FakeSchedules.Subscription subscription() throws InterruptedException {
    return next(subscriptions);
  }

  /** The next WatchLocks call. */
  StreamCall<WatchLocksRequest, WatchLocksResponse> locksWatch() throws InterruptedException {
    return next(watches);
  }

  /** Whether there is a HoldLease or SubscribeSchedule call that the test has not seen. */
  boolean hasUnseenCalls() {
    return !holds.isEmpty() || !subscriptions.isEmpty();
  }

  /** How many connections are open. */
  int connections() {
    return connections.get();
  }

  /** The unary calls about holds and runs. */
  List<String> asked() {
    return List.copyOf(asked);
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
