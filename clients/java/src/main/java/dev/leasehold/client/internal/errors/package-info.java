/** Internal: what a refusal means, and which revision of a sidecar a request needs (S37). */
package dev.leasehold.client.internal.errors;
