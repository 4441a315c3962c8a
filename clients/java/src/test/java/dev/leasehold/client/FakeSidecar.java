package dev.leasehold.client;

import com.google.protobuf.Message;
import dev.leasehold.client.internal.connect.ClientContext;
import io.grpc.Attributes;
import io.grpc.Server;
import io.grpc.ServerTransportFilter;
import io.grpc.netty.NettyServerBuilder;
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

  /** Of all tests: it must outlive the last answer. */
  private static final EventLoopGroup LOOPS =
      new MultiThreadIoEventLoopGroup(
          2, ClientContext.daemons("fake-sidecar"), NioIoHandler.newFactory());

  private final Said said = new Said("ours");
  private final Map<String, Function<Message, String>> answers = new ConcurrentHashMap<>();
  private final Map<String, BlockingQueue<FakeCall>> streams = new ConcurrentHashMap<>();
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
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(UnixDomainSocketAddress.of(socket()))
            .channelType(NioServerDomainSocketChannel.class)
            .bossEventLoopGroup(LOOPS)
            .workerEventLoopGroup(LOOPS)
            // Unknown to such sockets, which netty warns of.
            .withChildOption(ChannelOption.SO_KEEPALIVE, null)
            .maxConcurrentCallsPerConnection(callsPerConnection)
            .addTransportFilter(new Counter());
    server = FakeCall.serve(builder, said, this::take);
  }

  private void take(FakeCall call) {
    if (call.isStream) {
      calls(call.name).add(call);
      return;
    }
    if (call.request.getDescriptorForType().findFieldByName("generation") != null) {
      asked.add(call.sent());
    }
    String words = answers.getOrDefault(call.name, any -> "").apply(call.request);
    call.answer(Said.json(words));
  }

  /** Answers all unary calls of this name from now on, or refuses them with a {@code code}. */
  void on(String name, Function<Message, String> answer) {
    answers.put(name, answer);
  }

  void on(String name, String answer) {
    on(name, request -> answer);
  }

  private BlockingQueue<FakeCall> calls(String name) {
    return streams.computeIfAbsent(name, none -> new LinkedBlockingQueue<>());
  }

  /** The next streaming call of this name. */
  FakeCall next(String name) throws InterruptedException {
    FakeCall call = calls(name).poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no call comes");
    }
    return call;
  }

  /** The next HoldLease call. */
  FakeCall hold() throws InterruptedException {
    return next("hold");
  }

  /** The next SubscribeSchedule call. */
  FakeCall subscription() throws InterruptedException {
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
