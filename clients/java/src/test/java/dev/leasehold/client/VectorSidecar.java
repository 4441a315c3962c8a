package dev.leasehold.client;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.ExtendLeaseRequest;
import dev.leasehold.v1.GetHoldRequest;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.LeaseSpec;
import dev.leasehold.v1.ReleaseLeaseRequest;
import dev.leasehold.v1.ReportProgressRequest;
import dev.leasehold.v1.Resume;
import dev.leasehold.v1.SaveCheckpointRequest;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
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
  private final VectorMessages messages;
  private final VirtualTime time;
  private final BooleanSupplier isValid;
  private final List<Call<?, ?>> streams = new ArrayList<>();
  private final List<Call<?, ?>> unanswered = new ArrayList<>();
  private final Map<String, Object> prepared = new HashMap<>();
  private final List<String> attempts = new ArrayList<>();
  private List<String> sent = new ArrayList<>();
  private List<String> faults = new ArrayList<>();

  VectorSidecar(String kernel, VirtualTime time, BooleanSupplier isValid) {
    this.messages = new VectorMessages(kernel);
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

  /** Whether a call of this name waits for its answer. */
  synchronized boolean isAsked(String name) {
    return unanswered.stream().anyMatch(call -> call.name.equals(name));
  }

  /** A stream by its number; the newest by 0. */
  private synchronized Call<?, ?> on(int number) {
    return streams.get(number == 0 ? streams.size() - 1 : number - 1);
  }

  void tell(int number, JsonObject events) {
    Call<?, ?> stream = on(number);
    for (Map.Entry<String, JsonElement> event : events.entrySet()) {
      stream.granted |= event.getKey().equals("granted");
      JsonObject said = event.getValue().getAsJsonObject();
      stream.message(messages.event(event.getKey(), said));
    }
  }

  void end(int number, JsonObject said) {
    on(number).end(said.has("code") ? VectorMessages.error(said) : null);
  }

  void answer(String name, JsonObject said) {
    give(name, messages.answer(name, said));
  }

  void refuse(String name, JsonObject said) {
    give(name, VectorMessages.error(said));
  }

  /** Answers the oldest call of this name; where there is none, the next one. */
  private void give(String name, Object answer) {
    Call<?, ?> oldest;
    synchronized (this) {
      oldest = unanswered.stream().filter(call -> call.name.equals(name)).findFirst().orElse(null);
      if (oldest == null) {
        prepared.put(name, answer);
        return;
      }
      unanswered.remove(oldest);
    }
    if (answer instanceof StatusRuntimeException error) {
      oldest.end(error);
    } else {
      oldest.message(answer);
      oldest.end(null);
    }
  }

  private synchronized void opened(Call<?, ?> stream, HoldLeaseRequest request) {
    streams.add(stream);
    if (request.getNeeds() != 1) {
      sent.add("a request that does not need revision 1");
    }
    sent.add(request.hasResume() ? resume(request.getResume()) : asked(request.getSpec()));
  }

  private String resume(Resume resume) {
    String told = "";
    if (resume.hasToldValidUntil()) {
      long until = Durations.fromWire(resume.getToldValidUntil().getSinceBoot()).toMillis();
      told = " told " + (until - messages.base());
    }
    if (!attempts.contains(resume.getAttemptId())) {
      attempts.add(resume.getAttemptId());
    }
    int attempt = attempts.indexOf(resume.getAttemptId()) + 1;
    return "resume " + resume.getResumeToken() + told + " attempt " + attempt;
  }

  /** How a lock was asked for. */
  private static String asked(LeaseSpec spec) {
    long wait = Durations.fromWire(spec.getWait()).toMillis();
    return "hold"
        + (wait > 0 ? " wait " + wait : "")
        + (spec.getPermits() > 1 ? " permits " + spec.getPermits() : "")
        + (spec.getPriority() > 0 ? " priority " + spec.getPriority() : "")
        + (spec.getYields() ? " yields" : "")
        + (spec.getShare().isEmpty() ? "" : " share " + spec.getShare());
  }

  private void called(Call<?, ?> call, String name, String said) {
    boolean tooEarly = name.equals("release") && isValid.getAsBoolean();
    Object answer;
    synchronized (this) {
      if (tooEarly) {
        faults.add("S13: the hold is valid when its release is sent");
      }
      sent.add(name + " " + said);
      call.name = name;
      unanswered.add(call);
      answer = prepared.remove(name);
    }
    if (answer != null) {
      give(name, answer);
    }
  }

  private void asked(Call<?, ?> call, Object request) {
    if (request instanceof HoldLeaseRequest hold) {
      opened(call, hold);
    } else if (request instanceof ReleaseLeaseRequest release) {
      called(call, "release", String.valueOf(release.getGeneration()));
    } else if (request instanceof GetHoldRequest question) {
      called(call, "get_hold", String.valueOf(question.getGeneration()));
    } else if (request instanceof ReportProgressRequest report) {
      called(call, "report_progress", String.valueOf(report.getGeneration()));
    } else if (request instanceof ExtendLeaseRequest extend) {
      long maxHold = Durations.fromWire(extend.getMaxHold()).toMillis();
      called(call, "extend_lease", extend.getGeneration() + " " + maxHold);
    } else if (request instanceof SaveCheckpointRequest save) {
      ByteString value = save.getValue();
      called(call, "save_checkpoint", save.getGeneration() + " " + value.toStringUtf8());
    } else {
      throw new AssertionError("nobody answers " + request);
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
    return new Call<>(options);
  }

  /** A call, as the client has it. What it hears comes on the time's thread. */
  private final class Call<Q, A> extends ClientCall<Q, A> {
    private final CallOptions options;
    private Listener<A> listener;
    private Q request;
    private String name = "";
    private volatile boolean over;
    private volatile boolean granted;

    Call(CallOptions options) {
      this.options = options;
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
      asked(this, request);
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
