package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.LockMode;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LeaseSpecTest {
  @Test
  void whatIsNotSaidIsNotSent() {
    dev.leasehold.v1.LeaseSpec spec =
        LeaseSpec.of("f").toMessage().toBuilder().clearHolder().build();
    assertEquals(dev.leasehold.v1.LeaseSpec.newBuilder().setKey(Locks.key("f", "")).build(), spec);
  }

  @Test
  void whatIsSaidIsSent() {
    dev.leasehold.v1.LeaseSpec spec =
        LeaseSpec.of("f", "s")
            .listener()
            .hostId("host-1")
            .hostType("Keeper-A")
            .waitUpTo(Duration.ofMillis(1_500))
            .leaseDuration(Duration.ofSeconds(15))
            .maxHold(Duration.ofMinutes(2))
            .minHold(Duration.ofSeconds(3))
            .progressTimeout(Duration.ofSeconds(4))
            .autoRenew(false)
            .requestId("id")
            .holder("me")
            .labels(Map.of("team", "red"))
            .toMessage();
    assertEquals("s", spec.getKey().getScope());
    assertEquals(LockMode.LOCK_MODE_LISTENER, spec.getKey().getMode());
    assertEquals("host-1", spec.getKey().getHostId());
    assertEquals("Keeper-A", spec.getKey().getHostType());
    assertEquals(Duration.ofMillis(1_500), Durations.fromWire(spec.getWait()));
    assertEquals(15, spec.getLeaseDuration().getSeconds());
    assertEquals(120, spec.getMaxHold().getSeconds());
    assertEquals(3, spec.getMinHold().getSeconds());
    assertEquals(4, spec.getProgressTimeout().getSeconds());
    assertTrue(spec.hasAutoRenew() && !spec.getAutoRenew());
    assertEquals("id", spec.getRequestId());
    assertEquals("me", spec.getHolder());
    assertEquals(Map.of("team", "red"), spec.getLabelsMap());
  }

  @Test
  void aRequestIsNotChangedByMakingAnother() {
    LeaseSpec one = LeaseSpec.of("f");
    assertTrue(one.waitWithoutEnd().toMessage().getWaitWithoutEnd());
    assertFalse(one.toMessage().getWaitWithoutEnd());
    assertFalse(one.waitWithoutEnd().waitUpTo(Duration.ZERO).toMessage().getWaitWithoutEnd());
  }

  @Test
  void spansSurviveTheWire() {
    Duration whole = Duration.ofSeconds(58, 300_000_000);
    assertEquals(whole, Durations.fromWire(Durations.toWire(whole)));
    assertEquals(Duration.ZERO, Durations.fromWire(Durations.toWire(whole.negated())));
    Duration longest = Duration.ofSeconds(Long.MAX_VALUE);
    assertEquals(Durations.LONGEST, Durations.fromWire(Durations.toWire(longest)));
  }
}
