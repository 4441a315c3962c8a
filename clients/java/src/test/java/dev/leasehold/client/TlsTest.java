package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.TlsServerCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class TlsTest {
  /** A certificate that vouches for itself, and its key. */
  private static final class Identity {
    private final byte[] certificate;
    private final byte[] key;

    Identity(byte[] certificate, byte[] key) {
      this.certificate = certificate;
      this.key = key;
    }

    static Identity make(Path folder, String name, String alternative) throws Exception {
      Path store = folder.resolve(name + ".p12");
      String command =
          "%s/bin/keytool -genkeypair -alias %s -keyalg EC -dname CN=%s -ext san=%s -keystore %s"
              .formatted(System.getProperty("java.home"), name, name, alternative, store);
      List<String> words = new ArrayList<>(List.of(command.split(" ")));
      words.addAll(List.of("-storetype", "PKCS12", "-storepass", "password"));
      Process keytool = new ProcessBuilder(words).redirectErrorStream(true).start();
      String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, keytool.waitFor(), said);
      KeyStore keys = KeyStore.getInstance("PKCS12");
      try (InputStream stream = Files.newInputStream(store)) {
        keys.load(stream, "password".toCharArray());
      }
      return new Identity(
          pem("CERTIFICATE", keys.getCertificate(name).getEncoded()),
          pem("PRIVATE KEY", keys.getKey(name, "password".toCharArray()).getEncoded()));
    }

    private static byte[] pem(String kind, byte[] der) {
      String text = Base64.getMimeEncoder().encodeToString(der);
      return ("-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n")
          .getBytes(StandardCharsets.US_ASCII);
    }
  }

  private static Identity sidecar;
  private static Identity holder;
  private static Identity stranger;

  private final Queue<String> authorizations = new ConcurrentLinkedQueue<>();
  private Server server;

  private final class Recorder implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      Metadata.Key<String> key = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
      authorizations.add(String.valueOf(headers.get(key)));
      return next.startCall(call, headers);
    }
  }

  @BeforeAll
  static void makeThem(@TempDir Path folder) throws Exception {
    sidecar = Identity.make(folder, "sidecar", "IP:127.0.0.1");
    holder = Identity.make(folder, "holder", "DNS:holder");
    stranger = Identity.make(folder, "stranger", "DNS:stranger");
  }

  @BeforeEach
  void open() throws IOException {
    serve(0, holder);
  }

  /** A sidecar that lets in who shows the certificate of {@code trusted}. */
  private void serve(int port, Identity trusted) throws IOException {
    TlsServerCredentials.Builder credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(stream(sidecar.certificate), stream(sidecar.key))
            .trustManager(stream(trusted.certificate))
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    server =
        FakeCall.serve(
            Grpc.newServerBuilderForPort(port, credentials.build()).intercept(new Recorder()),
            new Said("ours"),
            call -> call.answer(Said.json("lock_path: 'locks/p'")));
  }

  private static InputStream stream(byte[] content) {
    return new ByteArrayInputStream(content);
  }

  @AfterEach
  void close() throws InterruptedException {
    assertTrue(server.shutdownNow().awaitTermination(20, TimeUnit.SECONDS));
  }

  private ClientBuilder builder() {
    return LeaseholdClient.builder("https://127.0.0.1:" + server.getPort())
        .caCertificate(sidecar.certificate);
  }

  /** What the first call of a client fails with. */
  private static String unreachable(ClientBuilder builder) {
    try (LeaseholdClient client = builder.connect()) {
      return assertThrows(UnreachableException.class, () -> pathAt(client)).getMessage();
    }
  }

  private static String pathAt(LeaseholdClient client) throws InterruptedException {
    return client.resolvePath(Locks.key("f", "")).getLockPath();
  }

  @Test
  void bothSidesShowTheirCertificatesAndTheTokenIsSent() throws Exception {
    ClientBuilder builder = builder().clientCertificate(holder.certificate, holder.key);
    try (LeaseholdClient client = builder.bearerToken("secret\n").connect()) {
      assertEquals("locks/p", pathAt(client));
    }
    assertEquals(List.of("Bearer secret"), List.copyOf(authorizations));
  }

  @Test
  void aSidecarThatWantsACertificateSaysSo() {
    ClientBuilder shown = builder().clientCertificate(stranger.certificate, stranger.key);
    for (ClientBuilder builder : List.of(builder(), shown)) {
      String message = unreachable(builder);
      assertTrue(message.contains("wants a client certificate that it trusts"), message);
    }
  }

  @Test
  void certificatesAreAskedForBeforeEachConnection() throws Exception {
    AtomicReference<Identity> current = new AtomicReference<>(holder);
    ClientBuilder builder =
        LeaseholdClient.builder("https://127.0.0.1:" + server.getPort())
            .tls(
                () ->
                    TlsCredentials.trusting(sidecar.certificate)
                        .withClientCertificate(current.get().certificate, current.get().key));
    try (LeaseholdClient client = builder.connect()) {
      pathAt(client);
      int port = server.getPort();
      close();
      // From now on only the new certificate is trusted.
      current.set(stranger);
      serve(port, stranger);
      eventually("the new connection shows the new certificate", () -> isAnswered(client));
    }
  }

  private static boolean isAnswered(LeaseholdClient client) {
    try {
      return !pathAt(client).isEmpty();
    } catch (RefusedException notYet) {
      return false;
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  @Test
  void aSidecarOfAnotherAuthorityOrNameIsNotTalkedTo() {
    ClientBuilder builder = builder().clientCertificate(holder.certificate, holder.key);
    unreachable(builder.serverName("elsewhere"));
    builder = builder().clientCertificate(holder.certificate, holder.key);
    unreachable(builder.caCertificate(holder.certificate));
  }
}
