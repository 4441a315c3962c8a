package dev.leasehold.client.internal;

import com.google.common.util.concurrent.ListenableFuture;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.BusyException;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Grant;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldBody;
import dev.leasehold.client.HoldListener;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LockWatch;
import dev.leasehold.client.LocksWatch;
import dev.leasehold.client.OccurrenceOverException;
import dev.leasehold.client.ProtocolException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.client.internal.hold.Ending;
import dev.leasehold.client.internal.hold.Grants;
import dev.leasehold.client.internal.hold.HoldOpening;
import dev.leasehold.client.internal.hold.Leader;
import dev.leasehold.client.internal.hold.StreamHold;
import dev.leasehold.client.internal.runs.GrpcSchedules;
import dev.leasehold.client.internal.watch.StreamLockWatch;
import dev.leasehold.client.internal.watch.StreamLocksWatch;
import dev.leasehold.v1.AcquireLeaseRequest;
import dev.leasehold.v1.AcquireLeaseResponse;
import dev.leasehold.v1.BreakLockRequest;
import dev.leasehold.v1.BreakLockResponse;
import dev.leasehold.v1.CheckTokenRequest;
import dev.leasehold.v1.CheckTokenResponse;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.GetLockRequest;
import dev.leasehold.v1.GetServerInfoRequest;
import dev.leasehold.v1.GetServerInfoResponse;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.ResolvePathRequest;
import dev.leasehold.v1.ResolvePathResponse;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.WatchLockRequest;
import dev.leasehold.v1.WatchLocksRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** A client by gRPC. */
public final class GrpcLeaseholdClient extends GrpcSchedules implements LeaseholdClient {
  /** Its holds and runs share {@code context}, which ends with it. */
  public GrpcLeaseholdClient(ClientContext context) {
    super(context);
  }

  /** The longest wait that the API knows, other than one without end. */
  private static final Duration LONGEST_WAIT = Duration.ofHours(24);

  @Override
  public Hold hold(LeaseSpec spec) throws InterruptedException {
    return hold(spec, Optional.empty());
  }

  @Override
  public Hold hold(LeaseSpec spec, HoldListener listener) throws InterruptedException {
    return hold(spec, Optional.of(listener));
  }

  private StreamHold hold(LeaseSpec spec, Optional<HoldListener> listener)
      throws InterruptedException {
    return await(HoldOpening.open(context, spec, listener, Runnable::run));
  }

  /** Takes the lock for a term, once where no sidecar answers. */
  public StreamHold term(LeaseSpec spec, Optional<HoldListener> listener)
      throws InterruptedException {
    LeaseSpec endless = spec.waitWithoutEnd();
    return await(HoldOpening.open(context, endless, listener, Runnable::run, true));
  }

  private static StreamHold await(HoldOpening opening) throws InterruptedException {
    StreamHold hold;
    try {
      hold = (StreamHold) Calls.await(opening);
    } catch (InterruptedException interrupted) {
      opening.giveUp();
      throw interrupted;
    }
    hold.interruptOnLoss();
    return hold;
  }

  @Override
  public CompletableFuture<Hold> holdAsync(LeaseSpec spec, HoldListener listener) {
    return HoldOpening.open(context, spec, Optional.of(listener), context.workers());
  }

  @Override
  public <T, E extends Exception> T withHold(LeaseSpec spec, HoldBody<T, E> body)
      throws E, InterruptedException {
    return withHold(spec, Optional.empty(), body);
  }

  @Override
  public <T, E extends Exception> T withHold(
      LeaseSpec spec, HoldListener listener, HoldBody<T, E> body) throws E, InterruptedException {
    return withHold(spec, Optional.of(listener), body);
  }

  private <T, E extends Exception> T withHold(
      LeaseSpec spec, Optional<HoldListener> listener, HoldBody<T, E> body)
      throws E, InterruptedException {
    return hold(spec, listener).run(body);
  }

  @Override
  public <T, E extends Exception> T lead(LeaseSpec spec, HoldBody<T, E> term)
      throws E, InterruptedException {
    return leader(spec, Optional.empty()).lead(term);
  }

  @Override
  public <T, E extends Exception> T lead(LeaseSpec spec, HoldListener listener, HoldBody<T, E> term)
      throws E, InterruptedException {
    return leader(spec, Optional.of(listener)).lead(term);
  }

  private Leader leader(LeaseSpec spec, Optional<HoldListener> listener) {
    return new Leader(() -> term(spec, listener), pacing());
  }

  /**
   * Waits for a sidecar within the wait of {@code spec}, and leaves the rest of that. The call
   * itself is made once: one of which nothing is known may have been granted.
   */
  private LeaseSpec afterSidecar(LeaseSpec spec) throws InterruptedException {
    Duration wait = Durations.fromWire(spec.toMessage().getWait());
    Duration waited = context.awaitSidecar(wait);
    return waited.isZero() ? spec : spec.waitUpTo(Durations.atLeastZero(wait.minus(waited)));
  }

  @Override
  public Grant acquire(LeaseSpec spec) throws InterruptedException {
    boolean endless = spec.toMessage().getWaitWithoutEnd();
    LeaseSpec asked = afterSidecar(endless ? spec.waitUpTo(LONGEST_WAIT) : spec);
    Duration wait = Durations.fromWire(asked.toMessage().getWait());
    BootInstant began = context.clock().earliest();
    Duration pause = Constants.FIRST_PAUSE;
    while (true) {
      try {
        return acquireOnce(asked);
      } catch (RefusedException refused) {
        // S37: another sidecar may take its place.
        Duration left = wait.minus(context.clock().latest().since(began)).minus(pause);
        if (!Refusals.isBelowNeeds(refused) || left.isNegative() || left.isZero()) {
          throw refused;
        }
        context.rest(pause);
        asked = asked.waitUpTo(left);
        pause = Durations.shorter(pause.multipliedBy(2), Constants.LONGEST_PAUSE);
      }
    }
  }

  private Grant acquireOnce(LeaseSpec asked) throws InterruptedException {
    AcquireLeaseRequest request =
        AcquireLeaseRequest.newBuilder().setSpec(asked.toMessage()).build();
    AcquireLeaseRequest message = request.toBuilder().setNeeds(Needs.of(request)).build();
    Duration patience =
        Durations.sum(Durations.fromWire(asked.toMessage().getWait()), Constants.CALL_TIMEOUT);
    BootInstant sent = context.clock().earliest();
    AcquireLeaseResponse answer =
        Calls.await(context.waitingCalls().call(patience, stub -> stub.acquireLease(message)));
    return switch (answer.getOutcomeCase()) {
      case GRANTED -> Grants.of(answer.getGranted(), sent, context.clock());
      case BUSY -> throw new BusyException(answer.getBusy());
      case ALREADY_DONE ->
          throw Grants.over(asked, OccurrenceOverException.of(answer.getAlreadyDone()));
      case SKIPPED -> throw Grants.over(asked, OccurrenceOverException.of(answer.getSkipped()));
      case OUTCOME_NOT_SET ->
          throw new ProtocolException("an acquire was answered without an outcome");
    };
  }

  @Override
  public ReleaseResult release(String leaseId) throws InterruptedException {
    return release(leaseId, Ending.PLAIN);
  }

  @Override
  public ReleaseResult release(String leaseId, RunOutcome outcome) throws InterruptedException {
    ReleaseResult result = release(leaseId, Ending.of(outcome));
    Ending.checkRecorded(result);
    return result;
  }

  private ReleaseResult release(String leaseId, Ending ending) throws InterruptedException {
    Duration timeout = context.limits().release();
    CompletableFuture<ReleaseResult> released =
        context.calls().release(leaseId, Calls.UNKNOWN_GENERATION, ending, timeout);
    context.closesAfter(released);
    return Calls.await(released);
  }

  @Override
  public BootInstant extend(String leaseId, Duration maxHold) throws InterruptedException {
    BootInstant sent = context.clock().earliest();
    return Grants.until(
        Calls.await(context.calls().extend(leaseId, Calls.UNKNOWN_GENERATION, maxHold))
            .getValidity(),
        sent,
        context.clock());
  }

  @Override
  public BootInstant reportProgress(String leaseId) throws InterruptedException {
    BootInstant sent = context.clock().earliest();
    return Grants.until(
        Calls.await(context.calls().reportProgress(leaseId, Calls.UNKNOWN_GENERATION)),
        sent,
        context.clock());
  }

  @Override
  public LockRecord getLock(LockSelector lock) throws InterruptedException {
    GetLockRequest request = GetLockRequest.newBuilder().setLock(lock).build();
    return call(stub -> stub.getLock(request)).getRecord();
  }

  @Override
  public List<LockRecord> listLocks() throws InterruptedException {
    return listLocks(ListLocksRequest.getDefaultInstance());
  }

  @Override
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

  @Override
  public ListLocksResponse listPage(ListLocksRequest request) throws InterruptedException {
    return call(stub -> stub.listLocks(request));
  }

  @Override
  public LockWatch watchLock(LockSelector lock) {
    WatchLockRequest request = WatchLockRequest.newBuilder().setLock(lock).build();
    return StreamLockWatch.open(context, request);
  }

  @Override
  public LocksWatch watchLocks(WatchLocksRequest request) {
    return StreamLocksWatch.open(context, request);
  }

  @Override
  public GetServerInfoResponse getServerInfo() throws InterruptedException {
    GetServerInfoRequest request = GetServerInfoRequest.getDefaultInstance();
    return call(stub -> stub.getServerInfo(request));
  }

  @Override
  public GetHoldResponse getHold(String leaseId) throws InterruptedException {
    return Calls.await(
        context.calls().getHold(leaseId, Calls.UNKNOWN_GENERATION, Constants.CALL_TIMEOUT));
  }

  @Override
  public CheckTokenResponse checkToken(LockSelector lock, long fencingToken)
      throws InterruptedException {
    CheckTokenRequest request =
        CheckTokenRequest.newBuilder().setLock(lock).setFencingToken(fencingToken).build();
    return call(stub -> stub.checkToken(request));
  }

  @Override
  public BreakLockResponse breakLock(BreakLockRequest request) throws InterruptedException {
    return call(stub -> stub.breakLock(request));
  }

  @Override
  public ResolvePathResponse resolvePath(LockKey key) throws InterruptedException {
    ResolvePathRequest request = ResolvePathRequest.newBuilder().setKey(key).build();
    return call(stub -> stub.resolvePath(request));
  }

  private <T> T call(Function<LeaseServiceFutureStub, ListenableFuture<T>> method)
      throws InterruptedException {
    return Calls.await(context.calls().call(Constants.CALL_TIMEOUT, method));
  }

  @Override
  public void close() {
    context.close();
  }
}
