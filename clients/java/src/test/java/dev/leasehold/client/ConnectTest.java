package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.ServerSocket;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ConnectTest {
  private static final byte[] NO_PEM = "pem".getBytes(java.nio.charset.StandardCharsets.US_ASCII);

  private static String invalid(ClientBuilder builder) {
    return assertThrows(EndpointException.class, builder::connect).getMessage();
  }

  @Test
  void nonsenseEndpointsAreRefusedWithWhatWouldBeRight() {
    for (String endpoint :
        new String[] {
          "", "127.0.0.1:50951", "ftp://host", "unix://", "unix://host/x", "http://", "http://a b"
        }) {
      String message = invalid(LeaseholdClient.builder(endpoint));
      assertTrue(message.contains("http://host:port"), endpoint + ": " + message);
    }
  }

  @Test
  void nobodyThereIsSaidWithWhatToDo() throws Exception {
    int free;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      free = socket.getLocalPort();
    }
    for (String endpoint :
        new String[] {"http://127.0.0.1:" + free, "unix:///nowhere/leasehold.sock"}) {
      SidecarUnreachableException error =
          assertThrows(SidecarUnreachableException.class, () -> LeaseholdClient.connect(endpoint));
      String message = error.getMessage();
      assertTrue(message.contains(endpoint) && message.contains("leasehold serve"), message);
    }
  }

  @Test
  void tlsOptionsMustFitTheEndpoint() {
    assertTrue(
        invalid(LeaseholdClient.builder("http://127.0.0.1:1").caCertificate(NO_PEM))
            .contains("only https"));
    assertTrue(
        invalid(LeaseholdClient.builder("https://127.0.0.1:1")).contains("certificate authority"));
    assertTrue(
        invalid(LeaseholdClient.builder("https://127.0.0.1:1").caCertificate(NO_PEM))
            .contains("certificates cannot be used"));
  }

  @Test
  void s20TheTokenIsNeverShown() {
    ClientBuilder builder = LeaseholdClient.builder("http://127.0.0.1:1").bearerToken("se\ncret");
    assertFalse(builder.toString().contains("cret"));
    String message = invalid(builder);
    assertTrue(message.contains("bearer token") && !message.contains("cret"), message);
  }

  @Test
  void callsGoOnAfterTheSidecarWasAway() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.list = request -> dev.leasehold.v1.ListLocksResponse.getDefaultInstance();
      bench.sidecar.kill();
      // Each is tried at once, and fails: nothing is put off for longer and longer.
      for (int failed = 0; failed < 5; failed++) {
        RefusedException error = assertThrows(RefusedException.class, bench.client::listLocks);
        assertTrue(error.getMessage().contains("does not answer"), error.getMessage());
      }
      bench.sidecar.start();
      assertTrue(bench.client.listLocks().isEmpty());
    }
  }
}
