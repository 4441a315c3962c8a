package dev.leasehold.client.internal.hold;

import com.google.common.util.concurrent.MoreExecutors;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.HoldListener;
import java.util.Optional;
import java.util.concurrent.Executor;

/** Tells a hold's events to its listener, in their order, on threads that may be blocked. */
public final class HoldEvents {
  private final Optional<HoldListener> listener;
  private final Executor inOrder;
  private boolean ended;

  /** Calls the listener on {@code workers}. */
  public HoldEvents(Optional<HoldListener> listener, Executor workers) {
    this.listener = listener;
    this.inOrder = MoreExecutors.newSequentialExecutor(workers);
  }

  /** Tells {@code event}, unless the loss was told before. */
  synchronized void tell(HoldEvent event) {
    if (listener.isEmpty() || ended) {
      return;
    }
    ended = event instanceof HoldEvent.Lost;
    inOrder.execute(() -> listener.get().onEvent(event));
  }
}
