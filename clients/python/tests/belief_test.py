"""S21: what may be believed."""

from fake import ELSEWHERE, OURS, validity

from leasehold._belief import Belief
from leasehold._convert import SECOND
from leasehold.v1.hold_pb2 import Validity


def after(told: Validity, sent: int | None, now: int, belief: Belief | None = None, boot_id: str = OURS) -> Belief:
    begin = belief or Belief()
    return begin.after(told, None if sent is None else sent * SECOND, now * SECOND, boot_id)


def s21_same_kernel_compares_clocks_however_late_the_message_is_read() -> None:
    belief = after(validity(OURS, 158, 58), 99, 140)
    assert belief.until == 158 * SECOND
    assert belief.next_question() is None


def s21_elsewhere_the_span_counts_from_before_the_request() -> None:
    belief = after(validity(ELSEWHERE, 9_158, 57), 99, 140)
    assert belief.until == (99 + 57) * SECOND
    assert belief.next_question() == (99 + 19) * SECOND


def s21_elsewhere_a_message_that_answers_nothing_extends_nothing() -> None:
    belief = after(validity(ELSEWHERE, 9_158, 58), 99, 100)
    belief = after(validity(ELSEWHERE, 9_178, 58), None, 120, belief)
    assert belief.until == 157 * SECOND
    assert belief.told is not None
    assert belief.told.since_boot.seconds == 9_178, "a resume says what was told"


def s21_an_unknown_boot_id_is_not_ours() -> None:
    belief = after(validity("", 158, 58), 99, 100, boot_id="")
    assert belief.next_question() is not None


def s21_a_shifted_clock_with_our_boot_id_is_found_out() -> None:
    # Ours is behind the sidecar's: taken at its word, the hold would seem to last 1,000 s longer.
    assert after(validity(OURS, 1_158, 58), 99, 100).until == 157 * SECOND
    # Ours is ahead.
    assert after(validity(OURS, 158, 58), 1_099, 1_100).until == 1_157 * SECOND


def an_older_answer_that_comes_later_changes_nothing() -> None:
    belief = after(validity(OURS, 178, 58), None, 121)
    assert after(validity(OURS, 158, 58), 99, 122, belief).until == 178 * SECOND


def a_newer_message_may_shorten() -> None:
    belief = after(validity(OURS, 178, 58), None, 121)
    assert after(validity(OURS, 140, 15), None, 126, belief).until == 140 * SECOND


def nonsense_ends_the_belief() -> None:
    told = Validity()
    told.valid_for.seconds = -5
    assert after(told, 100, 101).until == 100 * SECOND
