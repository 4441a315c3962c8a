package dev.leasehold.samples;

import dev.leasehold.client.BusyException;
import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.time.Duration;

class Main {
  public static void main(String[] arguments) throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("nightly-report").waitUpTo(Duration.ofSeconds(30));
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(spec)) {
      System.out.println("writing the report with token " + hold.fencingToken());
    } catch (BusyException busy) {
      System.out.println(busy.getMessage());
    }
  }
}
