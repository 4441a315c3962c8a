"""Kills jobs and sidecars of three deployments on one storage account, and checks what they did.

- In one deployment no two replicas ever run the job at once.
- Deployments do not wait for each other: all of them run it at the same time, again and again.
- In each the job runs again soon after every kill.

Two negative controls must break this: without locks replicas of a deployment overlap, and with one host id for all the
deployments never run together.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator

from chaos import Chaos, Event, Events, Folder, now, overlaps

from deployments import ALL, KEEPER_A, Deployment, Replica

LEASE = 15.0
# A killed sidecar's lease has to run out first; then the next one looks at the latest after the poll cap.
GAP = LEASE + 10.0
SECOND = 1_000_000_000
Interval = tuple[int, int, str]


def intervals(events: Events, replica: Replica, end: int) -> Iterator[Interval]:
    """When the job ran in this replica: from each begin to its end, or to the kill."""
    begun: Event | None = None
    for event in events:
        if event.get("replica") != replica.name:
            continue
        if begun and event["what"] in ("ends", "killed"):
            yield begun["at"], event["at"], replica.name
            begun = None
        elif event["what"] == "begins":
            begun = event
    if begun:
        yield begun["at"], end, replica.name


def together(runs: dict[str, list[Interval]]) -> int:
    """How often all deployments were seen running the job at the same moment, by the begins of their runs."""
    moments = [begin for each in runs.values() for begin, _, _ in each]
    return sum(all(any(a <= at < b for a, b, _ in each) for each in runs.values()) for at in moments)


class World:
    """Deployments of two replicas each, and what is done to them."""

    def __init__(self, folder: Folder, deployments: tuple[Deployment, ...], account: str, job: str = "job.py") -> None:
        self.events = Events(folder.path / "events")
        self.deployments = deployments
        self.replicas = [Replica(folder, each, number, account, job) for each in deployments for number in (1, 2)]
        for replica in self.replicas:
            replica.start()

    def kill_a_job(self, chaos: Chaos) -> bool:
        """Kill -9 of the job of a replica, which is started again."""
        replica = chaos.random.choice(self.replicas)
        at = now()
        acted = replica.job.kill()
        self.events.write("killed", at=at, replica=replica.name)
        replica.job.start()
        return acted

    def kill_a_sidecar(self, chaos: Chaos) -> bool:
        """Kill -9 of a sidecar, which is started again."""
        replica = chaos.random.choice(self.replicas)
        acted = replica.sidecar.kill()
        replica.sidecar.start()
        return acted

    def end(self) -> int:
        """Ends all jobs; when that began."""
        for replica in self.replicas:
            replica.job.end()
        return time.monotonic_ns()

    def runs(self, end: int) -> dict[str, list[Interval]]:
        """Of each deployment, when the job ran there."""
        found: dict[str, list[Interval]] = {each.name: [] for each in self.deployments}
        for replica in self.replicas:
            found[replica.deployment.name] += intervals(self.events, replica, end)
        return found


def longest_gap(runs: list[Interval], begin: int, end: int) -> float:
    """The longest time in which a deployment did not run its job, in seconds."""
    latest, longest = begin, 0
    for start, stop, _ in [*sorted(runs), (end, end, "")]:
        longest = max(longest, start - latest)
        latest = max(latest, stop)
    return longest / SECOND


def storm(seed: int, kills: int, account: str) -> None:
    """The real thing."""
    with Folder("two-deployments-chaos") as folder:
        world = World(folder, ALL, account)
        begin = time.monotonic_ns()
        chaos = Chaos(seed, (0.2, 0.8))
        chaos.add("job", kills, lambda: world.kill_a_job(chaos))
        chaos.add("sidecar", kills // 3, lambda: world.kill_a_sidecar(chaos))
        chaos.start()
        chaos.end()
        # Long enough for the last killed lease to run out.
        time.sleep(LEASE)
        end = world.end()
        runs = world.runs(end)
        gaps = {name: longest_gap(each, begin, end) for name, each in runs.items()}
        print(f"seed {seed}: {chaos.done['job']} jobs and {chaos.done['sidecar']} sidecars killed with -9")
        print(f"    {'deployment':<12}{'runs':>6}{'at once':>9}{'longest pause':>15}")
        for name, each in runs.items():
            print(f"    {name:<12}{len(each):>6}{len(overlaps(each)):>9}{gaps[name]:>13.1f} s")
        print(f"    all three deployments at work at the same moment: seen {together(runs)} times")
        assert chaos.done == {"job": kills, "sidecar": kills // 3}, "every kill acted"
        assert not any(overlaps(each) for each in runs.values()), "no two replicas of a deployment at once"
        assert together(runs) > 0, "deployments do not wait for each other"
        assert max(gaps.values()) <= GAP, f"the job runs again within {GAP:.0f} s"


def control_one_host_id(account: str) -> None:
    """Negative control: deployments with one host id by accident never work at the same time."""
    accident = tuple(Deployment(name, KEEPER_A.host_type) for name in ("orders", "invoices"))
    with Folder("two-deployments-control") as folder:
        world = World(folder, accident, account)
        time.sleep(6)
        runs = world.runs(world.end())
        print(f"control, one host id for both: at work at the same moment {together(runs)} times")
        assert sum(len(each) for each in runs.values()) > 1, "the control ran"
        assert together(runs) == 0, "the control has to show that they block each other"


def control_without_lock(account: str) -> None:
    """Negative control: without a lock replicas of a deployment run the job at once."""
    with Folder("two-deployments-control") as folder:
        world = World(folder, (KEEPER_A,), account, "job_without_lock.py")
        time.sleep(4)
        runs = world.runs(world.end())[KEEPER_A.name]
        print(f"control, no lock: replicas of a deployment at work at once {len(overlaps(runs))} times")
        assert overlaps(runs), "the control has to show the job running twice at once"


def main() -> None:
    """Run everything, and fail if anything is otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="ten minutes instead of half of one")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    account = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    try:
        storm(options.seed, 600 if options.long else 24, account)
        control_one_host_id(account)
        control_without_lock(account)
    except AssertionError as failure:
        print(f"FAILED with seed {options.seed}: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
