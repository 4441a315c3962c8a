package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.PATIENCE_SECONDS;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;

/** A fake sidecar, a clock that stands still, and a client of theirs. */
final class Bench implements AutoCloseable {
  final FakeSidecar sidecar;
  final ManualClock clock = new ManualClock();
  final LeaseholdClient client;
  private final BlockingQueue<HoldEvent> events = new LinkedBlockingQueue<>();

  Bench() {
    this(builder -> builder);
  }

  /** With room for a call more than the client has streams on one connection. */
  Bench(int streamsPerConnection) {
    this(streamsPerConnection + 1, builder -> builder.streamsPerConnection(streamsPerConnection));
  }

  /** With a client that has these options. */
  Bench(UnaryOperator<ClientBuilder> options) {
    this(256, options);
  }

  private Bench(int callsPerConnection, UnaryOperator<ClientBuilder> options) {
    try {
      sidecar = new FakeSidecar(callsPerConnection);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    client = options.apply(LeaseholdClient.builder(sidecar.endpoint()).clock(clock)).connect();
  }

  /** One whose streams have gone silent after a moment. */
  static Bench impatient() {
    return new Bench(builder -> builder.silence(Duration.ofSeconds(1)));
  }

  /** One whose releases are waited for only a moment. */
  static Bench hasty() {
    return new Bench(builder -> builder.releaseTimeout(Duration.ofMillis(200)));
  }

  /** A hold and the call that granted it. */
  record Held(Hold hold, FakeCall call) {}

  CompletableFuture<Hold> ask() {
    return client.holdAsync(LeaseSpec.of("f", "s"), events::add);
  }

  Held held(String granted) throws Exception {
    CompletableFuture<Hold> asked = ask();
    FakeCall call = sidecar.hold();
    call.tell(granted);
    Hold hold = soon(asked);
    next(HoldEvent.Granted.class);
    return new Held(hold, call);
  }

  Held held() throws Exception {
    return held(FakeSidecar.GRANTED);
  }

  /** The next event, which must be of that kind. */
  <T extends HoldEvent> T next(Class<T> kind) throws InterruptedException {
    HoldEvent event = events.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (!kind.isInstance(event)) {
      throw new AssertionError("expected " + kind.getSimpleName() + ", got " + event);
    }
    return kind.cast(event);
  }

  static <T> T soon(Future<T> future) throws Exception {
    return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
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

  @Override
  public void close() {
    client.close();
    try {
      sidecar.close();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
