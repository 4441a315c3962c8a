package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.v1.Listed;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockState;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Many locks, followed over breaks of the connection. */
@Timeout(60)
class LocksWatchTest {
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private static LockRecord record(String path, LockState state) {
    return LockRecord.newBuilder().setLockPath(path).setState(state).build();
  }

  private static final LockRecord A_HELD = record("a", LockState.LOCK_STATE_HELD);
  private static final LockRecord A_AVAILABLE = record("a", LockState.LOCK_STATE_AVAILABLE);
  private static final LockRecord B_HELD = record("b", LockState.LOCK_STATE_HELD);
  private static final LockRecord C_HELD = record("c", LockState.LOCK_STATE_HELD);

  private static WatchLocksResponse changed(LockRecord record) {
    return WatchLocksResponse.newBuilder().setChanged(record).build();
  }

  private static WatchLocksResponse gone(String path) {
    return WatchLocksResponse.newBuilder().setGone(path).build();
  }

  private static WatchLocksResponse listed(int locks) {
    return WatchLocksResponse.newBuilder().setListed(Listed.newBuilder().setLocks(locks)).build();
  }

  private static void send(StreamObserver<WatchLocksResponse> call, WatchLocksResponse... events) {
    List.of(events).forEach(call::onNext);
  }

  private static List<LocksEvent> next(LocksWatch watch, int count) throws InterruptedException {
    List<LocksEvent> events = new ArrayList<>();
    for (int told = 0; told < count; told++) {
      events.add(watch.next().orElseThrow());
    }
    return events;
  }

  @Test
  void eachDifferenceIsToldOnce() throws Exception {
    WatchLocksRequest request = WatchLocksRequest.newBuilder().setPrefix("locks/p").build();
    try (LocksWatch watch = bench.client.watchLocks(request)) {
      StreamObserver<WatchLocksResponse> call = bench.sidecar.locksWatch();
      send(call, changed(A_HELD), changed(B_HELD), listed(2));
      send(call, changed(A_HELD), WatchLocksResponse.getDefaultInstance(), gone("x"));
      send(call, changed(A_AVAILABLE), gone("b"), listed(1));
      assertEquals(
          List.of(
              new LocksEvent.Changed(A_HELD),
              new LocksEvent.Changed(B_HELD),
              new LocksEvent.Listed(2),
              new LocksEvent.Changed(A_AVAILABLE),
              new LocksEvent.Gone("b"),
              new LocksEvent.Listed(1)),
          next(watch, 6));
      call.onCompleted();
      assertEquals(Optional.empty(), watch.next());
      assertEquals(Optional.empty(), watch.next(), "the end stays the end");
    }
  }

  @Test
  void afterABreakOnlyWhatIsDifferentIsToldAndWhatVanishedIsGone() throws Exception {
    try (LocksWatch watch = bench.client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      StreamObserver<WatchLocksResponse> first = bench.sidecar.locksWatch();
      send(first, changed(A_HELD), changed(B_HELD), changed(C_HELD), listed(3));
      next(watch, 4);
      first.onError(Messages.unavailable());
      // One that breaks before it has listed says nothing of those that it did not bring.
      StreamObserver<WatchLocksResponse> second = bench.sidecar.locksWatch();
      send(second, changed(A_AVAILABLE));
      second.onError(Messages.unavailable());
      StreamObserver<WatchLocksResponse> third = bench.sidecar.locksWatch();
      send(third, changed(A_AVAILABLE), changed(C_HELD), listed(2), listed(2));
      assertEquals(
          List.of(
              new LocksEvent.Changed(A_AVAILABLE),
              new LocksEvent.Gone("b"),
              new LocksEvent.Listed(2),
              new LocksEvent.Listed(2)),
          next(watch, 4));
    }
  }

  @Test
  void aRefusalEndsIt() throws Exception {
    try (LocksWatch watch = bench.client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      Status.Code code = Status.Code.PERMISSION_DENIED;
      bench.sidecar.locksWatch().onError(Messages.error(code, "no", "ACCESS_DENIED", Map.of()));
      RefusedException refusal = assertThrows(RefusedException.class, watch::next);
      assertEquals(Reason.ACCESS_DENIED, refusal.reason().orElseThrow());
    }
  }
}
