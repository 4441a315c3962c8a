package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.client.internal.connect.ClientContext;
import io.grpc.netty.NettyServerBuilder;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerDomainSocketChannel;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** A fake sidecar, a clock that stands still, and a client of theirs. */
@Timeout(60)
class Bench implements AutoCloseable {
  static final LeaseSpec SPEC = LeaseSpec.of("f");

  /** How long a test waits for what must come. */
  private static final long PATIENCE_SECONDS = 60;

  /** Of all tests: it must outlive the last answer. */
  private static final EventLoopGroup LOOPS =
      new MultiThreadIoEventLoopGroup(
          2, ClientContext.daemons("fake-sidecar"), NioIoHandler.newFactory());

  final FakeSidecar sidecar = new FakeSidecar("ours", call -> {});
  final ManualClock clock = new ManualClock(() -> 0);
  final LeaseholdClient client;
  final ExecutorService threads = Executors.newCachedThreadPool();
  private final BlockingQueue<HoldEvent> events = new LinkedBlockingQueue<>();
  private final int callsPerConnection;
  private final Path socket;

  Bench() {
    this(256, builder -> builder);
  }

  /** With a sidecar that takes so many calls at once on one connection, and a client's options. */
  Bench(int callsPerConnection, UnaryOperator<ClientBuilder> options) {
    this.callsPerConnection = callsPerConnection;
    sidecar.on("any", "");
    sidecar.on("release", "outcome: RELEASED");
    sidecar.on("complete_run", "result: RECORDED");
    sidecar.on("acquire_lease", FakeSidecar.GRANTED);
    try {
      socket = Files.createTempDirectory("leasehold").resolve("sidecar.sock");
      serve();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    client = options.apply(LeaseholdClient.builder("unix://" + socket).clock(clock)).connect();
  }

  /** Starts the sidecar, the first time or again. */
  final void serve() throws IOException {
    Files.deleteIfExists(socket);
    sidecar.serve(
        NettyServerBuilder.forAddress(UnixDomainSocketAddress.of(socket))
            .channelType(NioServerDomainSocketChannel.class)
            .bossEventLoopGroup(LOOPS)
            .workerEventLoopGroup(LOOPS)
            // Unknown to such sockets, which netty warns of.
            .withChildOption(ChannelOption.SO_KEEPALIVE, null)
            .maxConcurrentCallsPerConnection(callsPerConnection));
  }

  /** One whose releases are waited for only a moment. */
  static Bench hasty() {
    return new Bench(256, builder -> builder.releaseTimeout(Duration.ofMillis(200)));
  }

  @AfterEach
  @Override
  public final void close() throws IOException {
    threads.shutdownNow();
    client.close();
    sidecar.kill();
    Files.deleteIfExists(socket);
    Files.deleteIfExists(socket.getParent());
  }

  /** A hold and the call that granted it. */
  record Held(Hold hold, FakeCall call) {}

  final CompletableFuture<Hold> ask(LeaseSpec spec) {
    return client.holdAsync(spec, events::add);
  }

  final Held held(String granted) throws Exception {
    CompletableFuture<Hold> asked = ask(SPEC);
    FakeCall call = sidecar.next("hold");
    call.tell(granted);
    Hold hold = soon(asked);
    next(HoldEvent.Granted.class);
    return new Held(hold, call);
  }

  final Held held() throws Exception {
    return held(FakeSidecar.GRANTED);
  }

  /** Grants the next hold that is asked for. */
  final FakeCall grant() throws InterruptedException {
    FakeCall call = sidecar.next("hold");
    call.tell(FakeSidecar.GRANTED);
    return call;
  }

  /** Lets the validity end of all that was granted. */
  final void expire() {
    clock.move(Duration.ofSeconds(58));
  }

  /** The next event, which must be of that kind. */
  final <T extends HoldEvent> T next(Class<T> kind) throws InterruptedException {
    return assertInstanceOf(kind, events.poll(PATIENCE_SECONDS, TimeUnit.SECONDS));
  }

  static <T> T soon(Future<T> future) throws Exception {
    return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  static <E> E failure(Class<E> kind, Future<?> future) {
    Throwable failure = assertThrows(ExecutionException.class, () -> soon(future)).getCause();
    return assertInstanceOf(kind, failure);
  }

  static void assertRefused(Reason reason, Executable call) {
    assertEquals(Optional.of(reason), assertThrows(RefusedException.class, call).reason());
  }

  final void assertAsked(String... calls) {
    assertEquals(List.of(calls), sidecar.asked());
  }

  static void await(CountDownLatch latch) {
    try {
      if (!latch.await(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        throw new AssertionError("it does not happen");
      }
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  /** Waits until the condition holds. */
  static void eventually(String what, BooleanSupplier condition) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError("never: " + what);
      }
      Thread.sleep(5);
    }
  }
}
