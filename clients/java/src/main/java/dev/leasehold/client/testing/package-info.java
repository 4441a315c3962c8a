/**
 * Test support: a sidecar of its own for a test, with its locks in memory, which can be made to
 * lose, break and delay holds.
 *
 * <p>Begin at {@link dev.leasehold.client.testing.LeaseholdExtension}, or without JUnit at {@link
 * dev.leasehold.client.testing.Sidecar}.
 */
package dev.leasehold.client.testing;
