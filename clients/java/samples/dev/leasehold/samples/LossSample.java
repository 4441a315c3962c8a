package dev.leasehold.samples;

import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LostException;
import dev.leasehold.client.testing.LeaseholdExtension;
import dev.leasehold.client.testing.Sidecar;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** How the loss of a lock is tested. */
class LossSample {
  @RegisterExtension static final LeaseholdExtension LEASEHOLD = new LeaseholdExtension();

  @Test
  void theReportStopsWhenTheLockIsLost(Sidecar sidecar, LeaseholdClient client) {
    LeaseSpec spec = LeaseSpec.of("nightly-report");
    assertThrows(
        LostException.class,
        () ->
            client.withHold(
                spec,
                hold -> {
                  sidecar.lose("nightly-report");
                  return hold.lost().get();
                }));
  }
}
