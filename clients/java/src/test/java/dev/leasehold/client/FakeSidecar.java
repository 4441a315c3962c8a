package dev.leasehold.client;

import com.google.protobuf.Message;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.ScheduleServiceGrpc;
import io.grpc.Attributes;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServerTransportFilter;
import io.grpc.ServiceDescriptor;
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
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** A sidecar on a Unix socket of its own, that does what a test says, in the words of vectors. */
final class FakeSidecar implements AutoCloseable {
  /** How long a test waits for what must come. */
  static final long PATIENCE_SECONDS = 60;

  /** For 58 s. */
  static final String GRANTED = "granted: {until: 58000, for: 58000}";

  static final String RUN = "run: {until: 58000, for: 58000, attempt: 2}";
  static final String STANDBY = "standby: {understood: {time_zone: 'Europe/Copenhagen'}}";
  static final String TAKEN = "outcome: ALREADY_LOST, loss: TAKEN";
  static final String GONE = "code: UNAVAILABLE";

  /** For a request (S37). */
  static final String TOO_OLD =
      "code: UNIMPLEMENTED, reason: UNSUPPORTED, message: '2 and 1', needs: 2, revision: 1";

  /** A streaming call that the test answers. */
  final class Stream {
    final Message request;
    private final Message events;
    private final ServerCallStreamObserver<Message> client;
    private final CountDownLatch ended = new CountDownLatch(1);

    Stream(Message request, Message events, StreamObserver<Message> client) {
      this.request = request;
      this.events = events;
      this.client = (ServerCallStreamObserver<Message>) client;
      this.client.setOnCancelHandler(ended::countDown);
    }

    void tell(String event) {
      client.onNext(said.message(events.newBuilderForType(), Said.json(event)));
    }

    void fail(String status) {
      client.onError(Said.error(Said.json(status)));
    }

    void complete() {
      client.onCompleted();
    }

    /** Waits until the client has ended the stream. */
    void awaitEnd() {
      Bench.await(ended);
    }

    boolean isOpen() {
      return ended.getCount() > 0;
    }
  }

  /** Of all tests: it must outlive the last answer. */
  private static final EventLoopGroup LOOPS =
      new MultiThreadIoEventLoopGroup(
          2, ClientContext.daemons("fake-sidecar"), NioIoHandler.newFactory());

  private final Said said = new Said("ours");
  private final Map<String, Function<Message, String>> answers = new ConcurrentHashMap<>();
  private final Map<String, BlockingQueue<Stream>> streams = new ConcurrentHashMap<>();
  private final List<String> asked = new CopyOnWriteArrayList<>();
  private final AtomicInteger connections = new AtomicInteger();
  private final Path folder;
  private final int callsPerConnection;
  private Server server;

  /** {@code callsPerConnection} is how many calls it takes at once on one connection. */
  FakeSidecar(int callsPerConnection) throws IOException {
    this(callsPerConnection, Files.createTempDirectory("leasehold"));
  }

  private FakeSidecar(int callsPerConnection, Path folder) throws IOException {
    this.callsPerConnection = callsPerConnection;
    this.folder = folder;
    on("release", "outcome: RELEASED");
    on("complete_run", "result: RECORDED");
    on("acquire_lease", GRANTED);
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
                  (request, client) -> answer(request, answer.newBuilderForType(), client))
              : ServerCalls.asyncServerStreamingCall(
                  (request, client) ->
                      calls(Said.name(request)).add(new Stream(request, answer, client))));
    }
    return service.build();
  }

  private void answer(Message request, Message.Builder answer, StreamObserver<Message> client) {
    if (request.getDescriptorForType().findFieldByName("generation") != null) {
      asked.add(said.sent(request));
    }
    String words = answers.getOrDefault(Said.name(request), any -> "").apply(request);
    if (words.startsWith("code:")) {
      client.onError(Said.error(Said.json(words)));
    } else {
      client.onNext(said.message(answer, Said.json(words)));
      client.onCompleted();
    }
  }

  /** Answers all unary calls of this name from now on, or refuses them with a {@code code}. */
  void on(String name, Function<Message, String> answer) {
    answers.put(name, answer);
  }

  void on(String name, String answer) {
    on(name, request -> answer);
  }

  private BlockingQueue<Stream> calls(String name) {
    return streams.computeIfAbsent(name, none -> new LinkedBlockingQueue<>());
  }

  /** The next streaming call of this name. */
  Stream next(String name) throws InterruptedException {
    Stream call = calls(name).poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no call comes");
    }
    return call;
  }

  /** The next HoldLease call. */
  Stream hold() throws InterruptedException {
    return next("hold");
  }

  /** The next SubscribeSchedule call. */
  Stream subscription() throws InterruptedException {
    return next("subscribe");
  }

  /** Whether there is a streaming call that the test has not seen. */
  boolean hasUnseenCalls() {
    return streams.values().stream().anyMatch(calls -> !calls.isEmpty());
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
