package dev.leasehold.client;

import dev.leasehold.v1.BreakLockRequest;
import dev.leasehold.v1.BreakLockResponse;
import dev.leasehold.v1.CheckTokenResponse;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.GetServerInfoResponse;
import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.ListLocksResponse;
import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockSelector;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.ResolvePathResponse;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.WatchLocksRequest;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A client of a sidecar. It makes its connections by itself: as many as its holds, waits and
 * watches need, and one for all other calls, which never wait behind those. They are made again
 * when they break. Safe for several threads, and best shared by a whole process.
 *
 * <p>Calls throw {@link RefusedException} when the sidecar answers with an error or the connection
 * breaks, and {@link InterruptedException} when the thread is interrupted while it waits, which
 * cancels the call. Three things are tried again by themselves: a hold whose stream breaks is
 * resumed within its validity, a caller that waits in the queue asks again within its wait, and a
 * watch is opened again.
 *
 * <p>An interface, so that tests can have one of their own.
 */
public interface LeaseholdClient extends Schedules, AutoCloseable {
  /** Where a sidecar listens unless told otherwise. */
  String DEFAULT_ENDPOINT = "http://127.0.0.1:50951";

  /** The environment variable that says where the sidecar is. */
  String ENDPOINT_VARIABLE = "LEASEHOLD_ENDPOINT";

  /**
   * A client of the sidecar that {@code LEASEHOLD_ENDPOINT} names, or to {@link #DEFAULT_ENDPOINT}
   * if it is unset or empty.
   *
   * @return the client
   * @throws EndpointException when the endpoint is invalid
   */
  static LeaseholdClient fromEnvironment() {
    return builder().connect();
  }

  /**
   * A client of a sidecar without TLS or a token; see {@link ClientBuilder#connect}.
   *
   * @param endpoint {@code unix:///path} or {@code http://host:port}
   * @return the client
   * @throws EndpointException when the endpoint is invalid
   */
  static LeaseholdClient connect(String endpoint) {
    return builder(endpoint).connect();
  }

  /**
   * Connects with options to where {@code LEASEHOLD_ENDPOINT} says, or to {@link #DEFAULT_ENDPOINT}
   * if it is unset or empty.
   *
   * @return the builder
   */
  static ClientBuilder builder() {
    String endpoint = System.getenv(ENDPOINT_VARIABLE);
    return builder(endpoint == null || endpoint.isEmpty() ? DEFAULT_ENDPOINT : endpoint);
  }

  /**
   * Connects with options, such as certificates or a token.
   *
   * @param endpoint {@code unix:///path}, {@code http://host:port} or {@code https://host:port}
   * @return the builder
   */
  static ClientBuilder builder(String endpoint) {
    return new ClientBuilder(endpoint);
  }

  /**
   * Takes a lock, and keeps it until it is closed: use it in try-with-resources. This thread is
   * interrupted when the lock is lost before that.
   *
   * @param spec what is asked for
   * @return the hold
   * @throws BusyException when the lock was not acquired within the wait asked for
   * @throws OccurrenceOverException when the occurrence asked for is not granted any more
   * @throws LostException when the lock was granted, but was lost before it could be used
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted: it leaves the queue then, and
   *     holds nothing
   */
  Hold hold(LeaseSpec spec) throws InterruptedException;

  /**
   * As {@link #hold(LeaseSpec)}, and tells what happens.
   *
   * @param spec what is asked for
   * @param listener hears of all that happens, from waiting on
   * @return the hold
   * @throws BusyException when the lock was not acquired within the wait asked for
   * @throws OccurrenceOverException when the occurrence asked for is not granted any more
   * @throws LostException when the lock was granted, but was lost before it could be used
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted: it leaves the queue then, and
   *     holds nothing
   */
  Hold hold(LeaseSpec spec, HoldListener listener) throws InterruptedException;

  /**
   * Takes a lock without waiting for it here. No thread is interrupted when it is lost: listen, or
   * ask {@link Hold#lost()}.
   *
   * @param spec what is asked for
   * @param listener hears of all that happens, from waiting on
   * @return the hold to come, or what {@link #hold(LeaseSpec)} throws; cancelled, it leaves the
   *     queue
   */
  CompletableFuture<Hold> holdAsync(LeaseSpec spec, HoldListener listener);

  /**
   * Runs something under a lock, on this thread, which is interrupted when the lock is lost.
   *
   * @param spec what is asked for
   * @param body what to run
   * @param <T> what it returns
   * @param <E> what it throws
   * @return what {@code body} returns
   * @throws E when {@code body} fails under the lock; the lock is released by then
   * @throws BusyException when the lock was not acquired within the wait asked for
   * @throws LostException when the lock was lost before {@code body} was done, whatever it returned
   *     or threw; also where only the release finds that, unless {@code body} threw something
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted, other than for the loss
   */
  <T, E extends Exception> T withHold(LeaseSpec spec, HoldBody<T, E> body)
      throws E, InterruptedException;

  /**
   * As {@link #withHold(LeaseSpec, HoldBody)}, and tells what happens.
   *
   * @param spec what is asked for
   * @param listener hears of all that happens, from waiting on
   * @param body what to run
   * @param <T> what it returns
   * @param <E> what it throws
   * @return what {@code body} returns
   * @throws E when {@code body} fails under the lock; the lock is released by then
   * @throws BusyException when the lock was not acquired within the wait asked for
   * @throws LostException when the lock was lost before {@code body} was done, whatever it returned
   *     or threw; also where only the release finds that, unless {@code body} threw something
   * @throws RefusedException when the sidecar refuses
   * @throws InterruptedException when the thread is interrupted, other than for the loss
   */
  <T, E extends Exception> T withHold(LeaseSpec spec, HoldListener listener, HoldBody<T, E> body)
      throws E, InterruptedException;

  /**
   * Runs something for as long as this process leads: takes the lock, however long that takes, and
   * runs {@code term} under it, on this thread. When the term is lost, the thread is interrupted,
   * and when {@code term} has ended, the lock is taken again after a pause of 0.1 to 1 s; also
   * while no sidecar answers, with pauses of up to 10 s. So it is after a term that was revoked,
   * once {@code term} has returned. Ends when {@code term} returns in a term that was neither lost
   * nor revoked, when it throws in one that was not lost, and when this thread is interrupted or
   * the client closed.
   *
   * @param spec what is asked for; waits without end, whatever it says
   * @param term what to run under the lock
   * @param <T> what it returns
   * @param <E> what it throws
   * @return what {@code term} returns
   * @throws E when {@code term} fails under the lock; the lock is released by then
   * @throws ReleaseUnconfirmedException when {@code term} has returned, and no sidecar has
   *     confirmed the release in time
   * @throws RefusedException when the sidecar refuses for a cause that does not pass, or the client
   *     is closed
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  <T, E extends Exception> T lead(LeaseSpec spec, HoldBody<T, E> term)
      throws E, InterruptedException;

  /**
   * As {@link #lead(LeaseSpec, HoldBody)}, and tells what happens.
   *
   * @param spec what is asked for; waits without end, whatever it says
   * @param listener hears of all that happens in each term, from waiting on
   * @param term what to run under the lock
   * @param <T> what it returns
   * @param <E> what it throws
   * @return what {@code term} returns
   * @throws E when {@code term} fails under the lock; the lock is released by then
   * @throws RefusedException when the sidecar refuses for a cause that does not pass, or the client
   *     is closed
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  <T, E extends Exception> T lead(LeaseSpec spec, HoldListener listener, HoldBody<T, E> term)
      throws E, InterruptedException;

  /**
   * Takes a lock by a unary call: the sidecar renews it until {@link #release}, its {@code maxHold}
   * or shutdown, whether or not this process lives. Prefer {@link #hold(LeaseSpec)}.
   *
   * @param spec what is asked for; a wait without end is one of 24 h here
   * @return the grant
   * @throws BusyException when the lock was not acquired within the wait asked for
   * @throws OccurrenceOverException when the occurrence asked for is not granted any more
   * @throws InterruptedException when the thread is interrupted: the call is cancelled then
   */
  Grant acquire(LeaseSpec spec) throws InterruptedException;

  /**
   * Releases what {@link #acquire} took. Stop acting on the lock before; may be repeated. The
   * outcome ALREADY_LOST says that somebody else may have had the lock before.
   *
   * @param leaseId from the grant
   * @return the outcome
   * @throws InterruptedException when the thread is interrupted; the release may have reached the
   *     sidecar
   */
  ReleaseResult release(String leaseId) throws InterruptedException;

  /**
   * As {@link #release(String)}, and says how the occurrence has ended that was asked for ({@link
   * LeaseSpec#occurrence}).
   *
   * @param leaseId from the grant
   * @param outcome SUCCEEDED, FAILED, FAILED_FINAL or RETURNED
   * @return the outcome of the release
   * @throws OutcomeNotRecordedException when the lock was released, and the outcome was not
   *     recorded, or that is not known
   * @throws InterruptedException when the thread is interrupted; the release may have reached the
   *     sidecar
   */
  ReleaseResult release(String leaseId, RunOutcome outcome) throws InterruptedException;

  /**
   * Sets a new bound of a hold, counted from now.
   *
   * @param leaseId from the grant
   * @param maxHold how long the hold may still last
   * @return until when the holder may act, unless renewed
   * @throws InterruptedException when the thread is interrupted
   */
  BootInstant extend(String leaseId, Duration maxHold) throws InterruptedException;

  /**
   * Reports progress of the holder of what {@link #acquire} took.
   *
   * @param leaseId from the grant
   * @return until when the holder may act, unless renewed
   * @throws InterruptedException when the thread is interrupted
   */
  BootInstant reportProgress(String leaseId) throws InterruptedException;

  /**
   * The record of one lock. It may be out of date when it arrives, and excludes nobody.
   *
   * @param lock which lock
   * @return its record
   * @throws InterruptedException when the thread is interrupted
   */
  LockRecord getLock(LockSelector lock) throws InterruptedException;

  /**
   * The records of the locks under the sidecar's host id: all pages.
   *
   * @return the records, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  List<LockRecord> listLocks() throws InterruptedException;

  /**
   * The records of some locks: all pages, from the one that the request names on.
   *
   * @param request which locks: under which host id or prefix, in which states, with which labels
   * @return the records, in the order of their paths
   * @throws InterruptedException when the thread is interrupted
   */
  List<LockRecord> listLocks(ListLocksRequest request) throws InterruptedException;

  /**
   * One page of locks.
   *
   * @param request which locks, and which page
   * @return the page
   * @throws InterruptedException when the thread is interrupted
   */
  ListLocksResponse listPage(ListLocksRequest request) throws InterruptedException;

  /**
   * The record of a lock now and at each change, until it is closed. Opened again by itself when
   * the connection breaks.
   *
   * @param lock which lock
   * @return the records to come
   */
  LockWatch watchLock(LockSelector lock);

  /**
   * Many locks and their changes, until it is closed. Opened again by itself when the connection
   * breaks, and tells then only what has changed meanwhile.
   *
   * @param request which locks: under which host id or prefix, with which labels
   * @return the events to come
   */
  LocksWatch watchLocks(WatchLocksRequest request);

  /**
   * What the sidecar is: its version, its limits and what it can do. Behind an address that several
   * sidecars share, another one may answer the next call.
   *
   * @return what it says
   * @throws InterruptedException when the thread is interrupted
   */
  GetServerInfoResponse getServerInfo() throws InterruptedException;

  /**
   * The state, the bounds and the validity of what {@link #acquire} took; changes nothing.
   *
   * @param leaseId from the grant
   * @return what the sidecar knows of the hold
   * @throws RefusedException when the sidecar refuses, with {@link Reason#HOLD_LOST} or {@link
   *     Reason#HOLD_RELEASED} when the hold is over
   * @throws InterruptedException when the thread is interrupted
   */
  GetHoldResponse getHold(String leaseId) throws InterruptedException;

  /**
   * Compares a fencing token with the newest of its lock: for a protected resource that keeps none
   * of its own.
   *
   * @param lock which lock
   * @param fencingToken the token to check
   * @return whether it is the newest
   * @throws InterruptedException when the thread is interrupted
   */
  CheckTokenResponse checkToken(LockSelector lock, long fencingToken) throws InterruptedException;

  /**
   * Ends the lease of a lock that somebody else has; for operators, who must have enabled it.
   *
   * @param request which lock, why and how
   * @return the outcome
   * @throws InterruptedException when the thread is interrupted
   */
  BreakLockResponse breakLock(BreakLockRequest request) throws InterruptedException;

  /**
   * The lock path of a key, without acquiring the lock.
   *
   * @param key the key
   * @return the path, and what it was made from
   * @throws InterruptedException when the thread is interrupted
   */
  ResolvePathResponse resolvePath(LockKey key) throws InterruptedException;

  /**
   * Ends all that this client does. A hold that is still open is lost at that moment and released,
   * and whoever waits in a call gets a {@link RefusedException}. Those releases, and releases and
   * completions that are under way, are waited for, as long as a release may take ({@link
   * ClientBuilder#releaseTimeout}).
   */
  @Override
  void close();
}
