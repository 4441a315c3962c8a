package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class ReadmeTest {
  private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  private static List<String> blocks() throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    return BLOCK.matcher(readme).results().map((MatchResult found) -> found.group(1)).toList();
  }

  @Test
  void itsCodeIsThatOfASampleThatCompiles() throws IOException {
    Path samples = Path.of("samples/dev/leasehold/samples");
    String sample =
        Files.readString(samples.resolve("Main.java"))
            + Files.readString(samples.resolve("NightlyReport.java"))
            + Files.readString(samples.resolve("LossSample.java"));
    List<String> blocks = blocks();
    assertEquals(7, blocks.size());
    for (String block : blocks) {
      assertTrue(sample.contains(block), block);
    }
  }

  @Test
  void theFirstIsAWholeProgram() throws IOException {
    String first = blocks().get(0);
    assertTrue(first.startsWith("import "), first);
    assertTrue(first.contains("public static void main("), first);
    assertTrue(first.lines().count() < 20);
  }
}
