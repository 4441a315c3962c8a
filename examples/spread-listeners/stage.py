"""A deployment of listeners: its replicas, a sidecar and a program each, and what they have told."""

import os
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from chaos import Event, Events, Folder, Program, Sidecar, overlaps, until

HERE = Path(__file__).resolve().parent
SECOND = 1_000_000_000
# A lock that has moved stays for ten minutes; then one moves a minute.
MOVED = 900.0
PROGRAMS = {
    "python": [sys.executable, str(HERE / "listener.py")],
    "go": [str(HERE / ".bin/listener")],
    "without-share": [sys.executable, str(HERE / "listener_without_share.py")],
}


class Replica:
    """A sidecar and a program with all listeners."""

    def __init__(self, deployment: "Deployment", number: int) -> None:
        self.name = f"{deployment.name}-{number}"
        folder = deployment.folder
        self.sidecar = folder.add(deployment.sidecar(self.name))
        environment = {
            "LEASEHOLD_ENDPOINT": self.sidecar.endpoint,
            "EVENTS": str(deployment.events.path),
            "REPLICA": self.name,
        }
        command = [*PROGRAMS[deployment.name], str(deployment.queues)]
        self.program = folder.add(Program(self.name, command, environment, folder.path / f"{self.name}.program.log"))

    def start(self) -> None:
        """Start both."""
        self.sidecar.start()
        self.program.start()

    def end(self) -> None:
        """End both at once, as Kubernetes ends the containers of a pod."""
        with ThreadPoolExecutor(2) as both:
            statuses = list(both.map(lambda each: each.end(30.0), (self.program, self.sidecar)))
        if any(statuses):
            raise AssertionError(f"{self.name} ended with {statuses}: see the logs")


class Deployment:
    """Replicas that compete for the same queues."""

    def __init__(self, folder: Folder, name: str, queues: int = 12) -> None:
        self.folder = folder
        self.name = name
        self.queues = queues
        self.events = Events(folder.path / f"{name}.events")
        self.replicas: list[Replica] = []
        self._number = 0

    def sidecar(self, name: str) -> Sidecar:
        """A sidecar of this deployment."""
        account = {"AZURE_STORAGE_CONNECTION_STRING": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
        return Sidecar(self.folder.path, name, self.name, environment=account)

    def add(self) -> Replica:
        """Start one more replica, and wait until it is ready."""
        self._number += 1
        replica = Replica(self, self._number)
        replica.start()
        ready = lambda: any(event["replica"] == replica.name for event in self.events.of("ready"))  # noqa: E731
        until(f"{replica.name} is ready", 30, ready)
        self.replicas.append(replica)
        return replica

    def start(self, replicas: int) -> None:
        """Start replicas, all at once."""
        with ThreadPoolExecutor(replicas) as all_of_them:
            list(all_of_them.map(lambda _: self.add(), range(replicas)))

    def roll(self) -> None:
        """Replace each replica, as a rolling update does with `minReadySeconds`.

        The new one is ready before the old one ends, and has its part before the next one follows.
        """
        for old in list(self.replicas):
            self.add()
            self.replicas.remove(old)
            old.end()
            until("even after a replacement", MOVED, self.is_even)

    def owners(self) -> dict[int, str]:
        """Who listens to each queue."""
        owners: dict[int, str] = {}
        for event in self.events:
            if event["what"] == "begins":
                owners[event["queue"]] = event["replica"]
            elif event["what"] == "ends" and owners.get(event["queue"]) == event["replica"]:
                del owners[event["queue"]]
        return owners

    def counts(self) -> list[int]:
        """How many queues each replica listens to."""
        counts = Counter(self.owners().values())
        return [counts[replica.name] for replica in self.replicas]

    def is_even(self) -> bool:
        """Whether every queue is listened to, and no replica has two more than another."""
        counts = self.counts()
        return sum(counts) == self.queues and max(counts) - min(counts) <= 1

    def of_queue(self) -> dict[int, list[Event]]:
        """What was told of each queue, in the order of time."""
        found: dict[int, list[Event]] = defaultdict(list)
        for event in sorted(self.events, key=lambda event: int(event["at"])):
            if event["what"] in ("begins", "ends"):
                found[event["queue"]].append(event)
        return found

    def gaps(self) -> list[float]:
        """For how long each queue had no listener, each time that it went from one to another; in seconds."""
        return [
            (later["at"] - earlier["at"]) / SECOND
            for events in self.of_queue().values()
            for earlier, later in pairwise(events)
            if (earlier["what"], later["what"]) == ("ends", "begins")
        ]

    def faults(self) -> list[str]:
        """What must not happen: two at a queue at once, or one that does not go on where the last one stopped."""
        found = []
        for queue, events in self.of_queue().items():
            now = events[-1]["at"] + 1
            begun = {event["token"]: event for event in events if event["what"] == "begins"}
            ended = {event["token"]: event["at"] for event in events if event["what"] == "ends"}
            terms = [(event["at"], ended.get(token, now), event["replica"]) for token, event in begun.items()]
            found += [f"queue {queue}: {one} and {other} at once" for one, other in overlaps(terms)]
            found += [
                f"queue {queue}: stopped at {earlier['done']}, went on at {later['done']}"
                for earlier, later in pairwise(events)
                if earlier["what"] == "ends" and later["what"] == "begins" and earlier["done"] != later["done"]
            ]
        return found
