package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.clock.Durations;
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
    String said =
        "key: {function: f, scope: s, mode: LISTENER, host_id: host-1, host_type: Keeper-A},"
            + " wait: 1500, lease_duration: 15000, max_hold: 120000, min_hold: 3000,"
            + " progress_timeout: 4000, auto_renew: false, request_id: id, holder: me";
    dev.leasehold.v1.LeaseSpec.Builder expected = dev.leasehold.v1.LeaseSpec.newBuilder();
    new Said("ours").message(expected, Said.json(said));
    assertEquals(expected.putLabels("team", "red").build(), spec);
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
