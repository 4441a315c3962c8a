"""How a sidecar ends with its test, how its log is shown, and where its program is found."""

import os
import select
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from leasehold import testing

pytest_plugins = "pytester"

PROGRAM = testing.find_program()


def test_the_log_is_shown_with_a_test_that_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_fails(leasehold_sidecar):
            leasehold_sidecar.stop()
            assert leasehold_sidecar.endpoint == "elsewhere"

        def test_passes(leasehold_client, leasehold_sidecar):
            assert leasehold_sidecar.endpoint
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*log of the leasehold sidecar*", "*listening*"])


STARTS = """
import sys
from leasehold.testing import Sidecar

sidecar = Sidecar()
sidecar.start()
if sys.argv[1] == "paused":
    sidecar.pause()
print(sidecar._process.running().pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["running", "paused"])
def test_a_sidecar_ends_with_a_test_process_that_is_killed(how: str) -> None:
    command = [sys.executable, "-c", STARTS, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        sidecar = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        ended, _, _ = select.select([sidecar], [], [], testing.TIMEOUT)
        os.close(sidecar)
    assert ended, "it runs though nobody is left to use it"


def test_the_variable_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = types.ModuleType("leasehold_sidecar")
    package.find_program = lambda: "/packaged"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leasehold_sidecar", package)
    (tmp_path / "leasehold").symlink_to(PROGRAM)
    monkeypatch.setenv("PATH", str(tmp_path))

    monkeypatch.setenv(testing.PROGRAM_VARIABLE, PROGRAM)
    assert testing.find_program() == PROGRAM
    monkeypatch.delenv(testing.PROGRAM_VARIABLE)
    assert testing.find_program() == "/packaged"
    # As if it was not installed.
    monkeypatch.setitem(sys.modules, "leasehold_sidecar", None)
    assert testing.find_program() == str(tmp_path / "leasehold")


def test_a_program_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "leasehold_sidecar", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(testing.PROGRAM_VARIABLE, str(tmp_path))
    with pytest.raises(testing.ProgramNotFoundError, match="which is not an executable file"):
        testing.Sidecar()
    monkeypatch.delenv(testing.PROGRAM_VARIABLE)
    with pytest.raises(testing.ProgramNotFoundError) as caught:
        testing.Sidecar()
    for word in [testing.PROGRAM_VARIABLE, "pip install leasehold-sidecar", f"PATH (not in {tmp_path})"]:
        assert word in str(caught.value)
