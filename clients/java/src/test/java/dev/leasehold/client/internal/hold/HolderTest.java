package dev.leasehold.client.internal.hold;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.ScheduleSpec;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class HolderTest {
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
