package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** Tests of a client whose sidecar is a fake. */
@Timeout(60)
abstract class BenchTest {
  static final LeaseSpec SPEC = LeaseSpec.of("f");

  final Bench bench = new Bench();
  final FakeSidecar sidecar = bench.sidecar;
  final LeaseholdClient client = bench.client;
  final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  final void closeBench() {
    threads.shutdownNow();
    bench.close();
  }

  static <T> T soon(Future<T> future) throws Exception {
    return Bench.soon(future);
  }

  static Throwable failure(Future<?> future) {
    return assertThrows(ExecutionException.class, () -> soon(future)).getCause();
  }

  static <E> E failure(Class<E> kind, Future<?> future) {
    return assertInstanceOf(kind, failure(future));
  }

  static void assertRefused(Reason reason, Executable call) {
    assertEquals(Optional.of(reason), assertThrows(RefusedException.class, call).reason());
  }

  final void assertAsked(String... calls) {
    assertEquals(List.of(calls), sidecar.asked());
  }

  final CompletableFuture<Hold> ask(LeaseSpec spec) {
    return client.holdAsync(spec, event -> {});
  }

  /** Grants the next hold that is asked for. */
  final FakeCall grant() throws InterruptedException {
    FakeCall call = sidecar.hold();
    call.tell(FakeSidecar.GRANTED);
    return call;
  }
}
