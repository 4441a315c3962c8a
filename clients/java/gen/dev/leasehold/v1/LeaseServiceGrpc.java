package dev.leasehold.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Grants singleton locks backed by leases in a store.
 * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
 * `Grant.fencing_token`.
 * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
 * never by the message.
 * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
 * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
 * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
 * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
 * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
 * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
 * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
 * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
 * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
 * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
 * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
 * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
 * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
 * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
 * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
 * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
 * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
 * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
 * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class LeaseServiceGrpc {

  private LeaseServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "leasehold.v1.LeaseService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.AcquireLeaseRequest,
      dev.leasehold.v1.AcquireLeaseResponse> getAcquireLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AcquireLease",
      requestType = dev.leasehold.v1.AcquireLeaseRequest.class,
      responseType = dev.leasehold.v1.AcquireLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.AcquireLeaseRequest,
      dev.leasehold.v1.AcquireLeaseResponse> getAcquireLeaseMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.AcquireLeaseRequest, dev.leasehold.v1.AcquireLeaseResponse> getAcquireLeaseMethod;
    if ((getAcquireLeaseMethod = LeaseServiceGrpc.getAcquireLeaseMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getAcquireLeaseMethod = LeaseServiceGrpc.getAcquireLeaseMethod) == null) {
          LeaseServiceGrpc.getAcquireLeaseMethod = getAcquireLeaseMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.AcquireLeaseRequest, dev.leasehold.v1.AcquireLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AcquireLease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.AcquireLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.AcquireLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("AcquireLease"))
              .build();
        }
      }
    }
    return getAcquireLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.ReleaseLeaseRequest,
      dev.leasehold.v1.ReleaseLeaseResponse> getReleaseLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReleaseLease",
      requestType = dev.leasehold.v1.ReleaseLeaseRequest.class,
      responseType = dev.leasehold.v1.ReleaseLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.ReleaseLeaseRequest,
      dev.leasehold.v1.ReleaseLeaseResponse> getReleaseLeaseMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.ReleaseLeaseRequest, dev.leasehold.v1.ReleaseLeaseResponse> getReleaseLeaseMethod;
    if ((getReleaseLeaseMethod = LeaseServiceGrpc.getReleaseLeaseMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getReleaseLeaseMethod = LeaseServiceGrpc.getReleaseLeaseMethod) == null) {
          LeaseServiceGrpc.getReleaseLeaseMethod = getReleaseLeaseMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.ReleaseLeaseRequest, dev.leasehold.v1.ReleaseLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReleaseLease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ReleaseLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ReleaseLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ReleaseLease"))
              .build();
        }
      }
    }
    return getReleaseLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.ExtendLeaseRequest,
      dev.leasehold.v1.ExtendLeaseResponse> getExtendLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExtendLease",
      requestType = dev.leasehold.v1.ExtendLeaseRequest.class,
      responseType = dev.leasehold.v1.ExtendLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.ExtendLeaseRequest,
      dev.leasehold.v1.ExtendLeaseResponse> getExtendLeaseMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.ExtendLeaseRequest, dev.leasehold.v1.ExtendLeaseResponse> getExtendLeaseMethod;
    if ((getExtendLeaseMethod = LeaseServiceGrpc.getExtendLeaseMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getExtendLeaseMethod = LeaseServiceGrpc.getExtendLeaseMethod) == null) {
          LeaseServiceGrpc.getExtendLeaseMethod = getExtendLeaseMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.ExtendLeaseRequest, dev.leasehold.v1.ExtendLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExtendLease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ExtendLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ExtendLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ExtendLease"))
              .build();
        }
      }
    }
    return getExtendLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.HoldLeaseRequest,
      dev.leasehold.v1.HoldLeaseResponse> getHoldLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "HoldLease",
      requestType = dev.leasehold.v1.HoldLeaseRequest.class,
      responseType = dev.leasehold.v1.HoldLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.HoldLeaseRequest,
      dev.leasehold.v1.HoldLeaseResponse> getHoldLeaseMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.HoldLeaseRequest, dev.leasehold.v1.HoldLeaseResponse> getHoldLeaseMethod;
    if ((getHoldLeaseMethod = LeaseServiceGrpc.getHoldLeaseMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getHoldLeaseMethod = LeaseServiceGrpc.getHoldLeaseMethod) == null) {
          LeaseServiceGrpc.getHoldLeaseMethod = getHoldLeaseMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.HoldLeaseRequest, dev.leasehold.v1.HoldLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "HoldLease"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.HoldLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.HoldLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("HoldLease"))
              .build();
        }
      }
    }
    return getHoldLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.GetLockRequest,
      dev.leasehold.v1.GetLockResponse> getGetLockMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetLock",
      requestType = dev.leasehold.v1.GetLockRequest.class,
      responseType = dev.leasehold.v1.GetLockResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.GetLockRequest,
      dev.leasehold.v1.GetLockResponse> getGetLockMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.GetLockRequest, dev.leasehold.v1.GetLockResponse> getGetLockMethod;
    if ((getGetLockMethod = LeaseServiceGrpc.getGetLockMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getGetLockMethod = LeaseServiceGrpc.getGetLockMethod) == null) {
          LeaseServiceGrpc.getGetLockMethod = getGetLockMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.GetLockRequest, dev.leasehold.v1.GetLockResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetLock"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.GetLockRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.GetLockResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("GetLock"))
              .build();
        }
      }
    }
    return getGetLockMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.ListLocksRequest,
      dev.leasehold.v1.ListLocksResponse> getListLocksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListLocks",
      requestType = dev.leasehold.v1.ListLocksRequest.class,
      responseType = dev.leasehold.v1.ListLocksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.ListLocksRequest,
      dev.leasehold.v1.ListLocksResponse> getListLocksMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.ListLocksRequest, dev.leasehold.v1.ListLocksResponse> getListLocksMethod;
    if ((getListLocksMethod = LeaseServiceGrpc.getListLocksMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getListLocksMethod = LeaseServiceGrpc.getListLocksMethod) == null) {
          LeaseServiceGrpc.getListLocksMethod = getListLocksMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.ListLocksRequest, dev.leasehold.v1.ListLocksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListLocks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ListLocksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ListLocksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ListLocks"))
              .build();
        }
      }
    }
    return getListLocksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.WatchLockRequest,
      dev.leasehold.v1.WatchLockResponse> getWatchLockMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchLock",
      requestType = dev.leasehold.v1.WatchLockRequest.class,
      responseType = dev.leasehold.v1.WatchLockResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.WatchLockRequest,
      dev.leasehold.v1.WatchLockResponse> getWatchLockMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.WatchLockRequest, dev.leasehold.v1.WatchLockResponse> getWatchLockMethod;
    if ((getWatchLockMethod = LeaseServiceGrpc.getWatchLockMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getWatchLockMethod = LeaseServiceGrpc.getWatchLockMethod) == null) {
          LeaseServiceGrpc.getWatchLockMethod = getWatchLockMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.WatchLockRequest, dev.leasehold.v1.WatchLockResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchLock"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.WatchLockRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.WatchLockResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("WatchLock"))
              .build();
        }
      }
    }
    return getWatchLockMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.ReportProgressRequest,
      dev.leasehold.v1.ReportProgressResponse> getReportProgressMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReportProgress",
      requestType = dev.leasehold.v1.ReportProgressRequest.class,
      responseType = dev.leasehold.v1.ReportProgressResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.ReportProgressRequest,
      dev.leasehold.v1.ReportProgressResponse> getReportProgressMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.ReportProgressRequest, dev.leasehold.v1.ReportProgressResponse> getReportProgressMethod;
    if ((getReportProgressMethod = LeaseServiceGrpc.getReportProgressMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getReportProgressMethod = LeaseServiceGrpc.getReportProgressMethod) == null) {
          LeaseServiceGrpc.getReportProgressMethod = getReportProgressMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.ReportProgressRequest, dev.leasehold.v1.ReportProgressResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReportProgress"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ReportProgressRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ReportProgressResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ReportProgress"))
              .build();
        }
      }
    }
    return getReportProgressMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.CheckTokenRequest,
      dev.leasehold.v1.CheckTokenResponse> getCheckTokenMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CheckToken",
      requestType = dev.leasehold.v1.CheckTokenRequest.class,
      responseType = dev.leasehold.v1.CheckTokenResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.CheckTokenRequest,
      dev.leasehold.v1.CheckTokenResponse> getCheckTokenMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.CheckTokenRequest, dev.leasehold.v1.CheckTokenResponse> getCheckTokenMethod;
    if ((getCheckTokenMethod = LeaseServiceGrpc.getCheckTokenMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getCheckTokenMethod = LeaseServiceGrpc.getCheckTokenMethod) == null) {
          LeaseServiceGrpc.getCheckTokenMethod = getCheckTokenMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.CheckTokenRequest, dev.leasehold.v1.CheckTokenResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CheckToken"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.CheckTokenRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.CheckTokenResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("CheckToken"))
              .build();
        }
      }
    }
    return getCheckTokenMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.BreakLockRequest,
      dev.leasehold.v1.BreakLockResponse> getBreakLockMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BreakLock",
      requestType = dev.leasehold.v1.BreakLockRequest.class,
      responseType = dev.leasehold.v1.BreakLockResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.BreakLockRequest,
      dev.leasehold.v1.BreakLockResponse> getBreakLockMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.BreakLockRequest, dev.leasehold.v1.BreakLockResponse> getBreakLockMethod;
    if ((getBreakLockMethod = LeaseServiceGrpc.getBreakLockMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getBreakLockMethod = LeaseServiceGrpc.getBreakLockMethod) == null) {
          LeaseServiceGrpc.getBreakLockMethod = getBreakLockMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.BreakLockRequest, dev.leasehold.v1.BreakLockResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BreakLock"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.BreakLockRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.BreakLockResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("BreakLock"))
              .build();
        }
      }
    }
    return getBreakLockMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.leasehold.v1.ResolvePathRequest,
      dev.leasehold.v1.ResolvePathResponse> getResolvePathMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolvePath",
      requestType = dev.leasehold.v1.ResolvePathRequest.class,
      responseType = dev.leasehold.v1.ResolvePathResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.leasehold.v1.ResolvePathRequest,
      dev.leasehold.v1.ResolvePathResponse> getResolvePathMethod() {
    io.grpc.MethodDescriptor<dev.leasehold.v1.ResolvePathRequest, dev.leasehold.v1.ResolvePathResponse> getResolvePathMethod;
    if ((getResolvePathMethod = LeaseServiceGrpc.getResolvePathMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getResolvePathMethod = LeaseServiceGrpc.getResolvePathMethod) == null) {
          LeaseServiceGrpc.getResolvePathMethod = getResolvePathMethod =
              io.grpc.MethodDescriptor.<dev.leasehold.v1.ResolvePathRequest, dev.leasehold.v1.ResolvePathResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolvePath"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ResolvePathRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.leasehold.v1.ResolvePathResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ResolvePath"))
              .build();
        }
      }
    }
    return getResolvePathMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static LeaseServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceStub>() {
        @java.lang.Override
        public LeaseServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceStub(channel, callOptions);
        }
      };
    return LeaseServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static LeaseServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingV2Stub>() {
        @java.lang.Override
        public LeaseServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return LeaseServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static LeaseServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingStub>() {
        @java.lang.Override
        public LeaseServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceBlockingStub(channel, callOptions);
        }
      };
    return LeaseServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static LeaseServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceFutureStub>() {
        @java.lang.Override
        public LeaseServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceFutureStub(channel, callOptions);
        }
      };
    return LeaseServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Takes the lock, or waits for it. The sidecar then renews it until ReleaseLease, `max_hold` or shutdown (S11, S14),
     * whether or not the caller lives: prefer HoldLease where the caller can keep a stream. A call that is cancelled
     * or runs over its deadline leaves no lease behind (S6).
     * </pre>
     */
    default void acquireLease(dev.leasehold.v1.AcquireLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.AcquireLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAcquireLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Gives a lock back, and answers when the store has it or the lease can no longer be valid. The caller must stop
     * acting on the lock BEFORE it sends this. May be repeated; never touches a later hold (S13). Releasing what is
     * lost already is no error. NOT_FOUND for an unknown lease id.
     * </pre>
     */
    default void releaseLease(dev.leasehold.v1.ReleaseLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ReleaseLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Sets a new `max_hold`, counted from now. FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown
     * lease id.
     * </pre>
     */
    default void extendLease(dev.leasehold.v1.ExtendLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ExtendLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExtendLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Takes the lock and keeps it while the stream lives (S14). Call it without a deadline.
     * Events: Waiting (any number), then Busy or Granted; after Granted any of Renewed, AtRisk, Recovered, Draining;
     * at last Lost or Released. After Busy, Lost or Released the stream ends with OK. A resumed stream begins with
     * Granted (same lease id, lock path and token, greater generation) or Lost. To end the hold, stop acting first, then
     * call ReleaseLease and read on to Released. Cancelling the stream releases the lock, too, where that is surely the
     * caller's doing: over a Unix socket, or over loopback if the caller sends its kernel's boot id as metadata
     * `leasehold-boot-id` with the call; over a network the lock is released when its validity ends. A stream that ended otherwise is never a held lock: the client may
     * act until the end of the validity that it was told, and resume until then (S16).
     * </pre>
     */
    default void holdLease(dev.leasehold.v1.HoldLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.HoldLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getHoldLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Tells the record of one lock. A lock that was never taken is AVAILABLE, and not an error.
     * </pre>
     */
    default void getLock(dev.leasehold.v1.GetLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.GetLockResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetLockMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the locks under a host id or a prefix in the order of their paths, a page at a time.
     * </pre>
     */
    default void listLocks(dev.leasehold.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListLocksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Tells a lock's record now and at each change, until the caller cancels. For those who want to know when a lock
     * falls free; it excludes nobody. Changes made elsewhere are seen with a delay of some seconds, and quick ones may
     * be seen as one. UNAVAILABLE when the store cannot be read or the sidecar shuts down: call again.
     * </pre>
     */
    default void watchLock(dev.leasehold.v1.WatchLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.WatchLockResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchLockMethod(), responseObserver);
    }

    /**
     * <pre>
     * Says that the holder is getting on, which restarts `progress_timeout` (S11), and tells the validity: a client on
     * another kernel than the sidecar's must ask for it from time to time, at least every third of the lease duration,
     * to know that it still holds (S21). FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown lease id.
     * </pre>
     */
    default void reportProgress(dev.leasehold.v1.ReportProgressRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ReportProgressResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReportProgressMethod(), responseObserver);
    }

    /**
     * <pre>
     * For a protected resource that keeps no tokens of its own: compares a fencing token with the lock's newest. A
     * resource that can remember the greatest token it has seen is safer and needs no call.
     * </pre>
     */
    default void checkToken(dev.leasehold.v1.CheckTokenRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.CheckTokenResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCheckTokenMethod(), responseObserver);
    }

    /**
     * <pre>
     * For operators: ends the lease of a lock that somebody else has (S17). The holder learns it at its next renewal
     * at the latest. FAILED_PRECONDITION, reason BREAK_NOT_ENABLED, unless the sidecar's `admin.allow_break` is set.
     * </pre>
     */
    default void breakLock(dev.leasehold.v1.BreakLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.BreakLockResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBreakLockMethod(), responseObserver);
    }

    /**
     * <pre>
     * Tells the lock path of a key and how it came about. Takes nothing and asks no store.
     * </pre>
     */
    default void resolvePath(dev.leasehold.v1.ResolvePathRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ResolvePathResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolvePathMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service LeaseService.
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public static abstract class LeaseServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return LeaseServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service LeaseService.
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public static final class LeaseServiceStub
      extends io.grpc.stub.AbstractAsyncStub<LeaseServiceStub> {
    private LeaseServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Takes the lock, or waits for it. The sidecar then renews it until ReleaseLease, `max_hold` or shutdown (S11, S14),
     * whether or not the caller lives: prefer HoldLease where the caller can keep a stream. A call that is cancelled
     * or runs over its deadline leaves no lease behind (S6).
     * </pre>
     */
    public void acquireLease(dev.leasehold.v1.AcquireLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.AcquireLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAcquireLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Gives a lock back, and answers when the store has it or the lease can no longer be valid. The caller must stop
     * acting on the lock BEFORE it sends this. May be repeated; never touches a later hold (S13). Releasing what is
     * lost already is no error. NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public void releaseLease(dev.leasehold.v1.ReleaseLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ReleaseLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Sets a new `max_hold`, counted from now. FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown
     * lease id.
     * </pre>
     */
    public void extendLease(dev.leasehold.v1.ExtendLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ExtendLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExtendLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Takes the lock and keeps it while the stream lives (S14). Call it without a deadline.
     * Events: Waiting (any number), then Busy or Granted; after Granted any of Renewed, AtRisk, Recovered, Draining;
     * at last Lost or Released. After Busy, Lost or Released the stream ends with OK. A resumed stream begins with
     * Granted (same lease id, lock path and token, greater generation) or Lost. To end the hold, stop acting first, then
     * call ReleaseLease and read on to Released. Cancelling the stream releases the lock, too, where that is surely the
     * caller's doing: over a Unix socket, or over loopback if the caller sends its kernel's boot id as metadata
     * `leasehold-boot-id` with the call; over a network the lock is released when its validity ends. A stream that ended otherwise is never a held lock: the client may
     * act until the end of the validity that it was told, and resume until then (S16).
     * </pre>
     */
    public void holdLease(dev.leasehold.v1.HoldLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.HoldLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getHoldLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Tells the record of one lock. A lock that was never taken is AVAILABLE, and not an error.
     * </pre>
     */
    public void getLock(dev.leasehold.v1.GetLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.GetLockResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetLockMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the locks under a host id or a prefix in the order of their paths, a page at a time.
     * </pre>
     */
    public void listLocks(dev.leasehold.v1.ListLocksRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ListLocksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Tells a lock's record now and at each change, until the caller cancels. For those who want to know when a lock
     * falls free; it excludes nobody. Changes made elsewhere are seen with a delay of some seconds, and quick ones may
     * be seen as one. UNAVAILABLE when the store cannot be read or the sidecar shuts down: call again.
     * </pre>
     */
    public void watchLock(dev.leasehold.v1.WatchLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.WatchLockResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchLockMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Says that the holder is getting on, which restarts `progress_timeout` (S11), and tells the validity: a client on
     * another kernel than the sidecar's must ask for it from time to time, at least every third of the lease duration,
     * to know that it still holds (S21). FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public void reportProgress(dev.leasehold.v1.ReportProgressRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ReportProgressResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReportProgressMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * For a protected resource that keeps no tokens of its own: compares a fencing token with the lock's newest. A
     * resource that can remember the greatest token it has seen is safer and needs no call.
     * </pre>
     */
    public void checkToken(dev.leasehold.v1.CheckTokenRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.CheckTokenResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCheckTokenMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * For operators: ends the lease of a lock that somebody else has (S17). The holder learns it at its next renewal
     * at the latest. FAILED_PRECONDITION, reason BREAK_NOT_ENABLED, unless the sidecar's `admin.allow_break` is set.
     * </pre>
     */
    public void breakLock(dev.leasehold.v1.BreakLockRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.BreakLockResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBreakLockMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Tells the lock path of a key and how it came about. Takes nothing and asks no store.
     * </pre>
     */
    public void resolvePath(dev.leasehold.v1.ResolvePathRequest request,
        io.grpc.stub.StreamObserver<dev.leasehold.v1.ResolvePathResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolvePathMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service LeaseService.
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public static final class LeaseServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<LeaseServiceBlockingV2Stub> {
    private LeaseServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Takes the lock, or waits for it. The sidecar then renews it until ReleaseLease, `max_hold` or shutdown (S11, S14),
     * whether or not the caller lives: prefer HoldLease where the caller can keep a stream. A call that is cancelled
     * or runs over its deadline leaves no lease behind (S6).
     * </pre>
     */
    public dev.leasehold.v1.AcquireLeaseResponse acquireLease(dev.leasehold.v1.AcquireLeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAcquireLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Gives a lock back, and answers when the store has it or the lease can no longer be valid. The caller must stop
     * acting on the lock BEFORE it sends this. May be repeated; never touches a later hold (S13). Releasing what is
     * lost already is no error. NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public dev.leasehold.v1.ReleaseLeaseResponse releaseLease(dev.leasehold.v1.ReleaseLeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReleaseLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sets a new `max_hold`, counted from now. FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown
     * lease id.
     * </pre>
     */
    public dev.leasehold.v1.ExtendLeaseResponse extendLease(dev.leasehold.v1.ExtendLeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getExtendLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes the lock and keeps it while the stream lives (S14). Call it without a deadline.
     * Events: Waiting (any number), then Busy or Granted; after Granted any of Renewed, AtRisk, Recovered, Draining;
     * at last Lost or Released. After Busy, Lost or Released the stream ends with OK. A resumed stream begins with
     * Granted (same lease id, lock path and token, greater generation) or Lost. To end the hold, stop acting first, then
     * call ReleaseLease and read on to Released. Cancelling the stream releases the lock, too, where that is surely the
     * caller's doing: over a Unix socket, or over loopback if the caller sends its kernel's boot id as metadata
     * `leasehold-boot-id` with the call; over a network the lock is released when its validity ends. A stream that ended otherwise is never a held lock: the client may
     * act until the end of the validity that it was told, and resume until then (S16).
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.leasehold.v1.HoldLeaseResponse>
        holdLease(dev.leasehold.v1.HoldLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getHoldLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells the record of one lock. A lock that was never taken is AVAILABLE, and not an error.
     * </pre>
     */
    public dev.leasehold.v1.GetLockResponse getLock(dev.leasehold.v1.GetLockRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the locks under a host id or a prefix in the order of their paths, a page at a time.
     * </pre>
     */
    public dev.leasehold.v1.ListLocksResponse listLocks(dev.leasehold.v1.ListLocksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListLocksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells a lock's record now and at each change, until the caller cancels. For those who want to know when a lock
     * falls free; it excludes nobody. Changes made elsewhere are seen with a delay of some seconds, and quick ones may
     * be seen as one. UNAVAILABLE when the store cannot be read or the sidecar shuts down: call again.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.leasehold.v1.WatchLockResponse>
        watchLock(dev.leasehold.v1.WatchLockRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says that the holder is getting on, which restarts `progress_timeout` (S11), and tells the validity: a client on
     * another kernel than the sidecar's must ask for it from time to time, at least every third of the lease duration,
     * to know that it still holds (S21). FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public dev.leasehold.v1.ReportProgressResponse reportProgress(dev.leasehold.v1.ReportProgressRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReportProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * For a protected resource that keeps no tokens of its own: compares a fencing token with the lock's newest. A
     * resource that can remember the greatest token it has seen is safer and needs no call.
     * </pre>
     */
    public dev.leasehold.v1.CheckTokenResponse checkToken(dev.leasehold.v1.CheckTokenRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCheckTokenMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * For operators: ends the lease of a lock that somebody else has (S17). The holder learns it at its next renewal
     * at the latest. FAILED_PRECONDITION, reason BREAK_NOT_ENABLED, unless the sidecar's `admin.allow_break` is set.
     * </pre>
     */
    public dev.leasehold.v1.BreakLockResponse breakLock(dev.leasehold.v1.BreakLockRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBreakLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells the lock path of a key and how it came about. Takes nothing and asks no store.
     * </pre>
     */
    public dev.leasehold.v1.ResolvePathResponse resolvePath(dev.leasehold.v1.ResolvePathRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolvePathMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service LeaseService.
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public static final class LeaseServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<LeaseServiceBlockingStub> {
    private LeaseServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Takes the lock, or waits for it. The sidecar then renews it until ReleaseLease, `max_hold` or shutdown (S11, S14),
     * whether or not the caller lives: prefer HoldLease where the caller can keep a stream. A call that is cancelled
     * or runs over its deadline leaves no lease behind (S6).
     * </pre>
     */
    public dev.leasehold.v1.AcquireLeaseResponse acquireLease(dev.leasehold.v1.AcquireLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAcquireLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Gives a lock back, and answers when the store has it or the lease can no longer be valid. The caller must stop
     * acting on the lock BEFORE it sends this. May be repeated; never touches a later hold (S13). Releasing what is
     * lost already is no error. NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public dev.leasehold.v1.ReleaseLeaseResponse releaseLease(dev.leasehold.v1.ReleaseLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sets a new `max_hold`, counted from now. FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown
     * lease id.
     * </pre>
     */
    public dev.leasehold.v1.ExtendLeaseResponse extendLease(dev.leasehold.v1.ExtendLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExtendLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes the lock and keeps it while the stream lives (S14). Call it without a deadline.
     * Events: Waiting (any number), then Busy or Granted; after Granted any of Renewed, AtRisk, Recovered, Draining;
     * at last Lost or Released. After Busy, Lost or Released the stream ends with OK. A resumed stream begins with
     * Granted (same lease id, lock path and token, greater generation) or Lost. To end the hold, stop acting first, then
     * call ReleaseLease and read on to Released. Cancelling the stream releases the lock, too, where that is surely the
     * caller's doing: over a Unix socket, or over loopback if the caller sends its kernel's boot id as metadata
     * `leasehold-boot-id` with the call; over a network the lock is released when its validity ends. A stream that ended otherwise is never a held lock: the client may
     * act until the end of the validity that it was told, and resume until then (S16).
     * </pre>
     */
    public java.util.Iterator<dev.leasehold.v1.HoldLeaseResponse> holdLease(
        dev.leasehold.v1.HoldLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getHoldLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells the record of one lock. A lock that was never taken is AVAILABLE, and not an error.
     * </pre>
     */
    public dev.leasehold.v1.GetLockResponse getLock(dev.leasehold.v1.GetLockRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the locks under a host id or a prefix in the order of their paths, a page at a time.
     * </pre>
     */
    public dev.leasehold.v1.ListLocksResponse listLocks(dev.leasehold.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListLocksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells a lock's record now and at each change, until the caller cancels. For those who want to know when a lock
     * falls free; it excludes nobody. Changes made elsewhere are seen with a delay of some seconds, and quick ones may
     * be seen as one. UNAVAILABLE when the store cannot be read or the sidecar shuts down: call again.
     * </pre>
     */
    public java.util.Iterator<dev.leasehold.v1.WatchLockResponse> watchLock(
        dev.leasehold.v1.WatchLockRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says that the holder is getting on, which restarts `progress_timeout` (S11), and tells the validity: a client on
     * another kernel than the sidecar's must ask for it from time to time, at least every third of the lease duration,
     * to know that it still holds (S21). FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public dev.leasehold.v1.ReportProgressResponse reportProgress(dev.leasehold.v1.ReportProgressRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReportProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * For a protected resource that keeps no tokens of its own: compares a fencing token with the lock's newest. A
     * resource that can remember the greatest token it has seen is safer and needs no call.
     * </pre>
     */
    public dev.leasehold.v1.CheckTokenResponse checkToken(dev.leasehold.v1.CheckTokenRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCheckTokenMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * For operators: ends the lease of a lock that somebody else has (S17). The holder learns it at its next renewal
     * at the latest. FAILED_PRECONDITION, reason BREAK_NOT_ENABLED, unless the sidecar's `admin.allow_break` is set.
     * </pre>
     */
    public dev.leasehold.v1.BreakLockResponse breakLock(dev.leasehold.v1.BreakLockRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBreakLockMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells the lock path of a key and how it came about. Takes nothing and asks no store.
     * </pre>
     */
    public dev.leasehold.v1.ResolvePathResponse resolvePath(dev.leasehold.v1.ResolvePathRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolvePathMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service LeaseService.
   * <pre>
   * Grants singleton locks backed by leases in a store.
   * A lock alone does not keep a paused holder from acting late: keep to Validity, and let protected resources check
   * `Grant.fencing_token`.
   * Errors carry google.rpc.ErrorInfo with domain `leasehold.dev` and one of these reasons. Decide by code and reason,
   * never by the message.
   * - INVALID_ARGUMENT INVALID_FIELD: a field is missing or out of its range; google.rpc.BadRequest names each (S19).
   * - NOT_FOUND UNKNOWN_LEASE: no hold of this sidecar has this lease id, or it ended so long ago that it was forgotten.
   * - NOT_FOUND UNKNOWN_LOCK: the lock to be broken does not exist in the store.
   * - FAILED_PRECONDITION HOLD_LOST: the hold is over; metadata `loss_reason`: EXPIRED and so on (LossReason), RELEASED.
   * - FAILED_PRECONDITION BREAK_NOT_ENABLED: the operator has not set `admin.allow_break`.
   * - FAILED_PRECONDITION CONTAINER_MISSING: the container does not exist and this sidecar may not make it (S18).
   * - PERMISSION_DENIED OVERRIDE_FORBIDDEN: the operator forbids `host_id` and `host_type` in requests.
   * - PERMISSION_DENIED STORE_DENIED: the store refuses the sidecar's credentials; says which role is needed.
   * - PERMISSION_DENIED USER_NOT_ALLOWED: the caller's user id is not among those that may use the Unix socket.
   * - UNAUTHENTICATED UNAUTHENTICATED: the listener asks for a bearer token, and none or a wrong one was sent.
   * - UNAVAILABLE STORE_UNAVAILABLE: the store could not be reached in the call's time; with google.rpc.RetryInfo.
   * - UNAVAILABLE STORE_THROTTLED: the store asks for patience; with google.rpc.RetryInfo.
   * - UNAVAILABLE SHUTTING_DOWN: this sidecar is going away; with google.rpc.RetryInfo (S15).
   * - INTERNAL STORE_FAILED: the store is damaged, full or misconfigured; trying again does not help.
   * - DATA_LOSS TOKEN_NOT_GROWING: the store fell back to an older copy of the lock, so nothing is granted (S5).
   * - DATA_LOSS TOKEN_UNREADABLE: the lock's stored token is there but cannot be read, so nothing is granted (S5).
   * - RESOURCE_EXHAUSTED TOO_MANY_HOLDS, TOO_MANY_WAITERS: over the configured number; with google.rpc.RetryInfo.
   * - ABORTED SUPERSEDED: a newer stream has resumed this stream's hold.
   * - ABORTED STREAM_BEHIND: the client did not read its stream, which was ended; the hold can be resumed.
   * </pre>
   */
  public static final class LeaseServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<LeaseServiceFutureStub> {
    private LeaseServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Takes the lock, or waits for it. The sidecar then renews it until ReleaseLease, `max_hold` or shutdown (S11, S14),
     * whether or not the caller lives: prefer HoldLease where the caller can keep a stream. A call that is cancelled
     * or runs over its deadline leaves no lease behind (S6).
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.AcquireLeaseResponse> acquireLease(
        dev.leasehold.v1.AcquireLeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAcquireLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Gives a lock back, and answers when the store has it or the lease can no longer be valid. The caller must stop
     * acting on the lock BEFORE it sends this. May be repeated; never touches a later hold (S13). Releasing what is
     * lost already is no error. NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.ReleaseLeaseResponse> releaseLease(
        dev.leasehold.v1.ReleaseLeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Sets a new `max_hold`, counted from now. FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown
     * lease id.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.ExtendLeaseResponse> extendLease(
        dev.leasehold.v1.ExtendLeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExtendLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Tells the record of one lock. A lock that was never taken is AVAILABLE, and not an error.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.GetLockResponse> getLock(
        dev.leasehold.v1.GetLockRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetLockMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the locks under a host id or a prefix in the order of their paths, a page at a time.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.ListLocksResponse> listLocks(
        dev.leasehold.v1.ListLocksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListLocksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Says that the holder is getting on, which restarts `progress_timeout` (S11), and tells the validity: a client on
     * another kernel than the sidecar's must ask for it from time to time, at least every third of the lease duration,
     * to know that it still holds (S21). FAILED_PRECONDITION when the hold is over, NOT_FOUND for an unknown lease id.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.ReportProgressResponse> reportProgress(
        dev.leasehold.v1.ReportProgressRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReportProgressMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * For a protected resource that keeps no tokens of its own: compares a fencing token with the lock's newest. A
     * resource that can remember the greatest token it has seen is safer and needs no call.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.CheckTokenResponse> checkToken(
        dev.leasehold.v1.CheckTokenRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCheckTokenMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * For operators: ends the lease of a lock that somebody else has (S17). The holder learns it at its next renewal
     * at the latest. FAILED_PRECONDITION, reason BREAK_NOT_ENABLED, unless the sidecar's `admin.allow_break` is set.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.BreakLockResponse> breakLock(
        dev.leasehold.v1.BreakLockRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBreakLockMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Tells the lock path of a key and how it came about. Takes nothing and asks no store.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.leasehold.v1.ResolvePathResponse> resolvePath(
        dev.leasehold.v1.ResolvePathRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolvePathMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_ACQUIRE_LEASE = 0;
  private static final int METHODID_RELEASE_LEASE = 1;
  private static final int METHODID_EXTEND_LEASE = 2;
  private static final int METHODID_HOLD_LEASE = 3;
  private static final int METHODID_GET_LOCK = 4;
  private static final int METHODID_LIST_LOCKS = 5;
  private static final int METHODID_WATCH_LOCK = 6;
  private static final int METHODID_REPORT_PROGRESS = 7;
  private static final int METHODID_CHECK_TOKEN = 8;
  private static final int METHODID_BREAK_LOCK = 9;
  private static final int METHODID_RESOLVE_PATH = 10;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_ACQUIRE_LEASE:
          serviceImpl.acquireLease((dev.leasehold.v1.AcquireLeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.AcquireLeaseResponse>) responseObserver);
          break;
        case METHODID_RELEASE_LEASE:
          serviceImpl.releaseLease((dev.leasehold.v1.ReleaseLeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.ReleaseLeaseResponse>) responseObserver);
          break;
        case METHODID_EXTEND_LEASE:
          serviceImpl.extendLease((dev.leasehold.v1.ExtendLeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.ExtendLeaseResponse>) responseObserver);
          break;
        case METHODID_HOLD_LEASE:
          serviceImpl.holdLease((dev.leasehold.v1.HoldLeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.HoldLeaseResponse>) responseObserver);
          break;
        case METHODID_GET_LOCK:
          serviceImpl.getLock((dev.leasehold.v1.GetLockRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.GetLockResponse>) responseObserver);
          break;
        case METHODID_LIST_LOCKS:
          serviceImpl.listLocks((dev.leasehold.v1.ListLocksRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.ListLocksResponse>) responseObserver);
          break;
        case METHODID_WATCH_LOCK:
          serviceImpl.watchLock((dev.leasehold.v1.WatchLockRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.WatchLockResponse>) responseObserver);
          break;
        case METHODID_REPORT_PROGRESS:
          serviceImpl.reportProgress((dev.leasehold.v1.ReportProgressRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.ReportProgressResponse>) responseObserver);
          break;
        case METHODID_CHECK_TOKEN:
          serviceImpl.checkToken((dev.leasehold.v1.CheckTokenRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.CheckTokenResponse>) responseObserver);
          break;
        case METHODID_BREAK_LOCK:
          serviceImpl.breakLock((dev.leasehold.v1.BreakLockRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.BreakLockResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_PATH:
          serviceImpl.resolvePath((dev.leasehold.v1.ResolvePathRequest) request,
              (io.grpc.stub.StreamObserver<dev.leasehold.v1.ResolvePathResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getAcquireLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.AcquireLeaseRequest,
              dev.leasehold.v1.AcquireLeaseResponse>(
                service, METHODID_ACQUIRE_LEASE)))
        .addMethod(
          getReleaseLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.ReleaseLeaseRequest,
              dev.leasehold.v1.ReleaseLeaseResponse>(
                service, METHODID_RELEASE_LEASE)))
        .addMethod(
          getExtendLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.ExtendLeaseRequest,
              dev.leasehold.v1.ExtendLeaseResponse>(
                service, METHODID_EXTEND_LEASE)))
        .addMethod(
          getHoldLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.leasehold.v1.HoldLeaseRequest,
              dev.leasehold.v1.HoldLeaseResponse>(
                service, METHODID_HOLD_LEASE)))
        .addMethod(
          getGetLockMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.GetLockRequest,
              dev.leasehold.v1.GetLockResponse>(
                service, METHODID_GET_LOCK)))
        .addMethod(
          getListLocksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.ListLocksRequest,
              dev.leasehold.v1.ListLocksResponse>(
                service, METHODID_LIST_LOCKS)))
        .addMethod(
          getWatchLockMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.leasehold.v1.WatchLockRequest,
              dev.leasehold.v1.WatchLockResponse>(
                service, METHODID_WATCH_LOCK)))
        .addMethod(
          getReportProgressMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.ReportProgressRequest,
              dev.leasehold.v1.ReportProgressResponse>(
                service, METHODID_REPORT_PROGRESS)))
        .addMethod(
          getCheckTokenMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.CheckTokenRequest,
              dev.leasehold.v1.CheckTokenResponse>(
                service, METHODID_CHECK_TOKEN)))
        .addMethod(
          getBreakLockMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.BreakLockRequest,
              dev.leasehold.v1.BreakLockResponse>(
                service, METHODID_BREAK_LOCK)))
        .addMethod(
          getResolvePathMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.leasehold.v1.ResolvePathRequest,
              dev.leasehold.v1.ResolvePathResponse>(
                service, METHODID_RESOLVE_PATH)))
        .build();
  }

  private static abstract class LeaseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    LeaseServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.leasehold.v1.LeaseServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("LeaseService");
    }
  }

  private static final class LeaseServiceFileDescriptorSupplier
      extends LeaseServiceBaseDescriptorSupplier {
    LeaseServiceFileDescriptorSupplier() {}
  }

  private static final class LeaseServiceMethodDescriptorSupplier
      extends LeaseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    LeaseServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (LeaseServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new LeaseServiceFileDescriptorSupplier())
              .addMethod(getAcquireLeaseMethod())
              .addMethod(getReleaseLeaseMethod())
              .addMethod(getExtendLeaseMethod())
              .addMethod(getHoldLeaseMethod())
              .addMethod(getGetLockMethod())
              .addMethod(getListLocksMethod())
              .addMethod(getWatchLockMethod())
              .addMethod(getReportProgressMethod())
              .addMethod(getCheckTokenMethod())
              .addMethod(getBreakLockMethod())
              .addMethod(getResolvePathMethod())
              .build();
        }
      }
    }
    return result;
  }
}
