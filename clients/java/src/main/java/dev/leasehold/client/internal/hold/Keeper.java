package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.Loss;
import dev.leasehold.client.Notice;
import dev.leasehold.client.Reason;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.client.internal.connect.Silence;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Resume;
import dev.leasehold.v1.Revoked;
import dev.leasehold.v1.Validity;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/**
 * Keeps a hold true: reads its stream, watches the clock, and resumes when the sidecar was away.
 */
public final class Keeper {
  private final ClientContext context;
  private final HoldState state;
  private final Grant grant;
  private final HoldEvents events;
  private final HoldLine line;
  private final LossInterrupt interrupt;
  private final HoldQuestions questions;
  private final HoldCheckpoint checkpoint;
  private final CompletableFuture<Loss> lost = new CompletableFuture<>();
  private final CompletableFuture<Notice> revoked = new CompletableFuture<>();

  /** The hold is lost when the client is closed. */
  private final Runnable closing;

  private LifeLine stream;

  /** Looks after {@link #stream}. */
  private Silence silence;

  /** Went silent, and must not be cancelled before the hold was resumed elsewhere (S14). */
  private Optional<LifeLine> silent = Optional.empty();

  private Future<?> timer = CompletableFuture.completedFuture(null);
  private boolean stopped;

  /** A release was begun, and not answered yet. */
  private boolean releasing;

  /** Keeps the hold of {@code grant}, which {@code stream} has brought. */
  public Keeper(
      ClientContext context, HoldState state, Grant grant, LifeLine stream, HoldEvents events) {
    this.context = context;
    this.state = state;
    this.closing = this::abandon;
    this.grant = grant;
    this.stream = stream;
    this.events = events;
    this.line = new HoldLine(context, state, grant, stream);
    this.questions = new HoldQuestions(context, state, line, this::answered, this::watch);
    this.checkpoint = new HoldCheckpoint(state, line, grant);
    this.interrupt = new LossInterrupt(task -> context.after(LossInterrupt.LOOK, task));
  }

  /** The validity of the hold, and its end. */
  public HoldState state() {
    return state;
  }

  /** The grant that the hold began with. */
  public Grant grant() {
    return grant;
  }

  /** Interrupts the thread of the holder. */
  public LossInterrupt interrupt() {
    return interrupt;
  }

  /** Completed with the loss, on a thread that may be blocked. */
  public CompletableFuture<Loss> lost() {
    return lost;
  }

  /** Completed with the notice, on a thread that may be blocked. */
  public CompletableFuture<Notice> revoked() {
    return revoked;
  }

  /** The checkpoint of the lock, and its saves. */
  public HoldCheckpoint checkpoint() {
    return checkpoint;
  }

  ClientContext context() {
    return context;
  }

  /** Begins; {@code left} is the time left, as it was just read. */
  public void start(Duration left) {
    context.add(closing);
    state.whenLost(this::tellLoss);
    events.tell(
        new HoldEvent.Granted(grant.getLockPath(), grant.getFencingToken(), state.validUntil()));
    listen();
    watch(left);
  }

  private void listen() {
    LifeLine heard = current();
    Silence listening = context.silence().start(() -> onSilence(heard));
    synchronized (this) {
      silence = listening;
    }
    heard.read(
        signal -> {
          listening.heard();
          onSignal(signal);
        });
  }

  private synchronized void stopListening() {
    if (silence != null) {
      silence.stop();
    }
  }

  /** The connection is dead, though nobody has closed it. */
  private void onSilence(LifeLine heard) {
    if (!state.isValid() || heard != current()) {
      return;
    }
    heard.pause();
    heard.retireConnection();
    synchronized (this) {
      silent = Optional.of(heard);
    }
    broke(Connection.silent(context.limits().silence()).getMessage());
  }

  /** What the hold goes on with. */
  public HoldLine line() {
    return line;
  }

  /**
   * The hold is lost because its client is closed, which the sidecar is told by a call: over a
   * network the end of the stream says nothing (S14). Not where a resume may have made a newer
   * generation (S16).
   */
  private void abandon() {
    if (!state.isValid()) {
      return;
    }
    OptionalLong generation = line.settled();
    state.lose(new Loss(LossReason.LOSS_REASON_UNSPECIFIED, "the client was closed"));
    generation.ifPresent(
        newest -> context.closesAfter(current().giveUp(line.calls(), grant.getLeaseId(), newest)));
  }

  /** No try to resume will ever work. */
  private void refused(Loss loss) {
    line.refuse(loss);
    state.lose(loss);
  }

  /** Whether a release waits for its answer, or for that to a resume. */
  private synchronized boolean isAwaited() {
    boolean unanswered = releasing || line.isUnanswered();
    return unanswered && !stopped && state.loss().isEmpty();
  }

  /** Ends the stream. The hold must have ended before (S13). */
  public void stop() {
    LifeLine last;
    synchronized (this) {
      stopped = true;
      timer.cancel(false);
      last = stream;
    }
    stopListening();
    context.remove(closing);
    last.over(state.loss().isPresent());
    cancelSilent();
  }

  private void cancelSilent() {
    Optional<LifeLine> dead;
    synchronized (this) {
      dead = silent;
      silent = Optional.empty();
    }
    dead.ifPresent(LifeLine::cancel);
  }

  /** A release begins: the stream lives until it is answered. */
  synchronized void releasing() {
    releasing = true;
  }

  /**
   * The release was answered. The sidecar ends the stream by itself: {@link #watch} cancels it only
   * if that does not happen.
   */
  void released() {
    synchronized (this) {
      releasing = false;
    }
    stopListening();
    context.remove(closing);
  }

  private synchronized void streamEnded() {
    timer.cancel(false);
  }

  private void tellLoss(Loss loss) {
    interrupt.fire();
    stop();
    events.tell(new HoldEvent.Lost(loss));
    context.workers().execute(() -> lost.complete(loss));
  }

  /** The newest stream of the hold. */
  public synchronized LifeLine current() {
    return stream;
  }

  private void onSignal(Signal<HoldLeaseResponse> signal) {
    if (!state.isValid()) {
      if (signal instanceof Signal.End<HoldLeaseResponse>) {
        streamEnded();
      }
      return;
    }
    if (signal instanceof Signal.Message<HoldLeaseResponse> message) {
      takeIn(message.response()).ifPresent(state::lose);
    } else if (signal instanceof Signal.End<HoldLeaseResponse> end) {
      stopListening();
      Optional<Loss> refusal = Losses.ifFinal(end.why());
      if (refusal.isPresent()) {
        state.lose(refusal.get());
        return;
      }
      broke(end.why().getMessage());
    }
  }

  private void broke(String detail) {
    line.interrupted();
    events.tell(new HoldEvent.Interrupted(detail));
    // The same for every try, so that one whose answer was lost can be repeated.
    resume(UUID.randomUUID().toString(), Constants.FIRST_PAUSE);
  }

  /** Takes in an event, and tells it if the hold goes on; the loss, if the event is one. */
  private Optional<Loss> takeIn(HoldLeaseResponse response) {
    switch (response.getEventCase()) {
      case RENEWED -> {
        line.replaceResumeToken(response.getRenewed().getResumeToken(), line.generation());
        if (response.getRenewed().hasMaxHoldEnds()) {
          state.takeInEnd(response.getRenewed().getMaxHoldEnds(), Optional.empty());
        }
        if (heard(response.getRenewed().hasValidity(), response.getRenewed().getValidity())) {
          events.tell(new HoldEvent.Renewed(state.validUntil()));
        }
      }
      case AT_RISK -> {
        dev.leasehold.v1.AtRisk atRisk = response.getAtRisk();
        if (heard(atRisk.hasValidity(), atRisk.getValidity())) {
          events.tell(
              new HoldEvent.AtRisk(
                  state.validUntil(), Reason.of(atRisk.getCause()), atRisk.getDetail()));
        }
      }
      case RECOVERED -> {
        if (heard(response.getRecovered().hasValidity(), response.getRecovered().getValidity())) {
          events.tell(new HoldEvent.Recovered(state.validUntil()));
        }
      }
      case DRAINING ->
          events.tell(
              new HoldEvent.Draining(Durations.fromWire(response.getDraining().getTimeLeft())));
      case REVOKED -> revoked(response.getRevoked());
      case LOST -> {
        return Optional.of(Losses.of(response.getLost()));
      }
      case RELEASED -> {
        return Losses.foundBy(response.getReleased().getResult())
            .or(() -> Optional.of(Losses.released()));
      }
      // Said before a grant only, or newer than this client.
      case WAITING, GRANTED, BUSY, ALREADY_DONE, SKIPPED, EVENT_NOT_SET -> {}
    }
    return Optional.empty();
  }

  private void revoked(Revoked said) {
    if (heard(said.hasValidity(), said.getValidity())) {
      giveNotice(said.getBreakNote());
    }
  }

  /** The sidecar's answer to a question tells of a break, too. */
  private void answered(GetHoldResponse answer) {
    if (answer.getState() == dev.leasehold.v1.HoldState.HOLD_STATE_REVOKED && state.isValid()) {
      giveNotice(answer.getBreakNote());
    }
  }

  /** S22: the hold goes on until its deadline, and the holder is told once. */
  private void giveNotice(BreakNote note) {
    if (state.notice().isEmpty()) {
      Notice notice = state.revoke(note);
      events.tell(new HoldEvent.Revoked(notice));
      context.workers().execute(() -> revoked.complete(notice));
    }
  }

  /** Takes in a validity that answers no request of ours. Says whether the hold goes on. */
  private boolean heard(boolean present, Validity validity) {
    boolean goesOn = !present || state.takeIn(validity, Optional.empty());
    if (goesOn) {
      watch();
    }
    return goesOn;
  }

  /**
   * S16. Tries until it has worked or the hold is over. A try is never cut short while the hold is
   * valid, because the sidecar would read that as its end (S14).
   */
  private void resume(String attemptId, Duration pause) {
    // Goes on where the holder has ended the hold: its release waits for the answer (S16).
    boolean valid = state.isValid();
    if (state.loss().isPresent()) {
      return;
    }
    BootInstant sent = context.clock().earliest();
    Optional<String> resumeToken = line.beginResume();
    if (resumeToken.isEmpty()) {
      return;
    }
    Resume.Builder resume =
        Resume.newBuilder().setAttemptId(attemptId).setResumeToken(resumeToken.get());
    if (valid) {
      state.told().ifPresent(resume::setToldValidUntil);
    }
    LifeLine attempt = current().resume(resume.build());
    boolean late;
    synchronized (this) {
      late = stopped;
      stream = attempt;
    }
    if (late) {
      attempt.cancel();
      return;
    }
    attempt.read(signal -> onAnswer(signal, attemptId, sent, pause));
  }

  private void onAnswer(
      Signal<HoldLeaseResponse> signal, String attemptId, BootInstant sent, Duration pause) {
    if (signal instanceof Signal.Message<HoldLeaseResponse> message) {
      if (message.response().hasGranted()) {
        resumed(message.response().getGranted(), sent);
      } else if (message.response().hasLost()) {
        refused(Losses.of(message.response().getLost()));
      }
    } else if (signal instanceof Signal.End<HoldLeaseResponse> end) {
      Optional<Loss> refusal = Losses.ifFinal(end.why());
      if (refusal.isPresent()) {
        refused(refusal.get());
        return;
      }
      context.after(
          pause, () -> resume(attemptId, Durations.shorter(pause.multipliedBy(2), Constants.NAP)));
    }
  }

  private void resumed(Grant again, BootInstant sent) {
    if (again.getFencingToken() != grant.getFencingToken()) {
      String detail = "the sidecar resumed another hold than this one";
      refused(new Loss(LossReason.LOSS_REASON_TAKEN, detail));
      return;
    }
    line.resumed(again, current());
    cancelSilent();
    checkpoint.resumed(again);
    if (again.hasMaxHoldEnds()) {
      state.takeInEnd(again.getMaxHoldEnds(), Optional.of(sent));
    }
    if (!state.takeIn(again.getValidity(), Optional.of(sent))) {
      return;
    }
    events.tell(new HoldEvent.Resumed(state.validUntil()));
    listen();
  }

  /**
   * Finds out when the hold is over, and asks for the validity where that is needed (S21). Reads
   * the clock after every wake-up (S3).
   */
  private void watch() {
    watch(state.remaining());
  }

  private void watch(Duration left) {
    if (left.isZero() && !isAwaited()) {
      stop();
      return;
    }
    Duration pause = left.isZero() ? Constants.NAP : Durations.shorter(left, Constants.NAP);
    if (!left.isZero()) {
      pause = questions.askIfDue(pause);
    }
    Future<?> next = context.after(pause, this::watch);
    synchronized (this) {
      timer.cancel(false);
      timer = next;
      if (stopped) {
        next.cancel(false);
      }
    }
  }
}
