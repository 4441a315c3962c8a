/** Internal: schedules and their runs. */
package dev.leasehold.client.internal.runs;
