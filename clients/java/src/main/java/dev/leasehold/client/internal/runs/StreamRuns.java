package dev.leasehold.client.internal.runs;

import com.google.common.util.concurrent.MoreExecutors;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.ProtocolException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.Runs;
import dev.leasehold.client.ScheduleEvent;
import dev.leasehold.client.ScheduleListener;
import dev.leasehold.client.ScheduleSpec;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.EventStream;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.client.internal.connect.Silence;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.client.internal.hold.HoldEvents;
import dev.leasehold.client.internal.hold.HoldState;
import dev.leasehold.client.internal.hold.Keeper;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.Standby;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.SubscribeScheduleResponse;
import dev.leasehold.v1.SubscribeScheduleResponse.EventCase;
import dev.leasehold.v1.UnderstoodSchedule;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * A subscription. Streams and timers put what happens into its inbox, and who asks for the next run
 * works that off.
 */
public final class StreamRuns implements Runs, Runnable {
  /** What comes. */
  private sealed interface News {
    /** A signal of a stream. */
    record Heard(
        EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> from,
        Signal<SubscribeScheduleResponse> signal)
        implements News {}

    /** A run is over, and its stream goes on if it is there. */
    record Over(Optional<EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse>> stream)
        implements News {}

    /** A pause is over. */
    record Rested() implements News {}

    /** Nothing comes any more. */
    record Ended(Supplier<RefusedException> why) implements News {}
  }

  /** What is waited for. */
  private enum Place {
    /** Nothing: there is no stream. */
    AWAY,
    RESTING,
    SUBSCRIBED,
    RUNNING
  }

  private final ClientContext context;
  private final SubscribeScheduleRequest request;
  private final Optional<ScheduleListener> listener;
  private final Executor inOrder;
  private final BlockingQueue<News> inbox = new LinkedBlockingQueue<>();

  /** Held by who asks for the next run, and guards what follows. */
  private final ReentrantLock asking = new ReentrantLock();

  private Place place = Place.AWAY;
  private BootInstant sent;

  private Duration pause = Constants.FIRST_PAUSE;

  private volatile UnderstoodSchedule understood;

  /** Between runs; null while there is none. */
  private EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> stream;

  /** Of {@link #stream}. */
  private Silence silence;

  /** Of the newest run; null before the first. */
  private RunCourse running;

  private boolean ended;

  private StreamRuns(
      ClientContext context,
      SubscribeScheduleRequest request,
      Optional<ScheduleListener> listener) {
    this.context = context;
    this.request = request;
    this.listener = listener;
    this.inOrder = MoreExecutors.newSequentialExecutor(context.workers());
  }

  static StreamRuns of(
      ClientContext context, ScheduleSpec spec, Optional<ScheduleListener> listener) {
    StreamRuns runs = new StreamRuns(context, spec.toMessage(), listener);
    context.add(runs);
    return runs;
  }

  /** The client was closed. */
  @Override
  public void run() {
    end(() -> RefusedException.of(Connection.closed()));
  }

  @Override
  public Optional<UnderstoodSchedule> understood() {
    return Optional.ofNullable(understood);
  }

  @Override
  public StreamRun next() throws InterruptedException {
    asking.lockInterruptibly();
    try {
      while (true) {
        if (place == Place.AWAY) {
          subscribe();
        }
        Optional<StreamRun> run = take(inbox.take());
        if (run.isPresent()) {
          run.get().interruptOnLoss();
          return run.get();
        }
      }
    } finally {
      asking.unlock();
    }
  }

  private void subscribe() {
    // T16: who was understood before is no new subscriber.
    SubscribeScheduleRequest message =
        request.toBuilder().setReconnected(understood != null).build();
    sent = context.clock().earliest();
    place = Place.SUBSCRIBED;
    listen(RunLine.subscribe(context, message));
  }

  private void listen(EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> opened) {
    Silence listening = context.silence().start(() -> onSilence(opened));
    boolean late;
    synchronized (this) {
      late = ended;
      stream = opened;
      silence = listening;
    }
    if (late) {
      hangUp();
      return;
    }
    opened.read(
        signal -> {
          listening.heard();
          if (isLast(signal)) {
            listening.stop();
            // What follows is for the run's keeper.
            opened.pause();
          }
          inbox.add(new News.Heard(opened, signal));
        });
  }

  private static boolean isLast(Signal<SubscribeScheduleResponse> signal) {
    return !(signal instanceof Signal.Message<SubscribeScheduleResponse> message)
        || message.response().getEventCase() == EventCase.RUN;
  }

  /** The connection is dead, though nobody has closed it. */
  private void onSilence(EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> silent) {
    silent.retireConnection();
    silent.cancel();
    Duration limit = context.limits().silence();
    inbox.add(
        new News.Heard(
            silent, new Signal.End<>(() -> RefusedException.of(Connection.silent(limit)))));
  }

  /** Leaves the stream between runs, if there is one. */
  private void hangUp() {
    EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> left;
    synchronized (this) {
      left = stream;
      stream = null;
      if (silence != null) {
        silence.stop();
      }
    }
    if (left != null) {
      left.cancel();
    }
  }

  private synchronized boolean isCurrent(
      EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse> other) {
    return other == stream;
  }

  /** Takes one step; the run, if it has come. */
  private Optional<StreamRun> take(News news) throws InterruptedException {
    if (news instanceof News.Ended last) {
      // The end stays the end.
      inbox.add(last);
      throw last.why.get();
    }
    if (news instanceof News.Rested) {
      place = Place.AWAY;
    } else if (news instanceof News.Over over) {
      place = over.stream.isPresent() ? Place.SUBSCRIBED : Place.AWAY;
      over.stream.ifPresent(this::listen);
    } else if (news instanceof News.Heard heard && isCurrent(heard.from)) {
      if (heard.signal instanceof Signal.End<SubscribeScheduleResponse> end) {
        interrupted(end.why());
      } else if (heard.signal instanceof Signal.Message<SubscribeScheduleResponse> message) {
        return hear(heard, message.response());
      }
    }
    return Optional.empty();
  }

  private Optional<StreamRun> hear(News.Heard heard, SubscribeScheduleResponse said)
      throws InterruptedException {
    switch (said.getEventCase()) {
      case STANDBY -> standBy(said.getStandby());
      case RUN -> {
        return begin(heard, said.getRun());
      }
      case DEFINITION_IN_FORCE ->
          tell(new ScheduleEvent.OtherDefinition(said.getDefinitionInForce()));
      case DRAINING ->
          tell(new ScheduleEvent.Draining(Durations.fromWire(said.getDraining().getTimeLeft())));
      // Of a run that is over, or newer than this client.
      case RENEWED, AT_RISK, RECOVERED, REVOKED, LOST, RECORDED, EVENT_NOT_SET -> {}
    }
    return Optional.empty();
  }

  private void standBy(Standby standby) {
    if (standby.hasUnderstood()) {
      understood = standby.getUnderstood();
      tell(new ScheduleEvent.Subscribed(understood));
    }
    pause = Constants.FIRST_PAUSE;
    tell(new ScheduleEvent.Waiting(standby));
  }

  /** Waits a little before the next try, if that may help. */
  private void interrupted(RefusedException why) {
    place = Place.AWAY;
    hangUp();
    if (Refusals.knowingSchedules(why) instanceof RefusedException failure
        && !Refusals.isBelowNeeds(failure)
        && (understood == null || !Refusals.mayPass(failure))) {
      throw failure;
    }
    tell(new ScheduleEvent.Interrupted(why.getMessage()));
    place = Place.RESTING;
    context.after(why.retryAfter().orElse(pause), () -> inbox.add(new News.Rested()));
    pause = Durations.shorter(pause.multipliedBy(2), Constants.LONGEST_RUN_PAUSE);
  }

  /** Begins a run that was granted. One whose validity is over, or cannot be learned, goes back. */
  private Optional<StreamRun> begin(News.Heard heard, dev.leasehold.v1.Run run)
      throws InterruptedException {
    if (!run.hasGrant() || !run.hasScheduledAt()) {
      place = Place.AWAY;
      hangUp();
      throw new ProtocolException("a run came without its grant or its occurrence");
    }
    Calls calls = heard.from.calls(context);
    Optional<HoldState> state = Optional.empty();
    try {
      state =
          Optional.of(Calls.await(HoldState.granted(context, calls, RunLine.grantOf(run), sent)));
    } catch (InterruptedException again) {
      inbox.add(heard);
      throw again;
    } catch (RefusedException unknown) {
      // It is given back.
    }
    Duration left = state.map(HoldState::remaining).orElse(Duration.ZERO);
    if (state.isEmpty() || left.isZero()) {
      Grant grant = run.getGrant();
      StreamRun.giveBack(
          calls,
          run.getRunId(),
          grant.getLeaseId(),
          grant.getGeneration(),
          context.limits().release());
      listen(heard.from);
      return Optional.empty();
    }
    place = Place.RUNNING;
    RunCourse course =
        new RunCourse(
            context,
            request,
            run.getRunId(),
            definition -> tell(new ScheduleEvent.OtherDefinition(definition)));
    HoldEvents events =
        new HoldEvents(
            listener.map(whole -> event -> whole.onEvent(new ScheduleEvent.OfRun(event))), inOrder);
    Keeper keeper =
        new Keeper(
            context, state.get(), RunLine.grantOf(run), RunLine.on(heard.from, course), events);
    synchronized (this) {
      stream = null;
      running = course;
    }
    course.back().thenAccept(back -> inbox.add(new News.Over(back)));
    keeper.start(left);
    return Optional.of(new StreamRun(run, keeper, course));
  }

  private void tell(ScheduleEvent event) {
    listener.ifPresent(whole -> inOrder.execute(() -> whole.onEvent(event)));
  }

  @Override
  public void close() {
    end(
        () ->
            RefusedException.of(
                Status.CANCELLED
                    .withDescription("the subscription was closed")
                    .asRuntimeException()));
  }

  private void end(Supplier<RefusedException> why) {
    RunCourse last;
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      last = running;
    }
    context.remove(this);
    hangUp();
    if (last != null) {
      // No run follows the one that goes on.
      last.back().thenAccept(back -> back.ifPresent(EventStream::cancel));
    }
    inbox.add(new News.Ended(why));
  }
}
