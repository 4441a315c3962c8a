package dev.leasehold.client;

import static dev.leasehold.client.ManualClock.ELSEWHERE;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.Validity;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class KnownValidityTest {
  private static KnownValidity after(Validity validity, BootInstant sent, BootInstant now) {
    KnownValidity belief = new KnownValidity();
    belief.takeIn(validity, Optional.of(sent), now, OURS);
    return belief;
  }

  @Test
  void s21SameKernelComparesClocksHoweverLateTheMessageIsRead() {
    KnownValidity belief = after(validity(OURS, 158, 58), at(99), at(140));
    assertEquals(at(158), belief.until());
    assertFalse(belief.mustAsk());
  }

  @Test
  void s21ElsewhereTheSpanCountsFromBeforeTheRequest() {
    KnownValidity belief = after(validity(ELSEWHERE, 9_158, 58), at(99), at(140));
    assertEquals(at(99 + 58), belief.until());
    assertTrue(belief.mustAsk());
  }

  @Test
  void s21ElsewhereAMessageThatAnswersNothingExtendsNothing() {
    KnownValidity belief = after(validity(ELSEWHERE, 9_158, 58), at(99), at(100));
    belief.takeIn(validity(ELSEWHERE, 9_178, 58), Optional.empty(), at(120), OURS);
    assertEquals(at(157), belief.until());
    long told = belief.told().map(BootTime::getSinceBoot).orElseThrow().getSeconds();
    assertEquals(9_178, told, "a resume says what was told");
  }

  @Test
  void s21AnUnknownBootIdIsNotOurs() {
    KnownValidity belief = new KnownValidity();
    belief.takeIn(validity("", 158, 58), Optional.of(at(99)), at(100), "");
    assertTrue(belief.mustAsk());
  }

  @Test
  void s21AShiftedClockWithOurBootIdIsFoundOut() {
    // Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
    assertEquals(at(157), after(validity(OURS, 1_158, 58), at(99), at(100)).until());
    // Ours is ahead.
    assertEquals(at(1_157), after(validity(OURS, 158, 58), at(1_099), at(1_100)).until());
  }

  @Test
  void anOlderAnswerThatComesLaterChangesNothing() {
    KnownValidity belief = new KnownValidity();
    belief.takeIn(validity(OURS, 178, 58), Optional.empty(), at(121), OURS);
    belief.takeIn(validity(OURS, 158, 58), Optional.of(at(99)), at(122), OURS);
    assertEquals(at(178), belief.until());
  }

  @Test
  void aNewerMessageMayShorten() {
    KnownValidity belief = new KnownValidity();
    belief.takeIn(validity(OURS, 178, 58), Optional.empty(), at(121), OURS);
    belief.takeIn(validity(OURS, 140, 15), Optional.empty(), at(126), OURS);
    assertEquals(at(140), belief.until());
  }

  @Test
  void nonsenseEndsTheBelief() {
    com.google.protobuf.Duration negative =
        com.google.protobuf.Duration.newBuilder().setSeconds(-5).build();
    Validity nonsense = Validity.newBuilder().setValidFor(negative).build();
    assertEquals(at(100), after(nonsense, at(100), at(101)).until());
  }
}
