package dev.leasehold.client;

import com.google.common.util.concurrent.ListenableFuture;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.BreakLockRequest;
import dev.leasehold.v1.BreakLockResponse;
import dev.leasehold.v1.CheckTokenRequest;
import dev.leasehold.v1.CheckTokenResponse;
import dev.leasehold.v1.GetLockRequest;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.ResolvePathRequest;
import dev.leasehold.v1.ResolvePathResponse;
import dev.leasehold.v1.WatchLockRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Connections to a sidecar, one for holds, waits and watches, and one for all other calls, so that
 * these never stand behind those. They are made again when they break. Safe for several threads,
 * and best shared by all of a process.
 *
 * <p>Calls throw {@link RefusedException} when the sidecar answers with an error or the connection
 * breaks, and {@link InterruptedException} when the thread is interrupted while it waits, which
 * gives the call up. Nothing is tried again by itself, except that a hold whose stream breaks is
 * resumed.
 */
public final class LeaseholdClient implements AutoCloseable {
  /** Where a sidecar listens unless told otherwise. */
  public static final String DEFAULT_ENDPOINT = "http://127.0.0.1:50951";

  /** The environment variable that says where the sidecar is. */
  public static final String ENDPOINT_VARIABLE = "LEASEHOLD_ENDPOINT";

  private final ClientContext context;

  LeaseholdClient(ClientContext context) {
    this.context = context;
  }

  /**
   * Connects to where {@code LEASEHOLD_ENDPOINT} says, or to {@link #DEFAULT_ENDPOINT} if it is
   * unset or empty.
   *
   * @return the client
   * @throws EndpointException when the endpoint makes no sense
   * @throws SidecarUnreachableException when nobody answers there
   * @throws InterruptedException when the thread is interrupted
   */
  public static LeaseholdClient fromEnvironment() throws InterruptedException {
    String endpoint = System.getenv(ENDPOINT_VARIABLE);
    return connect(endpoint == null || endpoint.isEmpty() ? DEFAULT_ENDPOINT : endpoint);
  }

  /**
   * Connects to a sidecar without TLS or a token.
   *
   * @param endpoint {@code unix:///path} or {@code http://host:port}
   * @return the client
   * @throws EndpointException when the endpoint makes no sense
   * @throws SidecarUnreachableException when nobody answers there
   * @throws InterruptedException when the thread is interrupted
   */
  public static LeaseholdClient connect(String endpoint) throws InterruptedException {
    return builder(endpoint).connect();
  }

  /**
   * Connects with certificates or a token.
   *
   * @param endpoint {@code unix:///path}, {@code http://host:port} or {@code https://host:port}
   * @return the builder
   */
  public static ClientBuilder builder(String endpoint) {
    return new ClientBuilder(endpoint);
  }

  /**
   * Takes a lock, and keeps it until it is closed: use it in try-with-resources. This thread is
   * interrupted when the lock is lost before that.
   *
   * @param request what is asked for
   * @return the hold
   * @throws LockBusyException when the lock was not to be had within the wait asked for
   * @throws HoldLostException when the lock was granted, but was lost before it could be used
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted: it leaves the queue then, and
   *     holds nothing
   */
  public Hold hold(LeaseRequest request) throws InterruptedException {
    return hold(request, Optional.empty());
  }

  /**
   * As {@link #hold(LeaseRequest)}, and tells what happens.
   *
   * @param request what is asked for
   * @param listener hears of all that happens, from waiting on
   * @return the hold
   * @throws LockBusyException when the lock was not to be had within the wait asked for
   * @throws HoldLostException when the lock was granted, but was lost before it could be used
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted: it leaves the queue then, and
   *     holds nothing
   */
  public Hold hold(LeaseRequest request, HoldListener listener) throws InterruptedException {
    return hold(request, Optional.of(listener));
  }

  private Hold hold(LeaseRequest request, Optional<HoldListener> listener)
      throws InterruptedException {
    HoldOpening opening = HoldOpening.open(context, request, listener, Runnable::run);
    Hold hold;
    try {
      hold = Calls.await(opening);
    } catch (InterruptedException interrupted) {
      opening.giveUp();
      throw interrupted;
    }
    hold.interruptOnLoss();
    return hold;
  }

  /**
   * Takes a lock without waiting for it here. No thread is interrupted when it is lost: listen, or
   * ask {@link Hold#lost()}.
   *
   * @param request what is asked for
   * @param listener hears of all that happens, from waiting on
   * @return the hold to come, or what {@link #hold(LeaseRequest)} throws; cancelled, it leaves the
   *     queue
   */
  public CompletableFuture<Hold> holdAsync(LeaseRequest request, HoldListener listener) {
    return HoldOpening.open(context, request, Optional.of(listener), context.workers());
  }

  /**
   * Does something under a lock, on this thread, which is interrupted when the lock is lost.
   *
   * @param request what is asked for
   * @param body what to do
   * @param <T> what it gives
   * @param <E> what it throws
   * @return what {@code body} gives
   * @throws E when {@code body} fails under the lock; the lock is given back by then
   * @throws LockBusyException when the lock was not to be had within the wait asked for
   * @throws HoldLostException when the lock was lost before {@code body} was done, whatever it gave
   *     or threw; also where only the release finds that, unless {@code body} threw something
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted, other than for the loss
   */
  public <T, E extends Exception> T withHold(LeaseRequest request, HoldBody<T, E> body)
      throws E, InterruptedException {
    return withHold(request, Optional.empty(), body);
  }

  /**
   * As {@link #withHold(LeaseRequest, HoldBody)}, and tells what happens.
   *
   * @param request what is asked for
   * @param listener hears of all that happens, from waiting on
   * @param body what to do
   * @param <T> what it gives
   * @param <E> what it throws
   * @return what {@code body} gives
   * @throws E when {@code body} fails under the lock; the lock is given back by then
   * @throws LockBusyException when the lock was not to be had within the wait asked for
   * @throws HoldLostException when the lock was lost before {@code body} was done, whatever it gave
   *     or threw; also where only the release finds that, unless {@code body} threw something
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted, other than for the loss
   */
  public <T, E extends Exception> T withHold(
      LeaseRequest request, HoldListener listener, HoldBody<T, E> body)
      throws E, InterruptedException {
    return withHold(request, Optional.of(listener), body);
  }

  private <T, E extends Exception> T withHold(
      LeaseRequest request, Optional<HoldListener> listener, HoldBody<T, E> body)
      throws E, InterruptedException {
    try (Hold hold = hold(request, listener)) {
      try {
        return body.run(hold);
      } catch (Exception thrown) {
        hold.rethrowIfLost(thrown);
        throw thrown;
      }
    }
  }

  /**
   * Takes a lock by a unary call: the sidecar renews it until {@link #release}, its {@code maxHold}
   * or shutdown, whether or not this process lives. Prefer {@link #hold(LeaseRequest)}.
   *
   * @param request what is asked for; a wait without end is one of 24 h here
   * @return the grant
   * @throws LockBusyException when the lock was not to be had within the wait asked for
   * @throws InterruptedException when the thread is interrupted: the call is given up then
   */
  public LeaseGrant acquire(LeaseRequest request) throws InterruptedException {
    AcquireLeaseRequest message =
        AcquireLeaseRequest.newBuilder().setSpec(request.toSpec()).build();
    Duration patience = Spans.sum(Spans.fromWire(request.toSpec().getWait()), Calls.PATIENCE);
    BootInstant sent = context.clock().earliest();
    AcquireLeaseResponse answer =
        Calls.await(context.lastingCalls().call(patience, stub -> stub.acquireLease(message)));
    return switch (answer.getOutcomeCase()) {
      case GRANTED -> LeaseGrant.of(answer.getGranted(), sent, context.clock());
      case BUSY -> throw new LockBusyException(answer.getBusy());
      case OUTCOME_NOT_SET ->
          throw new ProtocolException("an acquire was answered without an outcome");
    };
  }

  /**
   * Releases what {@link #acquire} took. Stop acting on the lock before; may be repeated. The
   * outcome ALREADY_LOST says that somebody else may have had the lock before.
   *
   * @param leaseId from the grant
   * @return what became of the hold
   * @throws InterruptedException when the thread is interrupted; the release may have reached the
   *     sidecar
   */
  public ReleaseResult release(String leaseId) throws InterruptedException {
    return Calls.await(context.calls().release(leaseId, Calls.UNKNOWN_GENERATION));
  }

  /**
   * Sets a new bound of a hold, counted from now.
   *
   * @param leaseId from the grant
   * @param maxHold how long the hold may still last
   * @return until when the holder may act, unless renewed
   * @throws InterruptedException when the thread is interrupted
   */
  public BootInstant extend(String leaseId, Duration maxHold) throws InterruptedException {
    BootInstant sent = context.clock().earliest();
    return LeaseGrant.until(
        Calls.await(context.calls().extend(leaseId, Calls.UNKNOWN_GENERATION, maxHold))
            .getValidity(),
        sent,
        context.clock());
  }

  /**
   * Says that the holder of what {@link #acquire} took is getting on.
   *
   * @param leaseId from the grant
   * @return until when the holder may act, unless renewed
   * @throws InterruptedException when the thread is interrupted
   */
  public BootInstant reportProgress(String leaseId) throws InterruptedException {
    BootInstant sent = context.clock().earliest();
    return LeaseGrant.until(
        Calls.await(
            context
                .calls()
                .reportProgress(leaseId, Calls.UNKNOWN_GENERATION, false, Calls.PATIENCE)),
        sent,
        context.clock());
  }

  /**
   * The record of one lock. It may be out of date when it arrives, and excludes nobody.
   *
   * @param lock which lock
   * @return its record
   * @throws InterruptedException when the thread is interrupted
   */
  public LockRecord getLock(LockSelector lock) throws InterruptedException {
    GetLockRequest request = GetLockRequest.newBuilder().setLock(lock).build();
    return call(stub -> stub.getLock(request)).getRecord();
  }

  /**
   * The records of the locks under the sidecar's host id: all pages.
   *
   * @return the records, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  public List<LockRecord> listLocks() throws InterruptedException {
    return listLocks(ListLocksRequest.getDefaultInstance());
  }

  /**
   * The records of some locks: all pages, from the one that the request names on.
   *
   * @param request which locks
   * @return the records, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  public List<LockRecord> listLocks(ListLocksRequest request) throws InterruptedException {
    List<LockRecord> all = new ArrayList<>();
    ListLocksRequest.Builder next = request.toBuilder();
    do {
      ListLocksResponse page = listPage(next.build());
      all.addAll(page.getRecordsList());
      next.setPageToken(page.getNextPageToken());
    } while (!next.getPageToken().isEmpty());
    return all;
  }

  /**
   * One page of locks.
   *
   * @param request which locks, and which page
   * @return the page
   * @throws InterruptedException when the thread is interrupted
   */
  public ListLocksResponse listPage(ListLocksRequest request) throws InterruptedException {
    return call(stub -> stub.listLocks(request));
  }

  /**
   * The record of a lock now and at each change. Close it.
   *
   * @param lock which lock
   * @return the records to come
   */
  public LockWatch watchLock(LockSelector lock) {
    WatchLockRequest request = WatchLockRequest.newBuilder().setLock(lock).build();
    return LockWatch.open(context.connection(), request);
  }

  /**
   * What a fencing token is, compared with the newest of its lock: for a protected resource that
   * keeps none of its own.
   *
   * @param lock which lock
   * @param fencingToken the token to check
   * @return what it is
   * @throws InterruptedException when the thread is interrupted
   */
  public CheckTokenResponse checkToken(LockSelector lock, long fencingToken)
      throws InterruptedException {
    CheckTokenRequest request =
        CheckTokenRequest.newBuilder().setLock(lock).setFencingToken(fencingToken).build();
    return call(stub -> stub.checkToken(request));
  }

  /**
   * Ends the lease of a lock that somebody else has; for operators, who must have enabled it.
   *
   * @param request which lock, why and how
   * @return what came of it
   * @throws InterruptedException when the thread is interrupted
   */
  public BreakLockResponse breakLock(BreakLockRequest request) throws InterruptedException {
    return call(stub -> stub.breakLock(request));
  }

  /**
   * The lock path of a key. Takes nothing.
   *
   * @param key the key
   * @return the path, and how it came about
   * @throws InterruptedException when the thread is interrupted
   */
  public ResolvePathResponse resolvePath(LockKey key) throws InterruptedException {
    ResolvePathRequest request = ResolvePathRequest.newBuilder().setKey(key).build();
    return call(stub -> stub.resolvePath(request));
  }

  private <T> T call(Function<LeaseServiceFutureStub, ListenableFuture<T>> method)
      throws InterruptedException {
    return Calls.await(context.calls().call(Calls.PATIENCE, method));
  }

  /**
   * Ends all that this client does. A hold that is still believed in is lost at that moment, and
   * given back.
   */
  @Override
  public void close() {
    context.close();
  }
}
