package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.BusyException;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.HoldListener;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.Loss;
import dev.leasehold.client.LostException;
import dev.leasehold.client.OccurrenceOverException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.client.internal.connect.Silence;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Waiting;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;

/** A hold being asked for. Cancelled, it leaves the queue, and a grant on its way is released. */
public final class HoldOpening extends CompletableFuture<Hold> {
  private final ClientContext context;
  private final LeaseSpec request;
  private final HoldEvents events;

  /** Completes this. */
  private final Executor completer;

  /** The caller pauses where no sidecar answers, so that the wait is not one for that. */
  private final boolean paced;

  /** When it was asked for: the wait counts from here, over all connections. */
  private final BootInstant began;

  private HoldLeaseLine stream;
  private Duration pause = Constants.FIRST_PAUSE;

  /** It has asked before, so that only what is left of its wait is asked for. */
  private boolean asked;

  /** It has stood in the queue, so a break of the connection is not the end of the wait. */
  private boolean waited;

  private HoldOpening(
      ClientContext context,
      LeaseSpec request,
      HoldEvents events,
      Executor completer,
      boolean paced) {
    this.context = context;
    this.request = request;
    this.events = events;
    this.completer = completer;
    this.paced = paced;
    this.began = context.clock().earliest();
  }

  /** Asks for a lock. {@code completer} runs what follows on the answer. */
  public static HoldOpening open(
      ClientContext context,
      LeaseSpec request,
      Optional<HoldListener> listener,
      Executor completer) {
    return open(context, request, listener, completer, false);
  }

  /** One whose caller pauses by itself where no sidecar answers, if it is {@code paced}. */
  public static HoldOpening open(
      ClientContext context,
      LeaseSpec request,
      Optional<HoldListener> listener,
      Executor completer,
      boolean paced) {
    HoldEvents events = new HoldEvents(listener, context.workers());
    HoldOpening opening = new HoldOpening(context, request, events, completer, paced);
    Runnable closed = opening::tellClosed;
    context.add(closed);
    opening.ask();
    opening.whenComplete(
        (hold, error) -> {
          context.remove(closed);
          if (opening.isCancelled()) {
            opening.current().cancel();
          }
        });
    return opening;
  }

  /** Whatever was granted or will be is released. */
  public void giveUp() {
    if (cancel(true)) {
      return;
    }
    try {
      ((StreamHold) getNow(null)).abandon();
    } catch (CompletionException failed) {
      // Nothing was granted, so there is nothing to release.
    }
  }

  /** Also between two rounds of waiting, when no stream is there that would end. */
  private void tellClosed() {
    fail(RefusedException.of(Connection.closed()));
  }

  private synchronized HoldLeaseLine current() {
    return stream;
  }

  private void ask() {
    if (isDone()) {
      return;
    }
    dev.leasehold.v1.LeaseSpec spec = spec();
    BootInstant sent = context.clock().earliest();
    HoldLeaseRequest message = HoldLeaseRequest.newBuilder().setSpec(spec).build();
    HoldLeaseLine asked = HoldLeaseLine.open(context, message);
    synchronized (this) {
      stream = asked;
    }
    Silence silence = context.silence().start(() -> silent(asked));
    Round round = new Round(asked, silence, sent);
    asked.read(signal -> onSignal(round, signal));
    if (isCancelled()) {
      asked.cancel();
    }
  }

  /** One asking. */
  private record Round(HoldLeaseLine stream, Silence silence, BootInstant sent) {
    void end() {
      silence.stop();
      stream.cancel();
    }
  }

  private dev.leasehold.v1.LeaseSpec spec() {
    boolean again = asked && !request.toMessage().getWaitWithoutEnd();
    return again ? request.waitUpTo(waitLeft()).toMessage() : request.toMessage();
  }

  /** What is left of the wait asked for. */
  private Duration waitLeft() {
    Duration wait = Durations.fromWire(request.toMessage().getWait());
    return Durations.atLeastZero(wait.minus(context.clock().latest().since(began)));
  }

  /** Nothing was heard for too long: the connection is dead, though nobody has closed it. */
  private void silent(HoldLeaseLine asked) {
    if (isDone()) {
      return;
    }
    asked.retireConnection();
    asked.cancel();
    ended(RefusedException.of(Connection.silent(context.limits().silence())));
  }

  private boolean goesOn() {
    return request.toMessage().getWaitWithoutEnd() || !waitLeft().isZero();
  }

  private void onSignal(Round round, Signal<HoldLeaseResponse> signal) {
    round.silence.heard();
    if (signal instanceof Signal.End<HoldLeaseResponse> end) {
      round.silence.stop();
      ended(end.why());
    } else if (signal instanceof Signal.Message<HoldLeaseResponse> message) {
      HoldLeaseResponse response = message.response();
      switch (response.getEventCase()) {
        case WAITING -> waiting(response.getWaiting());
        case GRANTED -> {
          round.silence.stop();
          // What follows is for the keeper.
          round.stream.pause();
          granted(response.getGranted(), round.sent);
        }
        case BUSY -> {
          round.end();
          busy(response.getBusy());
        }
        case LOST -> {
          round.end();
          fail(new LostException(Losses.of(response.getLost())));
        }
        case ALREADY_DONE -> {
          round.end();
          fail(Grants.over(request, OccurrenceOverException.of(response.getAlreadyDone())));
        }
        case SKIPPED -> {
          round.end();
          fail(Grants.over(request, OccurrenceOverException.of(response.getSkipped())));
        }
        case RENEWED, AT_RISK, RECOVERED, DRAINING, REVOKED, RELEASED, EVENT_NOT_SET -> {}
      }
    }
  }

  private void ended(RefusedException why) {
    // A wait is also one for a sidecar that is starting.
    boolean mayAsk = waited || !paced;
    if (((mayAsk && Refusals.isBreak(why)) || Refusals.isBelowNeeds(why)) && goesOn()) {
      asked = true;
      context.after(pause, this::ask);
      pause = Durations.shorter(pause.multipliedBy(2), Constants.LONGEST_PAUSE);
    } else {
      fail(why);
    }
  }

  private void waiting(Waiting waiting) {
    waited = true;
    pause = Constants.FIRST_PAUSE;
    events.tell(new HoldEvent.Waiting(waiting.getPosition(), waiting.getRecord()));
  }

  private void busy(Busy busy) {
    if (request.toMessage().getWaitWithoutEnd()) {
      Duration rest =
          Durations.shorter(Durations.fromWire(busy.getRetryAfter()), Constants.LONGEST_PAUSE);
      context.after(rest, this::ask);
    } else {
      fail(new BusyException(busy));
    }
  }

  private void granted(Grant grant, BootInstant sent) {
    HoldState.granted(context, current().calls(), grant, sent)
        .whenComplete(
            (state, error) -> {
              if (error == null) {
                hand(state, grant);
              } else {
                current().cancel();
                fail(Calls.cause(error));
              }
            });
  }

  private void hand(HoldState state, Grant grant) {
    Duration left = state.remaining();
    if (left.isZero()) {
      current().cancel();
      Loss late = new Loss(LossReason.LOSS_REASON_EXPIRED, "the grant came too late");
      fail(new LostException(state.loss().orElse(late)));
      return;
    }
    Keeper keeper = new Keeper(context, state, grant, current(), events);
    StreamHold hold = new StreamHold(keeper);
    keeper.start(left);
    completer.execute(
        () -> {
          if (!complete(hold)) {
            hold.abandon();
          }
        });
  }

  private void fail(Throwable error) {
    completer.execute(() -> completeExceptionally(error));
  }
}
