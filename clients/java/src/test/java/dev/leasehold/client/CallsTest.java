package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.TextFormat;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListSchedulesRequest;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.ResetScheduleRequest;
import dev.leasehold.v1.Schedule;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The calls that tests/clients does not make. */
class CallsTest extends Bench {
  /** What was asked, but for what begins it. */
  private List<String> texts() {
    return sidecar.calls().stream()
        .map(call -> call.name + " " + TextFormat.printer().printToString(call.request))
        .map(text -> text.replaceAll("\\s+", " ").strip())
        .toList();
  }

  @Test
  void everyCallAboutSchedulesReachesTheSidecar() throws Exception {
    LockSelector lock = Locks.named("f", "s");
    Schedule schedule = Schedule.newBuilder().setLockPath("locks/p").build();
    for (String verb : List.of("get", "pause", "trigger", "remove", "reset")) {
      sidecar.on(verb + "_schedule", "schedule: {lock_path: 'locks/p'}");
    }
    assertEquals(schedule, client.getSchedule(lock));
    assertEquals(Optional.of(schedule), client.pauseSchedule(lock));
    assertEquals(Optional.empty(), client.resumeSchedule(lock));
    assertEquals(Optional.of(schedule), client.triggerSchedule(lock, "by-hand-1"));
    assertEquals(Optional.of(schedule), client.removeSchedule(lock, "moved", true));
    ResetScheduleRequest reset = ResetScheduleRequest.newBuilder().setReason("clock").build();
    assertEquals(Optional.of(schedule), client.resetSchedule(reset));
    client.previewSchedule(ScheduleSpec.of("f").cron("@daily"));
    String asked = "_schedule lock { key { function: \"f\" scope: \"s\" } }";
    assertEquals(
        List.of(
            "get" + asked,
            "pause" + asked,
            "resume" + asked,
            "trigger" + asked + " request_id: \"by-hand-1\"",
            "remove" + asked + " reason: \"moved\" force: true",
            "reset_schedule reason: \"clock\"",
            "preview_schedule spec { cron: \"@daily\" } key { function: \"f\" } needs: 1"),
        texts());
  }

  @Test
  void allPagesAreListedWithTheFilter() throws Exception {
    sidecar.on(
        "list_schedules",
        request -> {
          String token = ((ListSchedulesRequest) request).getPageToken();
          String next = token.isEmpty() ? "2" : "";
          return "schedules: [{lock_path: 's" + token + "'}], next_page_token: '" + next + "'";
        });
    ListSchedulesRequest prefix = ListSchedulesRequest.newBuilder().setPrefix("p").build();
    List<Schedule> schedules = client.listSchedules(prefix);
    assertEquals(List.of("s", "s2"), schedules.stream().map(Schedule::getLockPath).toList());
    sidecar.on(
        "list_locks",
        request ->
            switch (((ListLocksRequest) request).getPageToken()) {
              case "" -> "records: [{lock_path: a}], next_page_token: '2'";
              case "2" -> "next_page_token: '3'";
              default -> "records: [{lock_path: b}]";
            });
    ListLocksRequest filter = ListLocksRequest.newBuilder().putLabels("team", "red").build();
    List<LockRecord> locks = client.listLocks(filter);
    assertEquals(List.of("a", "b"), locks.stream().map(LockRecord::getLockPath).toList());
    String labels = " labels { key: \"team\" value: \"red\" }";
    assertEquals(
        List.of(
            "list_schedules prefix: \"p\"",
            "list_schedules prefix: \"p\" page_token: \"2\"",
            "list_locks" + labels,
            "list_locks page_token: \"2\"" + labels,
            "list_locks page_token: \"3\"" + labels),
        texts());
  }

  @Test
  void aDetailIsCutWhereACharacterEnds() throws Exception {
    client.completeRun("run-7", Completion.failed("x" + "å".repeat(300)));
    assertAsked("complete_run 0 run-7 FAILED x" + "å".repeat(255));
  }
}
