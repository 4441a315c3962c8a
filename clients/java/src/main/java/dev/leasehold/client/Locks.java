package dev.leasehold.client;

import dev.leasehold.v1.LockKey;
import dev.leasehold.v1.LockMode;
import dev.leasehold.v1.LockSelector;

/** Short ways to say which lock is meant. */
public final class Locks {
  private Locks() {}

  /**
   * The key of a lock.
   *
   * @param function what the lock is for: a job, a function, a resource
   * @param scope the part that splits the function's lock: a tenant, an order, a shard; may be
   *     empty
   * @return the key
   */
  public static LockKey key(String function, String scope) {
    return LockKey.newBuilder().setFunction(function).setScope(scope).build();
  }

  /**
   * The same name as a listener's lock.
   *
   * @param key the key
   * @return the listener's key
   */
  public static LockKey listener(LockKey key) {
    return key.toBuilder().setMode(LockMode.LOCK_MODE_LISTENER).build();
  }

  /**
   * The lock of a function.
   *
   * @param function what the lock is for
   * @param scope the part; may be empty
   * @return the selector
   */
  public static LockSelector named(String function, String scope) {
    return named(key(function, scope));
  }

  /**
   * The lock with this key.
   *
   * @param key the key
   * @return the selector
   */
  public static LockSelector named(LockKey key) {
    return LockSelector.newBuilder().setKey(key).build();
  }

  /**
   * The lock at this path.
   *
   * @param lockPath the path as a hold or a record tells it: container, slash, name in the
   *     container
   * @return the selector
   */
  public static LockSelector at(String lockPath) {
    return LockSelector.newBuilder().setLockPath(lockPath).build();
  }
}
