package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.TextFormat;
import dev.leasehold.v1.CatchUp;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.Overlap;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.Schedule;
import java.time.Duration;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** The calls about schedules, and their messages. */
class SchedulesTest extends BenchTest {
  @Test
  void everyCallAboutSchedulesReachesTheSidecar() throws Exception {
    LockSelector lock = Locks.named("f", "s");
    Schedule schedule = Schedule.newBuilder().setLockPath("locks/p").build();
    List<String> sent = new CopyOnWriteArrayList<>();
    for (String verb : List.of("get", "pause", "resume", "trigger", "remove", "reset", "preview")) {
      boolean isBare = List.of("resume", "preview").contains(verb);
      sidecar.on(
          verb + "_schedule",
          request -> {
            String text = TextFormat.printer().printToString(request);
            sent.add(verb + " " + text.replaceAll("\\s+", " ").strip());
            return isBare ? "" : "schedule: {lock_path: 'locks/p'}";
          });
    }
    assertEquals(schedule, client.getSchedule(lock));
    assertEquals(Optional.of(schedule), client.pauseSchedule(lock));
    assertEquals(Optional.empty(), client.resumeSchedule(lock));
    assertEquals(Optional.of(schedule), client.triggerSchedule(lock, "by-hand-1"));
    assertEquals(Optional.of(schedule), client.removeSchedule(lock, "moved", true));
    ResetScheduleRequest reset = ResetScheduleRequest.newBuilder().setReason("clock").build();
    assertEquals(Optional.of(schedule), client.resetSchedule(reset));
    client.previewSchedule(ScheduleSpec.of("f").cron("@daily"));
    String asked = "lock { key { function: \"f\" scope: \"s\" } }";
    assertEquals(
        List.of(
            "get " + asked,
            "pause " + asked,
            "resume " + asked,
            "trigger " + asked + " request_id: \"by-hand-1\"",
            "remove " + asked + " reason: \"moved\" force: true",
            "reset reason: \"clock\"",
            "preview spec { cron: \"@daily\" } key { function: \"f\" } needs: 1"),
        sent);
  }

  @Test
  void allPagesOfSchedulesAreListed() throws Exception {
    sidecar.on(
        "list_schedules",
        request -> {
          ListSchedulesRequest asked = (ListSchedulesRequest) request;
          String path = asked.getPrefix() + asked.getPageToken();
          String next = asked.getPageToken().isEmpty() ? "2" : "";
          return "schedules: [{lock_path: '" + path + "'}], next_page_token: '" + next + "'";
        });
    ListSchedulesRequest prefix = ListSchedulesRequest.newBuilder().setPrefix("p").build();
    List<Schedule> all = client.listSchedules(prefix);
    assertEquals(List.of("p", "p2"), all.stream().map(Schedule::getLockPath).toList());
    assertEquals(2, client.listSchedules().size());
  }

  @Test
  void aDetailIsCutWhereACharacterEnds() throws Exception {
    client.completeRun("run-7", Completion.failed("x" + "å".repeat(300)));
    assertAsked("complete_run 0 run-7 FAILED x" + "å".repeat(255));
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
    assertEquals(0, request.catchUp(CatchUp.CATCH_UP_NONE).toSpec().getCatchUpMax());
  }
}
