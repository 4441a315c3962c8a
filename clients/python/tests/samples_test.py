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
from fake import Bench, bench, eventually, grant, validity
from fake_schedules import STANDBY, due, scheduled

from leasehold.v1 import hold_pb2
from leasehold.v1 import lease_service_pb2 as wire

PACKAGE = Path(__file__).parents[1]
SAMPLES = PACKAGE / "samples"


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
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(SAMPLES / name),
        *arguments,
        env={**os.environ, "LEASEHOLD_ENDPOINT": made.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("name", ["first.py", "blocking.py", "decorated.py", "careful.py"])
async def a_sample_of_the_readme_runs(name: str) -> None:
    async with bench() as (made, _client):
        process = await sample(made, name)
        call = await made.sidecar.hold()
        assert call.request.spec.key.function == "nightly-report"
        # As of another kernel: this one's clock is real.
        call.tell(grant(validity("", 0, 58)))
        out, err = await process.communicate()
        assert process.returncode == 0, err
        assert b"with token 65536" in out
        assert made.sidecar.asked[-1] == "release lease-1 of generation 1"


async def the_sample_run_kills_the_command_on_loss() -> None:
    async with bench() as (made, _client):
        process = await sample(made, "run.py", "f", "--", "sh", "-c", "echo $$; exec sleep 600")
        call = await made.sidecar.hold()
        call.tell(grant(validity("", 0, 58)))
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        call.tell(wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_BROKEN)))
        await process.communicate()
        assert process.returncode == 76
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def the_sample_every_runs_on_each_occurrence_until_ctrl_c() -> None:
    async with scheduled() as (made, schedules, _client):
        process = await sample(made, "every.py")
        call = await schedules.call()
        assert call.request.spec.time_zone == "Europe/Copenhagen"
        call.tell(STANDBY, due(boot_id=""))
        await eventually("it is told", lambda: schedules.outcomes == ["SUCCEEDED"])
        process.send_signal(signal.SIGINT)
        out, _err = await process.communicate()
        assert out == b"writing the report of 1970-01-01T00:30:00Z[UTC]\n"
        await call.ended()
