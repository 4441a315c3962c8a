package dev.leasehold.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.HoldListener;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.Locks;
import dev.leasehold.v1.LossReason;
import java.io.BufferedReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Against a real sidecar: tests/clients runs this with LEASEHOLD_PROGRAM. */
@EnabledIfEnvironmentVariable(named = Sidecar.PROGRAM_VARIABLE, matches = ".+")
class SidecarTest {
  private static final HoldListener NOBODY = event -> {};

  @RegisterExtension final LeaseholdExtension leasehold = new LeaseholdExtension();

  private ExtensionContext context;

  @RegisterExtension final BeforeEachCallback remember = context -> this.context = context;

  @Test
  void theLogIsShownWithATestThatFailed(Sidecar sidecar) {
    // What it logs is written by the time that it has ended.
    sidecar.stop();
    AssertionError failure = new AssertionError("wrong");
    ExtensionContext failed =
        (ExtensionContext)
            Proxy.newProxyInstance(
                getClass().getClassLoader(),
                new Class<?>[] {ExtensionContext.class},
                (proxy, method, arguments) ->
                    method.getName().equals("getExecutionException")
                        ? Optional.of(failure)
                        : method.invoke(context, arguments));
    leasehold.afterTestExecution(failed);
    String log = failure.getSuppressed()[0].getMessage();
    assertTrue(log.contains("listening") && log.contains("shut down"), log);
  }

  private static Hold hold(LeaseholdClient client, HoldListener listener) throws Exception {
    return client.holdAsync(LeaseSpec.of("job").waitWithoutEnd(), listener).get();
  }

  private static HoldListener on(Class<? extends HoldEvent> kind, CountDownLatch told) {
    return event -> {
      if (kind.isInstance(event)) {
        told.countDown();
      }
    };
  }

  private static void assertSays(String word, Executable call) {
    String said = assertThrows(SidecarException.class, call).getMessage();
    assertTrue(said.contains(word), said);
  }

  @Test
  void aBreakIsToldAndLeavesTimeAndALockIsLostAtOnce(Sidecar sidecar, LeaseholdClient client)
      throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.breakLock("job", "a new version");
    assertEquals("a new version", hold.revoked().get().reason());
    assertTrue(hold.isValid());
    hold.close();
    sidecar.waitUntilAvailable("job");
    hold = hold(client, NOBODY);
    sidecar.lose("job");
    assertEquals(LossReason.LOSS_REASON_BROKEN, hold.lost().get().reason());
    assertTrue(sidecar.waitUntilAvailable("job").hasBreakNote());
  }

  @Test
  void aHoldIsLostByItsOwnClockWhileTheSidecarIsPaused(Sidecar sidecar, LeaseholdClient client)
      throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.pause();
    assertSays("is paused", () -> sidecar.lose("job"));
    assertEquals(LossReason.LOSS_REASON_EXPIRED, hold.lost().get().reason());
    sidecar.resume();
    sidecar.waitUntilAvailable("job");
  }

  @Test
  void aKilledSidecarForgetsItsLocks(Sidecar sidecar, LeaseholdClient client) throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.kill();
    assertSays("does not run", () -> sidecar.lose("job"));
    sidecar.start();
    assertFalse(hold.lost().get().detail().isEmpty());
    sidecar.waitUntilAvailable("job");
  }

  @Test
  void aHoldIsResumedWhereLocksOutlastTheSidecar(@TempDir Path folder) throws Exception {
    Sidecar.Builder lasting =
        Sidecar.builder()
            .setting("store.kind", "embedded")
            .setting("store.embedded.path", folder.resolve("locks.db").toString());
    CountDownLatch resumed = new CountDownLatch(1);
    try (Sidecar sidecar = lasting.start();
        LeaseholdClient client = sidecar.client();
        Hold hold = hold(client, on(HoldEvent.Resumed.class, resumed))) {
      sidecar.kill();
      sidecar.start();
      resumed.await();
      assertTrue(hold.isValid());
    }
  }

  @Test
  void whoWaitsCanBeWaitedFor(Sidecar sidecar, LeaseholdClient client) throws Exception {
    Hold first = hold(client, NOBODY);
    assertEquals(0, sidecar.waitUntilHeld("job").getWaitersHere());
    CompletableFuture<Hold> second = client.holdAsync(LeaseSpec.of("job").waitWithoutEnd(), NOBODY);
    sidecar.waitUntilWaiting("job", 1);
    first.close();
    second.get().close();
  }

  @Test
  void aShutdownIsTold(Sidecar sidecar, LeaseholdClient client) throws Exception {
    CountDownLatch draining = new CountDownLatch(1);
    Hold hold = hold(client, on(HoldEvent.Draining.class, draining));
    CompletableFuture<Void> stopped = CompletableFuture.runAsync(sidecar::stop);
    draining.await();
    hold.close();
    stopped.get();
    assertTrue(sidecar.log().contains("shut down"), sidecar.log());
  }

  @Test
  void anInterruptByTheLossIsForTheCodeUnderTest(Sidecar sidecar, LeaseholdClient client)
      throws Exception {
    try (Hold hold = client.hold(LeaseSpec.of("job"))) {
      sidecar.lose("job");
      sidecar.waitUntilAvailable("job");
      CompletableFuture<Void> never = hold.lost().thenCompose(loss -> new CompletableFuture<>());
      assertThrows(InterruptedException.class, never::get);
    } catch (dev.leasehold.client.LostException lost) {
      assertEquals(LossReason.LOSS_REASON_BROKEN, lost.loss().reason());
    }
  }

  @Test
  void whatIsWrongIsSaid(Sidecar sidecar) {
    assertSays(
        "the lock \"job\" of \"part\" cannot be lost or broken",
        () -> sidecar.lose(Locks.key("job", "part")));
    assertSays("there is no setting colour", Sidecar.builder().setting("colour", "red")::start);
    Path nowhere = Path.of("/nowhere/leasehold");
    assertSays("/nowhere/leasehold", Sidecar.builder().program(nowhere)::start);
    sidecar.timeout = Duration.ZERO;
    assertSays(
        "not after PT0S: the lock \"job\" is held. It is ", () -> sidecar.waitUntilHeld("job"));
  }

  /** A process that starts a sidecar, and waits to be killed. */
  static final class Child {
    private Child() {}

    public static void main(String[] arguments) throws Exception {
      Sidecar sidecar = Sidecar.startNew();
      if (arguments[0].equals("paused")) {
        sidecar.pause();
      }
      System.out.println(sidecar.processId());
      Thread.currentThread().join();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"running", "paused"})
  void aSidecarEndsWithATestProcessThatIsKilled(String how) throws Exception {
    Path java = Path.of(System.getProperty("java.home"), "bin", "java");
    String classPath = System.getProperty("java.class.path");
    ProcessBuilder builder =
        new ProcessBuilder(java.toString(), "-cp", classPath, Child.class.getName(), how);
    Process child = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (BufferedReader said = child.inputReader(StandardCharsets.UTF_8)) {
      ProcessHandle sidecar = ProcessHandle.of(Long.parseLong(said.readLine())).orElseThrow();
      child.destroyForcibly();
      assertEquals(sidecar, sidecar.onExit().get());
    }
  }

  @Test
  void theProgramIsFoundOrItIsSaidWhereItWasLookedFor(@TempDir Path folder) throws Exception {
    for (String word :
        new String[] {
          Sidecar.PROGRAM_VARIABLE, "pip install leasehold-sidecar", "PATH (not in " + folder + ")"
        }) {
      assertSays(word, () -> Program.find("", folder.toString()));
    }
    Path inPath = Files.createFile(folder.resolve("leasehold"));
    Path other = Files.createFile(folder.resolve("other"));
    assertTrue(inPath.toFile().setExecutable(true));
    assertTrue(other.toFile().setExecutable(true));
    assertEquals(inPath, Program.find(null, folder.toString()));
    assertEquals(other, Program.find(other.toString(), folder.toString()));
    assertSays("which is not an executable file", () -> Program.find(folder.toString(), ""));
  }
}
