/** Internal: the boot clock, and durations (S3). */
package dev.leasehold.client.internal.clock;
