package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.client.FakeSidecar.StreamCall;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.Listed;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockState;
import dev.leasehold.v1.WatchLockResponse;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** Locks as they are listed and followed, over breaks of the connection. */
class WatchTest extends BenchTest {
  private static final LockRecord A_HELD = record("a", LockState.LOCK_STATE_HELD);
  private static final LockRecord A_AVAILABLE = record("a", LockState.LOCK_STATE_AVAILABLE);
  private static final LockRecord B_HELD = record("b", LockState.LOCK_STATE_HELD);
  private static final LockRecord C_HELD = record("c", LockState.LOCK_STATE_HELD);

  private static LockRecord record(String path, LockState state) {
    return LockRecord.newBuilder().setLockPath(path).setState(state).build();
  }

  private static WatchLockResponse watched(LockRecord record) {
    return WatchLockResponse.newBuilder().setRecord(record).build();
  }

  private static WatchLocksResponse changed(LockRecord record) {
    return WatchLocksResponse.newBuilder().setChanged(record).build();
  }

  private static WatchLocksResponse gone(String path) {
    return WatchLocksResponse.newBuilder().setGone(path).build();
  }

  private static WatchLocksResponse listed(int locks) {
    return WatchLocksResponse.newBuilder().setListed(Listed.newBuilder().setLocks(locks)).build();
  }

  private static void send(
      StreamCall<WatchLocksRequest, WatchLocksResponse> call, WatchLocksResponse... events) {
    List.of(events).forEach(call::tell);
  }

  private static List<LocksEvent> next(LocksWatch watch, int count) throws InterruptedException {
    List<LocksEvent> events = new ArrayList<>();
    for (int told = 0; told < count; told++) {
      events.add(watch.next().orElseThrow());
    }
    return events;
  }

  @Test
  void allPagesAreListedWithTheFilter() throws Exception {
    ListLocksRequest filter = ListLocksRequest.newBuilder().putLabels("team", "red").build();
    List<ListLocksRequest> sent = new CopyOnWriteArrayList<>();
    bench.sidecar.list =
        request -> {
          sent.add(request);
          ListLocksResponse.Builder page = ListLocksResponse.newBuilder();
          return switch (request.getPageToken()) {
            case "" -> page.addRecords(A_HELD).setNextPageToken("2").build();
            case "2" -> page.setNextPageToken("3").build();
            default -> page.addRecords(B_HELD).build();
          };
        };
    assertEquals(List.of(A_HELD, B_HELD), bench.client.listLocks(filter));
    assertEquals(filter.toBuilder().setPageToken("3").build(), sent.get(2));
  }

  @Test
  void eachDifferenceIsToldOnce() throws Exception {
    try (LocksWatch watch = bench.client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      StreamCall<WatchLocksRequest, WatchLocksResponse> call = bench.sidecar.locksWatch();
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
      call.complete();
      assertEquals(Optional.empty(), watch.next());
      assertEquals(Optional.empty(), watch.next(), "the end stays the end");
    }
  }

  @Test
  void afterABreakOnlyWhatIsDifferentIsToldAndWhatVanishedIsGone() throws Exception {
    try (LocksWatch watch = bench.client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      StreamCall<WatchLocksRequest, WatchLocksResponse> first = bench.sidecar.locksWatch();
      send(first, changed(A_HELD), changed(B_HELD), changed(C_HELD), listed(3));
      next(watch, 4);
      first.fail(Messages.unavailable());
      // One that breaks before it has listed says nothing of those that it did not bring.
      StreamCall<WatchLocksRequest, WatchLocksResponse> second = bench.sidecar.locksWatch();
      send(second, changed(A_AVAILABLE));
      second.fail(Messages.unavailable());
      StreamCall<WatchLocksRequest, WatchLocksResponse> third = bench.sidecar.locksWatch();
      send(third, changed(A_AVAILABLE), changed(C_HELD), listed(2));
      assertEquals(
          List.of(
              new LocksEvent.Changed(A_AVAILABLE),
              new LocksEvent.Gone("b"),
              new LocksEvent.Listed(2)),
          next(watch, 3));
      Status.Code code = Status.Code.UNAVAILABLE;
      third.fail(Messages.error(code, "no store", "STORE_UNAVAILABLE", Map.of()));
      assertThrows(RefusedException.class, watch::next, "not opened for an error of the store");
    }
  }

  @Test
  void aWatchThatHearsNothingIsOpenedAgainAndTellsNothingTwice() throws Exception {
    try (Bench impatient = Bench.impatient()) {
      impatient.sidecar.records = List.of(watched(A_HELD), watched(A_HELD));
      try (LockWatch watch = impatient.client.watchLock(Locks.at("locks/p"))) {
        assertEquals(A_HELD, watch.next().orElseThrow());
        impatient.sidecar.records = List.of(watched(A_HELD), watched(A_AVAILABLE));
        assertEquals(A_AVAILABLE, watch.next().orElseThrow());
      }
    }
  }

  @Test
  void aClosedWatchEndsAndStaysClosed() {
    LockWatch watch = bench.client.watchLock(Locks.at("locks/p"));
    watch.close();
    RefusedException closed = assertThrows(RefusedException.class, watch::next);
    assertEquals(Status.Code.CANCELLED, closed.code());
    assertThrows(RefusedException.class, watch::next);
  }
}
