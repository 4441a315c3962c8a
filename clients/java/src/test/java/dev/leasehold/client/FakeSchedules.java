package dev.leasehold.client;

import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import dev.leasehold.client.FakeSidecar.StreamCall;
import dev.leasehold.v1.Recorded;
import dev.leasehold.v1.RunKind;
import dev.leasehold.v1.Standby;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.SubscribeScheduleResponse;
import dev.leasehold.v1.UnderstoodSchedule;
import io.grpc.stub.StreamObserver;
import java.util.function.Consumer;

/** What a sidecar says to who subscribes to a schedule. */
final class FakeSchedules {
  private FakeSchedules() {}

  /** A SubscribeSchedule call that the test answers. */
  static final class Subscription
      extends StreamCall<SubscribeScheduleRequest, SubscribeScheduleResponse> {
    Subscription(SubscribeScheduleRequest request, StreamObserver<Message> events) {
      super(request, events);
    }

    void tell(Consumer<SubscribeScheduleResponse.Builder> event) {
      SubscribeScheduleResponse.Builder response = SubscribeScheduleResponse.newBuilder();
      event.accept(response);
      tell(response.build());
    }

    /** It waits for the occurrence at 1,800 s. */
    void standBy() {
      UnderstoodSchedule.Builder understood =
          UnderstoodSchedule.newBuilder().setTimeZone("Europe/Copenhagen").setZoneData("2026b");
      Standby.Builder standby = Standby.newBuilder().setNextAt(at(1_800));
      tell(event -> event.setStandby(standby.setUnderstood(understood)));
    }

    void run(dev.leasehold.v1.Run run) {
      tell(event -> event.setRun(run));
    }

    void record() {
      tell(event -> event.setRecorded(Recorded.newBuilder().setRunId("run-1")));
    }
  }

  static Timestamp at(long seconds) {
    return Timestamp.newBuilder().setSeconds(seconds).build();
  }

  /** The run of the occurrence at 1,800 s, of 58 s on our kernel, made at 1,000 s. */
  static dev.leasehold.v1.Run run() {
    return dev.leasehold.v1.Run.newBuilder()
        .setGrant(Messages.grantHere())
        .setRunId("run-1")
        .setKind(RunKind.RUN_KIND_SCHEDULED)
        .setScheduledAt(at(1_800))
        .setLocalTime("1970-01-01T01:30:00+01:00[Europe/Copenhagen]")
        .setAttempt(2)
        .setMaxAttempts(3)
        .setMissedCount(7)
        .setDeadlineAt(at(2_400))
        .setNextAt(at(3_600))
        .build();
  }
}
