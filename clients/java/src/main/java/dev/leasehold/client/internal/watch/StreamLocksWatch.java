package dev.leasehold.client.internal.watch;

import dev.leasehold.client.LocksEvent;
import dev.leasehold.client.LocksWatch;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceStub;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.WatchLocksRequest;
import dev.leasehold.v1.WatchLocksResponse;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** A watch of many locks. Tells only differences, also from one call to the next. */
public final class StreamLocksWatch
    extends StreamWatch<WatchLocksRequest, WatchLocksResponse, LocksEvent> implements LocksWatch {
  private final WatchLocksRequest request;

  /** The newest records told, by their paths. */
  private final Map<String, LockRecord> told = new TreeMap<>();

  /** Those of {@link #told} that this call has not brought; it has until it says that it listed. */
  private final Set<String> missing = new HashSet<>();

  private StreamLocksWatch(ClientContext context, WatchLocksRequest request) {
    super(context);
    this.request = request;
  }

  /** Begins to watch at once. */
  public static StreamLocksWatch open(ClientContext context, WatchLocksRequest request) {
    StreamLocksWatch watch = new StreamLocksWatch(context, request);
    watch.open();
    return watch;
  }

  @Override
  void call(LeaseServiceStub stub, StreamObserver<WatchLocksResponse> observer) {
    stub.watchLocks(request, observer);
  }

  @Override
  void restart() {
    missing.addAll(told.keySet());
  }

  @Override
  List<LocksEvent> newIn(WatchLocksResponse answer) {
    List<LocksEvent> events = new ArrayList<>();
    switch (answer.getEventCase()) {
      case CHANGED -> {
        LockRecord record = answer.getChanged();
        missing.remove(record.getLockPath());
        if (!record.equals(told.put(record.getLockPath(), record))) {
          events.add(new LocksEvent.Changed(record));
        }
      }
      case GONE -> gone(answer.getGone(), events);
      case LISTED -> {
        List.copyOf(missing).stream().sorted().forEach(path -> gone(path, events));
        events.add(new LocksEvent.Listed(answer.getListed().getLocks()));
      }
      // Newer than this client.
      case EVENT_NOT_SET -> {}
    }
    return events;
  }

  private void gone(String path, List<LocksEvent> events) {
    missing.remove(path);
    if (told.remove(path) != null) {
      events.add(new LocksEvent.Gone(path));
    }
  }
}
