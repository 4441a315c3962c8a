package dev.leasehold.client;

import dev.leasehold.client.HoldStream.Signal;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LeaseSpec;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Validity;
import dev.leasehold.v1.Waiting;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;

/** A hold being asked for. Cancelled, it leaves the queue, and a grant on its way is given back. */
final class HoldOpening extends CompletableFuture<Hold> {
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(1);

  private final ClientContext context;
  private final LeaseRequest request;
  private final HoldEvents events;

  /** Completes this. */
  private final Executor completer;

  private HoldStream stream;

  private HoldOpening(
      ClientContext context, LeaseRequest request, HoldEvents events, Executor completer) {
    this.context = context;
    this.request = request;
    this.events = events;
    this.completer = completer;
  }

  static HoldOpening open(
      ClientContext context,
      LeaseRequest request,
      Optional<HoldListener> listener,
      Executor completer) {
    HoldEvents events = new HoldEvents(listener, context.workers());
    HoldOpening opening = new HoldOpening(context, request, events, completer);
    opening.ask();
    opening.whenComplete(
        (hold, error) -> {
          if (opening.isCancelled()) {
            opening.current().cancel();
          }
        });
    return opening;
  }

  /** Gives up: whatever was granted or will be is given back. */
  void giveUp() {
    if (cancel(true)) {
      return;
    }
    try {
      getNow(null).abandon();
    } catch (CompletionException failed) {
      // Nothing was granted, so there is nothing to give back.
    }
  }

  private synchronized HoldStream current() {
    return stream;
  }

  private void ask() {
    if (isDone()) {
      return;
    }
    LeaseSpec spec = spec();
    BootInstant sent = context.clock().earliest();
    HoldLeaseRequest message = HoldLeaseRequest.newBuilder().setSpec(spec).build();
    HoldStream asked = HoldStream.open(context.connection(), message);
    synchronized (this) {
      stream = asked;
    }
    Duration wait = Spans.fromWire(spec.getWait());
    asked.read(signal -> onSignal(asked, signal, sent, wait));
    if (isCancelled()) {
      asked.cancel();
    }
  }

  private LeaseSpec spec() {
    if (!request.waitsWithoutEnd()) {
      return request.toSpec();
    }
    return request.waitUpTo(context.longestWait()).toSpec();
  }

  private void onSignal(HoldStream asked, Signal signal, BootInstant sent, Duration wait) {
    if (signal instanceof Signal.End end) {
      if (request.waitsWithoutEnd() && waitTooLong(end.why())) {
        // The operator has set a lower ceiling, which is not told in a form for programs.
        context.halveLongestWait(wait);
        ask();
      } else {
        fail(end.why());
      }
    } else if (signal instanceof Signal.Message message) {
      HoldLeaseResponse response = message.response();
      switch (response.getEventCase()) {
        case WAITING -> tell(response.getWaiting());
        case GRANTED -> {
          // What follows is for the keeper.
          asked.pause();
          granted(response.getGranted(), sent);
        }
        case BUSY -> {
          asked.cancel();
          busy(response.getBusy());
        }
        case LOST -> {
          asked.cancel();
          fail(new HoldLostException(Loss.of(response.getLost())));
        }
        case RENEWED, AT_RISK, RECOVERED, DRAINING, RELEASED, EVENT_NOT_SET -> {}
      }
    }
  }

  private static boolean waitTooLong(RefusedException refusal) {
    return refusal.is(Reason.INVALID_FIELD)
        && refusal.violations().stream()
            .map(FieldViolation::field)
            .toList()
            .equals(List.of("spec.wait"));
  }

  private void tell(Waiting waiting) {
    events.tell(new HoldEvent.Waiting(waiting.getPosition(), waiting.getRecord()));
  }

  private void busy(Busy busy) {
    if (request.waitsWithoutEnd()) {
      Duration pause = Spans.shorter(Spans.fromWire(busy.getRetryAfter()), LONGEST_PAUSE);
      context.after(pause, this::ask);
    } else {
      fail(new LockBusyException(busy));
    }
  }

  /**
   * S21: elsewhere than on the sidecar's kernel the grant's span counts from before the request,
   * and a wait may have used it up. Then the validity is asked for anew.
   */
  private void granted(Grant grant, BootInstant sent) {
    HoldState state = new HoldState(context.clock(), grant.getValidity(), sent);
    if (!state.untilNextQuestion().map(Duration::isZero).orElse(false)) {
      hand(state, grant);
      return;
    }
    BootInstant asked = context.clock().earliest();
    context
        .calls()
        .reportProgress(grant.getLeaseId(), grant.getGeneration(), true, Calls.PATIENCE)
        .whenComplete((validity, error) -> answered(grant, asked, validity, error));
  }

  private void answered(Grant grant, BootInstant asked, Validity validity, Throwable error) {
    if (error == null) {
      hand(new HoldState(context.clock(), validity, asked), grant);
    } else {
      current().cancel();
      fail(Calls.cause(error));
    }
  }

  private void hand(HoldState state, Grant grant) {
    Duration left = state.remaining();
    if (left.isZero()) {
      current().cancel();
      Loss late = new Loss(LossReason.LOSS_REASON_EXPIRED, "the grant came too late");
      fail(new HoldLostException(state.loss().orElse(late)));
      return;
    }
    HoldKeeper keeper = new HoldKeeper(context, state, grant, current(), events);
    Hold hold = new Hold(keeper);
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
