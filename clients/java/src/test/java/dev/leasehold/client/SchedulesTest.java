package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.leasehold.v1.CatchUp;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.Overlap;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.Schedule;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The calls about schedules, and their messages. */
@Timeout(60)
class SchedulesTest {
  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  @Test
  void everyCallAboutSchedulesReachesTheSidecar() throws Exception {
    LeaseholdClient client = bench.client;
    LockSelector lock = Locks.named("f", "s");
    assertEquals("f", client.getSchedule(lock).getLockPath());
    assertTrue(client.pauseSchedule(lock).orElseThrow().getPaused());
    assertEquals(Optional.empty(), client.resumeSchedule(lock));
    Schedule triggered = client.triggerSchedule(lock, "by-hand-1").orElseThrow();
    assertEquals(List.of("by-hand-1"), triggered.getWaitingRequestIdsList());
    Schedule removed = client.removeSchedule(lock, "moved", true).orElseThrow();
    assertEquals("moved", removed.getRemoved().getReason());
    Timestamp begins = Timestamp.newBuilder().setSeconds(500).build();
    ResetScheduleRequest reset =
        ResetScheduleRequest.newBuilder()
            .setLock(lock)
            .setReason("clock")
            .setWatermark(begins)
            .build();
    assertEquals(begins, client.resetSchedule(reset).orElseThrow().getReset().getAt());
    List<Schedule> all =
        client.listSchedules(ListSchedulesRequest.newBuilder().setPrefix("p").build());
    assertEquals(List.of("p", "p2"), all.stream().map(Schedule::getLockPath).toList());
    assertEquals(2, client.listSchedules().size());
    ScheduleSpec daily = ScheduleSpec.of("f").cron("@daily");
    assertEquals("@daily", client.previewSchedule(daily).getUnderstood().getExpression());
    client.completeRun("run-7", Completion.failed("no disk"));
    assertEquals(List.of("run-7 of generation 0: FAILED no disk"), bench.sidecar.asked());
  }

  @Test
  void aDetailIsCutWhereACharacterEnds() throws Exception {
    bench.client.completeRun("run-7", Completion.failed("x" + "å".repeat(300)));
    String asked = bench.sidecar.asked().get(0);
    assertTrue(asked.endsWith("FAILED x" + "å".repeat(255)), asked);
  }

  @Test
  void aCheckpointThatIsTooLongIsNotSent() {
    Completion done = Completion.succeeded();
    RefusedException refusal =
        assertThrows(
            RefusedException.class,
            () -> done.withCheckpoint("x".repeat(2_049).getBytes(StandardCharsets.UTF_8)));
    assertEquals(Optional.of(Reason.INVALID_FIELD), refusal.reason());
  }

  @Test
  void aRequestHasAllFieldsOfASpec() {
    ScheduleSpec request =
        ScheduleSpec.of("f", "s")
            .every(Duration.ofSeconds(1))
            .timeZone(ZoneId.of("Europe/Copenhagen"))
            .revision(2)
            .catchUpAll(3)
            .catchUpWindow(Duration.ofSeconds(4))
            .grace(Duration.ofSeconds(5))
            .overlap(Overlap.OVERLAP_SKIP)
            .maxAttempts(6)
            .backoff(Duration.ofSeconds(7))
            .runTimeout(Duration.ofSeconds(8))
            .stopGrace(Duration.ofSeconds(12))
            .progressTimeout(Duration.ofSeconds(13))
            .spread(Duration.ofSeconds(9))
            .takeoverCheck(Duration.ofSeconds(10))
            .leaseDuration(Duration.ofSeconds(11))
            .labels(Map.of("team", "red"));
    dev.leasehold.v1.ScheduleSpec spec = request.toSpec();
    // `cron` and `no_run_timeout` are the others of their oneofs.
    int fields = dev.leasehold.v1.ScheduleSpec.getDescriptor().getFields().size() - 2;
    assertEquals(fields, spec.getAllFields().size());
    assertEquals(Map.of("team", "red"), request.toMessage().getLabelsMap());
    assertEquals("@daily", request.cron("@daily").toSpec().getCron());
    assertTrue(request.withoutRunTimeout().toSpec().getNoRunTimeout());
    dev.leasehold.v1.ScheduleSpec none = request.catchUp(CatchUp.CATCH_UP_NONE).toSpec();
    assertEquals(0, none.getCatchUpMax());
  }
}
