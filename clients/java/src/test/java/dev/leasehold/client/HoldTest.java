package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.GRANTED;
import static dev.leasehold.client.FakeSidecar.TAKEN;
import static dev.leasehold.client.FakeSidecar.TOO_OLD;
import static dev.leasehold.client.ManualClock.at;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldState;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.SaveCheckpointRequest;
import io.grpc.Context;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What Java's users have of a hold; what becomes of it, the vectors say. */
class HoldTest extends Bench {
  private static final LeaseSpec ENDLESS = SPEC.waitWithoutEnd();
  private static final LeaseSpec NAMED = SPEC.occurrence(Instant.ofEpochSecond(1_800));

  @Test
  void s25AGrantIsTold() throws Exception {
    String rich =
        "granted: {until: 58000, for: 58000, permit: 2, max_hold: {at: 600000, after: 600000},"
            + " checkpoint: {value: 'row 7', version: 12, fencing_token: 65535, saved_at: 1700}}";
    Hold hold = held(rich).hold();
    sidecar.on("acquire_lease", rich);
    Grant grant = client.acquire(SPEC);
    for (Optional<Checkpoint> told : List.of(hold.checkpoint(), grant.checkpoint())) {
      Checkpoint checkpoint = told.orElseThrow();
      assertEquals("row 7", checkpoint.text());
      assertEquals(12, checkpoint.version());
      assertEquals(65_535, checkpoint.fencingToken());
      assertEquals(Optional.of(Instant.ofEpochSecond(1_700)), checkpoint.savedAt());
    }
    String path = "locks/p/h/f/s/FUNCTION";
    assertEquals(List.of("lease-1", path), List.of(hold.leaseId(), hold.lockPath()));
    assertEquals("lease-1", grant.leaseId());
    List<Object> told = List.of(65_536L, 2, at(1_058), Optional.of(at(1_600)));
    assertEquals(
        told, List.of(hold.fencingToken(), hold.permit(), hold.validUntil(), hold.maxHoldEnds()));
    assertEquals(
        told,
        List.of(grant.fencingToken(), grant.permit(), grant.validUntil(), grant.maxHoldEnds()));
    assertEquals(Duration.ofSeconds(58), hold.remaining());
    assertFalse((hold + "" + grant).contains("lease-1"), "S20");
    Hold plain = held().hold();
    assertEquals(
        List.of(Optional.empty(), Optional.empty(), 0),
        List.of(plain.maxHoldEnds(), plain.checkpoint(), plain.permit()));
    sidecar.on("get_hold", "until: 59000, for: 58000, permit: 2");
    assertEquals(HoldState.HOLD_STATE_HELD, plain.info().getState());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, -1})
  void detailsOfEventsAreTold(int priority) throws Exception {
    Held held = held();
    String of = priority < 0 ? "" : ", for_priority: " + priority;
    String note = "by: {reason: deploy, broken_by: ann" + of + "}";
    held.call().tell("at_risk: {until: 58000, for: 58000, detail: 'no route'}");
    held.call().tell("revoked: {until: 58000, for: 58000, " + note + "}");
    held.call().tell("lost: {reason: BROKEN, " + note + "}");
    assertEquals("no route", next(HoldEvent.AtRisk.class).detail());
    OptionalInt told = priority < 0 ? OptionalInt.empty() : OptionalInt.of(priority);
    Notice notice = new Notice(at(1_058), "deploy", "ann", told);
    assertEquals(notice, next(HoldEvent.Revoked.class).notice());
    assertEquals(notice, soon(held.hold().revoked()));
    assertEquals(Optional.of(notice), held.hold().notice());
    Loss loss = next(HoldEvent.Lost.class).loss();
    assertEquals("deploy", loss.breakNote().orElseThrow().getReason());
  }

  @Test
  void s13AClosedClientEndsTheHoldAndWhoWaits() throws Exception {
    Held held = held();
    CompletableFuture<Hold> asked = ask(SPEC);
    sidecar.next("hold");
    CompletableFuture<Hold> endless = ask(ENDLESS);
    FakeCall between = sidecar.next("hold");
    between.tell("busy: {retry_after: 3600000}");
    between.awaitEnd();
    client.close();
    assertEquals(List.of("release 1"), sidecar.asked());
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
          await(gate);
          return call.equals("release") ? "outcome: RELEASED" : "result: RECORDED";
        });
    Future<?> ending;
    if (call.equals("release")) {
      ending = held().hold().releaseAsync();
    } else {
      Runs runs = client.runs(ScheduleSpec.of("f").cron("@daily"));
      ending = threads.submit(() -> runs.next().complete(Completion.succeeded()));
      sidecar.next("subscribe").tell(FakeSidecar.RUN);
    }
    eventually("it is under way", () -> !sidecar.asked().isEmpty());
    Future<?> closing = threads.submit(client::close);
    assertThrows(TimeoutException.class, () -> closing.get(200, TimeUnit.MILLISECONDS));
    gate.countDown();
    soon(ending);
    soon(closing);
  }

  @Test
  void s13AClientIsClosedAfterAReleasesTimeAtTheLatest() throws Exception {
    try (Bench hasty = hasty()) {
      Held held = hasty.held();
      held.call().end(GONE);
      hasty.sidecar.next("hold");
      CompletableFuture<ReleaseResult> releasing = held.hold().releaseAsync();
      hasty.client.close();
      failure(ReleaseUnconfirmedException.class, releasing);
    }
  }

  @Test
  void s13AReleaseThatFindsTheLockLostSaysSoEachTime() throws Exception {
    sidecar.on("release", TAKEN + ", checkpoint_outcome: UNKNOWN");
    Hold hold = held().hold();
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
      held = held();
    } finally {
      request.detach(before);
    }
    request.cancel(null);
    clock.move(Duration.ofSeconds(1));
    held.call().tell("renewed: {until: 59000, for: 58000}");
    next(HoldEvent.Renewed.class);
    assertTrue(held.call().isOpen() && held.hold().isValid());
  }

  @Test
  void aListenerThatBlocksHoldsUpNothing() throws Exception {
    CompletableFuture<Void> never = new CompletableFuture<>();
    CompletableFuture<Hold> asked = client.holdAsync(SPEC, event -> never.join());
    FakeCall call = grant();
    Hold hold = soon(asked);
    expire();
    soon(hold.lost());
    call.awaitEnd();
    never.complete(null);
  }

  @Test
  void s26TheNewestSaveIsTheCheckpointUntilAResumeTellsAnother() throws Exception {
    Held held = held();
    Hold hold = held.hold();
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
    held.call().end(GONE);
    String stored = "checkpoint: {value: third, version: 8}";
    sidecar.next("hold").tell("granted: {until: 58000, for: 58000, generation: 2, " + stored + "}");
    next(HoldEvent.Interrupted.class);
    next(HoldEvent.Resumed.class);
    assertEquals("third", hold.checkpoint().orElseThrow().text(), "S27");
  }

  @Test
  void aValueThatIsTooLongIsNotSentAndReleasesNothing() throws Exception {
    byte[] tooLong = new byte[2_049];
    Hold hold = held().hold();
    assertRefused(Reason.INVALID_FIELD, () -> hold.save(tooLong));
    assertRefused(Reason.INVALID_FIELD, () -> hold.release(tooLong));
    assertRefused(Reason.INVALID_FIELD, () -> Completion.succeeded().withCheckpoint(tooLong));
    assertTrue(hold.isValid());
    assertAsked();
  }

  @Test
  void s27ASaveOfUnknownOutcomeHasAnExceptionOfItsOwn() throws Exception {
    Hold hold = held().hold();
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

  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "UNRECOGNIZED")
  void t2AnOutcomeThatWasNotRecordedIsToldToTheCaller(OutcomeResult result) throws Exception {
    LeaseSpec spec = NAMED.occurrenceMaxAttempts(3);
    String granted = "granted: {until: 58000, for: 58000, attempt: 2}";
    sidecar.on("acquire_lease", granted);
    assertEquals(2, client.acquire(spec).attempt());
    CompletableFuture<Hold> asked = ask(spec);
    FakeCall call = sidecar.next("hold");
    dev.leasehold.v1.LeaseSpec sent = ((HoldLeaseRequest) call.request).getSpec();
    assertEquals(1_800, sent.getOccurrenceAt().getSeconds());
    assertEquals(3, sent.getOccurrenceMaxAttempts());
    call.tell(granted);
    Hold hold = soon(asked);
    assertEquals(2, hold.attempt());
    String name = result.name().replace("OUTCOME_RESULT_", "");
    sidecar.on("release", "outcome: RELEASED, outcome_result: " + name);
    RunOutcome failed = RunOutcome.RUN_OUTCOME_FAILED;
    for (Executable release :
        List.<Executable>of(() -> hold.release(failed), () -> client.release("lease-2", failed))) {
      switch (result) {
        case OUTCOME_RESULT_RECORDED -> assertDoesNotThrow(release);
        // S37: the sidecar says what became of it, if it knows of occurrences.
        case OUTCOME_RESULT_UNSPECIFIED -> assertRefused(Reason.UNSUPPORTED, release);
        default -> assertThrows(OutcomeNotRecordedException.class, release);
      }
    }
    assertAsked("release 1 FAILED", "release 0 lease-2 FAILED");
  }

  @Test
  void t2ThatAnOccurrenceIsOverIsAnAnswer() throws Exception {
    String done = "already_done: {run: {scheduled_at: 1800, outcome: SUCCEEDED}}";
    String skipped = "skipped: {watermark: 1800}";
    OccurrenceOverException over = failure(OccurrenceOverException.class, answered(NAMED, done));
    assertEquals(1_800, over.run().orElseThrow().getScheduledAt().getSeconds());
    over = failure(OccurrenceOverException.class, answered(NAMED.waitWithoutEnd(), skipped));
    assertEquals(Optional.of(Instant.ofEpochSecond(1_800)), over.watermark());
    assertTrue(over.run().isEmpty());
    failure(ProtocolException.class, answered(SPEC, done));
    for (String answer : List.of(done, skipped)) {
      sidecar.on("acquire_lease", answer);
      assertThrows(OccurrenceOverException.class, () -> client.acquire(NAMED));
      assertThrows(ProtocolException.class, () -> client.acquire(SPEC));
    }
  }

  private CompletableFuture<Hold> answered(LeaseSpec spec, String answer) throws Exception {
    CompletableFuture<Hold> asked = ask(spec);
    sidecar.next("hold").tell(answer);
    return asked;
  }

  @Test
  void aWaitWithoutEndAsksAgainWhereItIsBusyAllTheSame() throws Exception {
    CompletableFuture<Hold> asked = ask(ENDLESS);
    FakeCall call = sidecar.next("hold");
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
    sidecar.on("acquire_lease", request -> sidecar.calls().size() <= 3 ? TOO_OLD : GRANTED);
    assertRefused(Reason.UNSUPPORTED, () -> client.acquire(SPEC));
    client.acquire(SPEC.waitUpTo(Duration.ofMinutes(1)));
    assertEquals(4, sidecar.calls().size());
    sidecar
        .calls()
        .forEach(call -> assertEquals(1, ((AcquireLeaseRequest) call.request).getNeeds()));
    client.release("lease-1");
    assertEquals(Set.of(1), sidecar.connections());
  }

  @Test
  void aUnaryCallWaitsForADayInsteadOfWithoutEnd() throws Exception {
    sidecar.on("acquire_lease", "");
    // An outcome that is newer than the client is no grant.
    assertThrows(ProtocolException.class, () -> client.acquire(ENDLESS));
    dev.leasehold.v1.LeaseSpec sent =
        ((AcquireLeaseRequest) sidecar.calls().get(0).request).getSpec();
    assertEquals(Duration.ofHours(24), Durations.fromWire(sent.getWait()));
    assertFalse(sent.getWaitWithoutEnd());
  }
}
