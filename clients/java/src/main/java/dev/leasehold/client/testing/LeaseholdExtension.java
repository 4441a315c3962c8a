package dev.leasehold.client.testing;

import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LeaseholdException;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Starts a {@link Sidecar} for tests with JUnit 5, which get it, and a {@link LeaseholdClient} of
 * it, as parameters. The client is closed after the test.
 *
 * <p>As {@code @ExtendWith(LeaseholdExtension.class)} of a class, or {@code @RegisterExtension} of
 * a static field, there is one sidecar for the class; of a field that is not static, one for each
 * test. An exception that fails a test has the sidecar's log as a suppressed one.
 */
public final class LeaseholdExtension
    implements BeforeAllCallback,
        AfterAllCallback,
        BeforeEachCallback,
        AfterEachCallback,
        AfterTestExecutionCallback,
        ParameterResolver {
  private static final Namespace NAMESPACE = Namespace.create(LeaseholdExtension.class);

  private final Sidecar.Builder builder;

  /** With the settings that a test's sidecar has by default. */
  public LeaseholdExtension() {
    this(Sidecar.builder());
  }

  /**
   * With others.
   *
   * @param builder of the sidecar
   */
  public LeaseholdExtension(Sidecar.Builder builder) {
    this.builder = builder;
  }

  @Override
  public void beforeAll(ExtensionContext context) {
    store(context).put(Sidecar.class, builder.start());
  }

  @Override
  public void beforeEach(ExtensionContext context) {
    // The class's, if there is one.
    if (store(context).get(Sidecar.class) == null) {
      store(context).put(Sidecar.class, builder.start());
    }
  }

  @Override
  public void afterTestExecution(ExtensionContext context) {
    Sidecar sidecar = sidecar(context);
    context.getExecutionException().ifPresent(failure -> failure.addSuppressed(new Log(sidecar)));
  }

  @Override
  public void afterEach(ExtensionContext context) {
    end(context);
  }

  @Override
  public void afterAll(ExtensionContext context) {
    end(context);
  }

  /** Ends what was made for this context, and not for one around it. */
  private static void end(ExtensionContext context) {
    LeaseholdClient client = store(context).remove(LeaseholdClient.class, LeaseholdClient.class);
    if (client != null) {
      sidecar(context).resume();
      try {
        client.close();
      } catch (LeaseholdException unreleased) {
        // A hold that the test has had lost on purpose, or whose sidecar it has killed, cannot be
        // released.
      }
    }
    Sidecar sidecar = store(context).remove(Sidecar.class, Sidecar.class);
    if (sidecar != null) {
      sidecar.close();
    }
  }

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    Class<?> type = parameter.getParameter().getType();
    return type == Sidecar.class || type == LeaseholdClient.class;
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    Sidecar sidecar = sidecar(context);
    if (parameter.getParameter().getType() == Sidecar.class) {
      return sidecar;
    }
    return store(context)
        .getOrComputeIfAbsent(
            LeaseholdClient.class, type -> sidecar.client(), LeaseholdClient.class);
  }

  private static Sidecar sidecar(ExtensionContext context) {
    return store(context).get(Sidecar.class, Sidecar.class);
  }

  private static Store store(ExtensionContext context) {
    return context.getStore(NAMESPACE);
  }

  /** The sidecar's log, beside what has failed a test. */
  private static final class Log extends Exception {
    private static final long serialVersionUID = 1L;

    Log(Sidecar sidecar) {
      super("the sidecar's log:\n" + sidecar.log(), null, false, false);
    }
  }
}
