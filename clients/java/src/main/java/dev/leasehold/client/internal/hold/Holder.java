package dev.leasehold.client.internal.hold;

import dev.leasehold.client.Constants;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.stream.Stream;

/** Who asks, where the caller does not say it. */
public final class Holder {
  private static final Path HOST_NAME = Path.of("/proc/sys/kernel/hostname");

  /** Asked for once: a name server may be slow, and a Java machine does not fork. */
  private static final Optional<String> HOST = host();

  private Holder() {}

  /** The name that is sent: the given one, or else this pod or host and the process. */
  public static String orThis(String given) {
    return given.isEmpty() ? named(HOST, ProcessHandle.current().pid()) : given;
  }

  /** Leaves a host's name out that is not printable ASCII: the sidecar would refuse it (S19). */
  public static String named(Optional<String> host, long process) {
    String id = Long.toString(process);
    return host.filter(name -> name.matches("[!-~]+"))
        .map(
            name ->
                name.substring(
                    0, Math.min(name.length(), Constants.HOLDER_BYTES - id.length() - 1)))
        .map(name -> name + "/" + id)
        .orElse(id);
  }

  /** In a pod the pod's name, unless the pod shares its host's network. */
  private static Optional<String> host() {
    return Stream.of(Optional.ofNullable(System.getenv("HOSTNAME")), ofKernel())
        .flatMap(Optional::stream)
        .filter(name -> !name.isBlank())
        .findFirst()
        .or(Holder::ofAddress);
  }

  private static Optional<String> ofKernel() {
    try {
      return Optional.of(Files.readString(HOST_NAME).strip());
    } catch (IOException | SecurityException unknown) {
      return Optional.empty();
    }
  }

  /** Last, because it may ask a name server. */
  private static Optional<String> ofAddress() {
    try {
      return Optional.of(InetAddress.getLocalHost().getHostName());
    } catch (UnknownHostException unknown) {
      return Optional.empty();
    }
  }
}
