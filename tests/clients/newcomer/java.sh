#!/bin/sh
# A newcomer in Java: the package from the local repository in an empty project, and a few lines. newcomer/java.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/java" && pwd)
"$client/maven" --quiet install -DskipTests >&2
cd -- "$1"
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>newcomer</groupId>
  <artifactId>newcomer</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>dev.leasehold</groupId>
      <artifactId>leasehold-client</artifactId>
      <version>0.1.0</version>
    </dependency>
  </dependencies>
</project>
XML
mkdir -p src/main/java
cat >src/main/java/Main.java <<'JAVA'
import dev.leasehold.client.*;

public class Main {
  public static void main(String[] arguments) throws Exception {
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(LeaseRequest.of("nightly-report"))) {
      System.out.println("writing the report with token " + hold.fencingToken());
    }
  }
}
JAVA
"$client/maven" --quiet --file "$1/pom.xml" compile dependency:build-classpath -Dmdep.outputFile="$1/classpath" >&2
exec java -cp "target/classes:$(cat classpath)" Main
