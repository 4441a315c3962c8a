"""Two hosts, each with a sidecar and a cron, and the consumers that they start."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from chaos import Chaos, Event, Events, Folder, Program, Sidecar, now

HERE = Path(__file__).resolve().parent
NODE = "node"
CONSUMER = str(HERE / "dist/consumer.js")
HOSTS = ("north", "south")
SECOND = 1_000_000_000


def stamp(at: int) -> str:
    """The occurrence, as `--occurrence` takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class Host:
    """A sidecar, and what starts consumers beside it."""

    def __init__(self, stage: "Stage", name: str) -> None:
        self.name = name
        self.stage = stage
        self.sidecar = Sidecar(stage.folder.path, name, "polling-consumer", environment=stage.variables)
        stage.folder.add(self.sidecar)
        self.runners: list[Program] = []

    def start(self, kind: str, command: list[str], **variables: str) -> Program:
        """Start a program of this host."""
        environment = {**self.stage.variables, "LEASEHOLD_ENDPOINT": self.sidecar.endpoint, **variables}
        log = self.stage.folder.path / f"{self.name}.{kind}.log"
        # Relative names of checkpoint files are of this host.
        place = self.stage.folder.path / f"{self.name}.d"
        place.mkdir(exist_ok=True)
        program = self.stage.folder.add(Program(f"{self.name} {kind}", command, environment, log, place))
        self.runners.append(program)
        program.start()
        return program

    def by_cron(self, at: int, period: int) -> None:
        """What a line of the crontab starts at an occurrence."""
        command = [
            self.sidecar.program, "run", "consume", "--occurrence", stamp(at), "--max-hold", f"{period}s",
            "--wait", f"{period}s", "--lease-duration", "15s", "--kill-after", "500ms", "--checkpoint", "pace",
            "--skip-exit-code", "0",
            "--", NODE, CONSUMER,
        ]  # fmt: skip
        self.start("cron", command)

    def by_every(self, period: int) -> None:
        """One process for good, which starts a consumer at each occurrence."""
        command = [
            self.sidecar.program, "every", f"*/{period} * * * * *", "-f", "consume", "--lease-duration", "15s",
            "--checkpoint", "pace", "--kill-after", "500ms", "--", NODE, CONSUMER,
        ]  # fmt: skip
        self.start("every", command)

    def without_lock(self, at: int, period: int) -> None:
        """The usual crontab."""
        self.start("cron", [NODE, CONSUMER], LEASEHOLD_HOLD_ENDS=str(at + period))


class Stage:
    """Two hosts on one account, and a queue."""

    def __init__(self, folder: Folder, queue: str, work_ms: int) -> None:
        self.folder = folder
        self.events = Events(folder.path / "events")
        self.variables = {
            "AZURE_STORAGE_CONNECTION_STRING": os.environ["AZURE_STORAGE_CONNECTION_STRING"],
            "EVENTS": str(self.events.path),
            "QUEUE": queue,
            "WORK_MS": str(work_ms),
        }
        self.hosts = [Host(self, name) for name in HOSTS]
        for host in self.hosts:
            host.sidecar.start()

    def produce(self, count: int, every_ms: int) -> Program:
        """Put messages into the queue."""
        command = [NODE, str(HERE / "dist/producer.js"), str(count), str(every_ms)]
        producer = Program("producer", command, self.variables, self.folder.path / "producer.log")
        self.folder.add(producer)
        producer.start()
        return producer

    def rounds(self, number: int, period: int, start: Callable[[Host, int], None]) -> None:
        """At each occurrence, start what the hosts' crons start."""
        first = (int(time.time()) // period + 1) * period
        for at in range(first, first + number * period, period):
            time.sleep(max(0.0, at - time.time()))
            starters = [threading.Thread(target=start, args=(host, at)) for host in self.hosts]
            for starter in starters:
                starter.start()
            for starter in starters:
                starter.join()

    def consumer(self) -> int | None:
        """The process that consumes now, if there is one."""
        latest: int | None = None
        for event in self.events:
            if event["what"] == "begins":
                latest = event["pid"]
            elif event["what"] == "ends" and event["pid"] == latest:
                latest = None
        return latest if latest is not None and is_consumer(latest) else None

    def kill_consumer(self, _chaos: Chaos) -> bool:
        """Kill -9 of the consumer; whether there was one."""
        pid = self.consumer()
        return pid is not None and self.kill(pid)

    def kill(self, pid: int) -> bool:
        """Kill -9 of a consumer; whether it was there."""
        at = now()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.events.write("killed", at=at, pid=pid)
        return True

    def kill_runner(self, chaos: Chaos) -> bool:
        """Kill -9 of a `leasehold run`; one that ends anyway does not count."""
        running = [each for host in self.hosts for each in host.runners if each.is_running]
        if not running:
            return False
        at = now()
        acted = chaos.random.choice(running).kill()
        self.events.write("killed", at=at, pid=0)
        return acted

    def kill_sidecar(self, chaos: Chaos) -> bool:
        """Kill -9 of a sidecar, which is started again."""
        host = chaos.random.choice(self.hosts)
        self.events.write("killed", at=now(), pid=0)
        acted = host.sidecar.kill()
        host.sidecar.start()
        return acted


def is_consumer(pid: int) -> bool:
    """Whether a process is there and is a consumer."""
    try:
        return CONSUMER in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def consumers(events: Events) -> list[tuple[int, int, str]]:
    """When each consumer acted first and last, in the order in which they began."""
    seen: dict[int, list[Event]] = {}
    for event in events:
        if event["what"] in ("begins", "handled", "ends"):
            seen.setdefault(event["pid"], []).append(event)
    spans = [(each[0]["at"], each[-1]["at"], str(pid)) for pid, each in seen.items()]
    return sorted(spans)


def handled(events: Events) -> set[str]:
    """The messages that were handled."""
    return {event["message"] for event in events.of("handled")}


def asked_to_end(events: Events) -> int:
    """Consumers that did not end by themselves in time, where nothing was killed shortly before."""
    kills = [event["at"] for event in events.of("killed")]
    asked = [event["at"] for event in events.of("ends") if event["asked"]]
    return sum(not any(end - 20 * SECOND <= at <= end for at in kills) for end in asked)


def quiet_gaps(events: Events) -> list[float]:
    """Seconds between two consumers, where nothing was killed since the first began."""
    kills = [event["at"] for event in events.of("killed")]
    spans = consumers(events)
    return [
        (after[0] - before[1]) / SECOND
        for before, after in itertools.pairwise(spans)
        if not any(before[0] <= at <= after[0] for at in kills)
    ]
