package dev.leasehold.samples;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseRequest;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LockBusyException;
import java.time.Duration;

class Main {
  public static void main(String[] arguments) throws InterruptedException {
    LeaseRequest request = LeaseRequest.of("nightly-report").waitUpTo(Duration.ofSeconds(30));
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(request)) {
      System.out.println("writing the report with token " + hold.fencingToken());
    } catch (LockBusyException busy) {
      System.out.println(busy.getMessage());
    }
  }
}
