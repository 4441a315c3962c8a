"""Workers with a sidecar each, and their databases, as `run` and `chaos` start them."""

import os
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chaos import Events, Folder, Program, Sidecar

HERE = Path(__file__).resolve().parent
SECOND = 1_000_000_000
# How long a fetched message is hidden, and jobs that take three times as long.
INVISIBLE = 2
LONG_PAGES = 60
# What the worker calls its steps.
STEPS = ("fetched", "claimed", "performed", "recorded", "deleted")


class Database:
    """A database of its own on the server of DATABASE_URL, asked through psql."""

    def __init__(self, name: str, schema: str) -> None:
        server = os.environ["DATABASE_URL"]
        psql(server, f"CREATE DATABASE {name}")
        self.url = server.replace("/postgres?", f"/{name}?")
        psql(self.url, schema)

    def ask(self, query: str) -> list[list[str]]:
        """Give the rows that a query finds."""
        return [line.split("|") for line in psql(self.url, query).splitlines()]

    def count(self, query: str) -> int:
        """Give the number that a query finds."""
        return int(self.ask(query)[0][0])


def psql(url: str, query: str) -> str:
    """Run statements; gives what the last one finds."""
    command = ["psql", "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]
    done = subprocess.run([*command, f"--dbname={url}"], input=query, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"psql: {done.stderr}\n{query}")
    return done.stdout


class Worker:
    """A worker and its sidecar."""

    def __init__(self, folder: Folder, sidecar: Sidecar, program: Program) -> None:
        self.name = sidecar.name
        self.sidecar = sidecar
        self.program = folder.add(program)

    def stop_for(self, seconds: float) -> bool:
        """Stop both for a while, as a frozen machine would be; whether both were stopped."""
        with ThreadPoolExecutor(2) as both:
            return all(both.map(lambda each: each.stop_for(seconds), (self.program, self.sidecar)))


class World:
    """The databases, the sidecars and the events of some workers."""

    def __init__(self, folder: Folder, name: str, number: int, *, locks: bool = True) -> None:
        self.folder = folder
        self.name = name
        self.jobs = Database(name, (HERE / "schema.sql").read_text())
        self.archive = Database(f"{name}_archive", (HERE / "archive.sql").read_text())
        self.events = Events(folder.path / "events")
        self.number = number
        self.sidecars = [folder.add(Sidecar(folder.path, f"{name}-{each + 1}", "documents")) for each in range(number)]
        if locks:
            for sidecar in self.sidecars:
                sidecar.start()

    def workers(self, *program: str, crash_at: str = "", archive: str | None = None) -> list[Worker]:
        """Start the workers; `crash_at`: they kill themselves after that step, once for each job.

        `archive` is where the first one has the archive, if not where all have it.
        """
        command = [str(HERE / ".bin" / (program[0] if program else "worker")), *program[1:]]
        self.crashed(crash_at).mkdir(exist_ok=True)
        found: list[Worker] = []
        for sidecar in self.sidecars:
            environment = {
                "JOBS_URL": self.jobs.url,
                "ARCHIVE_URL": archive if archive and not found else self.archive.url,
                "INVISIBLE": f"{INVISIBLE}s",
                "LEASEHOLD_ENDPOINT": sidecar.endpoint,
                "EVENTS": str(self.events.path),
                "WORKER": sidecar.name,
                "CRASH_AT": crash_at,
                "CRASHED": str(self.crashed(crash_at)),
            }
            log = self.folder.path / f"{sidecar.name}.worker.log"
            found.append(Worker(self.folder, sidecar, Program(sidecar.name, command, environment, log)))
        for worker in found:
            worker.program.start()
        return found

    def crashed(self, step: str) -> Path:
        """Give the folder with a file for each job at which a worker has killed itself after this step."""
        return self.folder.path / f"crashed-{step or 'never'}"

    def submit(self, pages: Iterable[int]) -> list[str]:
        """Store jobs; gives their ids."""
        command = [str(HERE / ".bin/submit"), *map(str, pages)]
        environment = {**os.environ, "JOBS_URL": self.jobs.url}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    def unfinished(self) -> int:
        """Count the jobs that are not done, and the messages that are left."""
        return self.jobs.count(
            "SELECT (SELECT count(*) FROM job WHERE state <> 'done') + (SELECT count(*) FROM message)"
        )

    def working(self, worker: str) -> str | None:
        """Find the job that a worker was at within the last half second."""
        since = time.monotonic_ns() - SECOND // 2
        return next(
            (each["job"] for each in self.events.of("works") if each["worker"] == worker and each["at"] > since), None
        )
