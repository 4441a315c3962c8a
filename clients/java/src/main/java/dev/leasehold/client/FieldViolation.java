package dev.leasehold.client;

/**
 * A field of a request that the sidecar refused (S19).
 *
 * @param field the field's path, such as {@code spec.key.function}
 * @param description what is wrong with it, and the allowed range
 */
public record FieldViolation(String field, String description) {}
