"""What is started for a show or a chaos test of this example: sidecars, workers and a publisher; and what Redis has."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from chaos import Events, Folder, Program, Sidecar, until

HERE = Path(__file__).resolve().parent
# All that the accounts have, in one look. Lists of a script are JSON, and an empty one is an object there.
LOOK = """
local all = { ledgers = {}, waiting = redis.call('SMEMBERS', 'waiting') }
local names = redis.call('HKEYS', 'balances')
for _, name in ipairs(names) do
  all.ledgers[name] = redis.call('LRANGE', 'ledger:' .. name, 0, -1)
end
return cjson.encode(all)
"""


class Stage:
    """Two hosts, each a sidecar with half of the workers; and one Redis, emptied before."""

    def __init__(self, folder: Folder, name: str, program: str, workers: int, work_ms: int = 20) -> None:
        self.folder = folder
        self.path = folder.path / name
        self.path.mkdir()
        self.events = Events(self.path / "events")
        self.environment = {"EVENTS": str(self.events.path), "WORK_MS": str(work_ms)}
        self._redis("FLUSHALL")
        self.sidecars = [folder.add(Sidecar(self.path, f"host-{letter}", "accounts")) for letter in "ab"]
        self.workers: list[Program] = []
        self.hosts: dict[str, Sidecar] = {}
        for number in range(workers):
            sidecar = self.sidecars[number % 2]
            self.workers.append(self._program(f"worker-{number + 1}", sidecar, [program]))
            self.hosts[self.workers[-1].name] = sidecar

    def _program(self, name: str, sidecar: Sidecar, command: list[str]) -> Program:
        environment = {**self.environment, "LEASEHOLD_ENDPOINT": sidecar.endpoint}
        command = ["node", str(HERE / "dist" / command[0]), *command[1:]]
        return self.folder.add(Program(name, command, environment, self.path / f"{name}.log"))

    def start(self) -> None:
        """Starts the sidecars and the workers, and waits until they are ready."""
        for program in [*self.sidecars, *self.workers]:
            program.start()
        until("all workers are ready", 60, lambda: len(self.events.of("ready")) >= len(self.workers))

    def publisher(self, movements: int, a_second: int, seed: int) -> Program:
        """Starts to add movements."""
        program = self._program("publisher", self.sidecars[0], ["publish.js", str(movements), str(a_second), str(seed)])
        program.start()
        return program

    def waiting(self) -> int:
        """How many accounts have movements that wait."""
        return int(self._redis("SCARD", "waiting"))

    def drained(self, publisher: Program, patience: float) -> None:
        """Waits until everything is applied."""
        until("the publisher has ended", patience, lambda: not publisher.is_running)
        if publisher.status != 0:
            raise AssertionError(f"the publisher failed: see {self.path}")
        until("no account waits", patience, lambda: self.waiting() == 0)

    def end(self) -> list[int | None]:
        """Ends all workers, then the sidecars; the workers' exit statuses."""
        statuses = [worker.end() for worker in self.workers]
        for sidecar in self.sidecars:
            sidecar.end()
        return statuses

    def ledgers(self) -> dict[str, list[dict[str, Any]]]:
        """What was applied to each account, in Redis's own order."""
        everything = json.loads(self._redis("EVAL", LOOK, "0"))
        return {name: [json.loads(entry) for entry in entries] for name, entries in everything["ledgers"].items()}

    @staticmethod
    def _redis(*command: str) -> str:
        client = ["redis-cli", "--raw", "-s", os.environ["REDIS_SOCKET"], *command]
        return subprocess.run(client, capture_output=True, text=True, check=True).stdout.strip()
