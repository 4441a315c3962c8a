"""S21: until when a client may act."""

from fake import ELSEWHERE, OURS, deadline, validity

from leasehold._convert import SECOND
from leasehold._hold.known_validity import KnownDeadline, KnownValidity
from leasehold.v1.hold_pb2 import Validity


def after(
    told: Validity, sent: int | None, now: int, local: KnownValidity | None = None, boot_id: str = OURS
) -> KnownValidity:
    begin = local or KnownValidity()
    return begin.after(told, None if sent is None else sent * SECOND, now * SECOND, boot_id)


def s21_same_kernel_compares_clocks_however_late_the_message_is_read() -> None:
    local = after(validity(OURS, 158, 58), 99, 140)
    assert local.until == 158 * SECOND
    assert local.next_question() is None


def s21_elsewhere_the_span_counts_from_before_the_request() -> None:
    local = after(validity(ELSEWHERE, 9_158, 57), 99, 140)
    assert local.until == (99 + 57) * SECOND
    assert local.next_question() == (99 * 2 + 57) * SECOND // 2


def s21_elsewhere_a_renewal_is_asked_about_at_once_and_once() -> None:
    local = after(validity(ELSEWHERE, 9_158, 58), 99, 100)
    # A question that crosses with the renewal may have been answered before it.
    local = after(validity(ELSEWHERE, 9_178, 58), None, 120, local)
    assert local.next_question() == 120 * SECOND
    local = after(validity(ELSEWHERE, 9_158, 38), 119, 121, local)
    assert local.next_question() == 120 * SECOND
    local = after(validity(ELSEWHERE, 9_178, 56), 122, 123, local)
    assert local.until == 178 * SECOND
    assert local.next_question() == (122 + 28) * SECOND


def s21_elsewhere_what_promises_hardly_more_is_not_asked_about() -> None:
    local = after(validity(ELSEWHERE, 9_160, 60), 100, 100)
    local = after(validity(ELSEWHERE, 9_166, 60), None, 106, local)
    assert local.next_question() == 130 * SECOND
    local = after(validity(ELSEWHERE, 9_167, 60), None, 107, local)
    assert local.next_question() == 107 * SECOND


def s21_elsewhere_a_message_that_answers_nothing_extends_nothing() -> None:
    local = after(validity(ELSEWHERE, 9_158, 58), 99, 100)
    local = after(validity(ELSEWHERE, 9_178, 58), None, 120, local)
    assert local.until == 157 * SECOND
    assert local.told is not None
    assert local.told.since_boot.seconds == 9_178, "a resume says what was told"


def s21_an_unknown_boot_id_is_not_ours() -> None:
    local = after(validity("", 158, 58), 99, 100, boot_id="")
    assert local.next_question() is not None


def s21_a_shifted_clock_with_our_boot_id_is_found_out() -> None:
    # Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
    assert after(validity(OURS, 1_158, 58), 99, 100).until == 157 * SECOND
    # Ours is ahead.
    assert after(validity(OURS, 158, 58), 1_099, 1_100).until == 1_157 * SECOND


def an_older_answer_that_comes_later_changes_nothing() -> None:
    local = after(validity(OURS, 178, 58), None, 121)
    assert after(validity(OURS, 158, 58), 99, 122, local).until == 178 * SECOND


def a_newer_message_may_shorten() -> None:
    local = after(validity(OURS, 178, 58), None, 121)
    assert after(validity(OURS, 140, 15), None, 126, local).until == 140 * SECOND


def an_absent_or_negative_validity_ends_at_once() -> None:
    told = Validity()
    told.valid_for.seconds = -5
    assert after(told, 100, 101).until == 100 * SECOND


def s21_an_older_word_about_a_deadline_changes_nothing() -> None:
    local = KnownDeadline().after(deadline(OURS, 500, 300), 199 * SECOND, 201 * SECOND, OURS)
    assert local == KnownDeadline(500 * SECOND, 200 * SECOND)
    assert local.after(deadline(OURS, 900, 800), 99 * SECOND, 202 * SECOND, OURS) == local
    assert local.after(deadline(ELSEWHERE, 900, 800), None, 202 * SECOND, OURS) is None
