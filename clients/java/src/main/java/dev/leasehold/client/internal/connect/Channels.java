package dev.leasehold.client.internal.connect;

import dev.leasehold.client.Constants;
import dev.leasehold.client.EndpointException;
import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFactory;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoop;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslContext;
import java.net.UnixDomainSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Makes the channels of a client, in netty's terms. Each has at most one connection. */
public final class Channels {
  /** How long a connection may take to be made. */
  public static final Duration CONNECT_PATIENCE = Duration.ofSeconds(5);

  /**
   * What all channels have in common.
   *
   * @param endpoint as it was given, for messages
   * @param target the endpoint, understood
   * @param tls asked for each new connection; empty without encryption
   * @param serverName the name that the sidecar's certificate must have
   * @param keepAlive how often a connection is tested; empty for never
   * @param interceptors the user's own
   */
  public record Settings(
      String endpoint,
      Endpoint target,
      Optional<Callable<SslContext>> tls,
      Optional<String> serverName,
      Optional<Duration> keepAlive,
      List<ClientInterceptor> interceptors) {}

  private final Settings settings;
  private final EventLoopGroup loop;
  private final ChannelGroup sockets;
  private final ClientInterceptor flush;

  /** {@code loop} has one thread, and all sockets belong to it. */
  public Channels(Settings settings, EventLoopGroup loop) {
    EventLoop only = loop.next();
    this.settings = settings;
    this.loop = loop;
    this.sockets = new DefaultChannelGroup(only);
    this.flush = new FlushAfterCall(only, sockets);
  }

  /**
   * A channel that connects when it is first used.
   *
   * @throws EndpointException when the certificates cannot be used
   */
  public ManagedChannel open() {
    NettyChannelBuilder builder =
        settings.target() instanceof Endpoint.Socket socket
            ? overSocket(socket)
            : overNetwork((Endpoint.Port) settings.target());
    settings.keepAlive().ifPresent(interval -> test(builder, interval));
    if (settings.target().isLocal()) {
      // S14: the sidecar would read its time-out as the end of this process. Also unknown to Unix
      // sockets, of which netty warns.
      builder.withOption(ChannelOption.SO_KEEPALIVE, null);
    }
    // Nothing is tried again unseen. What is called back never blocks, so it needs no thread but
    // the connection's.
    return builder
        .eventLoopGroup(loop)
        .intercept(flush)
        .intercept(settings.interceptors())
        .directExecutor()
        .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) CONNECT_PATIENCE.toMillis())
        .disableRetry()
        .build();
  }

  /** Finds out that the other end is gone though nobody says so, also for the next call's sake. */
  private static void test(NettyChannelBuilder builder, Duration interval) {
    builder
        .keepAliveTime(interval.toNanos(), TimeUnit.NANOSECONDS)
        .keepAliveTimeout(Constants.PING_TIMEOUT.toNanos(), TimeUnit.NANOSECONDS)
        .keepAliveWithoutCalls(true);
  }

  private NettyChannelBuilder overSocket(Endpoint.Socket socket) {
    UnixDomainSocketAddress address = UnixDomainSocketAddress.of(socket.path());
    return NettyChannelBuilder.forAddress(address)
        .channelFactory(sockets(NioDomainSocketChannel::new), UnixDomainSocketAddress.class)
        .overrideAuthority("localhost")
        .usePlaintext();
  }

  private NettyChannelBuilder overNetwork(Endpoint.Port port) {
    NettyChannelBuilder builder =
        NettyChannelBuilder.forAddress(port.host(), port.port())
            .channelFactory(sockets(NioSocketChannel::new));
    settings.serverName().ifPresent(builder::overrideAuthority);
    settings.tls().ifPresentOrElse(tls -> builder.sslContext(context(tls)), builder::usePlaintext);
    return builder;
  }

  private SslContext context(Callable<SslContext> tls) {
    try {
      return tls.call();
    } catch (Exception error) {
      throw new EndpointException(
          settings.endpoint(), "its certificates cannot be used: " + error.getMessage(), error);
    }
  }

  /** Makes sockets, and remembers them until they are closed. */
  private ChannelFactory<Channel> sockets(Supplier<Channel> kind) {
    return () -> {
      Channel socket = kind.get();
      sockets.add(socket);
      return socket;
    };
  }
}
