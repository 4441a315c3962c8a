"""Instances of the job API, each with a sidecar of its own, as `run` and `chaos` start them."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import aio_pika
import aiohttp
import psycopg
from chaos import Events, Folder, Program, Sidecar
from psycopg.conninfo import make_conninfo

HERE = Path(__file__).resolve().parent
STOP_SECONDS = 20
LEASE_OVER = 16
SECOND = 1_000_000_000


class Instance:
    """A sidecar and an instance of the API beside it."""

    def __init__(self, folder: Folder, name: str, variables: dict[str, str], command: list[str]) -> None:
        self.name = name
        self.socket = folder.path / f"{name}.http"
        self.busy = threading.Lock()
        self.sidecar = folder.add(Sidecar(folder.path, name, "job-api"))
        environment = {
            **variables,
            "LEASEHOLD_ENDPOINT": self.sidecar.endpoint,
            "SOCKET": str(self.socket),
            "INSTANCE": name,
            "EVENTS": str(folder.path / "events"),
        }
        self.app = folder.add(Program(name, [sys.executable, *command], environment, folder.path / f"{name}.app.log"))

    def start(self) -> None:
        """Start the sidecar, and the API once it can be asked."""
        self.sidecar.start()
        self.app.start()

    def stop_for(self, seconds: float) -> bool:
        """Stop both for a while, as a frozen machine would be; whether both were stopped."""
        with ThreadPoolExecutor(2) as both:
            return all(both.map(lambda each: each.stop_for(seconds), (self.app, self.sidecar)))

    async def request(self, method: str, path: str, **options: Any) -> Any:  # noqa: ANN401
        """Ask the API; raises OSError or aiohttp.ClientError while it is away."""
        timeout = aiohttp.ClientTimeout(total=5)
        connector = aiohttp.UnixConnector(str(self.socket))
        async with (
            aiohttp.ClientSession("http://job-api", connector=connector, timeout=timeout) as session,
            session.request(method, path, **options) as answer,
        ):
            answer.raise_for_status()
            return await answer.json()


class World:
    """Some instances with a database and a queue of their own, and what is known about them."""

    def __init__(self, folder: Folder, name: str, number: int, program: tuple[str, ...] = ("app.py",)) -> None:
        server = os.environ["DATABASE_URL"]
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        self.database = psycopg.connect(make_conninfo(server, dbname=name), autocommit=True)
        self.database.execute((HERE / "schema.sql").read_bytes())
        self.queue = name
        self.events = Events(folder.path / "events")
        variables = {"DATABASE_URL": make_conninfo(server, dbname=name), "QUEUE": name, "RUNS": "6"}
        command = [str(HERE / program[0]), *program[1:]]
        self.instances = [Instance(folder, f"{name}-{each + 1}", variables, command) for each in range(number)]
        for instance in self.instances:
            instance.start()

    def count(self, query: LiteralString, *values: object) -> int:
        """Give the number that a query finds."""
        row = self.database.execute(query, values).fetchone()
        return int(row[0]) if row else 0

    async def send(self, job_ids: Iterable[UUID | str]) -> None:
        """Send messages of these jobs, as a bus does that delivers at least once."""
        async with await aio_pika.connect(os.environ["AMQP_URL"]) as bus:
            channel = await bus.channel()
            for job_id in job_ids:
                message = aio_pika.Message(str(job_id).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, routing_key=self.queue)

    async def post(self, job_id: UUID, pages: int) -> Any:  # noqa: ANN401
        """Make a job, at whichever instance answers: repeated requests make one job."""
        for attempt in range(1000):
            instance = self.instances[(job_id.int + attempt) % len(self.instances)]
            try:
                headers = {"Idempotency-Key": str(job_id)}
                return await instance.request("POST", "/jobs", json={"pages": pages}, headers=headers)
            except (OSError, aiohttp.ClientConnectionError, TimeoutError):
                await asyncio.sleep(0.05)
            except aiohttp.ClientResponseError as error:
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
                await asyncio.sleep(0.05)
        raise AssertionError("no instance answers")

    def working(self, instance: Instance) -> set[str]:
        """Find the jobs that an instance was at within the last second."""
        since = time.monotonic_ns() - SECOND
        return {
            event["job"]
            for event in self.events.of("works")
            if event["instance"] == instance.name and event["at"] > since
        }

    def freeze(self, instance: Instance) -> bool:
        """Stop an instance that is at work; when its leases are over, the bus delivers its jobs again."""
        jobs = self.working(instance)
        if not jobs:
            return False
        with ThreadPoolExecutor(1) as stopper:
            stopped = stopper.submit(instance.stop_for, STOP_SECONDS)
            time.sleep(LEASE_OVER)
            # Several times, as some of them go to the one that is stopped.
            asyncio.run(self.send([*jobs] * 4))
            return stopped.result()
