package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.Grpc;
import io.grpc.TlsServerCredentials;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
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
  private record Identity(ByteString certificate, ByteString key) {
    static Identity make(Path folder, String name, String alternative) throws Exception {
      Path file = folder.resolve(name);
      String command =
          "%s/bin/keytool -genkeypair -alias %s -keyalg EC -dname CN=%s -ext san=%s -keystore %s"
              .formatted(System.getProperty("java.home"), name, name, alternative, file);
      Process keytool =
          new ProcessBuilder((command + " -storepass password").split(" "))
              .redirectErrorStream(true)
              .start();
      String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, keytool.waitFor(), said);
      char[] password = "password".toCharArray();
      KeyStore store = KeyStore.getInstance(file.toFile(), password);
      return new Identity(
          pem("CERTIFICATE", store.getCertificate(name).getEncoded()),
          pem("PRIVATE KEY", store.getKey(name, password).getEncoded()));
    }

    private static ByteString pem(String kind, byte[] der) {
      String text = Base64.getMimeEncoder().encodeToString(der);
      return ByteString.copyFromUtf8(
          "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n");
    }

    /** Shows it to the sidecar, which is trusted. */
    TlsCredentials credentials() {
      return TlsCredentials.trusting(sidecar.certificate.toByteArray())
          .withClientCertificate(certificate.toByteArray(), key.toByteArray());
    }
  }

  private static Identity sidecar;
  private static Identity holder;
  private static Identity stranger;

  private final FakeSidecar server = new FakeSidecar("ours", call -> {});

  @BeforeAll
  static void makeThem(@TempDir Path folder) throws Exception {
    sidecar = Identity.make(folder, "sidecar", "IP:127.0.0.1");
    holder = Identity.make(folder, "holder", "DNS:holder");
    stranger = Identity.make(folder, "stranger", "DNS:stranger");
  }

  @BeforeEach
  void open() throws Exception {
    server.on("any", "");
    serve(0, holder);
  }

  /** A sidecar that lets in who shows the certificate of {@code trusted}. */
  private void serve(int port, Identity trusted) throws Exception {
    TlsServerCredentials.Builder credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(sidecar.certificate.newInput(), sidecar.key.newInput())
            .trustManager(trusted.certificate.newInput())
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    server.serve(Grpc.newServerBuilderForPort(port, credentials.build()));
  }

  @AfterEach
  void close() {
    server.kill();
  }

  private ClientBuilder builder() {
    return LeaseholdClient.builder("https://127.0.0.1:" + server.port());
  }

  /** One that trusts {@code authority}, and shows the certificate of {@code identity}. */
  private ClientBuilder showing(Identity identity, Identity authority) {
    return builder()
        .caCertificate(authority.certificate.toByteArray())
        .clientCertificate(identity.certificate.toByteArray(), identity.key.toByteArray());
  }

  /** What the first call of a client fails with. */
  private static String unreachable(ClientBuilder builder) {
    try (LeaseholdClient client = builder.connect()) {
      return assertThrows(UnreachableException.class, client::listLocks).getMessage();
    }
  }

  @Test
  void bothSidesShowTheirCertificatesAndTheTokenIsSent() throws Exception {
    try (LeaseholdClient client = showing(holder, sidecar).bearerToken("secret\n").connect()) {
      client.listLocks();
    }
    assertEquals("Bearer secret", server.calls().get(0).header("authorization"));
  }

  @Test
  void aSidecarThatWantsACertificateSaysSo() {
    ClientBuilder none = builder().caCertificate(sidecar.certificate.toByteArray());
    for (ClientBuilder builder : List.of(none, showing(stranger, sidecar))) {
      String message = unreachable(builder);
      assertTrue(message.contains("wants a client certificate that it trusts"), message);
    }
  }

  @Test
  void certificatesAreAskedForBeforeEachConnection() throws Exception {
    AtomicReference<Identity> current = new AtomicReference<>(holder);
    ClientBuilder builder = builder().tls(() -> current.get().credentials());
    try (LeaseholdClient client = builder.connect()) {
      client.listLocks();
      int port = server.port();
      server.kill();
      // From now on only the new certificate is trusted.
      current.set(stranger);
      serve(port, stranger);
      client.holdAsync(Bench.SPEC.waitWithoutEnd(), event -> {});
      server.next("hold");
    }
  }

  @Test
  void aSidecarOfAnotherAuthorityOrNameIsNotTalkedTo() {
    unreachable(showing(holder, sidecar).serverName("elsewhere"));
    unreachable(showing(holder, holder));
  }
}
