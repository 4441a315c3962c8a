"""S21: until when a client may act, as far as no vector says it."""

from leasehold._convert import SECOND
from leasehold._hold.known_validity import KnownDeadline, KnownValidity
from leasehold.v1.hold_pb2 import BootTime, Deadline, Validity


def s21_an_unknown_boot_id_is_not_ours_and_an_absent_or_negative_validity_ends_at_once() -> None:
    told = Validity()
    told.valid_for.seconds = -5
    known = KnownValidity().after(told, 100 * SECOND, 101 * SECOND, "")
    assert (known.until, known.next_question()) == (100 * SECOND, 100 * SECOND)


def s21_an_older_word_about_a_deadline_changes_nothing() -> None:
    known = KnownDeadline()
    for at, after, now in ((500, 300, 201), (900, 801, 202)):
        told = Deadline(at=BootTime(boot_id="kernel-a"))
        told.at.since_boot.seconds, told.after.seconds = at, after
        counted = known.after(told, None, now * SECOND, "kernel-a")
        assert counted is not None
        known = counted
    assert known == KnownDeadline(500 * SECOND, 200 * SECOND)
