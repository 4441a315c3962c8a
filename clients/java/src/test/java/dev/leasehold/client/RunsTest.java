package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSchedules.Subscription;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.CompletionResult;
import dev.leasehold.v1.DefinitionInForce;
import dev.leasehold.v1.Draining;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.Renewed;
import dev.leasehold.v1.RunKind;
import dev.leasehold.v1.SaveCheckpointResponse;
import dev.leasehold.v1.Standby;
import dev.leasehold.v1.SubscribeScheduleRequest;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A subscription and its runs, with a sidecar that says what each test wants. */
class RunsTest extends BenchTest {
  private static final ScheduleSpec NIGHTLY =
      ScheduleSpec.of("nightly").cron("30 2 * * *").timeZone("Europe/Copenhagen").holder("me");

  private final BlockingQueue<ScheduleEvent> events = new LinkedBlockingQueue<>();
  private final Runs runs = bench.client.runs(NIGHTLY, events::add);

  @AfterEach
  void close() {
    runs.close();
  }

  private record Running(Run run, Subscription call) {}

  private Future<Run> next() {
    return threads.submit(runs::next);
  }

  private Subscription subscription() throws InterruptedException {
    return bench.sidecar.subscription();
  }

  private Running running(dev.leasehold.v1.Run run) throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    call.run(run);
    return new Running(soon(asked), call);
  }

  private Running running() throws Exception {
    return running(FakeSchedules.run());
  }

  private static dev.leasehold.v1.Run run(Grant grant) {
    return FakeSchedules.run().toBuilder().setGrant(grant).build();
  }

  private static dev.leasehold.v1.Run resumed() {
    return run(Messages.grantHere().toBuilder().setGeneration(2).build());
  }

  private void assertAsked(String... outcomes) {
    List<String> asked = bench.sidecar.asked();
    assertEquals(List.of(outcomes).stream().map("run-1 of generation "::concat).toList(), asked);
  }

  private void awaitHoldEvent(Class<? extends HoldEvent> kind) throws InterruptedException {
    while (true) {
      ScheduleEvent event = events.poll(FakeSidecar.PATIENCE_SECONDS, TimeUnit.SECONDS);
      if (event == null) {
        throw new AssertionError("never: " + kind.getSimpleName());
      }
      if (event instanceof ScheduleEvent.OfRun of && kind.isInstance(of.event())) {
        return;
      }
    }
  }

  private static void lose(Subscription call, LossReason reason) {
    call.tell(event -> event.setLost(Lost.newBuilder().setReason(reason)));
  }

  @Test
  void aRunTellsWhatItIsOfAndItsOutcomeIsRecorded() throws Exception {
    Running running = running();
    Run run = running.run();
    assertEquals(NIGHTLY.toMessage().toBuilder().setNeeds(1).build(), running.call().request);
    assertFalse(running.call().request.getReconnected());
    assertEquals(Instant.ofEpochSecond(1_800), run.scheduledAt());
    assertEquals(Optional.of(Instant.ofEpochSecond(3_600)), run.nextAt());
    assertEquals(Optional.of(Instant.ofEpochSecond(2_400)), run.deadlineAt());
    assertEquals(RunKind.RUN_KIND_SCHEDULED, run.kind());
    assertEquals(
        List.of(2, 3, 7), List.of(run.attempt(), run.maxAttempts(), (int) run.missedCount()));
    assertEquals(65_536, run.fencingToken());
    assertEquals("run-1", run.runId());
    assertTrue(run.isValid());
    assertFalse(run.toString().contains("run-1") || run.toString().contains("lease-1"), "S20");
    assertEquals("Europe/Copenhagen", runs.understood().orElseThrow().getTimeZone());
    run.complete(Completion.succeeded().withCheckpoint("page 7"));
    assertFalse(run.isValid());
    run.complete(Completion.failed("again: the first one counts"));
    assertAsked("1: SUCCEEDED  with page 7");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void t2TheStreamGoesOnToTheNextRun(boolean itComesBeforeTheAnswer) throws Exception {
    Running running = running();
    Subscription call = running.call();
    Runnable goOn =
        () -> {
          call.record();
          call.tell(event -> event.setStandby(Standby.getDefaultInstance()));
          call.run(FakeSchedules.run().toBuilder().setAttempt(3).build());
        };
    bench.sidecar.complete =
        request -> {
          if (itComesBeforeTheAnswer) {
            goOn.run();
          }
          return CompletionResult.COMPLETION_RESULT_RECORDED;
        };
    running.run().complete(Completion.failed("no disk"));
    if (!itComesBeforeTheAnswer) {
      goOn.run();
    }
    assertEquals(3, soon(next()).attempt());
    assertTrue(call.isOpen());
    assertAsked("1: FAILED no disk");
  }

  @Test
  void s37ASubscriberIsToldThatASidecarIsTooOldAndTriesOnElsewhere() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    try (FakeSidecar newer = bench.sidecar.replacement()) {
      call.fail(Messages.tooOld());
      call = newer.subscription();
      assertEquals(new ScheduleEvent.Interrupted("2 and 1"), events.take());
      call.standBy();
      call.fail(Messages.tooOld());
      newer.subscription().run(FakeSchedules.run());
      assertTrue(soon(asked).isValid());
    }
  }

  /** The sidecar in the place of the bench's, which was too old for a hold (S37), and that hold. */
  private record Elsewhere(FakeSidecar newer, Hold hold) {}

  private Elsewhere elsewhere() throws Exception {
    FakeSidecar newer = bench.sidecar.replacement();
    CompletableFuture<Hold> asked = ask(LeaseSpec.of("f").waitUpTo(Duration.ofMinutes(1)));
    bench.sidecar.hold().fail(Messages.tooOld());
    newer.hold().tell(Messages.granted(Messages.grantHere()));
    return new Elsewhere(newer, soon(asked));
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s37WhatCameFromASidecarThatRefusesAnotherHoldStaysThere(boolean called) throws Exception {
    FakeSidecar older = bench.sidecar;
    older.report = request -> Messages.validity(ManualClock.OURS, 1_058, 58);
    older.save = request -> SaveCheckpointResponse.newBuilder().setVersion(1).build();
    older.acquire =
        request -> AcquireLeaseResponse.newBuilder().setGranted(Messages.grantHere()).build();
    Run run = running().run();
    Hold kept = bench.held().hold();
    if (called) {
      bench.client.acquire(LeaseSpec.of("f"));
    }
    Elsewhere elsewhere = elsewhere();
    try (FakeSidecar newer = elsewhere.newer) {
      kept.reportProgress();
      kept.save(new byte[] {'x'});
      kept.release();
      elsewhere.hold.release();
      run.complete(Completion.succeeded());
      String release = "release lease-1 of generation ";
      List<String> wanted = new ArrayList<>();
      wanted.addAll(List.of("report of generation 1", "save x of generation 1", release + 1));
      wanted.add("run-1 of generation 1: SUCCEEDED ");
      if (called) {
        bench.client.release("lease-1");
        wanted.add(release + 0);
      }
      assertEquals(wanted, older.asked());
      assertEquals(List.of(release + 1), newer.asked());
      runs.close();
      int left = called ? 1 : 0;
      Bench.eventually("what is not needed is closed", () -> older.connections() == left);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s37ALostRunKeepsItsPlaceUntilItIsCompletedOrClosed(boolean completed) throws Exception {
    Running lost = running();
    try (FakeSidecar newer = elsewhere().newer) {
      lose(lost.call(), LossReason.LOSS_REASON_NO_PROGRESS);
      awaitHoldEvent(HoldEvent.Lost.class);
      lost.call().awaitEnd();
      if (completed) {
        lost.run().complete(Completion.returned());
      }
      lost.run().close();
      assertAsked(completed ? new String[] {"1: RETURNED "} : new String[0]);
      assertEquals(List.of(), newer.asked());
      FakeSidecar older = bench.sidecar;
      Bench.eventually("what is not needed is closed", () -> older.connections() == 0);
    }
  }

  @Test
  void aSidecarThatWasNeverHeardOfOrIsOlderThanSchedulesIsAnErrorAtOnce() throws Exception {
    Future<Run> asked = next();
    subscription().fail(Messages.unavailable());
    assertEquals(Status.Code.UNAVAILABLE, failure(RefusedException.class, asked).code());
    asked = next();
    subscription().fail(Status.UNIMPLEMENTED.asRuntimeException());
    RefusedException refusal = failure(RefusedException.class, asked);
    assertEquals(Optional.of(Reason.UNSUPPORTED), refusal.reason(), "S37");
    assertTrue(refusal.getMessage().contains("update the sidecar"), refusal.getMessage());
  }

  @Test
  void t16ASubscriberWhoseSidecarRestartsComesBackAsNoNewOne() throws Exception {
    Future<Run> asked = next();
    subscription().standBy();
    assertInstanceOf(ScheduleEvent.Subscribed.class, events.take());
    bench.sidecar.kill();
    bench.sidecar.start();
    Subscription call = subscription();
    assertTrue(call.request.getReconnected() && !call.request.hasResume());
    call.standBy();
    call.run(FakeSchedules.run());
    soon(asked).close();
    assertAsked("1: RETURNED ");
    assertInstanceOf(ScheduleEvent.Waiting.class, events.take());
    assertInstanceOf(ScheduleEvent.Interrupted.class, events.take());
  }

  @Test
  void s16ARunSurvivesARestartOfTheSidecarAndItsStreamGoesOn() throws Exception {
    Running running = running();
    bench.sidecar.kill();
    awaitHoldEvent(HoldEvent.Interrupted.class);
    bench.sidecar.start();
    Subscription call = subscription();
    SubscribeScheduleRequest request = call.request;
    assertTrue(request.getReconnected());
    assertEquals("run-1", request.getRunId());
    assertEquals("resume-1", request.getResume().getResumeToken());
    assertEquals(NIGHTLY.toSpec(), request.getSpec());
    call.run(resumed());
    awaitHoldEvent(HoldEvent.Resumed.class);
    assertTrue(running.run().isValid());
    running.run().complete(Completion.succeeded());
    assertAsked("2: SUCCEEDED ");
    call.record();
    call.run(FakeSchedules.run());
    assertTrue(soon(next()).isValid());
  }

  @Test
  void s4ARunThatIsToldLostIsOverAndTheCallerSubscribesAgain() throws Exception {
    Running running = running();
    lose(running.call(), LossReason.LOSS_REASON_NO_PROGRESS);
    assertEquals(LossReason.LOSS_REASON_NO_PROGRESS, soon(running.run().lost()).reason());
    running.call().awaitEnd();
    running.run().close();
    assertAsked();
    Running second = running();
    assertTrue(second.call().request.getReconnected() && second.run().isValid());
    assertFalse(running.run().isValid());
  }

  @Test
  void t12AStreamOutlivesItsRunsDeadlineUntilTheSidecarHasSaidIt() throws Exception {
    dev.leasehold.v1.Run.Builder bounded = FakeSchedules.run().toBuilder();
    bounded
        .getDeadlineBuilder()
        .setAt(bounded.getGrant().getValidity().getValidUntil())
        .setAfter(bounded.getGrant().getValidity().getValidFor());
    Running running = running(bounded.build());
    assertEquals(Optional.of(ManualClock.at(1_058)), running.run().deadline());
    bench.clock.advance(58);
    assertFalse(running.run().isValid());
    LossReason reason = soon(running.run().lost()).reason();
    assertEquals(LossReason.LOSS_REASON_MAX_HOLD_REACHED, reason);
    // Another stream of the same connection, which an end of this one would go before.
    bench.ask();
    bench.sidecar.hold();
    assertTrue(running.call().isOpen());
    lose(running.call(), reason);
    running.call().awaitEnd();
  }

  @Test
  void s13ARunThatIsOverHereOnlyEndsItsStream() throws Exception {
    Running running = running();
    bench.clock.advance(58);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(running.run().lost()).reason());
    running.call().awaitEnd();
  }

  @Test
  void t8ACompletionIsRepeatedUntilItIsAnsweredAlsoWhenTheHoldIsOver() throws Exception {
    Running running = running();
    Deque<Status> answers = new ArrayDeque<>(List.of(Status.UNAVAILABLE, Status.UNAVAILABLE));
    bench.sidecar.complete =
        request -> {
          if (!answers.isEmpty()) {
            throw answers.remove().asRuntimeException();
          }
          return CompletionResult.COMPLETION_RESULT_RECORDED_LATE;
        };
    bench.clock.advance(58);
    assertEquals(
        CompletionResult.COMPLETION_RESULT_RECORDED_LATE,
        running.run().complete(Completion.succeeded()).getResult());
    assertAsked("1: SUCCEEDED ", "1: SUCCEEDED ", "1: SUCCEEDED ");
    answers.add(Status.INVALID_ARGUMENT);
    Running refused = running();
    assertThrows(RefusedException.class, () -> refused.run().complete(Completion.returned()));
    refused.call().awaitEnd();
  }

  @Test
  void aRunThatComesTooLateIsReturned() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    bench.clock.advance(60);
    call.run(FakeSchedules.run());
    call.tell(event -> event.setRenewed(Renewed.getDefaultInstance()));
    call.run(run(Messages.grant(Messages.validity(ManualClock.OURS, 1_118, 58))));
    assertTrue(soon(asked).isValid());
    Bench.eventually("it is returned", () -> !bench.sidecar.asked().isEmpty());
    assertAsked("1: RETURNED ");
  }

  @Test
  void s21ARunOfAnotherKernelsSidecarIsAskedAbout() throws Exception {
    dev.leasehold.v1.Validity theirs = Messages.validity(ManualClock.ELSEWHERE, 99, 58);
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    bench.clock.advance(3_600);
    bench.sidecar.holdInfo = request -> Messages.info(theirs);
    call.run(run(Messages.grant(theirs)));
    assertEquals(58, soon(asked).remaining().toSeconds());
    assertEquals(List.of("get hold of generation 1"), bench.sidecar.asked());
  }

  @Test
  void whatWaitsIsToldAndADrainingSidecarAsksForAnEndOfTheRun() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    DefinitionInForce other = DefinitionInForce.newBuilder().setConflict(true).build();
    call.tell(event -> event.setDefinitionInForce(other));
    call.tell(event -> event.setDraining(Draining.getDefaultInstance()));
    ScheduleEvent.Subscribed understood =
        assertInstanceOf(ScheduleEvent.Subscribed.class, events.take());
    assertEquals("2026b", understood.understood().getZoneData());
    assertInstanceOf(ScheduleEvent.Waiting.class, events.take());
    assertEquals(new ScheduleEvent.OtherDefinition(other), events.take());
    assertInstanceOf(ScheduleEvent.Draining.class, events.take());
    call.run(FakeSchedules.run());
    Run run = soon(asked);
    assertFalse(run.shouldFinish());
    call.tell(event -> event.setDraining(Draining.getDefaultInstance()));
    awaitHoldEvent(HoldEvent.Draining.class);
    assertTrue(run.shouldFinish() && run.isValid(), "T20");
  }

  @Test
  void whoeverWaitsForARunIsToldThatTheSubscriptionOrTheClientWasClosed() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    runs.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, asked).code());
    call.awaitEnd();
    assertThrows(RefusedException.class, runs::next);
    Runs others = bench.client.runs(NIGHTLY);
    asked = threads.submit(others::next);
    subscription();
    bench.client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, asked).code());
  }

  @Test
  void anInterruptEndsTheWaitAndNothingIsMissed() throws Exception {
    CompletableFuture<Thread> thread = new CompletableFuture<>();
    Future<Run> asked =
        threads.submit(
            () -> {
              thread.complete(Thread.currentThread());
              return runs.next();
            });
    Subscription call = subscription();
    call.standBy();
    soon(thread).interrupt();
    assertInstanceOf(InterruptedException.class, failure(asked));
    call.run(FakeSchedules.run());
    assertTrue(soon(next()).isValid());
    assertFalse(bench.sidecar.hasUnseenCalls());
  }

  @Test
  void s14WhoHearsNothingSubscribesAgainAndResumesARunBeforeItsStreamIsEnded() throws Exception {
    try (Bench impatient = Bench.impatient();
        Runs silently = impatient.client.runs(NIGHTLY)) {
      FakeSidecar sidecar = impatient.sidecar;
      Future<Run> asked = threads.submit(silently::next);
      Subscription silent = sidecar.subscription();
      silent.standBy();
      silent.awaitEnd();
      // On a busy machine the first word may come too late, again.
      while (!asked.isDone()) {
        silent = sidecar.subscription();
        assertTrue(silent.request.getReconnected());
        silent.run(FakeSchedules.run());
        Bench.eventually(
            "it subscribes, or has it", () -> asked.isDone() || sidecar.hasUnseenCalls());
      }
      Subscription call = sidecar.subscription();
      assertEquals("run-1", call.request.getRunId());
      assertTrue(silent.isOpen());
      call.run(resumed());
      silent.awaitEnd();
      assertTrue(soon(asked).isValid());
    }
  }
}
