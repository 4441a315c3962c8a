"""An instance of the job API: takes jobs by HTTP, and runs some of them. Settings come from the environment.

- DATABASE_URL, AMQP_URL and LEASEHOLD_ENDPOINT: PostgreSQL, RabbitMQ and the sidecar
- SOCKET: the Unix socket to listen on
- INSTANCE: its name, for people
- RUNS: how many jobs it takes from the queue at a time
- QUEUE: the queue's name
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from uuid import UUID, uuid4

import aio_pika
import leasehold
from aio_pika.abc import AbstractIncomingMessage
from aiohttp import web
from psycopg_pool import ConnectionPool

from jobs import Jobs
from worker import Worker

THREADS = 32
PAGES_MAX = 1000

log = logging.getLogger(__name__)


class Instance:
    """The API's handlers, and what runs beside them."""

    def __init__(self, worker: type[Worker] = Worker, jobs: type[Jobs] = Jobs) -> None:
        self._pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=8, open=False)
        self._jobs = jobs(self._pool)
        self._make_worker = worker
        self._queue = os.environ.get("QUEUE", "jobs")
        self._channel: aio_pika.abc.AbstractChannel

    async def post(self, request: web.Request) -> web.Response:
        """Make a job and answer with its link. A caller that repeats its request sends the same Idempotency-Key."""
        try:
            job_id = UUID(request.headers.get("Idempotency-Key") or str(uuid4()))
            pages = int((await request.json())["pages"])
        except (KeyError, TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text='send {"pages": 3}, and an Idempotency-Key that is a UUID') from error
        if not 1 <= pages <= PAGES_MAX:
            raise web.HTTPBadRequest(text=f"pages is {pages}; send 1 to {PAGES_MAX}")
        await asyncio.to_thread(self._jobs.create, job_id, pages)
        # Killed here, nobody hears of the job; the recovery does.
        await self._send(job_id)
        link = f"/jobs/{job_id}"
        return web.json_response({"job": link}, status=HTTPStatus.ACCEPTED, headers={"Location": link})

    async def get(self, request: web.Request) -> web.Response:
        """Tell how far a job is."""
        try:
            job = await asyncio.to_thread(self._jobs.find, UUID(request.match_info["id"]))
        except ValueError:
            job = None
        if job is None:
            raise web.HTTPNotFound(text="there is no such job")
        return web.json_response({"status": job.status, "pages_done": job.pages_done, "pages": job.pages})

    async def _send(self, job_id: UUID) -> None:
        message = aio_pika.Message(str(job_id).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, routing_key=self._queue)

    async def run(self, _: web.Application) -> AsyncIterator[None]:
        """Take messages and recover jobs for as long as the API runs."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        with self._pool:
            async with await aio_pika.connect_robust(os.environ["AMQP_URL"]) as bus, leasehold.AsyncClient() as client:
                self._channel = await bus.channel()
                await self._channel.set_qos(prefetch_count=int(os.environ.get("RUNS", "4")))
                queue = await self._channel.declare_queue(self._queue, durable=True)
                worker = self._make_worker(client, self._jobs, self._send, os.environ["INSTANCE"])

                async def take(message: AbstractIncomingMessage) -> None:
                    async with message.process():
                        await worker.handle(UUID(message.body.decode()))

                recovery = asyncio.create_task(worker.recover())
                recovery.add_done_callback(end_with)
                consumer = await queue.consume(take)
                yield
                await queue.cancel(consumer)
                recovery.cancel()
                with suppress(asyncio.CancelledError):
                    await recovery


def end_with(recovery: asyncio.Task[None]) -> None:
    """End the instance when its recovery fails for good: what starts it again will tell."""
    if not recovery.cancelled() and (error := recovery.exception()):
        log.error("the recovery ended: %s", error)
        signal.raise_signal(signal.SIGTERM)


def main(instance: Instance) -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    app = web.Application()
    app.add_routes([web.post("/jobs", instance.post), web.get("/jobs/{id}", instance.get)])
    app.cleanup_ctx.append(instance.run)
    web.run_app(app, path=os.environ["SOCKET"], print=None)


if __name__ == "__main__":
    main(Instance())
