package dev.leasehold.client;

import java.util.OptionalInt;

/**
 * Word that a lock was broken while its lease runs out (S22). The holder still holds it until the
 * deadline: finish, save the checkpoint, and release, which frees the lock at once.
 *
 * @param deadline the end of validity on this machine's boot clock; it is not renewed any more
 * @param reason why it was broken, in words: the operator's, or the sidecar's
 * @param by who broke it; free text
 * @param forPriority the priority of the caller that takes over, such as a newer version; empty if
 *     an operator broke it
 */
public record Notice(BootInstant deadline, String reason, String by, OptionalInt forPriority) {}
