"""S21: whose boot clock this process reads, and what a moment of another one means, as far as no vector says it."""

from pathlib import Path

import pytest

from leasehold._convert import SECOND
from leasehold._hold.boot_clock import is_shifted
from leasehold._hold.known_validity import KnownDeadline, KnownValidity
from leasehold.v1.hold_pb2 import BootTime, Deadline, Validity

ZERO = "monotonic           7         0\nboottime            0         0\n"
ONE, OTHER = "time:[1]", "time:[2]"


@pytest.mark.parametrize(
    ("offsets", "ours", "of_children", "shifted"),
    [
        (ZERO, ONE, ONE, False),
        (None, None, None, False),
        ("monotonic 0 0\nboottime 9 0\n", ONE, ONE, True),
        ("boottime -1 500000000\n", ONE, ONE, True),
        (ZERO, ONE, OTHER, True),
        (ZERO, None, None, True),
        (None, ONE, ONE, True),
        ("nonsense", ONE, ONE, True),
    ],
)
def s21_a_clock_that_a_time_namespace_shifts_is_not_the_kernels(
    tmp_path: Path, offsets: str | None, ours: str | None, of_children: str | None, shifted: bool
) -> None:
    (tmp_path / "ns").mkdir()
    if offsets is not None:
        (tmp_path / "timens_offsets").write_text(offsets, encoding="ascii")
    for name, namespace in (("ns/time", ours), ("ns/time_for_children", of_children)):
        if namespace is not None:
            (tmp_path / name).symlink_to(namespace)
    assert is_shifted(tmp_path) == shifted


def s21_an_unknown_boot_id_is_not_ours_and_an_absent_or_negative_validity_ends_at_once() -> None:
    told = Validity()
    told.valid_until.since_boot.seconds, told.valid_for.seconds = 158, 58
    known = KnownValidity().after(told, 99 * SECOND, 100 * SECOND, "")
    assert (known.until, known.next_question()) == (157 * SECOND, 128 * SECOND)
    told = Validity()
    told.valid_for.seconds = -5
    assert KnownValidity().after(told, 100 * SECOND, 101 * SECOND, "kernel-a").until == 100 * SECOND


def s21_an_older_word_about_a_deadline_changes_nothing() -> None:
    known = KnownDeadline()
    for at, after, now in ((500, 300, 201), (900, 801, 202)):
        told = Deadline(at=BootTime(boot_id="kernel-a"))
        told.at.since_boot.seconds, told.after.seconds = at, after
        known = known.after(told, None, now * SECOND, "kernel-a") or KnownDeadline()
    assert known == KnownDeadline(500 * SECOND, 200 * SECOND)
