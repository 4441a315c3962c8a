package dev.leasehold.scenarios;

import com.google.gson.JsonParser;
import dev.leasehold.client.ClientBuilder;
import dev.leasehold.client.Grant;
import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LockWatch;
import dev.leasehold.client.Locks;
import dev.leasehold.client.LocksEvent;
import dev.leasehold.client.LocksWatch;
import dev.leasehold.client.RefusedException;
import dev.leasehold.samples.Contend;
import dev.leasehold.v1.BreakLockRequest;
import dev.leasehold.v1.BreakMode;
import dev.leasehold.v1.GetServerInfoResponse;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.WatchLocksRequest;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/**
 * Does what the standard input says, for scenarios that all clients share: a command a line, an
 * event a line.
 */
public final class Driver {
  /** A command's work. */
  private interface Work {
    void run() throws Exception;
  }

  private final Output output = new Output();
  private final Map<String, HoldCommand> holds = new ConcurrentHashMap<>();
  private final Map<String, LeadCommand> leaders = new ConcurrentHashMap<>();
  private final Map<String, RunsCommand> schedules = new ConcurrentHashMap<>();

  /** How to close what is watched. */
  private final Map<String, Runnable> watches = new ConcurrentHashMap<>();

  private LeaseholdClient client;

  private Driver() {}

  /**
   * Runs until the standard input ends.
   *
   * @param arguments none
   * @throws IOException when the standard input cannot be read
   * @throws InterruptedException when the main thread is interrupted
   */
  public static void main(String[] arguments) throws IOException, InterruptedException {
    if (new Driver().run()) {
      System.exit(0);
    }
  }

  /** Whether what still runs is to be ended. */
  private boolean run() throws IOException, InterruptedException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      if (line.isBlank()) {
        continue;
      }
      Command command = new Command(JsonParser.parseString(line).getAsJsonObject());
      if (command.what().equals("exit_with_open_watch")) {
        openWatch(command);
        return false;
      }
      start(command);
    }
    return true;
  }

  /** Leaves a watch open, which must not keep the process from ending. */
  private void openWatch(Command command) throws InterruptedException {
    LockWatch watch = client().watchLock(Locks.named(command.key()));
    tellRecord(command.id(), watch.next().orElseThrow());
  }

  private void tellRecord(String id, LockRecord record) {
    String state = record.getState().name();
    Map<String, Object> told = Output.place(record);
    told.put("state", withoutPrefix("LOCK_STATE_", state));
    output.event(id, "watched", told);
  }

  private void start(Command command) {
    String id = command.id();
    HoldCommand hold = holds.get(id);
    switch (command.what()) {
      case "hold" -> hold(command);
      case "release" -> hold.release(command.optionalText("checkpoint"));
      case "fail" -> hold.fail();
      case "save" -> background(id, () -> hold.save(command.text("value")));
      case "info" -> background(id, hold::info);
      case "lead" -> lead(command);
      case "stop_leading" -> leaders.get(id).stop();
      case "runs" -> schedule(command, RunsCommand::run);
      case "every" -> schedule(command, RunsCommand::hang);
      case "complete" -> schedules.get(id).complete(command.text("outcome"));
      case "occurrence" -> background(id, () -> OccurrenceCommand.run(client(), command, output));
      case "cancel" -> cancel(id);
      case "interrupt" -> hold.interrupt();
      case "progress" -> background(id, () -> progress(id, hold));
      case "validity" -> validity(id, hold);
      default -> background(id, () -> call(command));
    }
  }

  /** The client, connected by the first command that needs it. */
  private synchronized LeaseholdClient client() throws InterruptedException {
    if (client == null) {
      ClientBuilder builder = LeaseholdClient.builder();
      millis("LEASEHOLD_DRIVER_KEEP_ALIVE_MS").ifPresent(builder::keepAlive);
      millis("LEASEHOLD_DRIVER_RELEASE_TIMEOUT_MS").ifPresent(builder::releaseTimeout);
      client = builder.connect();
    }
    return client;
  }

  private static Optional<Duration> millis(String variable) {
    return Optional.ofNullable(System.getenv(variable))
        .map(Long::parseLong)
        .map(Duration::ofMillis);
  }

  private void background(String id, Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (Exception error) {
                output.failure(id, error);
              }
            },
            "command-" + id);
    thread.setDaemon(true);
    thread.start();
  }

  private void hold(Command command) {
    HoldCommand hold = new HoldCommand(command, output);
    holds.put(command.id(), hold);
    background(command.id(), () -> hold.run(client()));
  }

  private void lead(Command command) {
    LeadCommand leader = new LeadCommand(command, output);
    leaders.put(command.id(), leader);
    background(command.id(), () -> leader.run(client()));
  }

  private void schedule(Command command, BiConsumer<RunsCommand, LeaseholdClient> work) {
    RunsCommand runs = new RunsCommand(command, output);
    schedules.put(command.id(), runs);
    background(command.id(), () -> work.accept(runs, client()));
  }

  private void cancel(String id) {
    Optional.ofNullable(schedules.remove(id)).ifPresent(RunsCommand::cancel);
    Optional.ofNullable(watches.remove(id)).ifPresent(Runnable::run);
    Optional.ofNullable(holds.get(id)).ifPresent(HoldCommand::cancel);
  }

  private void progress(String id, HoldCommand hold) throws InterruptedException {
    hold.held().orElseThrow().reportProgress();
    output.event(id, "progressed");
  }

  private void validity(String id, HoldCommand hold) {
    Optional<Hold> held = hold.held();
    long left = held.map(Hold::remaining).map(Duration::toMillis).orElse(0L);
    boolean valid = held.map(Hold::isValid).orElse(false);
    output.event(id, "validity", Map.of("valid", valid, "remaining_ms", left));
  }

  private void call(Command command) throws Exception {
    String id = command.id();
    LockSelector lock = Locks.named(command.key());
    switch (command.what()) {
      case "acquire" -> {
        Grant grant = client().acquire(command.request());
        output.event(
            id,
            "granted",
            Map.of(
                "token", grant.fencingToken(),
                "lease_id", grant.leaseId(),
                "lock_path", grant.lockPath()));
      }
      case "release_lease" -> {
        String outcome = client().release(command.text("lease_id")).getOutcome().name();
        output.event(id, "released", Map.of("outcome", withoutPrefix("RELEASE_OUTCOME_", outcome)));
      }
      case "extend" -> {
        client().extend(command.text("lease_id"), command.millis("max_hold_ms").orElseThrow());
        output.event(id, "extended");
      }
      case "resolve" -> {
        String path = client().resolvePath(command.key()).getLockPath();
        output.event(id, "resolved", Map.of("lock_path", path));
      }
      case "list" -> {
        ListLocksRequest request =
            ListLocksRequest.newBuilder().setShare(command.text("share")).build();
        List<String> paths =
            client().listLocks(request).stream().map(LockRecord::getLockPath).toList();
        output.event(id, "listed", Map.of("paths", paths));
      }
      case "check" -> {
        String status = client().checkToken(lock, command.number("token")).getStatus().name();
        output.event(id, "checked", Map.of("status", withoutPrefix("TOKEN_STATUS_", status)));
      }
      case "break" -> breakLock(command, lock);
      case "watch" -> watch(id, lock);
      case "watch_locks" -> watchLocks(command);
      case "server_info" -> {
        GetServerInfoResponse info = client().getServerInfo();
        output.event(
            id,
            "server_info",
            Map.of("version", info.getVersion(), "features", List.copyOf(info.getFeaturesList())));
      }
      case "quick" -> quick(command);
      case "measure" ->
          output.event(
              id,
              "measured",
              new Measure(client(), LeaseholdClient.DEFAULT_ENDPOINT)
                  .run(command.text("function"), (int) command.number("times")));
      case "contend" -> {
        Path file = Path.of(command.text("file"));
        List<Long> tokens = Contend.contend(client(), file, (int) command.number("times"));
        output.event(id, "done", Map.of("tokens", tokens));
      }
      default -> throw new IllegalArgumentException("no such command: " + command.what());
    }
  }

  private static String withoutPrefix(String prefix, String name) {
    return name.startsWith(prefix) ? name.substring(prefix.length()) : name;
  }

  private void breakLock(Command command, LockSelector lock) throws InterruptedException {
    BreakMode mode = command.flag("now") ? BreakMode.BREAK_MODE_NOW : BreakMode.BREAK_MODE_RUN_OUT;
    BreakLockRequest request =
        BreakLockRequest.newBuilder()
            .setLock(lock)
            .setReason(command.text("reason"))
            .setMode(mode)
            .build();
    String outcome = client().breakLock(request).getOutcome().name();
    output.event(
        command.id(), "broken", Map.of("outcome", withoutPrefix("BREAK_OUTCOME_", outcome)));
  }

  private void watch(String id, LockSelector lock) throws InterruptedException {
    try (LockWatch watch = client().watchLock(lock)) {
      watches.put(id, watch::close);
      for (Optional<LockRecord> next = watch.next(); next.isPresent(); next = watch.next()) {
        tellRecord(id, next.get());
      }
    } catch (RefusedException ended) {
      if (watches.containsKey(id)) {
        throw ended;
      }
    }
  }

  private void watchLocks(Command command) throws InterruptedException {
    String id = command.id();
    WatchLocksRequest.Builder request =
        WatchLocksRequest.newBuilder().setShare(command.text("share"));
    command.optionalText("prefix").ifPresent(request::setPrefix);
    try (LocksWatch watch = client().watchLocks(request.build())) {
      watches.put(id, watch::close);
      for (Optional<LocksEvent> next = watch.next(); next.isPresent(); next = watch.next()) {
        tell(id, next.get());
      }
    } catch (RefusedException ended) {
      if (watches.containsKey(id)) {
        throw ended;
      }
    }
  }

  private void tell(String id, LocksEvent event) {
    if (event instanceof LocksEvent.Changed changed) {
      String state = withoutPrefix("LOCK_STATE_", changed.record().getState().name());
      Map<String, Object> told = Output.place(changed.record());
      told.put("path", changed.record().getLockPath());
      told.put("state", state);
      output.event(id, "lock_changed", told);
    } else if (event instanceof LocksEvent.Gone gone) {
      output.event(id, "lock_gone", Map.of("path", gone.lockPath()));
    } else if (event instanceof LocksEvent.Listed listed) {
      output.event(id, "listed", Map.of("locks", listed.locks()));
    }
  }

  private void quick(Command command) throws InterruptedException {
    List<Long> tokens = new ArrayList<>();
    LeaseSpec request = LeaseSpec.of(command.text("function"));
    for (long done = 0; done < command.number("times"); done++) {
      tokens.add(client().withHold(request, Hold::fencingToken));
    }
    output.event(command.id(), "done", Map.of("tokens", tokens));
  }
}
