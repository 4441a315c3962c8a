package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.PATIENCE_SECONDS;
import static dev.leasehold.client.FakeSidecar.answer;

import com.google.protobuf.Timestamp;
import dev.leasehold.client.FakeSidecar.StreamCall;
import dev.leasehold.v1.CompleteRunRequest;
import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.CompletionResult;
import dev.leasehold.v1.GetScheduleRequest;
import dev.leasehold.v1.GetScheduleResponse;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.ListSchedulesResponse;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.PauseScheduleRequest;
import dev.leasehold.v1.PauseScheduleResponse;
import dev.leasehold.v1.PreviewScheduleRequest;
import dev.leasehold.v1.PreviewScheduleResponse;
import dev.leasehold.v1.Recorded;
import dev.leasehold.v1.RemoveScheduleRequest;
import dev.leasehold.v1.RemoveScheduleResponse;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.ResetScheduleResponse;
import dev.leasehold.v1.ResumeScheduleRequest;
import dev.leasehold.v1.ResumeScheduleResponse;
import dev.leasehold.v1.RunKind;
import dev.leasehold.v1.Schedule;
import dev.leasehold.v1.ScheduleServiceGrpc.ScheduleServiceImplBase;
import dev.leasehold.v1.Standby;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.SubscribeScheduleResponse;
import dev.leasehold.v1.TriggerScheduleRequest;
import dev.leasehold.v1.TriggerScheduleResponse;
import dev.leasehold.v1.UnderstoodSchedule;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/** The calls about schedules of a sidecar that does what a test says. */
final class FakeSchedules extends ScheduleServiceImplBase {
  /** A SubscribeSchedule call that the test answers. */
  static final class Subscription
      extends StreamCall<SubscribeScheduleRequest, SubscribeScheduleResponse> {
    Subscription(
        SubscribeScheduleRequest request, StreamObserver<SubscribeScheduleResponse> events) {
      super(request, events);
    }

    void tell(Consumer<SubscribeScheduleResponse.Builder> event) {
      SubscribeScheduleResponse.Builder response = SubscribeScheduleResponse.newBuilder();
      event.accept(response);
      tell(response.build());
    }

    /** It waits for the occurrence at 1,800 s. */
    void standBy() {
      tell(event -> event.setStandby(standby()));
    }

    void run(dev.leasehold.v1.Run run) {
      tell(event -> event.setRun(run));
    }

    void record() {
      tell(event -> event.setRecorded(Recorded.newBuilder().setRunId("run-1")));
    }
  }

  /** What a CompleteRun call is answered with. */
  volatile Function<CompleteRunRequest, CompletionResult> complete =
      request -> CompletionResult.COMPLETION_RESULT_RECORDED;

  private final BlockingQueue<Subscription> subscriptions = new LinkedBlockingQueue<>();
  private final Consumer<String> notes;

  /** {@code notes} takes the unary calls. */
  FakeSchedules(Consumer<String> notes) {
    this.notes = notes;
  }

  static Standby standby() {
    return Standby.newBuilder()
        .setNextAt(at(1_800))
        .setUnderstood(
            UnderstoodSchedule.newBuilder().setTimeZone("Europe/Copenhagen").setZoneData("2026b"))
        .build();
  }

  static Timestamp at(long seconds) {
    return Timestamp.newBuilder().setSeconds(seconds).build();
  }

  /** The run of the occurrence at 1,800 s, of 58 s on our kernel, made at 1,000 s. */
  static dev.leasehold.v1.Run run() {
    return dev.leasehold.v1.Run.newBuilder()
        .setGrant(Messages.grantHere())
        .setRunId("run-1")
        .setKind(RunKind.RUN_KIND_SCHEDULED)
        .setScheduledAt(at(1_800))
        .setLocalTime("1970-01-01T01:30:00+01:00[Europe/Copenhagen]")
        .setAttempt(2)
        .setMaxAttempts(3)
        .setMissedCount(7)
        .setDeadlineAt(at(2_400))
        .setNextAt(at(3_600))
        .build();
  }

  /** The next SubscribeSchedule call. */
  Subscription subscription() throws InterruptedException {
    Subscription call = subscriptions.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no SubscribeSchedule call comes");
    }
    return call;
  }

  /** Whether there is a SubscribeSchedule call that the test has not seen. */
  boolean isSubscribedTo() {
    return !subscriptions.isEmpty();
  }

  @Override
  public void subscribeSchedule(
      SubscribeScheduleRequest request, StreamObserver<SubscribeScheduleResponse> events) {
    subscriptions.add(new Subscription(request, events));
  }

  @Override
  public void completeRun(
      CompleteRunRequest request, StreamObserver<CompleteRunResponse> observer) {
    String with = request.hasCheckpoint() ? " with " + request.getCheckpoint().toStringUtf8() : "";
    notes.accept(
        request.getRunId()
            + " of generation "
            + request.getGeneration()
            + ": "
            + request.getOutcome().name().substring("RUN_OUTCOME_".length())
            + " "
            + request.getDetail()
            + with);
    answer(
        observer,
        () -> CompleteRunResponse.newBuilder().setResult(complete.apply(request)).build());
  }

  private static Schedule schedule(LockSelector lock) {
    return Schedule.newBuilder().setLockPath(lock.getKey().getFunction()).build();
  }

  @Override
  public void getSchedule(
      GetScheduleRequest request, StreamObserver<GetScheduleResponse> observer) {
    Schedule schedule = schedule(request.getLock());
    answer(observer, () -> GetScheduleResponse.newBuilder().setSchedule(schedule).build());
  }

  @Override
  public void listSchedules(
      ListSchedulesRequest request, StreamObserver<ListSchedulesResponse> observer) {
    String page = request.getPageToken();
    ListSchedulesResponse.Builder list = ListSchedulesResponse.newBuilder();
    list.addSchedules(Schedule.newBuilder().setLockPath(request.getPrefix() + page));
    answer(observer, () -> list.setNextPageToken(page.isEmpty() ? "2" : "").build());
  }

  @Override
  public void previewSchedule(
      PreviewScheduleRequest request, StreamObserver<PreviewScheduleResponse> observer) {
    PreviewScheduleResponse.Builder preview = PreviewScheduleResponse.newBuilder();
    preview.getUnderstoodBuilder().setExpression(request.getSpec().getCron());
    answer(observer, preview::build);
  }

  @Override
  public void pauseSchedule(
      PauseScheduleRequest request, StreamObserver<PauseScheduleResponse> observer) {
    Schedule paused = schedule(request.getLock()).toBuilder().setPaused(true).build();
    answer(observer, () -> PauseScheduleResponse.newBuilder().setSchedule(paused).build());
  }

  @Override
  public void resumeSchedule(
      ResumeScheduleRequest request, StreamObserver<ResumeScheduleResponse> observer) {
    answer(observer, ResumeScheduleResponse::getDefaultInstance);
  }

  @Override
  public void removeSchedule(
      RemoveScheduleRequest request, StreamObserver<RemoveScheduleResponse> observer) {
    Schedule.Builder removed = schedule(request.getLock()).toBuilder();
    if (request.getForce()) {
      removed.getRemovedBuilder().setReason(request.getReason());
    }
    answer(observer, () -> RemoveScheduleResponse.newBuilder().setSchedule(removed).build());
  }

  @Override
  public void resetSchedule(
      ResetScheduleRequest request, StreamObserver<ResetScheduleResponse> observer) {
    Schedule.Builder reset = schedule(request.getLock()).toBuilder();
    reset.getResetBuilder().setReason(request.getReason()).setAt(request.getWatermark());
    answer(observer, () -> ResetScheduleResponse.newBuilder().setSchedule(reset).build());
  }

  @Override
  public void triggerSchedule(
      TriggerScheduleRequest request, StreamObserver<TriggerScheduleResponse> observer) {
    Schedule asked =
        schedule(request.getLock()).toBuilder()
            .addWaitingRequestIds(request.getRequestId())
            .build();
    answer(observer, () -> TriggerScheduleResponse.newBuilder().setSchedule(asked).build());
  }
}
