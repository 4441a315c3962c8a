package dev.leasehold.client.internal.runs;

import dev.leasehold.client.Constants;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.EventStream;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.client.internal.hold.LifeLine;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Released;
import dev.leasehold.v1.Resume;
import dev.leasehold.v1.Run;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.SubscribeScheduleResponse;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * The stream of a subscription while a run goes on, which is the life line of the run's hold (S14).
 * It outlives the run if the run's outcome was told and the sidecar has taken it. Of a run that was
 * lost it ends: its work may go on, and is followed by another run only if that is asked for.
 */
final class RunLine extends LifeLine {
  private final RunCourse course;
  private final EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> stream;

  /** This stream has brought the run. */
  private boolean brought;

  /** The sidecar has said on this stream that the run is over. */
  private boolean told;

  /** The stream has ended, or was ended from here. */
  private boolean broken;

  /** It was lost: the clock has found that, or the sidecar has said so. */
  private boolean lost;

  private RunLine(
      RunCourse course,
      EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> stream,
      boolean brought) {
    super(stream);
    this.course = course;
    this.stream = stream;
    this.brought = brought;
  }

  /** On the stream that has brought the run. */
  static RunLine on(
      EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> stream, RunCourse course) {
    return new RunLine(course, stream, true);
  }

  /** Subscribes, without a deadline. */
  static EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> subscribe(
      ClientContext context, SubscribeScheduleRequest request) {
    EventStream.Method<SubscribeScheduleRequest, SubscribeScheduleResponse> method =
        (connection, message, observer) ->
            connection.scheduleStreams().subscribeSchedule(message, observer);
    SubscribeScheduleRequest needing = request.toBuilder().setNeeds(Needs.of(request)).build();
    return EventStream.open(context, method, needing);
  }

  @Override
  public void read(Consumer<Signal<HoldLeaseResponse>> reader) {
    stream.read(signal -> hear(signal, reader));
  }

  private void hear(
      Signal<SubscribeScheduleResponse> signal, Consumer<Signal<HoldLeaseResponse>> reader) {
    if (signal instanceof Signal.Message<SubscribeScheduleResponse> message) {
      reader.accept(new Signal.Message<>(ofHold(message.response())));
    } else if (signal instanceof Signal.End<SubscribeScheduleResponse> end) {
      synchronized (this) {
        broken = true;
      }
      reader.accept(new Signal.End<>(end.told()));
    }
    endIfLost();
  }

  /** What an event means for the hold; an empty message, if nothing. */
  private HoldLeaseResponse ofHold(SubscribeScheduleResponse said) {
    HoldLeaseResponse.Builder event = HoldLeaseResponse.newBuilder();
    switch (said.getEventCase()) {
      case RUN -> {
        synchronized (this) {
          brought = true;
        }
        event.setGranted(grantOf(said.getRun()));
      }
      case RENEWED -> event.setRenewed(said.getRenewed());
      case AT_RISK -> event.setAtRisk(said.getAtRisk());
      case RECOVERED -> event.setRecovered(said.getRecovered());
      case REVOKED -> event.setRevoked(said.getRevoked());
      case DRAINING -> {
        course.drain(Durations.fromWire(said.getDraining().getTimeLeft()));
        event.setDraining(said.getDraining());
      }
      case LOST -> {
        lastWord();
        synchronized (this) {
          lost = true;
        }
        event.setLost(said.getLost());
      }
      case RECORDED -> {
        // Otherwise it is of an earlier run.
        if (said.getRecorded().getRunId().equals(course.runId())) {
          lastWord();
          event.setReleased(Released.getDefaultInstance());
        }
      }
      case DEFINITION_IN_FORCE -> course.tell(said.getDefinitionInForce());
      // Told when the run is over, or newer than this client.
      case STANDBY, EVENT_NOT_SET -> {}
    }
    return event.build();
  }

  /**
   * The hold of a run, which is to end at the run's deadline here: the sidecar's lasts a little
   * longer, in which the outcome still counts (T12).
   */
  static Grant grantOf(Run run) {
    Grant grant = run.getGrant();
    return run.hasDeadline() ? grant.toBuilder().setMaxHoldEnds(run.getDeadline()).build() : grant;
  }

  /** What comes after it is for whoever waits for the next run. */
  private void lastWord() {
    stream.pause();
    synchronized (this) {
      told = true;
    }
  }

  @Override
  public RunLine resume(Resume resume) {
    SubscribeScheduleRequest request =
        course.subscription().toBuilder()
            .setReconnected(true)
            .setResume(resume)
            .setRunId(course.runId())
            .build();
    return new RunLine(course, subscribe(course.context(), request), false);
  }

  @Override
  public CompletableFuture<?> giveUp(Calls calls, String leaseId, long generation) {
    return StreamRun.giveBack(
        calls, course.runId(), leaseId, generation, course.context().limits().release());
  }

  @Override
  public void cancel() {
    synchronized (this) {
      broken = true;
    }
    super.cancel();
  }

  @Override
  public void over(boolean isLost) {
    synchronized (this) {
      // Of a run that was told lost, the stream ends at once.
      if (!isLost || lost) {
        // Its holder has ended it, and tells how: see completed().
        return;
      }
      lost = true;
    }
    endIfLost();
    course.context().after(Constants.LAST_WORD, this::end);
  }

  private void endIfLost() {
    boolean ends;
    synchronized (this) {
      ends = lost && (told || broken);
    }
    if (ends) {
      end();
    }
  }

  /** Ends the stream. May be repeated. */
  void end() {
    cancel();
    course.back().complete(Optional.empty());
  }

  /** The run's outcome was answered: the stream goes on to the next run. */
  void completed() {
    boolean goesOn;
    synchronized (this) {
      goesOn = brought && !broken && !lost;
    }
    stream.pause();
    if (!goesOn || !course.back().complete(Optional.of(stream))) {
      end();
    }
  }
}
