package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.hold.Holder;
import dev.leasehold.v1.CatchUp;
import dev.leasehold.v1.Overlap;
import java.time.Duration;
import java.time.ZoneId;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What is asked for, as messages. */
class SpecsTest {
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

  @Test
  void aRequestHasAllFieldsOfASpec() {
    ScheduleSpec request =
        ScheduleSpec.of("f", "s")
            .every(Duration.ofSeconds(1))
            .timeZone(ZoneId.of("Europe/Copenhagen"))
            .revision(2)
            .catchUpAll(3)
            .catchUpWindow(Duration.ofSeconds(4))
            .grace(Duration.ofSeconds(5))
            .overlap(Overlap.OVERLAP_SKIP)
            .maxAttempts(6)
            .backoff(Duration.ofSeconds(7))
            .runTimeout(Duration.ofSeconds(8))
            .stopGrace(Duration.ofSeconds(12))
            .progressTimeout(Duration.ofSeconds(13))
            .spread(Duration.ofSeconds(9))
            .takeoverCheck(Duration.ofSeconds(10))
            .leaseDuration(Duration.ofSeconds(11))
            .labels(Map.of("team", "red"));
    dev.leasehold.v1.ScheduleSpec spec = request.toSpec();
    // `cron` and `no_run_timeout` are the others of their oneofs.
    int fields = dev.leasehold.v1.ScheduleSpec.getDescriptor().getFields().size() - 2;
    assertEquals(fields, spec.getAllFields().size());
    assertEquals(Map.of("team", "red"), request.toMessage().getLabelsMap());
    assertEquals("@daily", request.cron("@daily").toSpec().getCron());
    assertTrue(request.withoutRunTimeout().toSpec().getNoRunTimeout());
    assertEquals(0, request.catchUp(CatchUp.CATCH_UP_NONE).toSpec().getCatchUpMax());
  }

  @Test
  void aCallerWithoutANameIsItsPodOrHostAndProcess() {
    assertEquals("importer-7f9c/17", Holder.named(Optional.of("importer-7f9c"), 17));
    assertEquals("17", Holder.named(Optional.empty(), 17));
    assertEquals("17", Holder.named(Optional.of("bj\u00f6rn"), 17));
    assertEquals("17", Holder.named(Optional.of("a\nb"), 17));
    String longest = Holder.named(Optional.of("h".repeat(300)), 17);
    assertEquals("h".repeat(253) + "/17", longest);
  }

  @Test
  void eachRequestThatNamesNoHolderNamesThisProcess() {
    String process = "/" + ProcessHandle.current().pid();
    LeaseSpec request = LeaseSpec.of("f").permits(2);
    ScheduleSpec schedule = ScheduleSpec.of("f").cron("@daily");
    List<String> sent = List.of(request.toMessage().getHolder(), schedule.toMessage().getHolder());
    for (String holder : sent) {
      assertTrue(holder.endsWith(process) && holder.length() > process.length(), holder);
    }
    assertEquals("me", request.holder("me").toMessage().getHolder());
    assertEquals("me", schedule.holder("me").toMessage().getHolder());
  }
}
