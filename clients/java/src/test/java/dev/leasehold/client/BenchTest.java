package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.client.FakeSidecar.HoldCall;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;

/** Tests of a client whose sidecar is a fake. */
@Timeout(60)
abstract class BenchTest {
  final Bench bench = new Bench();
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

  final CompletableFuture<Hold> ask(LeaseSpec spec) {
    return bench.client.holdAsync(spec, event -> {});
  }

  /** Grants the next hold that is asked for. */
  final HoldCall grant() throws InterruptedException {
    HoldCall call = bench.sidecar.hold();
    call.tell(Messages.granted(Messages.grantHere()));
    return call;
  }
}
