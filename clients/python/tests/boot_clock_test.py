"""S21: whose boot clock this process reads."""

from pathlib import Path

import pytest

from leasehold._hold.boot_clock import is_shifted

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
