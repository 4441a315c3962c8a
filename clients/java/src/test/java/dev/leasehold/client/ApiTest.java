package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Member;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What users have names nothing that is internal. */
class ApiTest {
  private static boolean isShown(int modifiers) {
    return Modifier.isPublic(modifiers) || Modifier.isProtected(modifiers);
  }

  /** The public types of a package, nested ones too. */
  private static List<Class<?>> types(String name) throws Exception {
    Path classes =
        Path.of(LeaseholdClient.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    List<Class<?>> types = new ArrayList<>();
    try (Stream<Path> files = Files.list(classes.resolve(name.replace('.', '/')))) {
      for (Path file : files.filter(one -> one.toString().endsWith(".class")).toList()) {
        types.add(Class.forName(name + "." + file.getFileName().toString().replace(".class", "")));
      }
    }
    types.removeIf(type -> !isShown(type.getModifiers()));
    return types;
  }

  /** What a type is, and its members that are shown, with all types that they name. */
  private static Stream<String> signatures(Class<?> type) {
    List<String> above = new ArrayList<>(List.of(String.valueOf(type.getGenericSuperclass())));
    Stream.of(type.getGenericInterfaces()).forEach(one -> above.add(one.getTypeName()));
    Stream<Member> members =
        Stream.<Member[]>of(
                type.getDeclaredFields(), type.getDeclaredConstructors(), type.getDeclaredMethods())
            .flatMap(Stream::of);
    Stream<String> shown =
        members.filter(member -> isShown(member.getModifiers())).map(ApiTest::declared);
    return Stream.concat(above.stream(), shown);
  }

  private static String declared(Member member) {
    return member instanceof java.lang.reflect.Executable executable
        ? executable.toGenericString()
        : ((java.lang.reflect.Field) member).toGenericString();
  }

  @Test
  void noSignatureNamesAnInternalType() throws Exception {
    List<Class<?>> types = types("dev.leasehold.client");
    types.addAll(types("dev.leasehold.client.testing"));
    assertTrue(types.size() > 50, types.toString());
    Stream<String> signatures = types.stream().flatMap(ApiTest::signatures);
    assertEquals(
        List.of(), signatures.filter(one -> one.contains("leasehold.client.internal")).toList());
  }
}
