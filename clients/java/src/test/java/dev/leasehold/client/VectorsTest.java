package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.leasehold.client.internal.GrpcLeaseholdClient;
import dev.leasehold.client.internal.connect.CallHeaders;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.hold.Kept;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Plays proto/vectors/client.jsonl and runs.jsonl; docs/clients.md says what they mean. */
class VectorsTest {
  private static final Path VECTORS = Path.of("../../proto/vectors");
  private static final ScheduleSpec NIGHTLY = ScheduleSpec.of("f").cron("30 2 * * *");

  /** What work fails with: without a text, for which a vector has no words. */
  @SuppressWarnings("OverrideThrowableToString") // It is the text of a failure.
  private static final class FailedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    @Override
    public String toString() {
      return "";
    }
  }

  /** A line that begins a vector, and the steps that follow it. */
  private record Vector(JsonObject head, List<JsonObject> steps) {}

  @TestFactory
  Stream<DynamicTest> theClientDoesWhatTheVectorsSay() throws IOException {
    return Stream.concat(vectors("client.jsonl"), vectors("runs.jsonl"));
  }

  private static Stream<DynamicTest> vectors(String file) throws IOException {
    List<Vector> vectors = new ArrayList<>();
    for (String line : Files.readAllLines(VECTORS.resolve(file), StandardCharsets.UTF_8)) {
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
        .map(one -> DynamicTest.dynamicTest(Said.text(one.head, "vector", ""), () -> play(one)));
  }

  private static void play(Vector vector) throws Exception {
    try (Stage stage = new Stage(Said.text(vector.head, "kernel", "ours"))) {
      for (JsonObject step : vector.steps) {
        stage.play(step);
      }
    }
  }

  /** A client in a time of its own, and a sidecar that does what a vector says. */
  static final class Stage implements AutoCloseable {
    private final VirtualTime time = new VirtualTime();
    private final ManualClock clock = new ManualClock(time::nanos);
    private final String address = UUID.randomUUID().toString();
    private final FakeSidecar sidecar;
    private final List<String> faults = Collections.synchronizedList(new ArrayList<>());
    final LeaseholdClient client;
    private final List<Thread> deeds = new ArrayList<>();
    private final List<String> told = new ArrayList<>();
    private final List<String> returned = new ArrayList<>();
    private volatile Kept held;

    /** Ends the work of a term or of a run: well, or by an error. */
    private volatile CompletableFuture<?> work;

    private final Runs runs;
    private Optional<Long> until = Optional.empty();

    /** How many calls were compared. */
    private int compared;

    Stage(String kernel) throws IOException {
      sidecar = new FakeSidecar(kernel, this::asked);
      sidecar.serve(InProcessServerBuilder.forName(address).directExecutor());
      CallHeaders headers = new CallHeaders(Optional.empty(), clock.bootId());
      Connections connections =
          new Connections(
              () -> new Connection("vectors", this::channel, headers),
              Constants.STREAMS_PER_CONNECTION,
              () -> {});
      ClientContext.Engine engine = new ClientContext.Engine(time, time, time::nanos);
      ClientContext.Limits limits =
          new ClientContext.Limits(Duration.ofSeconds(10), Constants.SILENCE);
      client = new GrpcLeaseholdClient(new ClientContext(connections, clock, engine, limits));
      runs = client.runs(NIGHTLY, this::tell);
    }

    @Override
    public void close() {
      sidecar.kill();
    }

    /** A way to the sidecar. What the client hears comes on the time's thread. */
    private ManagedChannel channel() {
      return InProcessChannelBuilder.forName(address)
          .executor(time)
          .scheduledExecutorService(time)
          .disableRetry()
          .build();
    }

    /** A stream by its number; the newest by 0. */
    FakeCall stream(int number) {
      List<FakeCall> streams = sidecar.streams();
      return streams.get((number == 0 ? streams.size() : number) - 1);
    }

    private void asked(FakeCall call) {
      if (List.of("release", "complete_run").contains(call.name) && isValid()) {
        faults.add("S13: the hold is valid when its end is sent");
      }
      // A silent one is open still, when the next one is opened.
      Predicate<FakeCall> isLeft = one -> one.isOpen() || one.isTooOld();
      Predicate<FakeCall> isBeside = one -> one.connection == call.connection;
      if (call.isStream && sidecar.streams().stream().anyMatch(isLeft.and(isBeside))) {
        faults.add("S37: a stream was opened over a connection that was left");
      }
      call.whenEnded(
          () -> {
            List<FakeCall> streams = sidecar.streams();
            List<FakeCall> later = streams.subList(streams.indexOf(call) + 1, streams.size());
            if (call.isStream && isValid() && later.stream().noneMatch(FakeCall::isGranted)) {
              faults.add("S14: a stream was ended while the hold was valid");
            }
          });
    }

    private boolean isValid() {
      return held != null && held.isValid();
    }

    /** Lets the time go to a moment, in milliseconds since the vector began. */
    void pass(long to) throws InterruptedException {
      time.pass(Duration.ofMillis(to).minus(clock.moved()).toNanos());
      settle();
    }

    /** Runs all that does not wait for its time, nor for an answer. */
    void settle() throws InterruptedException {
      boolean busy;
      do {
        busy = isBusy();
        time.settle();
      } while (busy);
    }

    /** Whether a holder's thread does not wait. */
    private boolean isBusy() throws InterruptedException {
      Thread.sleep(0, 50_000);
      deeds.removeIf(deed -> deed.getState() == Thread.State.TERMINATED);
      return deeds.stream().anyMatch(Stage::isAwake);
    }

    /** Also one that seems to wait still for what has come already. */
    private static boolean isAwake(Thread deed) {
      boolean isWoken =
          LockSupport.getBlocker(deed) instanceof ForkJoinPool.ManagedBlocker blocker
              && blocker.isReleasable();
      return deed.getState() != Thread.State.WAITING || deed.isInterrupted() || isWoken;
    }

    /** Lets a thread that was woken come to what a step says: until then it seems to wait. */
    private void await(JsonObject step) throws InterruptedException {
      for (int tries = 0; tries < 20_000 && !hasCome(step); tries++) {
        settle();
      }
      settle();
    }

    private synchronized boolean hasCome(JsonObject step) {
      return deeds.isEmpty()
          || (sidecar.calls().size() >= compared + texts(step, "sent").size()
              && told.size() >= texts(step, "told").size()
              && returned.size() >= texts(step, "returned").size());
    }

    /** Does what a step says, and compares what came of it. */
    void play(JsonObject step) throws Exception {
      long at = step.get("at").getAsLong();
      reach(at);
      long sleep = Said.number(step, "sleep", 0);
      clock.move(Duration.ofMillis(sleep));
      for (String kind : List.of("answer", "refuse")) {
        entries(step, kind).forEach((call, said) -> sidecar.give(call, said.getAsJsonObject()));
      }
      entries(step, "do").forEach((deed, how) -> start(deed, how.getAsJsonObject()));
      settle();
      int on = (int) Said.number(step, "on", 0);
      if (step.has("tell")) {
        JsonElement said = step.get("tell");
        List<JsonElement> events =
            said.isJsonArray() ? said.getAsJsonArray().asList() : List.of(said);
        events.forEach(event -> stream(on).tell(event.getAsJsonObject()));
      }
      if (step.has("break")) {
        stream(on).end(step.getAsJsonObject("break"));
      }
      pass(at + sleep + Said.number(step, "within", 0));
      await(step);
      compare(at, step);
    }

    private static Map<String, JsonElement> entries(JsonObject of, String name) {
      return of.has(name) ? of.getAsJsonObject(name).asMap() : Map.of();
    }

    /** Lets the time go on to a step. The validity ends at its end, neither sooner nor later. */
    private void reach(long at) throws InterruptedException {
      long now = sinceBase(clock.latest());
      if (until.isPresent() && now < until.get() && until.get() < at) {
        pass(until.get() - 1);
        assertTrue(isValid(), "before " + at + ": the hold is over already");
        pass(until.get());
        assertFalse(isValid(), "before " + at + ": the hold is not over");
      }
      pass(at);
    }

    private void compare(long at, JsonObject step) {
      String when = "at " + at + ": ";
      List<FakeCall> calls = sidecar.calls().subList(compared, sidecar.calls().size());
      assertEquals(
          texts(step, "sent"), calls.stream().map(call -> call.sent).toList(), when + "sent");
      compared += calls.size();
      assertEquals(List.of(), faults, when);
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
          isValid()
              ? Optional.of(sinceBase(clock.latest().plus(held.remaining())))
              : Optional.empty();
      assertEquals(until, seen, when + "until");
      if (step.has("max_hold")) {
        Optional<BootInstant> ends =
            held instanceof Run run ? run.deadline() : ((Hold) held).maxHoldEnds();
        long told = sinceBase(ends.orElseThrow());
        assertEquals(step.get("max_hold").getAsLong(), told, when + "max_hold");
      }
      if (step.has("open")) {
        List<String> open =
            IntStream.rangeClosed(1, sidecar.streams().size())
                .filter(number -> stream(number).isOpen())
                .mapToObj(Integer::toString)
                .toList();
        assertEquals(texts(step, "open"), open, when + "open");
      }
    }

    private static long sinceBase(BootInstant moment) {
      return moment.sinceBoot().toMillis() - Said.BASES.get("ours");
    }

    private static List<String> texts(JsonObject step, String name) {
      return step.has(name)
          ? step.getAsJsonArray(name).asList().stream().map(JsonElement::getAsString).toList()
          : List.of();
    }

    /** Begins what the holder does; what would block has a thread of its own. */
    private void start(String name, JsonObject deed) {
      switch (name) {
        case "hold" ->
            client
                .holdAsync(requestOf(deed), this::tell)
                .whenComplete(
                    (granted, error) -> {
                      held = (Kept) granted;
                      ended(name, "held", error);
                    });
        case "release" -> block(name, () -> bare(((Hold) held).release().getOutcome()));
        case "save_checkpoint" -> {
          byte[] value = Said.text(deed, "value", "").getBytes(StandardCharsets.UTF_8);
          block(name, () -> held.save(value));
        }
        case "report_progress" ->
            block(
                name,
                () -> {
                  held.reportProgress();
                  return "done";
                });
        case "extend_lease" ->
            block(
                name,
                () -> {
                  ((Hold) held).extend(Duration.ofMillis(deed.get("max_hold").getAsLong()));
                  return "done";
                });
        case "lead" ->
            block(
                name,
                () ->
                    client.lead(
                        LeaseSpec.of("f"),
                        this::tell,
                        term -> {
                          work((Kept) term, "term " + term.fencingToken());
                          return "done";
                        }));
        case "every" ->
            block(
                name,
                () -> {
                  client.every(
                      NIGHTLY, this::tell, run -> work((Kept) run, "run " + run.attempt()));
                  return "done";
                });
        case "finish" -> {
          if (deed.has("fails")) {
            work.completeExceptionally(new FailedException());
          } else {
            work.complete(null);
          }
        }
        case "next_run" ->
            block(
                name,
                () -> {
                  Run run = runs.next();
                  held = (Kept) run;
                  return "run " + run.attempt();
                });
        case "complete" -> {
          boolean isSuccess = deed.get("outcome").getAsString().equals("SUCCEEDED");
          Completion completion = isSuccess ? Completion.succeeded() : Completion.failed("");
          block(name, () -> bare(((Run) held).complete(completion).getResult()));
        }
        case "close" -> {
          // In whatever order this and next_run end.
          ended(name, "done", null);
          runs.close();
        }
        default -> throw new AssertionError("there is no deed " + name);
      }
    }

    /** Goes on until the holder finishes it, or it is interrupted. */
    private void work(Kept hold, String begun) throws InterruptedException {
      held = hold;
      work = new CompletableFuture<>();
      synchronized (this) {
        told.add(begun);
      }
      Calls.await(work);
    }

    /** Does what may block. */
    void block(String name, Callable<?> deed) {
      Runnable task =
          () -> {
            try {
              ended(name, "" + deed.call(), null);
            } catch (Exception error) {
              ended(name, "", error);
            }
          };
      Thread thread = new Thread(task, name);
      thread.setDaemon(true);
      deeds.add(thread);
      thread.start();
    }

    private synchronized void ended(String name, String done, Throwable error) {
      returned.add(name + " " + (error == null ? done : nameOf(Calls.cause(error), name)));
    }

    private static LeaseSpec requestOf(JsonObject deed) {
      LeaseSpec spec = LeaseSpec.of("f").waitUpTo(Duration.ofMillis(Said.number(deed, "wait", 0)));
      return spec.permits((int) Said.number(deed, "permits", 1))
          .priority((int) Said.number(deed, "priority", 0))
          .yields(deed.has("yields"))
          .share(Said.text(deed, "share", ""));
    }

    private static String nameOf(Throwable error, String deed) {
      if (error instanceof FailedException) {
        return "failed";
      }
      if (error instanceof BusyException busy) {
        return "busy " + bare(busy.reason());
      }
      if (error instanceof LostException lost) {
        return "lost " + lost.loss().reasonName();
      }
      if (deed.equals("release")) {
        return "unconfirmed";
      }
      if (!(error instanceof RefusedException refused)) {
        return error.toString();
      }
      boolean isClosed = refused.code() == Status.Code.CANCELLED && deed.equals("next_run");
      return isClosed ? "closed" : "refused " + refused.reason().map(Reason::name).orElse("");
    }

    /** The name of a value, without that of its enum. */
    private static String bare(Enum<?> value) {
      return value.name().replaceFirst("^(RELEASE_OUTCOME|BUSY_REASON|COMPLETION_RESULT)_", "");
    }

    private synchronized void tell(ScheduleEvent event) {
      if (event instanceof ScheduleEvent.OfRun ofRun) {
        tell(ofRun.event());
      } else if (event instanceof ScheduleEvent.OtherDefinition other) {
        told.add("definition" + (other.definition().getConflict() ? " conflict" : ""));
      } else if (event instanceof ScheduleEvent.Draining draining) {
        told.add("draining " + draining.timeLeft().toMillis());
      } else if (event instanceof ScheduleEvent.Waiting) {
        told.add("standby");
      } else {
        told.add(event.getClass().getSimpleName().toLowerCase(Locale.ROOT));
      }
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
        told.add("lost " + lost.loss().reasonName());
      } else if (!(event instanceof HoldEvent.Granted)) {
        told.add(event.getClass().getSimpleName().toLowerCase(Locale.ROOT));
      }
    }
  }
}
