package dev.leasehold.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.ScheduleServiceGrpc;
import io.grpc.Attributes;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServerTransportFilter;
import io.grpc.ServiceDescriptor;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Function;

/** A sidecar that does what a test says, in the words of vectors. */
final class FakeSidecar extends ServerTransportFilter implements ServerInterceptor {
  /** For 58 s. */
  static final String GRANTED = "granted: {until: 58000, for: 58000}";

  static final String RUN = "run: {until: 58000, for: 58000, attempt: 2}";
  static final String STANDBY = "standby: {understood: {time_zone: 'Europe/Copenhagen'}}";
  static final String TAKEN = "outcome: ALREADY_LOST, loss: TAKEN";
  static final String GONE = "code: UNAVAILABLE";

  /** For a request (S37). */
  static final String TOO_OLD =
      "code: UNIMPLEMENTED, reason: UNSUPPORTED, message: '2 and 1', needs: 2, revision: 1";

  private static final Attributes.Key<Integer> NUMBER = Attributes.Key.create("number");

  private final Said said;
  private final Consumer<FakeCall> watcher;
  private final Map<String, Function<Message, String>> answers = new ConcurrentHashMap<>();
  private final Map<String, JsonObject> prepared = new HashMap<>();
  private final Map<String, BlockingQueue<FakeCall>> unseen = new ConcurrentHashMap<>();
  private final List<FakeCall> calls = new CopyOnWriteArrayList<>();
  private final AtomicInteger made = new AtomicInteger();
  private final Set<Integer> connections = ConcurrentHashMap.newKeySet();
  private Server server;

  /** On a {@code kernel} of the vectors; {@code watcher} sees each call before it is answered. */
  FakeSidecar(String kernel, Consumer<FakeCall> watcher) {
    this.said = new Said(kernel);
    this.watcher = watcher;
  }

  /** Answers all calls that come to the place of {@code builder}. */
  void serve(ServerBuilder<?> builder) throws IOException {
    List.of(LeaseServiceGrpc.getServiceDescriptor(), ScheduleServiceGrpc.getServiceDescriptor())
        .forEach(descriptor -> builder.addService(service(descriptor)));
    server = builder.addTransportFilter(this).intercept(this).build().start();
  }

  @SuppressWarnings("unchecked")
  private ServerServiceDefinition service(ServiceDescriptor descriptor) {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(descriptor);
    for (MethodDescriptor<?, ?> each : descriptor.getMethods()) {
      MethodDescriptor<Message, Message> method = (MethodDescriptor<Message, Message>) each;
      service.addMethod(
          method,
          ServerCalls.asyncServerStreamingCall(
              (request, client) ->
                  take(
                      new FakeCall(
                          said, request, method, (ServerCallStreamObserver<Message>) client))));
    }
    return service.build();
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    Context context =
        Context.current()
            .withValue(FakeCall.HEADERS, headers)
            .withValue(FakeCall.CONNECTION, call.getAttributes().get(NUMBER));
    return Contexts.interceptCall(context, call, headers, next);
  }

  @Override
  public Attributes transportReady(Attributes attributes) {
    int number = made.incrementAndGet();
    connections.add(number);
    return attributes.toBuilder().set(NUMBER, number).build();
  }

  @Override
  public void transportTerminated(Attributes attributes) {
    // There are none of one that has not become ready.
    if (attributes != null) {
      connections.remove(attributes.get(NUMBER));
    }
  }

  private void take(FakeCall call) {
    watcher.accept(call);
    JsonObject words;
    synchronized (this) {
      calls.add(call);
      words = prepared.remove(call.name);
    }
    Function<Message, String> answer = answers.getOrDefault(call.name, answers.get("any"));
    if (call.isStream) {
      unseen(call.name).add(call);
    } else if (words != null) {
      call.answer(words);
    } else if (answer != null) {
      call.answer(Said.json(answer.apply(call.request)));
    }
  }

  /** Answers the oldest unary call of this name that waits; where there is none, the next one. */
  void give(String name, JsonObject words) {
    Optional<FakeCall> oldest;
    synchronized (this) {
      oldest = calls.stream().filter(call -> call.name.equals(name) && call.isOpen()).findFirst();
      if (oldest.isEmpty()) {
        prepared.put(name, words);
      }
    }
    oldest.ifPresent(call -> call.answer(words));
  }

  /**
   * Answers all unary calls of this name from now on, or {@code any} other, or refuses them with a
   * {@code code}.
   */
  void on(String name, Function<Message, String> answer) {
    answers.put(name, answer);
  }

  void on(String name, String answer) {
    on(name, request -> answer);
  }

  private BlockingQueue<FakeCall> unseen(String name) {
    return unseen.computeIfAbsent(name, none -> new LinkedBlockingQueue<>());
  }

  /** The next streaming call of this name. */
  FakeCall next(String name) throws InterruptedException {
    FakeCall call = unseen(name).poll(60, TimeUnit.SECONDS);
    if (call == null) {
      throw new AssertionError("no call comes");
    }
    return call;
  }

  /** All calls so far. */
  List<FakeCall> calls() {
    return calls;
  }

  /** The streaming ones. */
  List<FakeCall> streams() {
    return calls.stream().filter(call -> call.isStream).toList();
  }

  /** The unary calls about holds and runs, in words. */
  List<String> asked() {
    return calls.stream()
        .filter(call -> call.request.getDescriptorForType().findFieldByName("generation") != null)
        .map(call -> call.sent)
        .toList();
  }

  /** The numbers of the connections that are open. */
  Set<Integer> connections() {
    return connections;
  }

  /** Where it listens, if that is a port. */
  int port() {
    return server.getPort();
  }

  /** Ends as a killed process does. */
  void kill() {
    try {
      server.shutdownNow().awaitTermination();
    } catch (InterruptedException interrupted) {
      throw new AssertionError("the server was not waited for", interrupted);
    }
  }
}
