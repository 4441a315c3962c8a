package dev.leasehold.client.internal.runs;

import com.google.common.util.concurrent.ListenableFuture;
import dev.leasehold.client.Completion;
import dev.leasehold.client.Constants;
import dev.leasehold.client.ProtocolException;
import dev.leasehold.client.RunBody;
import dev.leasehold.client.Runs;
import dev.leasehold.client.ScheduleListener;
import dev.leasehold.client.ScheduleSpec;
import dev.leasehold.client.Schedules;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.GetScheduleRequest;
import dev.leasehold.v1.GetScheduleResponse;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.ListSchedulesResponse;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.PauseScheduleRequest;
import dev.leasehold.v1.PauseScheduleResponse;
import dev.leasehold.v1.PreviewScheduleRequest;
import dev.leasehold.v1.PreviewScheduleResponse;
import dev.leasehold.v1.RemoveScheduleRequest;
import dev.leasehold.v1.RemoveScheduleResponse;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.ResetScheduleResponse;
import dev.leasehold.v1.ResumeScheduleRequest;
import dev.leasehold.v1.ResumeScheduleResponse;
import dev.leasehold.v1.Schedule;
import dev.leasehold.v1.ScheduleServiceGrpc.ScheduleServiceFutureStub;
import dev.leasehold.v1.TriggerScheduleRequest;
import dev.leasehold.v1.TriggerScheduleResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;

/** Schedules by gRPC. */
public abstract class GrpcSchedules implements Schedules {
  protected final ClientContext context;

  /** Its calls go over the connections of {@code context}. */
  public GrpcSchedules(ClientContext context) {
    this.context = context;
  }

  /** How long to wait between two tries. */
  protected final Pacing pacing() {
    return new Pacing(context::rest, () -> ThreadLocalRandom.current().nextDouble());
  }

  @Override
  public void every(ScheduleSpec spec, RunBody body) throws InterruptedException {
    every(spec, Optional.empty(), body);
  }

  @Override
  public void every(ScheduleSpec spec, ScheduleListener listener, RunBody body)
      throws InterruptedException {
    every(spec, Optional.of(listener), body);
  }

  private void every(ScheduleSpec spec, Optional<ScheduleListener> listener, RunBody body)
      throws InterruptedException {
    try (StreamRuns runs = StreamRuns.of(context, spec, listener)) {
      new Every(runs, pacing()).run(body);
    }
  }

  @Override
  public Runs runs(ScheduleSpec spec) {
    return StreamRuns.of(context, spec, Optional.empty());
  }

  @Override
  public Runs runs(ScheduleSpec spec, ScheduleListener listener) {
    return StreamRuns.of(context, spec, Optional.of(listener));
  }

  @Override
  public Schedule getSchedule(LockSelector lock) throws InterruptedException {
    GetScheduleRequest request = GetScheduleRequest.newBuilder().setLock(lock).build();
    GetScheduleResponse answer = call(stub -> stub.getSchedule(request));
    if (!answer.hasSchedule()) {
      throw new ProtocolException("it has no schedule");
    }
    return answer.getSchedule();
  }

  @Override
  public List<Schedule> listSchedules(ListSchedulesRequest request) throws InterruptedException {
    List<Schedule> all = new ArrayList<>();
    ListSchedulesRequest.Builder next = request.toBuilder();
    do {
      ListSchedulesRequest message = next.build();
      ListSchedulesResponse page = call(stub -> stub.listSchedules(message));
      all.addAll(page.getSchedulesList());
      next.setPageToken(page.getNextPageToken());
    } while (!next.getPageToken().isEmpty());
    return all;
  }

  @Override
  public PreviewScheduleResponse previewSchedule(PreviewScheduleRequest request)
      throws InterruptedException {
    PreviewScheduleRequest message = request.toBuilder().setNeeds(Needs.of(request)).build();
    return call(stub -> stub.previewSchedule(message));
  }

  @Override
  public Optional<Schedule> pauseSchedule(LockSelector lock) throws InterruptedException {
    PauseScheduleRequest request = PauseScheduleRequest.newBuilder().setLock(lock).build();
    PauseScheduleResponse answer = call(stub -> stub.pauseSchedule(request));
    return answer.hasSchedule() ? Optional.of(answer.getSchedule()) : Optional.empty();
  }

  @Override
  public Optional<Schedule> resumeSchedule(LockSelector lock) throws InterruptedException {
    ResumeScheduleRequest request = ResumeScheduleRequest.newBuilder().setLock(lock).build();
    ResumeScheduleResponse answer = call(stub -> stub.resumeSchedule(request));
    return answer.hasSchedule() ? Optional.of(answer.getSchedule()) : Optional.empty();
  }

  @Override
  public Optional<Schedule> removeSchedule(LockSelector lock, String reason, boolean force)
      throws InterruptedException {
    RemoveScheduleRequest request =
        RemoveScheduleRequest.newBuilder().setLock(lock).setReason(reason).setForce(force).build();
    RemoveScheduleResponse answer = call(stub -> stub.removeSchedule(request));
    return answer.hasSchedule() ? Optional.of(answer.getSchedule()) : Optional.empty();
  }

  @Override
  public Optional<Schedule> resetSchedule(ResetScheduleRequest request)
      throws InterruptedException {
    ResetScheduleResponse answer = call(stub -> stub.resetSchedule(request));
    return answer.hasSchedule() ? Optional.of(answer.getSchedule()) : Optional.empty();
  }

  @Override
  public Optional<Schedule> triggerSchedule(LockSelector lock, String requestId)
      throws InterruptedException {
    TriggerScheduleRequest request =
        TriggerScheduleRequest.newBuilder().setLock(lock).setRequestId(requestId).build();
    TriggerScheduleResponse answer = call(stub -> stub.triggerSchedule(request));
    return answer.hasSchedule() ? Optional.of(answer.getSchedule()) : Optional.empty();
  }

  @Override
  public CompleteRunResponse completeRun(String runId, Completion completion)
      throws InterruptedException {
    return Calls.await(
        StreamRun.send(context.calls(), completion.toMessage(runId), Constants.COMPLETION_TIMEOUT));
  }

  private <T> T call(Function<ScheduleServiceFutureStub, ListenableFuture<T>> method)
      throws InterruptedException {
    return Calls.await(context.calls().callSchedules(Constants.CALL_TIMEOUT, method));
  }
}
