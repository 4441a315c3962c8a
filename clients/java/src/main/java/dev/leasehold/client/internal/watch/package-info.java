/** Internal: records of locks, and how they change. */
package dev.leasehold.client.internal.watch;
