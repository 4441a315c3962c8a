package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.LeaseholdException;
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
import java.util.function.Supplier;

/**
 * What a hold goes on with: its newest generation and resume token, a resume under way (S16), and
 * its place on the connection of its stream, where all calls about it go: another sidecar does not
 * know it.
 */
public final class HoldLine {
  private static final Cleaner CLEANER = Cleaner.create();

  private final ClientContext context;
  private final String leaseId;
  private final Connections.Place place;
  private String resumeToken;

  /** The newest that was answered. */
  private long generation;

  /** A resume was sent, and it is not known whether it has made a newer generation. */
  private boolean resuming;

  private Loss refused;
  private boolean releasing;

  HoldLine(ClientContext context, Grant grant, LifeLine stream) {
    this.context = context;
    place = stream.beside();
    leaseId = grant.getLeaseId();
    resumeToken = grant.getResumeToken();
    generation = grant.getGeneration();
  }

  String leaseId() {
    return leaseId;
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

  void resumed(Grant grant, LifeLine stream) {
    try (Connections.Place there = stream.beside()) {
      place.moveTo(there);
    }
    synchronized (this) {
      resuming = false;
      generation = grant.getGeneration();
      resumeToken = grant.getResumeToken();
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

  /** The bounds of the hold have changed, and its resume token with them; empty replaces none. */
  synchronized void replaceResumeToken(String newest) {
    if (!newest.isEmpty()) {
      resumeToken = newest;
    }
  }

  /**
   * The generation to release. While a resume is unanswered that is the one of the answer, if it
   * comes until {@code until}: a sidecar that has not noticed the break would hand the lock on
   * while another takes the hold up. Fails with the reason that forbids a release.
   */
  CompletableFuture<Long> releasable(BootInstant until, String lockPath) {
    String why = "the hold was being resumed, and no sidecar has answered yet";
    return whenKnown(
        new Question(
            this::toRelease, until, () -> new ReleaseUnconfirmedException(lockPath, why, null)));
  }

  /**
   * The generation for a call that changes the hold and does not end it. While a resume is
   * unanswered that is the one of the answer, if it comes until {@code until}; fails with {@code
   * late} if not.
   */
  CompletableFuture<Long> usable(BootInstant until, Supplier<LeaseholdException> late) {
    return whenKnown(new Question(this::settled, until, late));
  }

  /** Asks {@code known} until it is, and fails with {@code late} at {@code until}. */
  private record Question(
      Supplier<OptionalLong> known, BootInstant until, Supplier<LeaseholdException> late) {}

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
    } else if (question.until.since(context.clock().latest()).isZero()) {
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

  private synchronized OptionalLong settled() {
    return resuming ? OptionalLong.empty() : OptionalLong.of(generation);
  }
}
