package dev.leasehold.client.internal.connect;

import dev.leasehold.client.EndpointException;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;

/** Where a sidecar listens, understood. */
public sealed interface Endpoint {
  /** What an endpoint may look like. */
  String FORMS = "it must be unix:///path, http://host:port or https://host:port";

  /** A Unix socket. */
  record Socket(String path) implements Endpoint {}

  /** A port, of this machine or another. */
  record Port(String host, int port, boolean secure) implements Endpoint {}

  /**
   * Understands an endpoint.
   *
   * @throws EndpointException when it has none of the {@link #FORMS}
   */
  static Endpoint parse(String text) {
    String unix = "unix://";
    if (text.startsWith(unix + "/") && text.length() > unix.length() + 1) {
      return new Socket(text.substring(unix.length()));
    }
    boolean secure = text.startsWith("https://");
    if (!secure && !text.startsWith("http://")) {
      throw new EndpointException(text, FORMS);
    }
    URI uri;
    try {
      uri = new URI(text);
    } catch (URISyntaxException error) {
      throw new EndpointException(text, FORMS);
    }
    if (uri.getHost() == null || uri.getPath().length() > 1) {
      throw new EndpointException(text, FORMS);
    }
    String host = uri.getHost().replaceAll("[\\[\\]]", "");
    int standard = secure ? 443 : 80;
    return new Port(host, uri.getPort() < 0 ? standard : uri.getPort(), secure);
  }

  /** Whether calls are encrypted. */
  default boolean isSecure() {
    return this instanceof Port port && port.secure();
  }

  /**
   * Whether the sidecar is on this machine, where it reads the end of a connection as the end of
   * the process (S14).
   */
  default boolean isLocal() {
    if (!(this instanceof Port port)) {
      return true;
    }
    String host = port.host().toLowerCase(Locale.ROOT);
    return host.equals("localhost")
        || host.matches("127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}")
        || host.matches("(0{0,4}:){2,7}0{0,3}1");
  }
}
