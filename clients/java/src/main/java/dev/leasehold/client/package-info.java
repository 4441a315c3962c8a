/**
 * Holds singleton locks through a Leasehold sidecar, and knows at once when one is lost.
 *
 * <p>Begin at {@link dev.leasehold.client.LeaseholdClient}. Numbers like S13 name the rules of
 * Leasehold's semantics that a piece of code keeps. Packages below {@code internal} are no part of
 * the API.
 */
package dev.leasehold.client;
