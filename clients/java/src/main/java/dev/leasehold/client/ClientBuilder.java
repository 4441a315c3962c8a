package dev.leasehold.client;

import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFactory;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnixDomainSocketAddress;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import javax.net.ssl.SSLException;

/** How to reach a sidecar; made by {@link LeaseholdClient#builder}. */
public final class ClientBuilder {
  private static final Duration CONNECT_PATIENCE = Duration.ofSeconds(5);

  /** How long the connections' thread must have been idle before it ends. */
  private static final Duration QUIET = Duration.ofMillis(100);

  private static final String FORMS =
      "it must be unix:///path, http://host:port or https://host:port";

  private final String endpoint;
  private Optional<byte[]> authority = Optional.empty();
  private Optional<byte[]> certificate = Optional.empty();
  private byte[] privateKey = {};
  private Optional<String> serverName = Optional.empty();
  private Optional<String> token = Optional.empty();
  private Supplier<BootClock> clock = LinuxBootClock::new;

  ClientBuilder(String endpoint) {
    this.endpoint = endpoint;
  }

  /**
   * Trusts these certificate authorities. Needed with {@code https}: the system's are not trusted.
   *
   * @param pem one or more certificates
   * @return this
   */
  public ClientBuilder caCertificate(byte[] pem) {
    authority = Optional.of(pem.clone());
    return this;
  }

  /**
   * Shows this certificate to a sidecar that asks for one; with {@code https} only.
   *
   * @param pem the certificate, and those between it and its authority
   * @param keyPem its private key, PKCS #8, not encrypted
   * @return this
   */
  public ClientBuilder clientCertificate(byte[] pem, byte[] keyPem) {
    certificate = Optional.of(pem.clone());
    privateKey = keyPem.clone();
    return this;
  }

  /**
   * The name that the sidecar's certificate must have. Default: the host of the endpoint.
   *
   * @param name the name
   * @return this
   */
  public ClientBuilder serverName(String name) {
    serverName = Optional.of(name);
    return this;
  }

  /**
   * Sends {@code authorization: Bearer …} with each call, to a sidecar that asks for a token.
   *
   * @param token the token
   * @return this
   */
  public ClientBuilder bearerToken(String token) {
    this.token = Optional.of(token.strip());
    return this;
  }

  ClientBuilder clock(BootClock clock) {
    this.clock = () -> clock;
    return this;
  }

  /**
   * Connects, and gives up after 5 s.
   *
   * @return the client
   * @throws EndpointException when the endpoint or what goes with it makes no sense
   * @throws SidecarUnreachableException when nobody answers there
   * @throws InterruptedException when the thread is interrupted
   * @throws UnsupportedOperationException where there is no clock that counts while the machine
   *     sleeps: elsewhere than on Linux
   */
  public LeaseholdClient connect() throws InterruptedException {
    checkToken();
    Target target = target();
    BootClock machine = clock.get();
    EventLoopGroup loop =
        new MultiThreadIoEventLoopGroup(
            1, ClientContext.daemons("leasehold-connection"), NioIoHandler.newFactory());
    Wiring wiring = new Wiring(loop);
    Connections connections =
        new Connections(
            () -> target.channel(wiring),
            Connection.headers(token, machine.bootId()),
            () ->
                loop.shutdownGracefully(
                    QUIET.toMillis(), CONNECT_PATIENCE.toMillis(), TimeUnit.MILLISECONDS));
    LeaseholdClient client = null;
    try {
      connections
          .lasting()
          .awaitReady(CONNECT_PATIENCE)
          .ifPresent(
              why -> {
                throw new SidecarUnreachableException(endpoint, why);
              });
      client = new LeaseholdClient(new ClientContext(connections, machine, loop));
      return client;
    } finally {
      if (client == null) {
        connections.close();
      }
    }
  }

  private void checkToken() {
    boolean sendable = token.stream().flatMapToInt(String::chars).allMatch(c -> c > ' ' && c < 127);
    if (!sendable || token.equals(Optional.of(""))) {
      throw useless("the bearer token is empty or has characters that cannot be sent");
    }
  }

  /** Where the sidecar is, in netty's terms. */
  private interface Target {
    ManagedChannel channel(Wiring wiring);
  }

  /** What the connections of a client share: their only thread, which knows their sockets. */
  private static final class Wiring {
    private final EventLoopGroup loop;
    private final ChannelGroup sockets;
    private final ClientInterceptor flush;

    Wiring(EventLoopGroup loop) {
      EventLoop only = loop.next();
      this.loop = loop;
      this.sockets = new DefaultChannelGroup(only);
      this.flush = new FlushAfterCall(only, sockets);
    }

    /** Makes sockets, and remembers them until they are closed. */
    ChannelFactory<Channel> sockets(Supplier<Channel> kind) {
      return () -> {
        Channel socket = kind.get();
        sockets.add(socket);
        return socket;
      };
    }
  }

  private Target target() {
    boolean secure = endpoint.startsWith("https://");
    if (!secure && (authority.isPresent() || certificate.isPresent())) {
      throw useless("certificates were given, and only https:// makes use of them");
    }
    if (endpoint.startsWith("unix:///") && endpoint.length() > "unix:///".length()) {
      return overSocket(endpoint.substring("unix://".length()));
    }
    if (secure || endpoint.startsWith("http://")) {
      return overNetwork(secure);
    }
    throw useless(FORMS);
  }

  private static Target overSocket(String path) {
    UnixDomainSocketAddress address = UnixDomainSocketAddress.of(path);
    return wiring ->
        common(NettyChannelBuilder.forAddress(address), wiring)
            .channelFactory(
                wiring.sockets(NioDomainSocketChannel::new), UnixDomainSocketAddress.class)
            // Unknown to such sockets, which netty warns of.
            .withOption(ChannelOption.SO_KEEPALIVE, null)
            .overrideAuthority("localhost")
            .usePlaintext()
            .build();
  }

  private Target overNetwork(boolean secure) {
    URI uri;
    try {
      uri = new URI(endpoint);
    } catch (URISyntaxException error) {
      throw useless(FORMS);
    }
    if (uri.getHost() == null || uri.getPath().length() > 1) {
      throw useless(FORMS);
    }
    String host = uri.getHost().replaceAll("[\\[\\]]", "");
    int standard = secure ? 443 : 80;
    int port = uri.getPort() < 0 ? standard : uri.getPort();
    Optional<SslContext> tls = secure ? Optional.of(tls()) : Optional.empty();
    return wiring -> {
      NettyChannelBuilder builder =
          common(NettyChannelBuilder.forAddress(host, port), wiring)
              .channelFactory(wiring.sockets(NioSocketChannel::new));
      serverName.ifPresent(builder::overrideAuthority);
      tls.ifPresentOrElse(builder::sslContext, builder::usePlaintext);
      return builder.build();
    };
  }

  /**
   * No keep-alive of our own: an unanswered one would close the connection, which the sidecar on
   * the same machine reads as the holder being gone (S13, S14). Nothing is tried again behind the
   * caller's back. What is called back never blocks, so it needs no thread but the connection's.
   */
  private static NettyChannelBuilder common(NettyChannelBuilder builder, Wiring wiring) {
    return builder
        .eventLoopGroup(wiring.loop)
        .intercept(wiring.flush)
        .directExecutor()
        .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) CONNECT_PATIENCE.toMillis())
        .disableRetry();
  }

  private SslContext tls() {
    byte[] trusted =
        authority.orElseThrow(() -> useless("https needs the certificate authority to trust"));
    try {
      SslContextBuilder tls =
          GrpcSslContexts.forClient().trustManager(new ByteArrayInputStream(trusted));
      certificate.ifPresent(
          own ->
              tls.keyManager(new ByteArrayInputStream(own), new ByteArrayInputStream(privateKey)));
      return tls.build();
    } catch (SSLException | IllegalArgumentException error) {
      throw new EndpointException(endpoint, "its certificates cannot be used", error);
    }
  }

  private EndpointException useless(String problem) {
    return new EndpointException(endpoint, problem);
  }

  /** Without keys and tokens (S20). */
  @Override
  public String toString() {
    return "ClientBuilder[" + endpoint + "]";
  }
}
