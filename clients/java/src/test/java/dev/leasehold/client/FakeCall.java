package dev.leasehold.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import dev.leasehold.v1.LeaseServiceGrpc;
import dev.leasehold.v1.ScheduleServiceGrpc;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;

/** A call that a fake sidecar has got, and answers in the words of the vectors. */
final class FakeCall {
  final Message request;
  final String name;
  final boolean isStream;
  private final Message answer;
  private final ServerCallStreamObserver<Message> client;
  private final Said said;
  private final CountDownLatch ended = new CountDownLatch(1);

  private FakeCall(
      Said said, Message request, MethodDescriptor<?, ?> method, StreamObserver<Message> client) {
    this.said = said;
    this.request = request;
    this.name = Said.name(request);
    this.isStream = method.getType() != MethodType.UNARY;
    this.answer =
        (Message) ((PrototypeMarshaller<?>) method.getResponseMarshaller()).getMessagePrototype();
    this.client = (ServerCallStreamObserver<Message>) client;
    whenEnded(() -> {});
  }

  /** A server of all calls, which gives them to {@code taker}. */
  static Server serve(ServerBuilder<?> builder, Said said, Consumer<FakeCall> taker)
      throws IOException {
    List.of(LeaseServiceGrpc.getServiceDescriptor(), ScheduleServiceGrpc.getServiceDescriptor())
        .forEach(descriptor -> builder.addService(service(descriptor, said, taker)));
    return builder.build().start();
  }

  @SuppressWarnings("unchecked")
  private static ServerServiceDefinition service(
      ServiceDescriptor descriptor, Said said, Consumer<FakeCall> taker) {
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(descriptor);
    for (MethodDescriptor<?, ?> each : descriptor.getMethods()) {
      MethodDescriptor<Message, Message> method = (MethodDescriptor<Message, Message>) each;
      service.addMethod(
          method,
          ServerCalls.asyncServerStreamingCall(
              (request, client) -> taker.accept(new FakeCall(said, request, method, client))));
    }
    return service.build();
  }

  /** What was sent. */
  String sent() {
    return said.sent(request);
  }

  void tell(JsonObject event) {
    client.onNext(said.message(answer.newBuilderForType(), event));
  }

  void tell(String event) {
    tell(Said.json(event));
  }

  /** Ends it with a status, or without a word. */
  void end(JsonObject status) {
    ended.countDown();
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
