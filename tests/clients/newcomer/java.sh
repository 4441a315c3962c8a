#!/bin/sh
# A newcomer in Java: the package from the local repository in an empty project by the README's
# dependency, and the README's first program. newcomer/java.sh FOLDER
set -eu
client=$(CDPATH='' cd -- "$(dirname -- "$0")/../../../clients/java" && pwd)
"$client/maven" --quiet install -DskipTests >&2
cd -- "$1"
block() { awk -v "language=$1" '/^```/ { if (code) exit; code = $0 == "```" language; next } code' "$client/README.md"; }
cat >pom.xml <<XML
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
$(block xml)
  </dependencies>
</project>
XML
mkdir -p src/main/java
block java >src/main/java/Main.java
"$client/maven" --quiet --file "$1/pom.xml" compile dependency:build-classpath -Dmdep.outputFile="$1/classpath" >&2
exec java -cp "target/classes:$(cat classpath)" Main
