package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.GRANTED;
import static dev.leasehold.client.FakeSidecar.TAKEN;
import static dev.leasehold.client.FakeSidecar.TOO_OLD;
import static dev.leasehold.client.ManualClock.at;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.SaveCheckpointRequest;
import io.grpc.Context;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What Java's users have of a hold; what becomes of it, the vectors say. */
class HoldTest extends BenchTest {
  private static final String RICH =
      "granted: {until: 58000, for: 58000, permit: 2, max_hold: {at: 600000, after: 600000},"
          + " checkpoint: {value: 'row 7', version: 12, fencing_token: 65535, saved_at: 1700}}";

  @Test
  void s25AGrantIsTold() throws Exception {
    Hold hold = bench.held(RICH).hold();
    sidecar.on("acquire_lease", RICH);
    Grant grant = client.acquire(SPEC);
    for (Checkpoint checkpoint :
        new Checkpoint[] {hold.checkpoint().orElseThrow(), grant.checkpoint().orElseThrow()}) {
      assertEquals("row 7", checkpoint.text());
      assertEquals(12, checkpoint.version());
      assertEquals(65_535, checkpoint.fencingToken());
      assertEquals(Optional.of(Instant.ofEpochSecond(1_700)), checkpoint.savedAt());
    }
    assertEquals(2, hold.permit());
    assertEquals(2, grant.permit());
    assertEquals(Optional.of(at(1_600)), hold.maxHoldEnds());
    assertEquals(Optional.of(at(1_600)), grant.maxHoldEnds());
    assertEquals(65_536, hold.fencingToken());
    assertEquals(65_536, grant.fencingToken());
    assertEquals("lease-1", hold.leaseId());
    assertEquals("lease-1", grant.leaseId());
    assertEquals("locks/p/h/f/s/FUNCTION", hold.lockPath());
    assertEquals(at(1_058), hold.validUntil());
    assertEquals(at(1_058), grant.validUntil());
    assertEquals(Duration.ofSeconds(58), hold.remaining());
    assertFalse((hold + "" + grant).contains("lease-1"), "S20");
    Hold plain = bench.held().hold();
    assertEquals(Optional.empty(), plain.maxHoldEnds());
    assertEquals(Optional.empty(), plain.checkpoint());
    assertEquals(0, plain.permit());
    sidecar.on("get_hold", "until: 59000, for: 58000, permit: 2");
    assertEquals(dev.leasehold.v1.HoldState.HOLD_STATE_HELD, plain.info().getState());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, -1})
  void detailsOfEventsAreTold(int priority) throws Exception {
    Held held = bench.held();
    String note =
        "by: {reason: deploy, broken_by: ann"
            + (priority < 0 ? "" : ", for_priority: " + priority)
            + "}";
    held.call().tell("at_risk: {until: 58000, for: 58000, detail: 'no route'}");
    held.call().tell("revoked: {until: 58000, for: 58000, " + note + "}");
    held.call().tell("lost: {reason: BROKEN, " + note + "}");
    assertEquals("no route", bench.next(HoldEvent.AtRisk.class).detail());
    OptionalInt told = priority < 0 ? OptionalInt.empty() : OptionalInt.of(priority);
    Notice notice = new Notice(at(1_058), "deploy", "ann", told);
    assertEquals(notice, bench.next(HoldEvent.Revoked.class).notice());
    assertEquals(notice, soon(held.hold().revoked()));
    assertEquals(Optional.of(notice), held.hold().notice());
    Loss loss = bench.next(HoldEvent.Lost.class).loss();
    assertEquals("deploy", loss.breakNote().orElseThrow().getReason());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 9_999})
  void s33ABusyLockTellsThePriorityStatusThatItKnows(int unknown) throws Exception {
    CompletableFuture<Hold> asked = ask(SPEC);
    sidecar.hold().tell("busy: {held_permits: 3, priority_status: " + unknown + "}");
    BusyException told = failure(BusyException.class, asked);
    assertEquals(Optional.empty(), told.priorityStatus());
    assertFalse(told.getMessage().contains("priority"), told.getMessage());
    assertEquals(3, told.heldPermits());
  }

  @Test
  void s13AClosedClientEndsTheHoldAndWhoWaits() throws Exception {
    Held held = bench.held();
    CompletableFuture<Hold> asked = ask(SPEC);
    sidecar.hold();
    CompletableFuture<Hold> endless = ask(SPEC.waitWithoutEnd());
    FakeCall between = sidecar.hold();
    between.tell("busy: {retry_after: 3600000}");
    between.awaitEnd();
    client.close();
    assertFalse(held.hold().isValid());
    held.call().awaitEnd();
    LostException lost = assertThrows(LostException.class, held.hold()::close);
    assertEquals("the client was closed", lost.loss().detail());
    failure(RefusedException.class, asked);
    failure(RefusedException.class, endless);
  }

  @ParameterizedTest
  @ValueSource(strings = {"release", "complete_run"})
  void s13AClientIsClosedWhenWhatIsUnderWayWasAnswered(String call) throws Exception {
    CountDownLatch gate = new CountDownLatch(1);
    sidecar.on(
        call,
        request -> {
          Bench.await(gate);
          return call.equals("release") ? "outcome: RELEASED" : "result: RECORDED";
        });
    Future<?> ending;
    if (call.equals("release")) {
      ending = bench.held().hold().releaseAsync();
    } else {
      Runs runs = client.runs(ScheduleSpec.of("f").cron("@daily"));
      ending = threads.submit(() -> runs.next().complete(Completion.succeeded()));
      sidecar.subscription().tell(FakeSidecar.RUN);
    }
    Bench.eventually("it is under way", () -> !sidecar.asked().isEmpty());
    Future<?> closing = threads.submit(client::close);
    assertThrows(TimeoutException.class, () -> closing.get(200, TimeUnit.MILLISECONDS));
    gate.countDown();
    soon(ending);
    soon(closing);
  }

  @Test
  void s13AClientIsClosedAfterAReleasesTimeAtTheLatest() throws Exception {
    try (Bench hasty = Bench.hasty()) {
      Held held = hasty.held();
      held.call().end(GONE);
      hasty.sidecar.hold();
      CompletableFuture<ReleaseResult> releasing = held.hold().releaseAsync();
      hasty.client.close();
      failure(ReleaseUnconfirmedException.class, releasing);
    }
    try (Bench hasty = Bench.hasty()) {
      CountDownLatch never = new CountDownLatch(1);
      hasty.sidecar.on(
          "release",
          request -> {
            Bench.await(never);
            return "";
          });
      String late =
          assertThrows(ReleaseUnconfirmedException.class, hasty.held().hold()::release)
              .getMessage();
      assertTrue(late.contains("within 200 ms"), late);
      never.countDown();
    }
  }

  @Test
  void s13AReleaseThatFindsTheLockLostSaysSoEachTime() throws Exception {
    sidecar.on("release", TAKEN + ", checkpoint_outcome: UNKNOWN");
    Hold hold = bench.held().hold();
    LostException lost = assertThrows(LostException.class, () -> hold.release("row 9"));
    assertEquals(LossReason.LOSS_REASON_TAKEN, lost.loss().reason());
    assertEquals(CheckpointOutcome.CHECKPOINT_OUTCOME_UNKNOWN, lost.checkpointOutcome());
    assertThrows(LostException.class, hold::close);
    failure(LostException.class, hold.releaseAsync());
  }

  @Test
  void s14AHoldOutlivesTheCallContextThatItWasMadeIn() throws Exception {
    Context.CancellableContext request = Context.current().withCancellation();
    Context before = request.attach();
    Held held;
    try {
      held = bench.held();
    } finally {
      request.detach(before);
    }
    request.cancel(null);
    bench.clock.advance(1);
    held.call().tell("renewed: {until: 59000, for: 58000}");
    bench.next(HoldEvent.Renewed.class);
    assertTrue(held.call().isOpen() && held.hold().isValid());
  }

  @Test
  void aListenerThatBlocksHoldsUpNothing() throws Exception {
    CompletableFuture<Void> never = new CompletableFuture<>();
    CompletableFuture<Hold> asked = client.holdAsync(SPEC, event -> never.join());
    FakeCall call = grant();
    Hold hold = soon(asked);
    bench.clock.advance(58);
    soon(hold.lost());
    call.awaitEnd();
    never.complete(null);
  }

  @Test
  void s26TheNewestSaveIsTheCheckpointFromThenOn() throws Exception {
    Hold hold = bench.held().hold();
    ByteString first = ByteString.copyFromUtf8("first");
    CompletableFuture<Void> newer = new CompletableFuture<>();
    sidecar.on(
        "save_checkpoint",
        request -> {
          if (((SaveCheckpointRequest) request).getValue().equals(first)) {
            newer.join();
          }
          return "version: 7, until: 60000, for: 60000";
        });
    CompletableFuture<Long> older = hold.saveAsync("first".getBytes(StandardCharsets.UTF_8));
    assertEquals(7, hold.save("second"));
    newer.complete(null);
    assertEquals(7, soon(older));
    assertEquals("second", hold.checkpoint().orElseThrow().text());
    assertEquals(7, hold.checkpoint().orElseThrow().version());
  }

  @Test
  void aValueThatIsTooLongIsNotSentAndReleasesNothing() throws Exception {
    byte[] tooLong = new byte[2_049];
    Hold hold = bench.held().hold();
    assertRefused(Reason.INVALID_FIELD, () -> hold.save(tooLong));
    assertRefused(Reason.INVALID_FIELD, () -> hold.release(tooLong));
    assertRefused(Reason.INVALID_FIELD, () -> Completion.succeeded().withCheckpoint(tooLong));
    assertTrue(hold.isValid());
    assertAsked();
  }

  @Test
  void s27ASaveOfUnknownOutcomeHasAnExceptionOfItsOwn() throws Exception {
    Hold hold = bench.held().hold();
    for (String unknown : new String[] {GONE + ", reason: CHECKPOINT_UNKNOWN", GONE}) {
      sidecar.on("save_checkpoint", unknown);
      assertThrows(CheckpointUnknownException.class, () -> hold.save("x"));
    }
    sidecar.on("save_checkpoint", GONE + ", reason: STORE_THROTTLED");
    assertRefused(Reason.STORE_THROTTLED, () -> hold.save("x"));
    assertTrue(hold.checkpoint().isEmpty());
    // S37: it was ignored.
    assertRefused(Reason.UNSUPPORTED, () -> hold.release("row 9"));
    int asked = sidecar.asked().size();
    assertRefused(Reason.HOLD_RELEASED, () -> hold.save("x"));
    assertEquals(asked, sidecar.asked().size(), "S13: nothing is sent after a release");
  }

  @Test
  void s16ASaveThatWaitsForAResumeEndsWithTheValidity() throws Exception {
    Held held = bench.held();
    held.call().end(GONE);
    sidecar.hold();
    CompletableFuture<Long> save = held.hold().saveAsync(new byte[1]);
    bench.clock.advance(58);
    failure(LostException.class, save);
    assertAsked();
  }

  @Test
  void t2AnOutcomeThatWasNotRecordedIsToldToTheCaller() throws Exception {
    dev.leasehold.v1.RunOutcome failed = dev.leasehold.v1.RunOutcome.RUN_OUTCOME_FAILED;
    LeaseSpec spec = SPEC.occurrence(Instant.ofEpochSecond(1_800)).occurrenceMaxAttempts(3);
    sidecar.on("acquire_lease", "granted: {until: 58000, for: 58000, attempt: 2}");
    assertEquals(2, client.acquire(spec).attempt());
    for (dev.leasehold.v1.OutcomeResult result : dev.leasehold.v1.OutcomeResult.values()) {
      String name = result.name().replace("OUTCOME_RESULT_", "");
      if (name.equals("UNRECOGNIZED")) {
        continue;
      }
      CompletableFuture<Hold> asked = ask(spec);
      FakeCall call = sidecar.hold();
      dev.leasehold.v1.LeaseSpec sent = ((HoldLeaseRequest) call.request).getSpec();
      assertEquals(1_800, sent.getOccurrenceAt().getSeconds());
      assertEquals(3, sent.getOccurrenceMaxAttempts());
      call.tell("granted: {until: 58000, for: 58000, attempt: 2}");
      Hold hold = soon(asked);
      assertEquals(2, hold.attempt());
      sidecar.on("release", "outcome: RELEASED, outcome_result: " + name);
      if (name.equals("RECORDED")) {
        hold.release(failed);
        client.release("lease-2", failed);
        assertTrue(sidecar.asked().contains("release 0 lease-2 FAILED"), "" + sidecar.asked());
      } else {
        // S37: the sidecar says what became of it, if it knows of occurrences.
        Class<? extends Exception> kind =
            name.equals("UNSPECIFIED") ? RefusedException.class : OutcomeNotRecordedException.class;
        assertThrows(kind, () -> hold.release(failed));
        assertThrows(kind, () -> client.release("lease-1", failed));
      }
    }
  }

  @Test
  void t2ThatAnOccurrenceIsOverIsAnAnswer() throws Exception {
    LeaseSpec spec = SPEC.occurrence(Instant.ofEpochSecond(1_800));
    String done = "already_done: {run: {scheduled_at: 1800, outcome: SUCCEEDED}}";
    String skipped = "skipped: {watermark: 1800}";
    CompletableFuture<Hold> asked = ask(spec);
    sidecar.hold().tell(done);
    OccurrenceOverException over = failure(OccurrenceOverException.class, asked);
    assertEquals(1_800, over.run().orElseThrow().getScheduledAt().getSeconds());
    asked = ask(spec.waitWithoutEnd());
    sidecar.hold().tell(skipped);
    over = failure(OccurrenceOverException.class, asked);
    assertEquals(Optional.of(Instant.ofEpochSecond(1_800)), over.watermark());
    assertTrue(over.run().isEmpty());
    asked = ask(SPEC);
    sidecar.hold().tell(done);
    failure(ProtocolException.class, asked);

    sidecar.on("acquire_lease", done);
    assertThrows(OccurrenceOverException.class, () -> client.acquire(spec));
    assertThrows(ProtocolException.class, () -> client.acquire(SPEC));
    sidecar.on("acquire_lease", skipped);
    assertThrows(OccurrenceOverException.class, () -> client.acquire(spec));
  }

  private static final LeaseSpec ENDLESS = SPEC.waitWithoutEnd();

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    FakeCall call = sidecar.hold();
    dev.leasehold.v1.LeaseSpec spec = ((HoldLeaseRequest) call.request).getSpec();
    assertTrue(spec.getWaitWithoutEnd() && !spec.hasWait());
    call.tell("busy: {retry_after: 1}");
    grant();
    assertTrue(soon(asked).isValid());
  }

  @Test
  void s37ARequestNeedsTheRevisionOfItsNewestField() {
    Map<String, Integer> newer =
        Map.of("leasehold.v1.LeaseSpec.permits", 2, "leasehold.v1.LockKey.scope", 3);
    assertEquals(1, Needs.of(SPEC.priority(7).toMessage(), newer));
    HoldLeaseRequest.Builder request = HoldLeaseRequest.newBuilder();
    request.setSpec(SPEC.permits(3).toMessage());
    assertEquals(2, Needs.of(request.build(), newer));
    request.getSpecBuilder().getKeyBuilder().setScope("s");
    assertEquals(3, Needs.of(request.build(), newer));
  }

  @Test
  void s37AUnaryCallTriesOnWhereItIsWhileItsWaitLasts() throws Exception {
    AtomicInteger tries = new AtomicInteger();
    sidecar.on(
        "acquire_lease",
        request -> {
          assertEquals(1, ((AcquireLeaseRequest) request).getNeeds());
          return tries.incrementAndGet() <= 3 ? TOO_OLD : GRANTED;
        });
    assertRefused(Reason.UNSUPPORTED, () -> client.acquire(SPEC));
    client.acquire(SPEC.waitUpTo(Duration.ofMinutes(1)));
    assertEquals(4, tries.get());
    client.release("lease-1");
    assertEquals(1, sidecar.connections());
  }

  @Test
  void aUnaryCallWaitsForADayInsteadOfWithoutEnd() throws Exception {
    CompletableFuture<dev.leasehold.v1.LeaseSpec> sent = new CompletableFuture<>();
    sidecar.on(
        "acquire_lease",
        request -> {
          sent.complete(((AcquireLeaseRequest) request).getSpec());
          return "";
        });
    // An outcome that is newer than the client is no grant.
    assertThrows(ProtocolException.class, () -> client.acquire(ENDLESS));
    assertEquals(Duration.ofHours(24), Durations.fromWire(soon(sent).getWait()));
    assertFalse(soon(sent).getWaitWithoutEnd());
  }
}
