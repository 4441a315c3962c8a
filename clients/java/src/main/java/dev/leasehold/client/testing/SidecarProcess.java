package dev.leasehold.client.testing;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A {@code leasehold serve} in a folder of its own. It ends with the test process, however that
 * ends: the system closes this end of its standard input.
 */
final class SidecarProcess {
  /** How often a condition is looked at, in milliseconds. */
  static final long LOOK = 10;

  /** Linux takes 107 bytes, macOS 103. */
  private static final int LONGEST_SOCKET_PATH = 100;

  /** Stops a process until its own standard input is closed. */
  private static final String PAUSE =
      """
      kill -STOP "$1" || exit 1
      while :; do
          case $(cat "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1") in
          *') T '* | T*) break ;;
          '' | *') Z '* | Z*) exit 1 ;;
          esac
      done
      echo paused
      read -r _
      kill -CONT "$1" 2>/dev/null
      """;

  private final Path folder;
  private final List<String> words = new ArrayList<>();
  private Process running;
  private Process pausing;

  SidecarProcess(Path program, Map<String, String> settings) throws IOException {
    Path usual = Path.of(System.getProperty("java.io.tmpdir"));
    boolean fits =
        usual.resolve("lh-12345678901234567890/s").toString().length() <= LONGEST_SOCKET_PATH;
    folder = Files.createTempDirectory(fits ? usual : Path.of("/tmp"), "lh-");
    Map<String, String> all = new LinkedHashMap<>();
    all.put("store.kind", "memory");
    all.put("listen.unix", socket().toString());
    all.put("listen.tcp", "");
    all.put("admin.listen", "");
    all.put("admin.allow_break", "true");
    all.put("host_id.host_type", "test");
    all.put("locks.lease_duration", "15s");
    all.putAll(settings);
    words.addAll(List.of(program.toString(), "serve", "--exit-on-stdin-close"));
    all.forEach((key, value) -> words.addAll(List.of("--set", key + "=" + value)));
  }

  Path socket() {
    return folder.resolve("s");
  }

  synchronized long id() {
    return runningOrThrow().pid();
  }

  String log() {
    try {
      return Files.readString(folder.resolve("log"));
    } catch (IOException nothing) {
      return "";
    }
  }

  private Process runningOrThrow() {
    if (running == null) {
      throw new SidecarException("the sidecar does not run: start() it first");
    }
    return running;
  }

  synchronized void checkAnswers(String about) {
    Process unused = runningOrThrow();
    if (pausing != null) {
      throw new SidecarException(
          "the sidecar is paused, and cannot be asked about " + about + ": resume() it first");
    }
  }

  /** Starts it, and waits until it listens. */
  synchronized void start(Duration timeout) throws IOException, InterruptedException {
    if (running != null) {
      throw new SidecarException("the sidecar runs already: kill() or stop() it before start()");
    }
    File log = folder.resolve("log").toFile();
    ProcessBuilder builder = new ProcessBuilder(words).directory(folder.toFile());
    builder.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log));
    // Settings come from the test alone, whatever the environment has for the code under test.
    builder.environment().keySet().removeIf(name -> name.startsWith("LEASEHOLD_"));
    running = builder.start();
    long deadline = System.nanoTime() + timeout.toNanos();
    while (!accepts()) {
      if (!running.isAlive()) {
        String ended = String.join(" ", words) + " ended with " + running.exitValue();
        forget();
        throw new SidecarException(ended + " as it started:\n" + log());
      }
      if (System.nanoTime() - deadline > 0) {
        throw new SidecarException(
            "the sidecar does not listen after " + timeout + ". Its log:\n" + log());
      }
      Thread.sleep(LOOK);
    }
  }

  private boolean accepts() {
    try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      return channel.connect(UnixDomainSocketAddress.of(socket()));
    } catch (IOException notYet) {
      return false;
    }
  }

  synchronized void pause() throws IOException, InterruptedException {
    String pid = Long.toString(runningOrThrow().pid());
    if (pausing != null) {
      throw new SidecarException("the sidecar is paused already");
    }
    ProcessBuilder builder = new ProcessBuilder("/bin/sh", "-c", PAUSE, "sh", pid);
    pausing = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    BufferedReader said = pausing.inputReader(StandardCharsets.UTF_8);
    if (said.readLine() == null) {
      resume();
      throw new SidecarException(
          "the sidecar, process " + pid + ", cannot be stopped: it has ended. Its log:\n" + log());
    }
  }

  synchronized void resume() throws IOException, InterruptedException {
    if (pausing != null) {
      pausing.getOutputStream().close();
      int unused = pausing.waitFor();
      pausing = null;
    }
  }

  /** Has it shut down, as at SIGTERM, and waits for that. */
  synchronized void stop(Duration timeout) throws IOException, InterruptedException {
    Process process = runningOrThrow();
    // Process.destroy() would close its standard input too, which it may notice before the signal:
    // the signal would be the second one then, and end it without a word to holders.
    boolean unused = process.toHandle().destroy();
    resume();
    if (!process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
      throw new SidecarException(
          "the sidecar has not shut down after "
              + timeout
              + ": it waits for holders, up to drain.period. Its log:\n"
              + log());
    }
    forget();
  }

  /** Ends it as a crash does. */
  synchronized void kill() throws IOException, InterruptedException {
    if (running != null) {
      int unused = running.destroyForcibly().waitFor();
      resume();
      forget();
    }
  }

  private void forget() throws IOException {
    running = null;
    // What is left of a sidecar that was killed would be taken for one that listens.
    Files.deleteIfExists(socket());
  }

  /** Ends it, and removes its folder. */
  synchronized void close() throws IOException, InterruptedException {
    kill();
    List<Path> all;
    try (Stream<Path> walk = Files.walk(folder)) {
      all = walk.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path path : all) {
      Files.delete(path);
    }
  }
}
