package dev.leasehold.client.internal.hold;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Queue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Whose interrupt it is. */
class LossInterruptTest {
  private final Queue<Runnable> later = new ArrayDeque<>();
  private final LossInterrupt interrupt = new LossInterrupt(later::add);

  @AfterEach
  void clear() {
    Thread.interrupted();
  }

  private boolean isInterruptedAfterTheBlock() {
    interrupt.leave();
    return Thread.interrupted();
  }

  @Test
  void anUnnoticedInterruptOfTheLossIsTakenBack() {
    interrupt.enter();
    interrupt.fire();
    assertTrue(Thread.currentThread().isInterrupted());
    assertFalse(isInterruptedAfterTheBlock());
  }

  @Test
  void aLossBeforeTheBlockInterruptsItsFirstWait() {
    interrupt.fire();
    interrupt.enter();
    assertTrue(Thread.currentThread().isInterrupted());
    assertFalse(isInterruptedAfterTheBlock());
  }

  @Test
  void anInterruptFromOutsideBeforeTheLossStays() {
    interrupt.enter();
    Thread.currentThread().interrupt();
    interrupt.fire();
    assertTrue(isInterruptedAfterTheBlock());
  }

  @Test
  void anInterruptFromOutsideStaysWhereTheBlockWasLeftByTheFirst() {
    interrupt.enter();
    interrupt.fire();
    // As what waits does when it throws InterruptedException.
    assertTrue(Thread.interrupted());
    interrupt.noticed();
    Thread.currentThread().interrupt();
    assertTrue(isInterruptedAfterTheBlock());
  }

  @Test
  void anInterruptFromOutsideStaysWhereTheBlockIgnoredTheFirst() {
    interrupt.enter();
    interrupt.fire();
    assertTrue(Thread.interrupted());
    later.remove().run();
    Thread.currentThread().interrupt();
    assertTrue(isInterruptedAfterTheBlock());
  }

  @Test
  void itIsLookedAtUntilItIsNoticedOrTheBlockIsLeft() {
    interrupt.enter();
    interrupt.fire();
    later.remove().run();
    assertFalse(later.isEmpty(), "not noticed yet");
    assertFalse(isInterruptedAfterTheBlock());
    later.remove().run();
    assertTrue(later.isEmpty());
  }
}
