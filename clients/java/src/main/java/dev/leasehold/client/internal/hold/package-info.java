/** Internal: how a lock is asked for, held, kept, resumed and released; checkpoints; leading. */
package dev.leasehold.client.internal.hold;
