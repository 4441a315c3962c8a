"""S21: until when a client may act."""

from fake import ELSEWHERE, OURS, FakeClock, deadline, validity

from leasehold._convert import SECOND
from leasehold._hold.known_validity import KnownDeadline, KnownValidity
from leasehold._hold.state import LocalState
from leasehold.v1.hold_pb2 import Validity


def after(
    told: Validity, sent: int | None, now: int, local: KnownValidity | None = None, boot_id: str = OURS
) -> KnownValidity:
    begin = local or KnownValidity()
    return begin.after(told, None if sent is None else sent * SECOND, now * SECOND, boot_id)


def s21_an_unknown_boot_id_is_not_ours() -> None:
    local = after(validity("", 158, 58), 99, 100, boot_id="")
    assert local.next_question() is not None


def an_absent_or_negative_validity_ends_at_once() -> None:
    told = Validity()
    told.valid_for.seconds = -5
    assert after(told, 100, 101).until == 100 * SECOND


def s21_an_older_word_about_a_deadline_changes_nothing() -> None:
    local = KnownDeadline().after(deadline(OURS, 500, 300), 199 * SECOND, 201 * SECOND, OURS)
    assert local == KnownDeadline(500 * SECOND, 200 * SECOND)
    assert local.after(deadline(OURS, 900, 800), 99 * SECOND, 202 * SECOND, OURS) == local
    assert local.after(deadline(ELSEWHERE, 900, 800), None, 202 * SECOND, OURS) is None


def s21_elsewhere_a_new_end_of_max_hold_is_asked_about_before_it_counts() -> None:
    clock = FakeClock()
    state = LocalState(clock, validity(ELSEWHERE, 70, 58), clock.now())
    before = state.next_question()
    state.bound(deadline(ELSEWHERE, 500, 490), None)
    assert state.max_hold_ends is None
    assert state.next_question() == clock.now() != before
    state.bound(deadline(ELSEWHERE, 500, 490), clock.now())
    assert state.max_hold_ends == clock.now() + 490 * SECOND
