package dev.leasehold.samples;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/** A resource that refuses late writes: a row of a database keeps the token of its last write. */
public final class Fenced {
  private Fenced() {}

  private static final String UPDATE =
      "UPDATE report SET body = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?";

  /** Replaces a report; false if a holder with a greater token has written it: then stop. */
  public static boolean write(Connection database, int id, String body, long fencingToken)
      throws SQLException {
    try (PreparedStatement update = database.prepareStatement(UPDATE)) {
      update.setString(1, body);
      update.setLong(2, fencingToken);
      update.setInt(3, id);
      update.setLong(4, fencingToken);
      return update.executeUpdate() > 0;
    }
  }
}
