package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What users have names nothing that is internal. */
class ApiTest {
  private static final String INTERNAL = "dev.leasehold.client.internal.";

  /** The public types of a folder of classes, nested ones too. */
  private static List<Class<?>> types(Path folder) throws Exception {
    String name = "dev.leasehold.client" + (folder.endsWith("testing") ? ".testing." : ".");
    try (Stream<Path> files = Files.list(folder)) {
      List<String> names =
          files
              .map(file -> file.getFileName().toString())
              .filter(file -> file.endsWith(".class") && !file.startsWith("package-info"))
              .map(file -> name + file.substring(0, file.length() - ".class".length()))
              .toList();
      List<Class<?>> types = new java.util.ArrayList<>();
      for (String one : names) {
        types.add(Class.forName(one));
      }
      types.removeIf(type -> !Modifier.isPublic(type.getModifiers()));
      return types;
    }
  }

  private static boolean isShown(int modifiers) {
    return Modifier.isPublic(modifiers) || Modifier.isProtected(modifiers);
  }

  /** Its public members, as they are declared with all their types. */
  private static Stream<String> signatures(Class<?> type) {
    Stream<String> members =
        Stream.of(
                Stream.of(type.getDeclaredFields())
                    .filter(field -> isShown(field.getModifiers()))
                    .map(Field::toGenericString),
                Stream.of(type.getDeclaredConstructors())
                    .filter(constructor -> isShown(constructor.getModifiers()))
                    .map(Constructor::toGenericString),
                Stream.of(type.getDeclaredMethods())
                    .filter(method -> isShown(method.getModifiers()))
                    .map(Method::toGenericString))
            .flatMap(found -> found);
    Stream<String> above =
        Stream.concat(
                Stream.of(type.getGenericInterfaces()),
                Stream.ofNullable(type.getGenericSuperclass()))
            .map(java.lang.reflect.Type::getTypeName);
    return Stream.concat(members, above);
  }

  @Test
  void noSignatureNamesAnInternalType() throws Exception {
    Path classes =
        Path.of(LeaseholdClient.class.getProtectionDomain().getCodeSource().getLocation().toURI())
            .resolve("dev/leasehold/client");
    List<Class<?>> types =
        Stream.of(types(classes), types(classes.resolve("testing"))).flatMap(List::stream).toList();
    assertTrue(types.size() > 40, types.toString());
    assertEquals(
        List.of(),
        types.stream().flatMap(ApiTest::signatures).filter(one -> one.contains(INTERNAL)).toList());
  }
}
