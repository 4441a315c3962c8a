package dev.leasehold.client;

import dev.leasehold.v1.BreakNote;

/**
 * Word that a lock was broken while its lease runs out (S22). The holder still holds it until the
 * deadline: finish, save the checkpoint, and release, which frees the lock at once.
 *
 * @param deadline the end of validity on this machine's boot clock; it is not renewed any more
 * @param reason why it was broken, in the operator's words
 * @param by who broke it; free text
 */
public record Notice(BootInstant deadline, String reason, String by) {
  static Notice of(BootInstant deadline, BreakNote note) {
    return new Notice(deadline, note.getReason(), note.getBrokenBy());
  }
}
