package dev.leasehold.samples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.junit.jupiter.api.Test;

class FencedTest {
  @Test
  void s5AWriteWithASmallerTokenIsRefused() throws SQLException {
    try (Connection database = DriverManager.getConnection("jdbc:h2:mem:");
        Statement statement = database.createStatement()) {
      statement.execute(
          "CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT, fencing_token BIGINT)");
      statement.execute("INSERT INTO report VALUES (1, '', 0)");
      assertTrue(Fenced.write(database, 1, "of the first", 7));
      assertTrue(Fenced.write(database, 1, "again", 7));
      assertTrue(Fenced.write(database, 1, "of the second", 9));
      assertFalse(Fenced.write(database, 1, "late", 7));
      try (ResultSet report = statement.executeQuery("SELECT body FROM report")) {
        assertTrue(report.next());
        assertEquals("of the second", report.getString(1));
      }
    }
  }
}
