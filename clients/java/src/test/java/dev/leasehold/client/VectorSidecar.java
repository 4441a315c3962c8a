package dev.leasehold.client;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * A sidecar in the place of the channels: nothing goes over a socket. Does what a vector says, and
 * remembers what it was sent.
 */
final class VectorSidecar extends ManagedChannel {
  private final Said said;
  private final VirtualTime time;
  private final BooleanSupplier isValid;
  private final List<Call<?, ?>> streams = new ArrayList<>();
  private final List<Call<?, ?>> unanswered = new ArrayList<>();
  private final Map<String, JsonObject> prepared = new HashMap<>();
  private List<String> sent = new ArrayList<>();
  private List<String> faults = new ArrayList<>();

  VectorSidecar(String kernel, VirtualTime time, BooleanSupplier isValid) {
    this.said = new Said(kernel);
    this.time = time;
    this.isValid = isValid;
  }

  /** What was sent since this was asked last. */
  synchronized List<String> takeSent() {
    List<String> taken = sent;
    sent = new ArrayList<>();
    return taken;
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
      if (!streams.get(i).over) {
        numbers.add(i + 1);
      }
    }
    return numbers;
  }

  synchronized boolean hasSent(int count) {
    return sent.size() >= count;
  }

  /** A stream by its number; the newest by 0. */
  private synchronized Call<?, ?> on(int number) {
    return streams.get(number == 0 ? streams.size() - 1 : number - 1);
  }

  void tell(int number, JsonObject events) {
    Call<?, ?> stream = on(number);
    for (Map.Entry<String, JsonElement> event : events.entrySet()) {
      stream.granted |= List.of("granted", "run").contains(event.getKey());
      JsonObject words = new JsonObject();
      words.add(event.getKey(), event.getValue());
      stream.message(said.message(stream.answer.newBuilderForType(), words));
    }
  }

  void end(int number, JsonObject words) {
    on(number).end(words.has("code") ? Said.error(words) : null);
  }

  /** Answers or refuses the oldest call of this name; where there is none, the next one. */
  void give(String name, JsonObject words) {
    Call<?, ?> oldest;
    synchronized (this) {
      oldest = unanswered.stream().filter(call -> call.name.equals(name)).findFirst().orElse(null);
      if (oldest == null) {
        prepared.put(name, words);
        return;
      }
      unanswered.remove(oldest);
    }
    if (words.has("code")) {
      oldest.end(Said.error(words));
    } else {
      oldest.message(said.message(oldest.answer.newBuilderForType(), words));
      oldest.end(null);
    }
  }

  private void asked(Call<?, ?> call, Message request) {
    String name = Said.name(request);
    boolean isEnd = List.of("release", "complete_run").contains(name);
    boolean tooEarly = isEnd && isValid.getAsBoolean();
    JsonObject answer;
    synchronized (this) {
      if (tooEarly) {
        faults.add("S13: the hold is valid when its end is sent");
      }
      sent.add(said.sent(request));
      if (call.isStream) {
        streams.add(call);
        return;
      }
      call.name = name;
      unanswered.add(call);
      answer = prepared.remove(name);
    }
    if (answer != null) {
      give(name, answer);
    }
  }

  private synchronized void cancelled(Call<?, ?> call, boolean valid) {
    unanswered.remove(call);
    int number = streams.indexOf(call);
    boolean replaced =
        streams.subList(number + 1, streams.size()).stream().anyMatch(later -> later.granted);
    if (number >= 0 && valid && !replaced) {
      faults.add("S14: a stream was ended while the hold was valid");
    }
  }

  @Override
  public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
    return new Call<>(method, options);
  }

  /** A call, as the client has it. What it hears comes on the time's thread. */
  private final class Call<Q, A> extends ClientCall<Q, A> {
    private final CallOptions options;
    private final Message answer;
    private final boolean isStream;
    private Listener<A> listener;
    private Q request;
    private String name = "";
    private volatile boolean over;
    private volatile boolean granted;

    Call(MethodDescriptor<Q, A> method, CallOptions options) {
      this.options = options;
      this.answer =
          (Message) ((PrototypeMarshaller<A>) method.getResponseMarshaller()).getMessagePrototype();
      this.isStream = method.getType() != MethodDescriptor.MethodType.UNARY;
    }

    @Override
    public void start(Listener<A> starting, Metadata headers) {
      listener = starting;
      if (options.getDeadline() != null) {
        // Counted on the machine's clock, which has gone on a little.
        long left = options.getDeadline().timeRemaining(TimeUnit.MILLISECONDS);
        time.schedule(this::late, Math.round(left / 100.0) * 100, TimeUnit.MILLISECONDS);
      }
    }

    private void late() {
      if (!over) {
        synchronized (VectorSidecar.this) {
          unanswered.remove(this);
        }
        end(Status.DEADLINE_EXCEEDED.asRuntimeException());
      }
    }

    @Override
    public void sendMessage(Q message) {
      request = message;
    }

    @Override
    public void halfClose() {
      asked(this, (Message) request);
    }

    @Override
    public void request(int messages) {}

    @Override
    public void cancel(String message, Throwable cause) {
      if (!over) {
        over = true;
        cancelled(this, isValid.getAsBoolean());
        time.execute(() -> listener.onClose(Status.CANCELLED, new Metadata()));
      }
    }

    @SuppressWarnings("unchecked")
    void message(Object message) {
      if (!over) {
        time.execute(() -> listener.onMessage((A) message));
      }
    }

    /** By the sidecar; without a word if {@code error} is null. */
    void end(StatusRuntimeException error) {
      if (over) {
        return;
      }
      over = true;
      Status status = error == null ? Status.OK : error.getStatus();
      Metadata trailers = error == null ? null : error.getTrailers();
      Metadata told = trailers == null ? new Metadata() : trailers;
      time.execute(() -> listener.onClose(status, told));
    }
  }

  @Override
  public ConnectivityState getState(boolean requestConnection) {
    return ConnectivityState.READY;
  }

  @Override
  public void notifyWhenStateChanged(ConnectivityState source, Runnable callback) {}

  @Override
  public String authority() {
    return "vectors";
  }

  @Override
  public ManagedChannel shutdown() {
    return this;
  }

  @Override
  public ManagedChannel shutdownNow() {
    return this;
  }

  @Override
  public boolean isShutdown() {
    return false;
  }

  @Override
  public boolean isTerminated() {
    return true;
  }

  @Override
  public boolean awaitTermination(long timeout, TimeUnit unit) {
    return true;
  }
}
