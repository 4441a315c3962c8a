package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Loss;
import dev.leasehold.client.LostException;
import dev.leasehold.client.ReleaseUnconfirmedException;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.v1.Grant;
import java.lang.ref.Cleaner;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What a hold goes on with: its newest generation and resume token, a resume under way (S16), and
 * its place on the connection of its stream, where all calls about it go: another sidecar does not
 * know it.
 */
public final class HoldLine {
  private static final Cleaner CLEANER = Cleaner.create();

  /** A call about the hold, of a generation and sent now. */
  @FunctionalInterface
  interface Call<T> {
    CompletableFuture<T> send(long generation, BootInstant sent);
  }

  private final ClientContext context;
  private final HoldState state;
  private final Grant grant;
  private final Connections.Place place;
  private String resumeToken;

  /** The newest that was answered. */
  private long generation;

  /** A resume was sent, and it is not known whether it has made a newer generation. */
  private boolean resuming;

  private Loss refused;
  private boolean releasing;

  HoldLine(ClientContext context, HoldState state, Grant grant, LifeLine stream) {
    this.context = context;
    this.state = state;
    place = stream.beside();
    this.grant = grant;
    resumeToken = grant.getResumeToken();
    generation = grant.getGeneration();
  }

  String leaseId() {
    return grant.getLeaseId();
  }

  /** Short calls about the hold, where its sidecar is. */
  public Calls calls() {
    return context.callsBeside(place);
  }

  /** Gives the place back: the hold's end was answered, or no holder waits for that. */
  public void leave() {
    place.close();
  }

  /** Gives the place back when {@code hold} is out of reach, so that no holder can end it. */
  public void leaveAfter(Object hold) {
    CLEANER.register(hold, place::close);
  }

  /** The newest generation that was answered. */
  public synchronized long generation() {
    return generation;
  }

  /** The stream broke: calls wait for the answer to a resume from now on. */
  synchronized void interrupted() {
    resuming = !releasing;
  }

  /** The token for a resume that is sent now. None once a release was sent: it is not undone. */
  synchronized Optional<String> beginResume() {
    if (releasing) {
      return Optional.empty();
    }
    resuming = true;
    return Optional.of(resumeToken);
  }

  void resumed(Grant again, LifeLine stream) {
    try (Connections.Place there = stream.beside()) {
      place.moveTo(there);
    }
    synchronized (this) {
      resuming = false;
      generation = again.getGeneration();
      resumeToken = again.getResumeToken();
    }
  }

  /** No try to resume will ever work. */
  synchronized void refuse(Loss loss) {
    refused = loss;
  }

  /** Whether the answer to a resume may still come. */
  synchronized boolean isUnanswered() {
    return resuming && refused == null;
  }

  /** The bounds of a generation have changed, and its resume token; empty replaces none. */
  synchronized void replaceResumeToken(String newest, long of) {
    if (!newest.isEmpty() && of == generation) {
      resumeToken = newest;
    }
  }

  /**
   * The generation to release. While a resume is unanswered that is the one of the answer, if it
   * comes within the validity and until {@code deadline}: a sidecar that has not noticed the break
   * would hand the lock on while another takes the hold up. Fails with the reason that forbids a
   * release.
   */
  public CompletableFuture<Long> releasable(BootInstant deadline) {
    BootInstant until = deadline.isBefore(state.validUntil()) ? deadline : state.validUntil();
    String why = "the hold was being resumed, and no sidecar has answered yet";
    return whenKnown(
        new Question(
            this::toRelease,
            () -> until.since(context.clock().latest()).isZero(),
            () -> new ReleaseUnconfirmedException(grant.getLockPath(), why, null)));
  }

  /**
   * The generation for a call that changes the hold and does not end it. While a resume is
   * unanswered that is the one of the answer, if it comes within the validity; fails with {@code
   * late} if not.
   */
  CompletableFuture<Long> usable(Supplier<? extends Throwable> late) {
    return whenKnown(new Question(this::settled, () -> !state.isValid(), late));
  }

  /** Makes a call of the newest generation that was answered. */
  <T> CompletableFuture<T> ask(Call<T> call) {
    return ask(generation(), call);
  }

  /**
   * Makes a call. It is repeated where its sidecar says that the hold is over, and the hold has
   * left that one (S16).
   */
  <T> CompletableFuture<T> ask(long asked, Call<T> call) {
    return call.send(asked, context.clock().earliest())
        .exceptionallyCompose(
            error -> {
              Throwable cause = Calls.cause(error);
              CompletableFuture<T> refused = CompletableFuture.failedFuture(cause);
              return takeIn(cause, asked)
                  ? refused
                  : usable(() -> cause)
                      .handle(
                          (newest, over) ->
                              over == null && state.isValid() ? ask(newest, call) : refused)
                      .thenCompose(Function.identity());
            });
  }

  /** What a call of a generation that was made at {@code sent} was answered with. */
  record Answered<T>(T answer, long generation, BootInstant sent) {}

  /**
   * Makes a call that counts only where the hold is: what a sidecar has done that the hold has
   * left, or is leaving, is done again where it is then (S16).
   */
  <T> CompletableFuture<Answered<T>> askHere(Call<T> call) {
    return askHere(generation(), call);
  }

  private <T> CompletableFuture<Answered<T>> askHere(long asked, Call<T> call) {
    Call<Answered<T>> noting =
        (generation, sent) ->
            call.send(generation, sent)
                .thenApply(answer -> new Answered<>(answer, generation, sent));
    return ask(asked, noting)
        .thenCompose(
            done ->
                usable(TimeoutException::new)
                    .handle(
                        (newest, over) ->
                            over != null || newest == done.generation()
                                ? CompletableFuture.completedFuture(done)
                                : askHere(newest, call))
                    .thenCompose(Function.identity()));
  }

  /**
   * Takes in why a call of the generation {@code asked} has failed. False if it tells the end of a
   * hold that is not the one as it is now: that has another generation, or may get one (S16).
   */
  boolean takeIn(Throwable error, long asked) {
    Optional<Loss> loss = Losses.toldBy(error);
    synchronized (this) {
      if (loss.isPresent() && (resuming || asked != generation)) {
        return false;
      }
    }
    loss.ifPresent(state::lose);
    return true;
  }

  /** Asks {@code known} until it is, and fails with {@code late} once it is {@code over}. */
  private record Question(
      Supplier<OptionalLong> known, BooleanSupplier over, Supplier<? extends Throwable> late) {}

  private CompletableFuture<Long> whenKnown(Question question) {
    CompletableFuture<Long> answer = new CompletableFuture<>();
    Runnable closed = () -> answer.completeExceptionally(question.late.get());
    look(question, answer);
    if (!answer.isDone()) {
      context.whenClosed(closed);
      answer.whenComplete((generation, error) -> context.answered(closed));
    }
    return answer;
  }

  private void look(Question question, CompletableFuture<Long> answer) {
    Optional<Loss> hopeless = refused();
    OptionalLong known = question.known.get();
    if (hopeless.isPresent()) {
      answer.completeExceptionally(new LostException(hopeless.get()));
    } else if (known.isPresent()) {
      answer.complete(known.getAsLong());
    } else if (question.over.getAsBoolean()) {
      answer.completeExceptionally(question.late.get());
    } else {
      context.after(Constants.ANSWER_POLL, () -> look(question, answer));
    }
  }

  private synchronized Optional<Loss> refused() {
    return Optional.ofNullable(refused);
  }

  private synchronized OptionalLong toRelease() {
    if (resuming) {
      return OptionalLong.empty();
    }
    releasing = true;
    return OptionalLong.of(generation);
  }

  /** The newest generation; empty while it is not known whether a resume has made a newer one. */
  synchronized OptionalLong settled() {
    return resuming ? OptionalLong.empty() : OptionalLong.of(generation);
  }
}
