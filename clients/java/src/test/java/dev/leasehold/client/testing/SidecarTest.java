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

  @Test
  void aLockIsLostAtOnce(Sidecar sidecar, LeaseholdClient client) throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.lose("job");
    assertEquals(LossReason.LOSS_REASON_BROKEN, hold.lost().get().reason());
    assertTrue(sidecar.waitUntilAvailable("job").hasBreakNote());
  }

  @Test
  void aBreakIsToldAndLeavesTime(Sidecar sidecar, LeaseholdClient client) throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.breakLock("job", "a new version");
    assertEquals("a new version", hold.revoked().get().reason());
    assertTrue(hold.isValid());
    hold.close();
    sidecar.waitUntilAvailable("job");
  }

  @Test
  void aHoldIsLostByItsOwnClockWhileTheSidecarIsPaused(Sidecar sidecar, LeaseholdClient client)
      throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.pause();
    Exception paused = assertThrows(SidecarException.class, () -> sidecar.lose("job"));
    assertTrue(paused.getMessage().contains("is paused"), paused.getMessage());
    assertEquals(LossReason.LOSS_REASON_EXPIRED, hold.lost().get().reason());
    sidecar.resume();
    sidecar.waitUntilAvailable("job");
  }

  @Test
  void aKilledSidecarForgetsItsLocks(Sidecar sidecar, LeaseholdClient client) throws Exception {
    Hold hold = hold(client, NOBODY);
    sidecar.kill();
    Exception killed = assertThrows(SidecarException.class, () -> sidecar.lose("job"));
    assertTrue(killed.getMessage().contains("does not run"), killed.getMessage());
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
    HoldListener listener =
        event -> {
          if (event instanceof HoldEvent.Resumed) {
            resumed.countDown();
          }
        };
    try (Sidecar sidecar = lasting.start();
        LeaseholdClient client = sidecar.client();
        Hold hold = hold(client, listener)) {
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
    Hold hold =
        hold(
            client,
            event -> {
              if (event instanceof HoldEvent.Draining) {
                draining.countDown();
              }
            });
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
      assertThrows(InterruptedException.class, () -> hold.lost().thenCompose(x -> never()).get());
    } catch (dev.leasehold.client.LostException lost) {
      assertEquals(LossReason.LOSS_REASON_BROKEN, lost.loss().reason());
    }
  }

  private static CompletableFuture<Void> never() {
    return new CompletableFuture<>();
  }

  @Test
  void whatIsWrongIsSaid(Sidecar sidecar) {
    Exception unheld =
        assertThrows(SidecarException.class, () -> sidecar.lose(Locks.key("job", "part")));
    assertTrue(
        unheld.getMessage().startsWith("the lock \"job\" of \"part\" cannot be lost or broken"),
        unheld.getMessage());
    Sidecar.Builder wrong = Sidecar.builder().setting("colour", "red");
    Exception refused = assertThrows(SidecarException.class, wrong::start);
    assertTrue(refused.getMessage().contains("there is no setting colour"), refused.getMessage());
    Sidecar.Builder missing = Sidecar.builder().program(Path.of("/nowhere/leasehold"));
    Exception nothing = assertThrows(SidecarException.class, missing::start);
    assertTrue(nothing.getMessage().contains("/nowhere/leasehold"), nothing.getMessage());
    sidecar.timeout = Duration.ZERO;
    Exception late = assertThrows(SidecarException.class, () -> sidecar.waitUntilHeld("job"));
    assertTrue(
        late.getMessage().startsWith("not after PT0S: the lock \"job\" is held. It is "),
        late.getMessage());
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
    Exception missing =
        assertThrows(SidecarException.class, () -> Program.find("", folder.toString()));
    for (String word :
        new String[] {
          Sidecar.PROGRAM_VARIABLE, "pip install leasehold-sidecar", "PATH (not in " + folder + ")"
        }) {
      assertTrue(missing.getMessage().contains(word), missing.getMessage());
    }
    Path inPath = Files.createFile(folder.resolve("leasehold"));
    Path other = Files.createFile(folder.resolve("other"));
    assertTrue(inPath.toFile().setExecutable(true));
    assertTrue(other.toFile().setExecutable(true));
    assertEquals(inPath, Program.find(null, folder.toString()));
    assertEquals(other, Program.find(other.toString(), folder.toString()));
    Exception named =
        assertThrows(SidecarException.class, () -> Program.find(folder.toString(), ""));
    assertTrue(named.getMessage().contains("which is not an executable file"), named.getMessage());
  }
}
