package dev.leasehold.client.internal.watch;

import dev.leasehold.client.LockWatch;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.WatchLockRequest;
import dev.leasehold.v1.WatchLockResponse;
import io.grpc.stub.StreamObserver;
import java.util.List;

/** A watch of one lock. Says nothing twice. */
public final class StreamLockWatch
    extends StreamWatch<WatchLockRequest, WatchLockResponse, LockRecord> implements LockWatch {
  private final WatchLockRequest request;

  /** The newest record told; null if there was none. */
  private LockRecord told;

  private StreamLockWatch(ClientContext context, WatchLockRequest request) {
    super(context);
    this.request = request;
  }

  /** Begins to watch at once. */
  public static StreamLockWatch open(ClientContext context, WatchLockRequest request) {
    StreamLockWatch watch = new StreamLockWatch(context, request);
    watch.open();
    return watch;
  }

  @Override
  void call(LeaseServiceStub stub, StreamObserver<WatchLockResponse> observer) {
    stub.watchLock(request, observer);
  }

  @Override
  void restart() {
    // The record that comes first is compared with the last one, as every other.
  }

  @Override
  List<LockRecord> newIn(WatchLockResponse answer) {
    if (!answer.hasRecord() || answer.getRecord().equals(told)) {
      return List.of();
    }
    told = answer.getRecord();
    return List.of(told);
  }
}
