package dev.leasehold.client;

import com.google.gson.JsonObject;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BooleanSupplier;

/**
 * A sidecar in this process: nothing goes over a socket. Does what a vector says, and remembers
 * what it was sent.
 */
final class VectorSidecar implements AutoCloseable {
  private final String address = UUID.randomUUID().toString();
  private final VirtualTime time;
  private final BooleanSupplier isValid;
  private final Server server;
  private final List<FakeCall> streams = new ArrayList<>();
  private final Set<FakeCall> granted = new HashSet<>();
  private final List<FakeCall> unanswered = new ArrayList<>();
  private final Map<String, JsonObject> prepared = new HashMap<>();
  private List<String> sent = new ArrayList<>();
  private List<String> faults = new ArrayList<>();

  VectorSidecar(String kernel, VirtualTime time, BooleanSupplier isValid) throws IOException {
    this.time = time;
    this.isValid = isValid;
    server =
        FakeCall.serve(
            InProcessServerBuilder.forName(address).directExecutor(),
            new Said(kernel),
            this::asked);
  }

  /** A way to it. What the client hears comes on the time's thread. */
  ManagedChannel channel() {
    return InProcessChannelBuilder.forName(address)
        .executor(time)
        .scheduledExecutorService(time)
        .disableRetry()
        .build();
  }

  /** What was sent since this was asked last. */
  synchronized List<String> takeSent() {
    List<String> taken = sent;
    sent = new ArrayList<>();
    return taken;
  }

  synchronized boolean hasSent(int count) {
    return sent.size() >= count;
  }

  /** What was done since then and must never be. */
  synchronized List<String> takeFaults() {
    List<String> taken = faults;
    faults = new ArrayList<>();
    return taken;
  }

  /** The numbers of the streams that live. */
  synchronized List<Integer> open() {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < streams.size(); i++) {
      if (streams.get(i).isOpen()) {
        numbers.add(i + 1);
      }
    }
    return numbers;
  }

  /** A stream by its number; the newest by 0. */
  private synchronized FakeCall on(int number) {
    return streams.get(number == 0 ? streams.size() - 1 : number - 1);
  }

  void tell(int number, JsonObject events) {
    FakeCall stream = on(number);
    if (events.has("granted") || events.has("run")) {
      granted.add(stream);
    }
    stream.tell(events);
  }

  void end(int number, JsonObject status) {
    on(number).end(status);
  }

  /** Answers or refuses the oldest call of this name; where there is none, the next one. */
  void give(String name, JsonObject words) {
    FakeCall oldest;
    synchronized (this) {
      oldest = unanswered.stream().filter(call -> call.name.equals(name)).findFirst().orElse(null);
      if (oldest == null) {
        prepared.put(name, words);
        return;
      }
      unanswered.remove(oldest);
    }
    oldest.answer(words);
  }

  private void asked(FakeCall call) {
    boolean isEnd = List.of("release", "complete_run").contains(call.name);
    boolean tooEarly = isEnd && isValid.getAsBoolean();
    call.whenEnded(() -> cancelled(call, isValid.getAsBoolean()));
    JsonObject answer;
    synchronized (this) {
      if (tooEarly) {
        faults.add("S13: the hold is valid when its end is sent");
      }
      sent.add(call.sent());
      (call.isStream ? streams : unanswered).add(call);
      answer = prepared.remove(call.name);
    }
    if (answer != null) {
      give(call.name, answer);
    }
  }

  private synchronized void cancelled(FakeCall call, boolean valid) {
    unanswered.remove(call);
    int number = streams.indexOf(call);
    boolean replaced =
        streams.subList(number + 1, streams.size()).stream().anyMatch(granted::contains);
    if (number >= 0 && valid && !replaced) {
      faults.add("S14: a stream was ended while the hold was valid");
    }
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
