"""The fixtures of leasehold for pytest, which loads this module by itself.

It imports `leasehold` only once a test uses a fixture: pytest loads it for all tests wherever the client is installed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leasehold import Client
    from leasehold.testing import AsyncSidecar, Sidecar

__all__ = [
    "leasehold_async_sidecar",
    "leasehold_client",
    "leasehold_settings",
    "leasehold_sidecar",
    "pytest_runtest_makereport",
]


@pytest.fixture
def leasehold_settings() -> dict[str, str]:
    """Give settings for the sidecar, as for `leasehold serve --set`. Override this fixture to give others."""
    return {}


@pytest.fixture
def leasehold_sidecar(leasehold_settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Generator[Sidecar]:
    """Start a sidecar for this test alone, with its locks in memory. LEASEHOLD_ENDPOINT names it."""
    from leasehold import ENDPOINT_VARIABLE  # noqa: PLC0415
    from leasehold.testing import Sidecar  # noqa: PLC0415

    with Sidecar(leasehold_settings) as sidecar:
        monkeypatch.setenv(ENDPOINT_VARIABLE, sidecar.endpoint)
        yield sidecar


@pytest.fixture
def leasehold_async_sidecar(leasehold_sidecar: Sidecar) -> AsyncSidecar:
    """Give the same sidecar, for tests with asyncio."""
    from leasehold.testing import AsyncSidecar  # noqa: PLC0415

    return AsyncSidecar.of(leasehold_sidecar)


@pytest.fixture
def leasehold_client(leasehold_sidecar: Sidecar) -> Generator[Client]:
    """Give a client of the sidecar, closed after the test."""
    client = leasehold_sidecar.client()
    yield client
    leasehold_sidecar.resume()
    _close(client)


def _close(client: Client) -> None:
    from leasehold import LeaseholdError  # noqa: PLC0415

    try:
        client.close()
    except LeaseholdError:
        # A hold that the test has had lost on purpose, or whose sidecar it has killed, cannot be released.
        return


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the sidecar's log with a test that has failed."""
    report = yield
    sidecar: Sidecar | None = getattr(item, "funcargs", {}).get("leasehold_sidecar")
    if report.failed and call.when == "call" and sidecar is not None:
        report.sections.append(("log of the leasehold sidecar", sidecar.log()))
    return report
