package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceImplBase;
import dev.leasehold.v1.ResolvePathRequest;
import dev.leasehold.v1.ResolvePathResponse;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.StreamObserver;
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
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class TlsTest {
  private static final String PASSWORD = "password";
  private static final String JAVA = System.getProperty("java.home");

  /** A certificate that vouches for itself. */
  private record Identity(String certificatePem, String keyPem) {
    static Identity make(Path folder, String name, String alternative) throws Exception {
      Path store = folder.resolve(name + ".p12");
      String command =
          "%s -genkeypair -alias %s -keyalg EC -dname CN=%s -ext san=%s -storetype PKCS12"
              .formatted(Path.of(JAVA, "bin", "keytool"), name, name, alternative);
      List<String> words = new ArrayList<>(List.of(command.split(" ")));
      words.addAll(List.of("-keystore", store.toString(), "-storepass", PASSWORD));
      Process keytool = new ProcessBuilder(words).redirectErrorStream(true).start();
      String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, keytool.waitFor(), said);
      KeyStore keys = KeyStore.getInstance("PKCS12");
      try (InputStream stream = Files.newInputStream(store)) {
        keys.load(stream, PASSWORD.toCharArray());
      }
      return new Identity(
          pem("CERTIFICATE", keys.getCertificate(name).getEncoded()),
          pem("PRIVATE KEY", keys.getKey(name, PASSWORD.toCharArray()).getEncoded()));
    }

    private static String pem(String kind, byte[] der) {
      String text = Base64.getMimeEncoder().encodeToString(der);
      return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n";
    }

    byte[] certificate() {
      return certificatePem.getBytes(StandardCharsets.US_ASCII);
    }

    byte[] key() {
      return keyPem.getBytes(StandardCharsets.US_ASCII);
    }
  }

  private final Queue<String> authorizations = new ConcurrentLinkedQueue<>();
  private Identity sidecar;
  private Identity holder;
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

  private static final class Resolver extends LeaseServiceImplBase {
    @Override
    public void resolvePath(
        ResolvePathRequest request, StreamObserver<ResolvePathResponse> answer) {
      answer.onNext(ResolvePathResponse.newBuilder().setLockPath("locks/p").build());
      answer.onCompleted();
    }
  }

  @BeforeEach
  void open(@TempDir Path folder) throws Exception {
    sidecar = Identity.make(folder, "sidecar", "IP:127.0.0.1");
    holder = Identity.make(folder, "holder", "DNS:holder");
    serve(0, holder);
  }

  /** A sidecar that lets in who shows the certificate of {@code trusted}. */
  private void serve(int port, Identity trusted) throws IOException {
    TlsServerCredentials.Builder credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(stream(sidecar.certificate()), stream(sidecar.key()))
            .trustManager(stream(trusted.certificate()))
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    server =
        Grpc.newServerBuilderForPort(port, credentials.build())
            .addService(new Resolver())
            .intercept(new Recorder())
            .build()
            .start();
  }

  private static InputStream stream(byte[] content) {
    return new ByteArrayInputStream(content);
  }

  @AfterEach
  void close() throws InterruptedException {
    assertTrue(server.shutdownNow().awaitTermination(20, TimeUnit.SECONDS));
  }

  private ClientBuilder builder(String host) {
    return LeaseholdClient.builder("https://" + host + ":" + server.getPort())
        .caCertificate(sidecar.certificate());
  }

  /** What the first call of a client fails with. */
  private static UnreachableException unreachable(ClientBuilder builder) {
    try (LeaseholdClient client = builder.connect()) {
      return assertThrows(UnreachableException.class, () -> client.resolvePath(Locks.key("f", "")));
    }
  }

  @Test
  void bothSidesShowTheirCertificatesAndTheTokenIsSent() throws Exception {
    try (LeaseholdClient client =
        builder("127.0.0.1")
            .clientCertificate(holder.certificate(), holder.key())
            .bearerToken("secret\n")
            .connect()) {
      assertEquals("locks/p", client.resolvePath(Locks.key("f", "")).getLockPath());
    }
    assertEquals(List.of("Bearer secret"), List.copyOf(authorizations));
  }

  @Test
  void aSidecarThatWantsACertificateSaysSo(@TempDir Path folder) throws Exception {
    Identity stranger = Identity.make(folder, "stranger", "DNS:stranger");
    ClientBuilder shown =
        builder("127.0.0.1").clientCertificate(stranger.certificate(), stranger.key());
    for (ClientBuilder builder : List.of(builder("127.0.0.1"), shown)) {
      UnreachableException error = unreachable(builder);
      String message = error.getMessage();
      assertTrue(message.contains("wants a client certificate that it trusts"), message);
    }
  }

  @Test
  void certificatesAreAskedForBeforeEachConnection(@TempDir Path folder) throws Exception {
    Identity renewed = Identity.make(folder, "renewed", "DNS:renewed");
    AtomicReference<Identity> current = new AtomicReference<>(holder);
    ClientBuilder builder =
        LeaseholdClient.builder("https://127.0.0.1:" + server.getPort())
            .tls(
                () ->
                    TlsCredentials.trusting(sidecar.certificate())
                        .withClientCertificate(current.get().certificate(), current.get().key()));
    try (LeaseholdClient client = builder.connect()) {
      client.resolvePath(Locks.key("f", ""));
      int port = server.getPort();
      close();
      // From now on only the renewed certificate is trusted.
      current.set(renewed);
      serve(port, renewed);
      eventually("the new connection shows the new certificate", () -> isAnswered(client));
    }
  }

  private static boolean isAnswered(LeaseholdClient client) {
    try {
      return !client.resolvePath(Locks.key("f", "")).getLockPath().isEmpty();
    } catch (RefusedException notYet) {
      return false;
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
  }

  @Test
  void aSidecarOfAnotherAuthorityOrNameIsNotTalkedTo() {
    unreachable(
        builder("127.0.0.1")
            .caCertificate(holder.certificate())
            .clientCertificate(holder.certificate(), holder.key()));
    unreachable(
        builder("127.0.0.1")
            .serverName("elsewhere")
            .clientCertificate(holder.certificate(), holder.key()));
  }
}
