import pytest

import leasehold
from leasehold.testing import Sidecar


def test_the_report_stops_when_the_lock_is_lost(leasehold_sidecar: Sidecar, leasehold_client: leasehold.Client) -> None:
    with pytest.raises(leasehold.LostError), leasehold_client.hold("nightly-report") as hold:
        leasehold_sidecar.lose("nightly-report")
        assert hold.wait_lost(timeout=30)
        hold.check()
