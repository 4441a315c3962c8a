package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.FakeSchedules.Subscription;
import dev.leasehold.v1.Grant;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Subscriptions whose stream goes silent, or is on another kernel. */
@Timeout(60)
class RunsSilenceTest {
  private static final ScheduleSpec NIGHTLY = ScheduleSpec.of("nightly").cron("@daily");

  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void close() {
    threads.shutdownNow();
  }

  @Test
  void aSubscriberThatHearsNothingSubscribesAgain() throws Exception {
    try (Bench bench = Bench.impatient();
        Runs runs = bench.client.runs(NIGHTLY)) {
      Future<Run> asked = threads.submit(runs::next);
      Subscription silent = bench.sidecar.schedules.subscription();
      silent.standBy();
      silent.awaitEnd();
      // On a busy machine the first word may come too late, again.
      while (!asked.isDone()) {
        Subscription call = bench.sidecar.schedules.subscription();
        assertTrue(call.request.getReconnected());
        call.standBy();
        call.run(FakeSchedules.run());
        Bench.eventually(
            "it subscribes, or has it",
            () -> asked.isDone() || bench.sidecar.schedules.isSubscribedTo());
      }
      assertTrue(soon(asked).isValid());
    }
  }

  @Test
  void s14ARunThatHearsNothingIsResumedBeforeItsStreamIsEnded() throws Exception {
    try (Bench bench = Bench.impatient();
        Runs runs = bench.client.runs(NIGHTLY)) {
      Future<Run> asked = threads.submit(runs::next);
      Subscription silent = bench.sidecar.schedules.subscription();
      silent.standBy();
      silent.run(FakeSchedules.run());
      Run run = soon(asked);
      Subscription call = bench.sidecar.schedules.subscription();
      assertEquals("run-1", call.request.getRunId());
      assertTrue(silent.isOpen());
      Grant again = Messages.grantHere().toBuilder().setGeneration(2).build();
      call.run(FakeSchedules.run().toBuilder().setGrant(again).build());
      silent.awaitEnd();
      assertTrue(run.isValid());
    }
  }

  @Test
  void s21ARunOfAnotherKernelsSidecarIsAskedAbout() throws Exception {
    try (Bench bench = new Bench();
        Runs runs = bench.client.runs(NIGHTLY)) {
      Future<Run> asked = threads.submit(runs::next);
      Subscription call = bench.sidecar.schedules.subscription();
      call.standBy();
      bench.clock.advance(3_600);
      bench.sidecar.holdInfo = request -> Messages.info(validity("theirs", 99, 58));
      Grant there = Messages.grant(validity("theirs", 99, 58));
      call.run(FakeSchedules.run().toBuilder().setGrant(there).build());
      Run run = soon(asked);
      assertTrue(run.isValid() && run.remaining().toSeconds() == 58);
      assertEquals(List.of("get hold of generation 1"), bench.sidecar.asked());
      bench.clock.advance(58);
      assertFalse(run.isValid());
    }
  }
}
