package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What users have names nothing that is internal. */
class ApiTest {
  /** The types of two packages with all members that users see, as javap tells them. */
  private static List<String> types() throws Exception {
    Path classes =
        Path.of(LeaseholdClient.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    StringWriter told = new StringWriter();
    try (Stream<Path> files = Files.walk(classes.resolve("dev/leasehold/client"))) {
      Stream<String> ours =
          files
              .map(Path::toString)
              .filter(name -> name.matches(".*/(client|testing)/[^/]+\\.class"));
      PrintWriter writer = new PrintWriter(told);
      ToolProvider.findFirst("javap")
          .orElseThrow()
          .run(writer, writer, Stream.concat(Stream.of("-protected"), ours).toArray(String[]::new));
    }
    return List.of(told.toString().split("Compiled from .*\n"));
  }

  @Test
  void noSignatureNamesAnInternalType() throws Exception {
    List<String> shown = types().stream().filter(type -> type.startsWith("public ")).toList();
    assertTrue(shown.size() > 50, shown.toString());
    assertEquals(
        List.of(),
        shown.stream().filter(type -> type.contains("leasehold.client.internal")).toList());
  }
}
