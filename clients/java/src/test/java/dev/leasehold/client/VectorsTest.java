package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.leasehold.client.internal.clock.BootClock;
import dev.leasehold.client.internal.connect.CallHeaders;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.hold.HoldOpening;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Plays proto/vectors/client.jsonl; docs/clients.md says what it means. */
class VectorsTest {
  private static final Path VECTORS = Path.of("../../proto/vectors/client.jsonl");

  /** A line that begins a vector, and the steps that follow it. */
  private record Vector(JsonObject head, List<JsonObject> steps) {}

  @TestFactory
  Stream<DynamicTest> theClientDoesWhatTheVectorsSay() throws IOException {
    List<Vector> vectors = new ArrayList<>();
    for (String line : Files.readAllLines(VECTORS, StandardCharsets.UTF_8)) {
      if (line.isEmpty()) {
        continue;
      }
      JsonObject read = JsonParser.parseString(line).getAsJsonObject();
      if (read.has("vector")) {
        vectors.add(new Vector(read, new ArrayList<>()));
      } else {
        vectors.get(vectors.size() - 1).steps.add(read);
      }
    }
    return vectors.stream()
        .map(
            vector ->
                DynamicTest.dynamicTest(
                    vector.head.get("vector").getAsString(), () -> play(vector)));
  }

  private static void play(Vector vector) throws Exception {
    Stage stage = new Stage(VectorMessages.text(vector.head, "kernel", "ours"));
    for (JsonObject step : vector.steps) {
      stage.play(step);
    }
  }

  /** A client in a time of its own, and a sidecar that does what a vector says. */
  private static final class Stage implements BootClock {
    private static final long BASE = VectorMessages.BASES.get("ours");

    private final VirtualTime time = new VirtualTime();
    private final VectorSidecar sidecar;
    private final ClientContext context;
    private final Map<String, Thread> deeds = new HashMap<>();
    private final List<String> told = new ArrayList<>();
    private final List<String> returned = new ArrayList<>();
    private final AtomicLong slept = new AtomicLong();
    private volatile Hold hold;
    private Optional<Long> until = Optional.empty();

    Stage(String kernel) {
      sidecar = new VectorSidecar(kernel, time, this::isValid);
      CallHeaders headers = new CallHeaders(Optional.empty(), bootId());
      Connections connections =
          new Connections(
              () -> new Connection("vectors", () -> sidecar, headers),
              Constants.STREAMS_PER_CONNECTION,
              () -> {});
      ClientContext.Engine engine = new ClientContext.Engine(time, time, time::nanos);
      ClientContext.Limits limits =
          new ClientContext.Limits(Duration.ofSeconds(10), Constants.SILENCE);
      context = new ClientContext(connections, this, engine, limits);
    }

    /** Milliseconds since the vector began. */
    private long now() {
      return time.nanos() / 1_000_000 + slept.get();
    }

    @Override
    public BootInstant latest() {
      return new BootInstant(Duration.ofNanos(time.nanos()).plusMillis(BASE + slept.get()));
    }

    @Override
    public BootInstant earliest() {
      return latest();
    }

    @Override
    public String bootId() {
      return ManualClock.OURS;
    }

    private boolean isValid() {
      return hold != null && hold.isValid();
    }

    private void pass(long to) throws InterruptedException {
      time.pass((to - slept.get()) * 1_000_000);
      settle();
    }

    /** Runs all that does not wait for its time, nor for an answer. */
    private void settle() throws InterruptedException {
      time.settle();
      while (deeds.entrySet().stream().anyMatch(this::isBusy)) {
        Thread.sleep(0, 100_000);
        time.settle();
      }
    }

    private boolean isBusy(Map.Entry<String, Thread> deed) {
      return deed.getValue().isAlive() && !sidecar.isAsked(deed.getKey());
    }

    /** Does what a step says, and compares what came of it. */
    void play(JsonObject step) throws Exception {
      long at = step.get("at").getAsLong();
      reach(at);
      long sleep = VectorMessages.number(step, "sleep", 0);
      slept.addAndGet(sleep);
      for (Map.Entry<String, JsonElement> answer : entries(step, "answer")) {
        sidecar.answer(answer.getKey(), answer.getValue().getAsJsonObject());
      }
      for (Map.Entry<String, JsonElement> refusal : entries(step, "refuse")) {
        sidecar.refuse(refusal.getKey(), refusal.getValue().getAsJsonObject());
      }
      for (Map.Entry<String, JsonElement> deed : entries(step, "do")) {
        start(deed.getKey(), deed.getValue().getAsJsonObject());
      }
      settle();
      int on = (int) VectorMessages.number(step, "on", 0);
      if (step.has("tell")) {
        JsonElement tell = step.get("tell");
        JsonArray events = new JsonArray();
        if (tell.isJsonArray()) {
          events = tell.getAsJsonArray();
        } else {
          events.add(tell);
        }
        events.forEach(event -> sidecar.tell(on, event.getAsJsonObject()));
      }
      if (step.has("break")) {
        sidecar.end(on, step.getAsJsonObject("break"));
      }
      pass(at + sleep + VectorMessages.number(step, "within", 0));
      compare(at, step);
    }

    private static Iterable<Map.Entry<String, JsonElement>> entries(JsonObject of, String name) {
      return of.has(name) ? of.getAsJsonObject(name).entrySet() : List.of();
    }

    /** Lets the time go on to a step. The validity ends at its end, neither sooner nor later. */
    private void reach(long at) throws InterruptedException {
      if (until.isPresent() && now() < until.get() && until.get() < at) {
        pass(until.get() - 1);
        assertTrue(isValid(), "before " + at + ": the hold is over already");
        pass(until.get());
        assertFalse(isValid(), "before " + at + ": the hold is not over");
      }
      pass(at);
    }

    private void compare(long at, JsonObject step) {
      String when = "at " + at + ": ";
      assertEquals(texts(step, "sent"), sidecar.takeSent(), when + "sent");
      assertEquals(List.of(), sidecar.takeFaults(), when);
      synchronized (this) {
        assertEquals(texts(step, "told"), List.copyOf(told), when + "told");
        assertEquals(texts(step, "returned"), List.copyOf(returned), when + "returned");
        told.clear();
        returned.clear();
      }
      if (step.has("until")) {
        JsonElement said = step.get("until");
        until = said.isJsonNull() ? Optional.empty() : Optional.of(said.getAsLong());
      }
      Optional<Long> seen =
          isValid() ? Optional.of(sinceBase(hold.validUntil())) : Optional.empty();
      assertEquals(until, seen, when + "until");
      if (step.has("max_hold")) {
        long ends = sinceBase(hold.maxHoldEnds().orElseThrow());
        assertEquals(step.get("max_hold").getAsLong(), ends, when + "max_hold");
      }
      if (step.has("open")) {
        List<Integer> open = new ArrayList<>();
        step.getAsJsonArray("open").forEach(number -> open.add(number.getAsInt()));
        assertEquals(open, sidecar.open(), when + "open");
      }
    }

    private static long sinceBase(BootInstant moment) {
      return moment.sinceBoot().toMillis() - BASE;
    }

    private static List<String> texts(JsonObject step, String name) {
      List<String> texts = new ArrayList<>();
      if (step.has(name)) {
        step.getAsJsonArray(name).forEach(text -> texts.add(text.getAsString()));
      }
      return texts;
    }

    /** Begins what the holder does; what would block has a thread of its own. */
    private void start(String name, JsonObject deed) {
      switch (name) {
        case "hold" ->
            HoldOpening.open(context, requestOf(deed), Optional.of(this::tell), time)
                .whenComplete(
                    (granted, error) -> {
                      hold = granted;
                      ended(name, "held", error);
                    });
        case "release" ->
            hold.releaseAsync()
                .whenComplete(
                    (result, error) ->
                        ended(name, error == null ? bare(result.getOutcome().name()) : "", error));
        case "save_checkpoint" ->
            hold.saveAsync(deed.get("value").getAsString().getBytes(StandardCharsets.UTF_8))
                .whenComplete((version, error) -> ended(name, String.valueOf(version), error));
        case "report_progress" -> block(name, () -> hold.reportProgress());
        case "extend_lease" ->
            block(name, () -> hold.extend(Duration.ofMillis(deed.get("max_hold").getAsLong())));
        default -> throw new AssertionError("there is no deed " + name);
      }
    }

    /** What may block. */
    private interface Blocking {
      void run() throws Exception;
    }

    private void block(String name, Blocking deed) {
      Runnable task =
          () -> {
            try {
              deed.run();
              ended(name, "done", null);
            } catch (Exception error) {
              ended(name, "", error);
            }
          };
      Thread thread = new Thread(task, name);
      thread.setDaemon(true);
      deeds.put(name, thread);
      thread.start();
    }

    private synchronized void ended(String name, String done, Throwable error) {
      returned.add(name + " " + (error == null ? done : nameOf(Calls.cause(error), name)));
    }

    private static LeaseSpec requestOf(JsonObject deed) {
      LeaseSpec request = LeaseSpec.of("f");
      if (deed.has("wait")) {
        request = request.waitUpTo(Duration.ofMillis(deed.get("wait").getAsLong()));
      }
      if (deed.has("permits")) {
        request = request.permits(deed.get("permits").getAsInt());
      }
      if (deed.has("priority")) {
        request = request.priority(deed.get("priority").getAsInt());
      }
      if (deed.has("yields")) {
        request = request.yields(true);
      }
      return deed.has("share") ? request.share(deed.get("share").getAsString()) : request;
    }

    private static String nameOf(Throwable error, String deed) {
      if (error instanceof BusyException busy) {
        return "busy " + bare(busy.reason().name());
      }
      if (error instanceof LostException lost) {
        return "lost " + bare(lost.loss().reason().name());
      }
      if (deed.equals("release")) {
        return "unconfirmed";
      }
      return error instanceof RefusedException refused
          ? "refused " + refused.reason().map(Reason::name).orElse("")
          : error.toString();
    }

    /** The name of a value, without that of its enum. */
    private static String bare(String name) {
      return name.replaceFirst("^(RELEASE_OUTCOME|LOSS_REASON|BUSY_REASON)_", "");
    }

    /** Takes in what the holder is told, but the grant, which the hold itself is. */
    private synchronized void tell(HoldEvent event) {
      if (event instanceof HoldEvent.Waiting waiting) {
        told.add("waiting " + waiting.place());
      } else if (event instanceof HoldEvent.AtRisk risk) {
        told.add("at_risk " + risk.cause().map(Reason::name).orElse(""));
      } else if (event instanceof HoldEvent.Draining draining) {
        told.add("draining " + draining.timeLeft().toMillis());
      } else if (event instanceof HoldEvent.Revoked revoked) {
        told.add("revoked by " + revoked.notice().by());
      } else if (event instanceof HoldEvent.Lost lost) {
        told.add("lost " + bare(lost.loss().reason().name()));
      } else if (!(event instanceof HoldEvent.Granted)) {
        told.add(event.getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT));
      }
    }
  }
}
