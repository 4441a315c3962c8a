package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.GetServerInfoResponse;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockState;
import dev.leasehold.v1.WatchLockResponse;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class LeaseholdClientTest {
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private static LockRecord record(String path) {
    return LockRecord.newBuilder().setLockPath(path).build();
  }

  @Test
  void allPagesAreListed() throws Exception {
    ListLocksResponse first =
        ListLocksResponse.newBuilder().addRecords(record("a")).setNextPageToken("2").build();
    ListLocksResponse empty = ListLocksResponse.newBuilder().setNextPageToken("3").build();
    ListLocksResponse last = ListLocksResponse.newBuilder().addRecords(record("b")).build();
    bench.sidecar.list =
        request ->
            switch (request.getPageToken()) {
              case "" -> first;
              case "2" -> empty;
              case "3" -> last;
              default -> throw new AssertionError(request);
            };
    List<String> paths = bench.client.listLocks().stream().map(LockRecord::getLockPath).toList();
    assertEquals(List.of("a", "b"), paths);
  }

  @Test
  void aFilterIsSentWithEachPage() throws Exception {
    ListLocksRequest filter =
        ListLocksRequest.newBuilder()
            .addStates(LockState.LOCK_STATE_BREAKING)
            .putLabels("team", "red")
            .build();
    List<ListLocksRequest> sent = new CopyOnWriteArrayList<>();
    bench.sidecar.list =
        request -> {
          sent.add(request);
          String next = request.getPageToken().isEmpty() ? "2" : "";
          return ListLocksResponse.newBuilder().setNextPageToken(next).build();
        };
    bench.client.listLocks(filter);
    assertEquals(List.of(filter, filter.toBuilder().setPageToken("2").build()), sent);
  }

  @Test
  void theSidecarTellsWhatItIs() throws Exception {
    GetServerInfoResponse info = bench.client.getServerInfo();
    assertEquals("0.2.0", info.getVersion());
    assertEquals(List.of("permits"), info.getFeaturesList());
  }

  @Test
  void aHoldIsAskedAboutByItsLeaseId() throws Exception {
    bench.sidecar.holdInfo =
        request -> Messages.info(Messages.validity(ManualClock.OURS, 1_058, 58));
    assertEquals(58, bench.client.getHold("lease-1").getValidity().getValidFor().getSeconds());
    assertEquals(List.of("get hold of generation 0"), bench.sidecar.asked());
  }

  @Test
  void anAcquireGivesAGrantThatHidesItsSecret() throws Exception {
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
    Grant grant = bench.client.acquire(LeaseSpec.of("f"));
    assertEquals(65_536, grant.fencingToken());
    assertEquals("lease-1", grant.leaseId());
    assertEquals(ManualClock.at(1_058), grant.validUntil());
    assertFalse(grant.toString().contains("lease-1"), "S20");
  }

  @Test
  void anAcquireThatFindsTheLockBusySaysSo() {
    bench.sidecar.acquire =
        request -> AcquireLeaseResponse.newBuilder().setBusy(Busy.getDefaultInstance()).build();
    assertThrows(BusyException.class, () -> bench.client.acquire(LeaseSpec.of("f")));
  }

  @Test
  void anOutcomeThatIsNewerThanTheClientIsNoGrant() {
    bench.sidecar.acquire = request -> AcquireLeaseResponse.getDefaultInstance();
    assertThrows(ProtocolException.class, () -> bench.client.acquire(LeaseSpec.of("f")));
  }

  @Test
  void aWatchTellsEachRecordAndItsEnd() throws Exception {
    bench.sidecar.records =
        List.of(LockState.LOCK_STATE_HELD, LockState.LOCK_STATE_AVAILABLE).stream()
            .map(state -> LockRecord.newBuilder().setState(state))
            .map(record -> WatchLockResponse.newBuilder().setRecord(record).build())
            .toList();
    try (LockWatch watch = bench.client.watchLock(Locks.at("locks/p"))) {
      assertEquals(LockState.LOCK_STATE_HELD, watch.next().orElseThrow().getState());
      assertEquals(LockState.LOCK_STATE_AVAILABLE, watch.next().orElseThrow().getState());
      assertEquals(Optional.empty(), watch.next());
      assertEquals(Optional.empty(), watch.next(), "the end stays the end");
    }
  }
}
