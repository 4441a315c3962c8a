package dev.leasehold.client;

import static dev.leasehold.client.ManualClock.ELSEWHERE;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.BootClock.Present;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.Validity;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class KnownValidityTest {
  private static Present now(long seconds) {
    return new Present(at(seconds), at(seconds));
  }

  private static KnownValidity after(Validity validity, BootInstant sent, Present now) {
    KnownValidity known = new KnownValidity();
    known.takeIn(validity, Optional.of(sent), now, OURS);
    return known;
  }

  @Test
  void s21SameKernelComparesClocksHoweverLateTheMessageIsRead() {
    KnownValidity known = after(validity(OURS, 158, 58), at(99), now(140));
    assertEquals(at(158), known.until());
    assertEquals(Optional.empty(), known.nextQuestion());
  }

  @Test
  void s21ElsewhereTheSpanCountsFromBeforeTheRequest() {
    KnownValidity known = after(validity(ELSEWHERE, 9_158, 58), at(99), now(140));
    assertEquals(at(99 + 58), known.until());
    assertEquals(Optional.of(at(99 + 29)), known.nextQuestion());
  }

  @Test
  void s21ElsewhereARenewalIsAskedAboutAtOnceAndOnce() {
    KnownValidity known = after(validity(ELSEWHERE, 9_158, 58), at(99), now(100));
    // A question that crosses with the renewal may have been answered before it.
    known.takeIn(validity(ELSEWHERE, 9_178, 58), Optional.empty(), now(120), OURS);
    assertEquals(Optional.of(at(120)), known.nextQuestion());
    known.takeIn(validity(ELSEWHERE, 9_158, 38), Optional.of(at(119)), now(121), OURS);
    assertEquals(Optional.of(at(120)), known.nextQuestion());
    known.takeIn(validity(ELSEWHERE, 9_178, 56), Optional.of(at(122)), now(123), OURS);
    assertEquals(at(178), known.until());
    assertEquals(Optional.of(at(122 + 28)), known.nextQuestion());
  }

  @Test
  void s21ElsewhereWhatPromisesHardlyMoreIsNotAskedAbout() {
    KnownValidity known = after(validity(ELSEWHERE, 9_160, 60), at(100), now(100));
    known.takeIn(validity(ELSEWHERE, 9_166, 60), Optional.empty(), now(106), OURS);
    assertEquals(Optional.of(at(130)), known.nextQuestion());
    known.takeIn(validity(ELSEWHERE, 9_167, 60), Optional.empty(), now(107), OURS);
    assertEquals(Optional.of(at(107)), known.nextQuestion());
  }

  @Test
  void s21ElsewhereAMessageThatAnswersNothingExtendsNothing() {
    KnownValidity known = after(validity(ELSEWHERE, 9_158, 58), at(99), now(100));
    known.takeIn(validity(ELSEWHERE, 9_178, 58), Optional.empty(), now(120), OURS);
    assertEquals(at(157), known.until());
    long told = known.told().map(BootTime::getSinceBoot).orElseThrow().getSeconds();
    assertEquals(9_178, told, "a resume says what was told");
  }

  @Test
  void s21AnUnknownBootIdIsNotOurs() {
    KnownValidity known = new KnownValidity();
    known.takeIn(validity("", 158, 58), Optional.of(at(99)), now(100), "");
    assertTrue(known.nextQuestion().isPresent());
  }

  @Test
  void s21AShiftedClockWithOurBootIdIsFoundOut() {
    // Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
    assertEquals(at(157), after(validity(OURS, 1_158, 58), at(99), now(100)).until());
    // Ours is ahead.
    assertEquals(at(1_157), after(validity(OURS, 158, 58), at(1_099), now(1_100)).until());
  }

  @Test
  void anOlderAnswerThatComesLaterChangesNothing() {
    KnownValidity known = new KnownValidity();
    known.takeIn(validity(OURS, 178, 58), Optional.empty(), now(121), OURS);
    known.takeIn(validity(OURS, 158, 58), Optional.of(at(99)), now(122), OURS);
    assertEquals(at(178), known.until());
  }

  @Test
  void aNewerMessageMayShorten() {
    KnownValidity known = new KnownValidity();
    known.takeIn(validity(OURS, 178, 58), Optional.empty(), now(121), OURS);
    known.takeIn(validity(OURS, 140, 15), Optional.empty(), now(126), OURS);
    assertEquals(at(140), known.until());
  }

  @Test
  void nonsenseEndsTheValidity() {
    com.google.protobuf.Duration negative =
        com.google.protobuf.Duration.newBuilder().setSeconds(-5).build();
    Validity nonsense = Validity.newBuilder().setValidFor(negative).build();
    assertEquals(at(100), after(nonsense, at(100), now(101)).until());
  }
}
