"""Test support against a real sidecar: tests/clients runs this with LEASEHOLD_PROGRAM."""

import asyncio
import threading
from pathlib import Path

import pytest

import leasehold
from leasehold import testing


def test_a_lock_is_lost_at_once_and_a_break_is_told_and_leaves_time(
    leasehold_sidecar: testing.Sidecar, leasehold_client: leasehold.Client
) -> None:
    with pytest.raises(leasehold.LostError) as caught, leasehold_client.hold("job") as hold:
        leasehold_sidecar.lose("job")
        assert hold.wait_lost(testing.TIMEOUT)
        hold.check()
    assert caught.value.loss.reason is leasehold.LossReason.BROKEN
    assert leasehold_sidecar.wait_until_available("job").break_note is not None
    with leasehold_client.hold("job", "part") as hold:
        leasehold_sidecar.break_lock("job", "part", reason="a new version")
        notice = hold.wait_revoked(testing.TIMEOUT)
        assert notice is not None
        assert notice.reason == "a new version"
        assert hold.is_valid()
    leasehold_sidecar.wait_until_available("job", "part")


def test_a_hold_is_lost_by_its_own_clock_while_the_sidecar_is_paused(
    leasehold_sidecar: testing.Sidecar, leasehold_client: leasehold.Client
) -> None:
    with pytest.raises(leasehold.LostError) as caught, leasehold_client.hold("job") as hold:
        with leasehold_sidecar.paused():
            with pytest.raises(testing.SidecarError, match="is paused"):
                leasehold_sidecar.lose("job")
            assert hold.wait_lost(testing.TIMEOUT)
        hold.check()
    assert caught.value.loss.reason is leasehold.LossReason.EXPIRED
    leasehold_sidecar.wait_until_available("job")


@pytest.fixture
def leasehold_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.node.get_closest_marker("in_a_file") is None:
        return {}
    return {"store.kind": "embedded", "store.embedded.path": str(tmp_path / "locks.db")}


@pytest.mark.in_a_file
def test_settings_are_the_tests(leasehold_sidecar: testing.Sidecar, leasehold_client: leasehold.Client) -> None:
    resumed = threading.Event()

    def on_event(event: leasehold.HoldEvent) -> None:
        if isinstance(event, leasehold.Resumed):
            resumed.set()

    with leasehold_client.hold("job", on_event=on_event) as hold:
        leasehold_sidecar.kill()
        with pytest.raises(testing.SidecarError, match="does not run"):
            leasehold_sidecar.lose("job")
        leasehold_sidecar.start()
        assert resumed.wait(testing.TIMEOUT)
        hold.check()


def test_what_does_not_come_is_said(leasehold_sidecar: testing.Sidecar) -> None:
    # The code under test finds it by the variable.
    with leasehold.Client() as client, client.hold("found"):
        leasehold_sidecar.wait_until_held("found")
    with pytest.raises(testing.SidecarError, match=r"'job' is held\. It is LockRecord"):
        leasehold_sidecar.wait_until_held("job", timeout=0)
    with pytest.raises(testing.SidecarError, match="'job' of 'part' cannot be lost or broken: nobody holds it"):
        leasehold_sidecar.lose("job", "part")


def test_each_sidecar_has_locks_of_its_own() -> None:
    with testing.Sidecar() as one, testing.Sidecar() as other, one.client() as first, other.client() as second:
        assert one.endpoint != other.endpoint
        with first.hold("job"), second.hold("job"):
            one.wait_until_held("job")
            other.wait_until_held("job")


def test_a_shutdown_is_told() -> None:
    draining = threading.Event()

    def on_event(event: leasehold.HoldEvent) -> None:
        if isinstance(event, leasehold.Draining):
            draining.set()

    with testing.Sidecar() as sidecar, sidecar.client() as client:
        with client.hold("job", on_event=on_event):
            stopping = threading.Thread(target=sidecar.stop)
            stopping.start()
            assert draining.wait(testing.TIMEOUT)
        stopping.join()
        assert "shut down" in sidecar.log()


def test_a_block_that_fails_has_the_log_and_a_setting_that_is_refused_is_said() -> None:
    with pytest.raises(testing.SidecarError, match="there is no setting colour"), testing.Sidecar({"colour": "red"}):
        pass
    with pytest.raises(ValueError, match="wrong") as caught, testing.Sidecar() as sidecar:
        # What it logs is written by the time that it has ended.
        sidecar.stop()
        raise ValueError("wrong")
    assert "listening" in caught.value.__notes__[0]
    assert not Path(sidecar.endpoint.removeprefix("unix://")).parent.exists()


def test_with_asyncio_and_with_others_that_wait(leasehold_async_sidecar: testing.AsyncSidecar) -> None:
    async def lose_and_hand_over() -> None:
        sidecar = leasehold_async_sidecar
        async with sidecar.client() as client:
            first = asyncio.create_task(holds(client))
            assert (await sidecar.wait_until_held("job")).waiters_here == 0
            second = asyncio.create_task(holds(client))
            assert (await sidecar.wait_until_waiting("job")).waiters_here == 1
            await sidecar.lose("job")
            with pytest.raises(leasehold.LostError):
                await first
            await sidecar.wait_until_held("job")
            async with sidecar.paused():
                assert not second.done()
            second.cancel()
        async with testing.AsyncSidecar() as own, own.client() as client, client.hold("job"):
            await own.wait_until_held("job")
            await own.break_lock("job", reason="enough")
            record = await own.wait_until("is breaking", lambda lock: lock.break_note is not None, "job")
            assert record.break_note is not None
            assert record.break_note.reason == "enough"

    async def holds(client: leasehold.AsyncClient) -> None:
        async with client.hold("job", wait=testing.TIMEOUT):
            await asyncio.Event().wait()

    asyncio.run(lose_and_hand_over())
