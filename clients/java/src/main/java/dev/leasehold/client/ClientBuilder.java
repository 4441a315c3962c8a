package dev.leasehold.client;

import dev.leasehold.client.internal.GrpcLeaseholdClient;
import dev.leasehold.client.internal.clock.BootClock;
import dev.leasehold.client.internal.connect.CallHeaders;
import dev.leasehold.client.internal.connect.Channels;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.connect.Endpoint;
import io.grpc.ClientInterceptor;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** How to reach a sidecar; made by {@link LeaseholdClient#builder}. */
public final class ClientBuilder {
  /** How long the connections' thread must have been idle before it ends. */
  private static final Duration QUIET = Duration.ofMillis(100);

  private final String endpoint;
  private Optional<TlsCredentials> authority = Optional.empty();
  private Optional<UnaryOperator<TlsCredentials>> identity = Optional.empty();
  private Optional<Supplier<TlsCredentials>> tls = Optional.empty();
  private Optional<String> serverName = Optional.empty();
  private Optional<Supplier<String>> token = Optional.empty();

  /** Null unless it was chosen. */
  private Optional<Duration> keepAlive;

  private Duration releaseTimeout = Constants.DEFAULT_RELEASE_TIMEOUT;
  private final List<ClientInterceptor> interceptors = new ArrayList<>();
  private Supplier<BootClock> clock = BootClock::ofMachine;

  /** Each of them leaves room for a call about it. */
  private int streamsPerConnection = Constants.STREAMS_PER_CONNECTION / 2;

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
    TlsCredentials trusted = TlsCredentials.trusting(pem);
    authority = Optional.of(trusted);
    return this;
  }

  /**
   * Shows this certificate to a sidecar that asks for one; with {@link #caCertificate} only.
   *
   * @param pem the certificate, and those between it and its authority
   * @param keyPem its private key, PKCS #8, not encrypted
   * @return this
   */
  public ClientBuilder clientCertificate(byte[] pem, byte[] keyPem) {
    byte[] shown = pem.clone();
    byte[] key = keyPem.clone();
    identity = Optional.of(credentials -> credentials.withClientCertificate(shown, key));
    return this;
  }

  /**
   * Instead of {@link #caCertificate} and {@link #clientCertificate}, for certificates that change
   * while the client lives.
   *
   * @param credentials asked before each new connection is made, by any thread, which waits for it
   * @return this
   */
  public ClientBuilder tls(Supplier<TlsCredentials> credentials) {
    tls = Optional.of(credentials);
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
    return bearerToken(() -> token);
  }

  /**
   * As {@link #bearerToken(String)}, for a token that changes while the client lives.
   *
   * @param token asked before each call, by any thread, which waits for it; when it throws, the
   *     call fails with {@code UNAUTHENTICATED}
   * @return this
   */
  public ClientBuilder bearerToken(Supplier<String> token) {
    this.token = Optional.of(token);
    return this;
  }

  /**
   * How often an HTTP/2 ping tests each connection; one that is not answered within 10 s closes it.
   * Default: 30 s, and none for a sidecar on this machine ({@code unix://}, {@code localhost},
   * {@code 127.0.0.0/8}, {@code ::1}), which would read the closed connection as the end of this
   * process.
   *
   * @param interval 10 s or more
   * @return this
   */
  public ClientBuilder keepAlive(Duration interval) {
    keepAlive = Optional.of(interval);
    return this;
  }

  /**
   * Sends no pings: a sidecar that was cut off is noticed after 90 s without a word.
   *
   * @return this
   */
  public ClientBuilder withoutKeepAlive() {
    keepAlive = Optional.empty();
    return this;
  }

  /**
   * How long a release waits for the sidecar's answer. Not longer than the process has until it is
   * killed after SIGTERM: by default Kubernetes gives it 30 s.
   *
   * @param timeout more than 0; default 10 s
   * @return this
   */
  public ClientBuilder releaseTimeout(Duration timeout) {
    releaseTimeout = timeout;
    return this;
  }

  /**
   * Adds interceptors to all calls, for tracing and metrics. Later ones run first.
   *
   * @param more the interceptors
   * @return this
   */
  public ClientBuilder intercept(ClientInterceptor... more) {
    interceptors.addAll(List.of(more));
    return this;
  }

  ClientBuilder clock(BootClock clock) {
    this.clock = () -> clock;
    return this;
  }

  ClientBuilder streamsPerConnection(int streams) {
    streamsPerConnection = streams;
    return this;
  }

  /**
   * A client of the sidecar, which may start later: the client connects when a call needs it. Then
   * a call that waits for a lock waits for the sidecar, too, and others fail with a {@link
   * UnreachableException} while none answers.
   *
   * @return the client
   * @throws EndpointException when the endpoint or an option is invalid
   * @throws UnsupportedOperationException elsewhere than on Linux and macOS
   */
  public LeaseholdClient connect() {
    Endpoint target = validated();
    BootClock machine = clock.get();
    EventLoopGroup loop =
        new MultiThreadIoEventLoopGroup(
            1, ClientContext.daemons("leasehold-connection"), NioIoHandler.newFactory());
    Channels channels = new Channels(settings(target), loop);
    CallHeaders headers = new CallHeaders(token, machine.bootId());
    Connections connections =
        new Connections(
            () -> new Connection(endpoint, channels::open, headers),
            streamsPerConnection,
            () ->
                loop.shutdownGracefully(
                    QUIET.toMillis(), Channels.CONNECT_PATIENCE.toMillis(), TimeUnit.MILLISECONDS));
    ClientContext.Limits limits = new ClientContext.Limits(releaseTimeout, Constants.SILENCE);
    ClientContext.Engine engine = ClientContext.Engine.of(loop);
    return new GrpcLeaseholdClient(new ClientContext(connections, machine, engine, limits));
  }

  private Channels.Settings settings(Endpoint target) {
    Optional<Duration> standard =
        target.isLocal() ? Optional.empty() : Optional.of(Constants.DEFAULT_KEEP_ALIVE);
    Optional<Duration> pings = keepAlive == null ? standard : keepAlive;
    return new Channels.Settings(
        endpoint,
        target,
        credentials().map(tls -> () -> tls.get().context()),
        serverName,
        pings,
        List.copyOf(interceptors));
  }

  private Optional<Supplier<TlsCredentials>> credentials() {
    Optional<TlsCredentials> plain =
        authority.map(trusted -> identity.map(own -> own.apply(trusted)).orElse(trusted));
    return tls.or(() -> plain.map(fixed -> () -> fixed));
  }

  /** The endpoint, if it and all options are valid. */
  private Endpoint validated() {
    Endpoint target = Endpoint.parse(endpoint);
    if (target.isSecure() && credentials().isEmpty()) {
      throw invalidEndpoint("https needs the certificate authority to trust");
    }
    if (!target.isSecure() && (credentials().isPresent() || identity.isPresent())) {
      throw invalidEndpoint("certificates were given, and only https:// uses them");
    }
    if (keepAlive != null && keepAlive.filter(this::isTooShort).isPresent()) {
      throw invalidEndpoint("keepAlive must be 10 s or more");
    }
    if (releaseTimeout.isNegative() || releaseTimeout.isZero()) {
      throw invalidEndpoint("releaseTimeout must be more than 0");
    }
    token.ifPresent(this::checkToken);
    return target;
  }

  private boolean isTooShort(Duration interval) {
    return interval.compareTo(Constants.SHORTEST_KEEP_ALIVE) < 0;
  }

  private void checkToken(Supplier<String> token) {
    try {
      CallHeaders.authorization(token.get());
    } catch (IllegalArgumentException unsendable) {
      throw invalidEndpoint(unsendable.getMessage());
    }
  }

  private EndpointException invalidEndpoint(String problem) {
    return new EndpointException(endpoint, problem);
  }

  /** Without keys and tokens (S20). */
  @Override
  public String toString() {
    return "ClientBuilder[" + endpoint + "]";
  }
}
