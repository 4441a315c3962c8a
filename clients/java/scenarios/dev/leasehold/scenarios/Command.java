package dev.leasehold.scenarios;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.Locks;
import dev.leasehold.v1.LockKey;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** One line of the standard input. */
record Command(JsonObject json) {
  String id() {
    return text("id");
  }

  String what() {
    return text("do");
  }

  /** The text of a field; empty if it is absent or null. */
  String text(String field) {
    return value(field).map(JsonElement::getAsString).orElse("");
  }

  /** The text of a field, if it is there. */
  Optional<String> optionalText(String field) {
    return value(field).map(JsonElement::getAsString);
  }

  long number(String field) {
    return value(field).map(JsonElement::getAsLong).orElse(0L);
  }

  boolean flag(String field) {
    return value(field).map(JsonElement::getAsBoolean).orElse(false);
  }

  Optional<Duration> millis(String field) {
    return value(field).map(JsonElement::getAsLong).map(Duration::ofMillis);
  }

  LockKey key() {
    return Locks.key(text("function"), text("scope"));
  }

  LeaseSpec request() {
    LeaseSpec request = LeaseSpec.of(key()).labels(labels());
    Optional<Duration> wait = millis("wait_ms");
    if (wait.isPresent()) {
      request = wait.get().isNegative() ? request.waitWithoutEnd() : request.waitUpTo(wait.get());
    }
    if (flag("wait_forever")) {
      request = request.waitWithoutEnd();
    }
    if (number("permits") > 0) {
      request = request.permits((int) number("permits"));
    }
    request = request.priority((int) number("priority")).yields(flag("yields"));
    request = request.share(text("share")).rebalance(flag("rebalance"));
    request = millis("lease_ms").map(request::leaseDuration).orElse(request);
    request = millis("max_hold_ms").map(request::maxHold).orElse(request);
    request = millis("min_hold_ms").map(request::minHold).orElse(request);
    return millis("progress_timeout_ms").map(request::progressTimeout).orElse(request);
  }

  private Map<String, String> labels() {
    Map<String, String> labels = new HashMap<>();
    value("labels")
        .ifPresent(
            given ->
                given
                    .getAsJsonObject()
                    .entrySet()
                    .forEach(entry -> labels.put(entry.getKey(), entry.getValue().getAsString())));
    return labels;
  }

  private Optional<JsonElement> value(String field) {
    return Optional.ofNullable(json.get(field)).filter(value -> !value.isJsonNull());
  }
}
