"""The samples work."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import fenced
import pytest
from fake import Bench, until
from messages import Messages

SAMPLES = Path(__file__).parents[1] / "samples"


def s5_a_write_with_a_smaller_token_is_refused() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT, fencing_token BIGINT)")
        database.execute("INSERT INTO report VALUES (1, '', 0)")
        fenced.write(database, 1, "of the first", 7)
        fenced.write(database, 1, "again", 7)
        fenced.write(database, 1, "of the second", 9)
        with pytest.raises(fenced.LateWriteError):
            fenced.write(database, 1, "late", 7)
        assert database.execute("SELECT body FROM report").fetchall() == [("of the second",)]


async def sample(made: Bench, name: str, *arguments: str) -> asyncio.subprocess.Process:
    # As of another kernel: this one's clock is real.
    made.sidecar.messages = Messages("unknown")
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(SAMPLES / name),
        *arguments,
        env={**os.environ, "LEASEHOLD_ENDPOINT": made.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("name", ["first.py", "blocking.py", "decorated.py", "careful.py"])
async def a_sample_of_the_readme_runs(name: str, made: Bench) -> None:
    process = await sample(made, name)
    call = await made.sidecar.granted()
    assert call.request.spec.key.function == "nightly-report"
    out, err = await process.communicate()
    assert process.returncode == 0, err
    assert b"with token 65536" in out
    assert made.sidecar.asked[-1] == "release 1"


async def the_sample_run_kills_the_command_on_loss(made: Bench) -> None:
    process = await sample(made, "run.py", "f", "--", "sh", "-c", "echo $$; exec sleep 600")
    call = await made.sidecar.granted()
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    call.tell("lost", reason="BROKEN")
    await process.communicate()
    assert process.returncode == 76
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def the_sample_every_runs_on_each_occurrence_until_ctrl_c(made: Bench) -> None:
    process = await sample(made, "every.py")
    call = await made.sidecar.running(local_time="half past twelve")
    assert call.request.spec.time_zone == "Europe/Copenhagen"
    await until(lambda: made.sidecar.asked == ["complete_run 1 SUCCEEDED"])
    process.send_signal(signal.SIGINT)
    out, _err = await process.communicate()
    assert out == b"writing the report of half past twelve\n"
    await call.ended()
