package dev.leasehold.client.internal.errors;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.leasehold.client.Constants;
import java.util.Map;

/** Which revision of a sidecar serves a request (S37). */
public final class Needs {
  private Needs() {}

  /** The least one: that of the newest field that is set. */
  public static int of(Message request) {
    return of(request, Constants.NEWER_FIELDS);
  }

  /** The same by a list of newer fields, each with its revision. */
  public static int of(Message request, Map<String, Integer> newer) {
    int least = 1;
    for (Map.Entry<FieldDescriptor, Object> field : request.getAllFields().entrySet()) {
      least = Math.max(least, newer.getOrDefault(field.getKey().getFullName(), 1));
      if (field.getValue() instanceof Message part) {
        least = Math.max(least, of(part, newer));
      }
    }
    return least;
  }
}
