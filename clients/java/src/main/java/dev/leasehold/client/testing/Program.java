package dev.leasehold.client.testing;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** Where the program {@code leasehold} is. */
final class Program {
  private Program() {}

  /** What {@code LEASEHOLD_PROGRAM} names, or else the one in {@code PATH}. */
  static Path find() {
    return find(System.getenv(Sidecar.PROGRAM_VARIABLE), System.getenv("PATH"));
  }

  static Path find(String named, String path) {
    if (named != null && !named.isEmpty()) {
      Path program = Path.of(named).toAbsolutePath();
      if (!isProgram(program)) {
        throw new SidecarException(
            Sidecar.PROGRAM_VARIABLE
                + " names "
                + named
                + ", which is not an executable file: correct it, or unset it to use PATH");
      }
      return program;
    }
    String folders = path == null ? "" : path;
    return Arrays.stream(folders.split(File.pathSeparator, -1))
        .filter(folder -> !folder.isEmpty())
        .map(folder -> Path.of(folder, "leasehold").toAbsolutePath())
        .filter(Program::isProgram)
        .findFirst()
        .orElseThrow(() -> missing(folders));
  }

  private static SidecarException missing(String folders) {
    return new SidecarException(
        "there is no program leasehold to start a sidecar with. Looked at: "
            + Sidecar.PROGRAM_VARIABLE
            + " (not set), PATH (not in "
            + folders
            + "). To go on, install it (docs/install.md; `pip install leasehold-sidecar` brings it"
            + " too), put it into a folder of PATH, or set "
            + Sidecar.PROGRAM_VARIABLE
            + " to its path");
  }

  private static boolean isProgram(Path file) {
    return Files.isRegularFile(file) && Files.isExecutable(file);
  }
}
