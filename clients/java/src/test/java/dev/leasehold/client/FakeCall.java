package dev.leasehold.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.stub.ServerCallStreamObserver;
import java.util.concurrent.CountDownLatch;

/** A call that a fake sidecar has got, and answers in the words of the vectors. */
final class FakeCall {
  /** What came with the call that begins. */
  static final Context.Key<Metadata> HEADERS = Context.key("headers");

  /** The number of the connection that it came over. */
  static final Context.Key<Integer> CONNECTION = Context.key("connection");

  final Message request;
  final String name;

  /** What was sent. */
  final String sent;

  final boolean isStream;
  final int connection = CONNECTION.get();
  private final Metadata headers = HEADERS.get();
  private final Message answer;
  private final ServerCallStreamObserver<Message> client;
  private final Said said;
  private final CountDownLatch ended = new CountDownLatch(1);
  private volatile boolean granted;
  private volatile boolean tooOld;

  FakeCall(
      Said said,
      Message request,
      MethodDescriptor<?, ?> method,
      ServerCallStreamObserver<Message> client) {
    this.said = said;
    this.request = request;
    this.name = Said.name(request);
    this.sent = said.sent(request);
    this.isStream = method.getType() != MethodType.UNARY;
    this.answer =
        (Message) ((PrototypeMarshaller<?>) method.getResponseMarshaller()).getMessagePrototype();
    this.client = client;
    whenEnded(() -> {});
  }

  /** What came with it under this name, or null. */
  String header(String name) {
    return headers.get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
  }

  void tell(JsonObject event) {
    granted |= event.has("granted") || event.has("run");
    client.onNext(said.message(answer.newBuilderForType(), event));
  }

  void tell(String event) {
    tell(Said.json(event));
  }

  /** Whether it has brought a hold. */
  boolean isGranted() {
    return granted;
  }

  /** Whether its sidecar is too old for it (S37). */
  boolean isTooOld() {
    return tooOld;
  }

  /** Ends it with a status, or without a word. */
  void end(JsonObject status) {
    ended.countDown();
    tooOld = status.has("needs");
    if (status.has("code")) {
      client.onError(Said.error(status));
    } else {
      client.onCompleted();
    }
  }

  void end(String status) {
    end(Said.json(status));
  }

  /** Answers a unary call, or refuses it with a {@code code}. */
  void answer(JsonObject words) {
    if (!words.has("code")) {
      tell(words);
    }
    end(words);
  }

  /** Runs {@code task} when the client has ended it. */
  void whenEnded(Runnable task) {
    client.setOnCancelHandler(
        () -> {
          if (isOpen()) {
            ended.countDown();
            task.run();
          }
        });
  }

  /** Waits until the client has ended it. */
  void awaitEnd() {
    Bench.await(ended);
  }

  /** Whether neither side has ended it. */
  boolean isOpen() {
    return ended.getCount() > 0;
  }
}
