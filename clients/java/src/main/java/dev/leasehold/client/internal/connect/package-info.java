/** Internal: where the sidecar is, connections, and what goes with each call. */
package dev.leasehold.client.internal.connect;
