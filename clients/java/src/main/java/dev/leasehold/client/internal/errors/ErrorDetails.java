package dev.leasehold.client.internal.errors;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.Optional;

/** What a sidecar says of an error beside its text. */
public record ErrorDetails(
    Optional<ErrorInfo> info, Optional<BadRequest> badRequest, Optional<RetryInfo> retry) {
  /** No sidecar has said anything. */
  public static final ErrorDetails NONE =
      new ErrorDetails(Optional.empty(), Optional.empty(), Optional.empty());

  /** The domain of the reasons in google.rpc.ErrorInfo. */
  static final String DOMAIN = "leasehold.dev";

  /** Those of what gRPC threw. */
  public static ErrorDetails of(Throwable error) {
    boolean byGrpc = error instanceof StatusRuntimeException || error instanceof StatusException;
    com.google.rpc.Status status = byGrpc ? StatusProto.fromThrowable(error) : null;
    List<Any> details = status == null ? List.of() : status.getDetailsList();
    return new ErrorDetails(
        first(details, ErrorInfo.class).filter(info -> info.getDomain().equals(DOMAIN)),
        first(details, BadRequest.class),
        first(details, RetryInfo.class));
  }

  private static <T extends Message> Optional<T> first(List<Any> details, Class<T> wanted) {
    for (Any detail : details) {
      if (detail.is(wanted)) {
        try {
          return Optional.of(detail.unpack(wanted));
        } catch (InvalidProtocolBufferException garbled) {
          return Optional.empty();
        }
      }
    }
    return Optional.empty();
  }
}
