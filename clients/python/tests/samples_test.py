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

from leasehold.v1 import hold_pb2, lock_pb2
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


async def the_sample_run_passes_the_exit_code_and_the_token_on() -> None:
    async with bench() as (made, _client):
        command = ["sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN; exit 7"]
        process = await sample(made, "run.py", "f", "--", *command)
        (await made.sidecar.hold()).tell(grant(validity("", 0, 58)))
        out, _err = await process.communicate()
        assert (process.returncode, out) == (7, b"65536\n")


async def the_sample_run_says_busy_by_its_exit_code() -> None:
    async with bench() as (made, _client):
        process = await sample(made, "run.py", "f", "--", "true")
        call = await made.sidecar.hold()
        call.tell(wire.HoldLeaseResponse(busy=hold_pb2.Busy()))
        _out, err = await process.communicate()
        assert process.returncode == 75
        assert b"is busy" in err


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


async def the_sample_contend_counts_and_refuses_a_token_that_does_not_grow(tmp_path: Path) -> None:
    async with bench() as (made, _client):
        file = tmp_path / "number"
        process = await sample(made, "contend.py", str(file), "2")
        for token in (9, 9):
            (await made.sidecar.hold()).tell(grant(validity("", 0, 58), token))
        _out, err = await process.communicate()
        assert process.returncode == 1
        assert b"token 9 is not greater" in err
        assert file.read_text() == "1\n"


async def the_sample_checkpoint_goes_on_from_what_was_saved_and_hands_over_at_notice() -> None:
    async with bench() as (made, _client):
        told = validity("", 0, 58)
        made.sidecar.answer = wire.SaveCheckpointResponse(version=9, validity=told)
        made.sidecar.release = hold_pb2.ReleaseResult(
            outcome=hold_pb2.RELEASE_OUTCOME_RELEASED, checkpoint_outcome=hold_pb2.CHECKPOINT_OUTCOME_SAVED
        )
        process = await sample(made, "checkpoint.py", "count")
        call = await made.sidecar.hold()
        answer = grant(told)
        answer.granted.checkpoint.value = b"41"
        call.tell(answer)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"starting from 41 with token 65536\n"
        assert await process.stdout.readline() == b"saved 42\n"
        note = lock_pb2.BreakNote(reason="new build")
        call.tell(wire.HoldLeaseResponse(revoked=hold_pb2.Revoked(validity=told, break_note=note)))
        out, err = await process.communicate()
        assert process.returncode == 0, err
        assert b"told to stop: new build\nreleased, checkpoint SAVED\n" in out
        saved = [int(request.value) for request in made.sidecar.requests]
        assert saved == list(range(42, 42 + len(saved)))
        assert made.sidecar.asked[-1] == f"release lease-1 of generation 1 with b'{saved[-1]}'"


async def the_sample_leader_leads_again_and_releases_at_ctrl_c() -> None:
    async with bench() as (made, _client):
        process = await sample(made, "leader.py", "f")
        assert process.stdout is not None
        for token in (1, 2):
            call = await made.sidecar.hold()
            call.tell(grant(validity("", 0, 58), token))
            assert await process.stdout.readline() == f"leading with token {token}\n".encode()
            if token == 1:
                call.tell(wire.HoldLeaseResponse(lost=hold_pb2.Lost(reason=hold_pb2.LOSS_REASON_TAKEN)))
                assert await process.stdout.readline() == b"not leading any more\n"
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert (process.returncode, out) == (0, b"released\n"), err
        assert made.sidecar.asked[-1] == "release lease-1 of generation 1"


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
