package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSchedules.Subscription;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.CompletionResult;
import dev.leasehold.v1.Deadline;
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
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A subscription and its runs, with a sidecar that says what each test wants. */
@Timeout(60)
class RunsTest {
  private static final ScheduleSpec NIGHTLY =
      ScheduleSpec.of("nightly").cron("30 2 * * *").timeZone("Europe/Copenhagen").holder("me");

  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final BlockingQueue<ScheduleEvent> events = new LinkedBlockingQueue<>();
  private Bench bench;
  private Runs runs;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
    runs = bench.client.runs(NIGHTLY, events::add);
  }

  @AfterEach
  void close() throws Exception {
    threads.shutdownNow();
    runs.close();
    bench.close();
  }

  private record Running(Run run, Subscription call) {}

  private Future<Run> next() {
    return threads.submit(runs::next);
  }

  private Subscription subscription() throws InterruptedException {
    return bench.sidecar.schedules.subscription();
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

  private static RefusedException refusal(Future<?> asked) {
    Throwable cause = assertThrows(ExecutionException.class, () -> soon(asked)).getCause();
    return assertInstanceOf(RefusedException.class, cause);
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

  private static dev.leasehold.v1.Run validUntil(long until) {
    Grant grant = Messages.grant(Messages.validity(ManualClock.OURS, until, 58));
    return FakeSchedules.run().toBuilder().setGrant(grant).build();
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
    CompletionResult result =
        run.complete(Completion.succeeded().withCheckpoint("page 7")).getResult();
    assertEquals(CompletionResult.COMPLETION_RESULT_RECORDED, result);
    assertEquals(List.of("run-1 of generation 1: SUCCEEDED  with page 7"), bench.sidecar.asked());
    assertFalse(run.isValid());
    run.complete(Completion.failed("again"));
    assertEquals(1, bench.sidecar.asked().size(), "the first one counts");
  }

  @Test
  void t2TheStreamGoesOnToTheNextRun() throws Exception {
    Running running = running();
    running.run().complete(Completion.failed("no disk"));
    Subscription call = running.call();
    call.record();
    call.tell(event -> event.setStandby(Standby.getDefaultInstance()));
    call.run(FakeSchedules.run().toBuilder().setAttempt(3).build());
    assertEquals(3, soon(next()).attempt());
    assertTrue(call.isOpen());
    assertEquals(List.of("run-1 of generation 1: FAILED no disk"), bench.sidecar.asked());
  }

  @Test
  void aRunThatComesBeforeTheAnswerToTheCompletionIsNotLost() throws Exception {
    Running running = running();
    bench.sidecar.schedules.complete =
        request -> {
          running.call().record();
          running.call().standBy();
          running.call().run(FakeSchedules.run().toBuilder().setAttempt(3).build());
          return CompletionResult.COMPLETION_RESULT_RECORDED;
        };
    running.run().complete(Completion.succeeded());
    assertEquals(3, soon(next()).attempt());
  }

  @Test
  void s37ASubscriberIsToldThatASidecarIsTooOldAndTriesOnElsewhere() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    assertEquals(1, call.request.getNeeds());
    try (FakeSidecar newer = bench.sidecar.replacement()) {
      call.fail(Messages.tooOld());
      call = newer.schedules.subscription();
      assertEquals(new ScheduleEvent.Interrupted("2 and 1"), events.take());
      call.standBy();
      call.fail(Messages.tooOld());
      newer.schedules.subscription().run(FakeSchedules.run());
      assertTrue(soon(asked).isValid());
    }
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
    try (FakeSidecar newer = older.replacement()) {
      LeaseSpec patient = LeaseSpec.of("f").waitUpTo(Duration.ofMinutes(1));
      CompletableFuture<Hold> asked = bench.client.holdAsync(patient, event -> {});
      older.hold().fail(Messages.tooOld());
      newer.hold().tell(Messages.granted(Messages.grantHere()));
      Hold elsewhere = soon(asked);
      kept.reportProgress();
      kept.save(new byte[] {'x'});
      kept.release();
      elsewhere.release();
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
    FakeSidecar older = bench.sidecar;
    Running lost = running();
    try (FakeSidecar newer = older.replacement()) {
      CompletableFuture<Hold> asked =
          bench.client.holdAsync(LeaseSpec.of("f").waitWithoutEnd(), event -> {});
      older.hold().fail(Messages.tooOld());
      newer.hold().tell(Messages.granted(Messages.grantHere()));
      assertTrue(soon(asked).isValid());
      lost.call().tell(event -> event.setLost(Lost.getDefaultInstance()));
      awaitHoldEvent(HoldEvent.Lost.class);
      lost.call().awaitEnd();
      if (completed) {
        lost.run().complete(Completion.returned());
      }
      lost.run().close();
      assertEquals(
          completed ? List.of("run-1 of generation 1: RETURNED ") : List.of(), older.asked());
      assertEquals(List.of(), newer.asked());
      Bench.eventually("what is not needed is closed", () -> older.connections() == 0);
    }
  }

  @Test
  void s37AnOlderSidecarIsNamedAsThat() throws Exception {
    Future<Run> asked = next();
    subscription().fail(Status.UNIMPLEMENTED.asRuntimeException());
    RefusedException refusal = refusal(asked);
    assertEquals(Optional.of(Reason.UNSUPPORTED), refusal.reason());
    assertTrue(refusal.getMessage().contains("update the sidecar"), refusal.getMessage());
  }

  @Test
  void aSidecarThatWasNeverHeardOfIsAnErrorAtOnce() throws Exception {
    Future<Run> asked = next();
    subscription().fail(Messages.unavailable());
    assertEquals(Status.Code.UNAVAILABLE, refusal(asked).code());
  }

  @Test
  void t16ASubscriberWhoseSidecarRestartsComesBackAsNoNewOne() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    call.fail(Messages.unavailable());
    call = subscription();
    assertTrue(call.request.getReconnected() && !call.request.hasResume());
    bench.sidecar.kill();
    bench.sidecar.start();
    call = subscription();
    assertTrue(call.request.getReconnected());
    call.standBy();
    call.run(FakeSchedules.run());
    soon(asked).close();
    assertEquals(List.of("run-1 of generation 1: RETURNED "), bench.sidecar.asked());
    assertInstanceOf(ScheduleEvent.Subscribed.class, events.take());
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
    Grant again = Messages.grantHere().toBuilder().setGeneration(2).build();
    call.run(FakeSchedules.run().toBuilder().setGrant(again).build());
    awaitHoldEvent(HoldEvent.Resumed.class);
    assertTrue(running.run().isValid());
    running.run().complete(Completion.succeeded());
    assertEquals(List.of("run-1 of generation 2: SUCCEEDED "), bench.sidecar.asked());
    call.record();
    call.run(FakeSchedules.run());
    assertTrue(soon(next()).isValid());
  }

  @Test
  void s4ARunThatIsToldLostIsOverAndTheCallerSubscribesAgain() throws Exception {
    Running running = running();
    Lost lost = Lost.newBuilder().setReason(LossReason.LOSS_REASON_NO_PROGRESS).build();
    running.call().tell(event -> event.setLost(lost));
    assertEquals(LossReason.LOSS_REASON_NO_PROGRESS, soon(running.run().lost()).reason());
    running.call().awaitEnd();
    running.run().close();
    assertEquals(List.of(), bench.sidecar.asked(), "the sidecar knows");
    Running second = running();
    assertTrue(second.call().request.getReconnected() && second.run().isValid());
    assertFalse(running.run().isValid());
  }

  @Test
  void t12AStreamOutlivesItsRunsDeadlineUntilTheSidecarHasSaidIt() throws Exception {
    Grant grant = Messages.grantHere();
    Deadline deadline =
        Deadline.newBuilder()
            .setAt(grant.getValidity().getValidUntil())
            .setAfter(grant.getValidity().getValidFor())
            .build();
    dev.leasehold.v1.Run bounded =
        FakeSchedules.run().toBuilder()
            .setGrant(grant.toBuilder().setMaxHoldEnds(deadline))
            .build();
    Running running = running(bounded);
    assertEquals(Optional.of(ManualClock.at(1_058)), running.run().deadline());
    bench.clock.advance(58);
    assertFalse(running.run().isValid());
    LossReason reason = soon(running.run().lost()).reason();
    assertEquals(LossReason.LOSS_REASON_MAX_HOLD_REACHED, reason);
    // Another stream of the same connection, which an end of this one would go before.
    bench.ask();
    bench.sidecar.hold();
    assertTrue(running.call().isOpen());
    Lost lost = Lost.newBuilder().setReason(LossReason.LOSS_REASON_MAX_HOLD_REACHED).build();
    running.call().tell(event -> event.setLost(lost));
    running.call().awaitEnd();
  }

  @Test
  void s13ARunThatIsOverHereOnlyEndsItsStream() throws Exception {
    Running running = running();
    bench.clock.advance(58);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(running.run().lost()).reason());
    running.call().awaitEnd();
    next();
    assertTrue(subscription().request.getReconnected());
  }

  @Test
  void t8ACompletionIsRepeatedUntilItIsAnsweredAlsoWhenTheHoldIsOver() throws Exception {
    Running running = running();
    Deque<Boolean> away = new ArrayDeque<>(List.of(true, true, false));
    bench.sidecar.schedules.complete =
        request -> {
          if (away.remove()) {
            throw Messages.unavailable();
          }
          return CompletionResult.COMPLETION_RESULT_RECORDED_LATE;
        };
    bench.clock.advance(58);
    assertEquals(
        CompletionResult.COMPLETION_RESULT_RECORDED_LATE,
        running.run().complete(Completion.succeeded()).getResult());
    String asked = "run-1 of generation 1: SUCCEEDED ";
    assertEquals(List.of(asked, asked, asked), bench.sidecar.asked());
  }

  @Test
  void t8ACompletionThatIsRefusedIsAnErrorAndEndsTheStream() throws Exception {
    Running running = running();
    bench.sidecar.schedules.complete =
        request -> {
          throw Status.INVALID_ARGUMENT.asRuntimeException();
        };
    RefusedException refusal =
        assertThrows(RefusedException.class, () -> running.run().complete(Completion.succeeded()));
    assertEquals(Status.Code.INVALID_ARGUMENT, refusal.code());
    running.call().awaitEnd();
  }

  @Test
  void aRunThatComesTooLateIsReturned() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    call.standBy();
    bench.clock.advance(60);
    call.run(FakeSchedules.run());
    call.tell(event -> event.setRenewed(Renewed.getDefaultInstance()));
    call.run(validUntil(1_118));
    assertTrue(soon(asked).isValid());
    Bench.eventually("it is returned", () -> !bench.sidecar.asked().isEmpty());
    assertEquals(List.of("run-1 of generation 1: RETURNED "), bench.sidecar.asked());
  }

  @Test
  void whatWaitsIsTold() throws Exception {
    next();
    Subscription call = subscription();
    call.standBy();
    DefinitionInForce other = DefinitionInForce.newBuilder().setConflict(true).build();
    call.tell(event -> event.setDefinitionInForce(other));
    call.tell(event -> event.setDraining(Draining.getDefaultInstance()));
    assertEquals(
        "2026b",
        assertInstanceOf(ScheduleEvent.Subscribed.class, events.take()).understood().getZoneData());
    assertInstanceOf(ScheduleEvent.Waiting.class, events.take());
    assertEquals(new ScheduleEvent.OtherDefinition(other), events.take());
    assertInstanceOf(ScheduleEvent.Draining.class, events.take());
  }

  @Test
  void t20ADrainingSidecarAsksForAnEndOfTheRun() throws Exception {
    Running running = running();
    assertFalse(running.run().shouldFinish());
    running.call().tell(event -> event.setDraining(Draining.getDefaultInstance()));
    awaitHoldEvent(HoldEvent.Draining.class);
    assertTrue(running.run().shouldFinish() && running.run().isValid());
  }

  @Test
  void whoeverWaitsForARunIsToldThatTheSubscriptionOrTheClientWasClosed() throws Exception {
    Future<Run> asked = next();
    Subscription call = subscription();
    runs.close();
    assertEquals(Status.Code.CANCELLED, refusal(asked).code());
    call.awaitEnd();
    assertThrows(RefusedException.class, runs::next);
    runs = bench.client.runs(NIGHTLY);
    asked = next();
    subscription();
    bench.client.close();
    assertEquals(Status.Code.CANCELLED, refusal(asked).code());
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
    Throwable cause = assertThrows(ExecutionException.class, () -> soon(asked)).getCause();
    assertInstanceOf(InterruptedException.class, cause);
    call.run(FakeSchedules.run());
    assertTrue(soon(next()).isValid());
    assertFalse(bench.sidecar.schedules.isSubscribedTo());
  }
}
