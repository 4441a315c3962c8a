package dev.leasehold.scenarios;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import dev.leasehold.client.BusyException;
import dev.leasehold.client.FieldViolation;
import dev.leasehold.client.LeaseholdException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.PriorityStatus;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Writes events to the standard output, a line each. */
final class Output {
  private final Gson gson = new GsonBuilder().serializeNulls().create();
  private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  /** Writes one event of a command. */
  synchronized void event(String id, String event, Map<String, ?> more) {
    JsonObject line = new JsonObject();
    line.addProperty("id", id);
    line.addProperty("event", event);
    more.forEach((name, value) -> line.add(name, gson.toJsonTree(value)));
    out.println(gson.toJson(line));
  }

  void event(String id, String event) {
    event(id, event, Map.of());
  }

  /** Writes why a command failed. */
  void failure(String id, Throwable error) {
    if (error instanceof BusyException busy) {
      Map<String, Object> told = place(busy.record());
      told.put("holder", busy.holder());
      told.put("token", busy.fencingToken().orElse(0));
      told.put("held_permits", busy.heldPermits());
      Optional<String> status = busy.priorityStatus().map(PriorityStatus::name);
      told.put(
          "priority_status",
          status.map(name -> name.substring("PRIORITY_STATUS_".length())).orElse(null));
      event(id, "busy", told);
    } else if (error instanceof RefusedException refusal) {
      List<String> fields = refusal.violations().stream().map(FieldViolation::field).toList();
      error(id, refusal.code().name(), refusal.reasonName().orElse(""), error, fields);
    } else {
      boolean known = error instanceof LeaseholdException;
      error(id, known ? error.getClass().getSimpleName() : "UNKNOWN", "", error, List.of());
    }
  }

  /** What a record tells of its holder's place among others. */
  static Map<String, Object> place(LockRecord record) {
    Map<String, Object> place = new HashMap<>();
    place.put("sidecar", record.getSidecar());
    place.put("share", record.getShare());
    place.put("priority", record.getPriority());
    place.put("yields", record.getYields());
    return place;
  }

  private void error(String id, String code, String reason, Throwable error, List<String> fields) {
    String message = String.valueOf(error.getMessage());
    event(
        id, "error", Map.of("code", code, "reason", reason, "message", message, "fields", fields));
  }
}
