"""Shows the job API in three instances, step by step; `run` starts it beside PostgreSQL and RabbitMQ."""

import asyncio
from uuid import UUID, uuid4

from chaos import Folder, until

from instances import Instance, World

RESULTS = "SELECT count(*) FROM result"
RESULT_OF = "SELECT count(*) FROM result WHERE job_id = %s"


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m", flush=True)


def tell(world: World, job_id: UUID) -> None:
    """Print who worked at a job."""
    told = set()
    for event in world.events:
        if event.get("job") == str(job_id) and (line := f"{event['instance']} {event['what']}") not in told:
            told.add(line)
            print(f"    {line}, fencing token {event['token']}", flush=True)


def worker_of(world: World, job_id: UUID) -> Instance | None:
    """Find the instance that is at a job."""
    return next((each for each in world.instances if str(job_id) in world.working(each)), None)


def begun(world: World, job_id: UUID) -> Instance:
    """Wait until an instance is at the job."""
    until("the job is begun", 20, lambda: worker_of(world, job_id) is not None)
    instance = worker_of(world, job_id)
    if instance is None:
        raise AssertionError("the job went on")
    return instance


def show(world: World) -> None:
    """Show it."""
    step("1. POST makes a job: 202, with a link to its state.")
    first = uuid4()
    link = asyncio.run(world.post(first, 2))["job"]
    print(f"    202 Accepted, Location: {link}", flush=True)
    until("the job is done", 20, lambda: world.count(RESULTS) == 1)
    print(f"    GET: {asyncio.run(world.instances[0].request('GET', link))}")
    tell(world, first)

    step("2. Six jobs; the bus delivers each message twice. The lock lets one instance run a job.")
    for job_id in (more := [uuid4() for _ in range(6)]):
        asyncio.run(world.post(job_id, 2))
    asyncio.run(world.send(more))
    until(
        "the jobs are done", 20, lambda: world.count("SELECT count(*) FROM job WHERE status = 'done'") == 1 + len(more)
    )
    print(f"    {world.count(RESULTS) - 1} results")

    step("3. kill -9 of the instance that runs a job: another one goes on from its last page, with a greater token.")
    killed = uuid4()
    asyncio.run(world.post(killed, 8))
    instance = begun(world, killed)
    instance.app.kill()
    until("the job is done", 45, lambda: world.count(RESULT_OF, killed) == 1)
    tell(world, killed)
    instance.app.start()

    step("4. An instance and its sidecar are frozen for 20 s: another one goes on, and the late write is refused.")
    frozen = uuid4()
    asyncio.run(world.post(frozen, 8))
    world.freeze(begun(world, frozen))
    until("the late write is refused", 20, lambda: bool(world.events.of("refused")))
    until("the job is done", 45, lambda: world.count(RESULT_OF, frozen) == 1)
    tell(world, frozen)


def main() -> None:
    """Show it, and leave nothing."""
    with Folder("job-api") as folder:
        print("Starting three instances of the API, with a sidecar each.", flush=True)
        show(World(folder, "jobs", 3))
    print("\nEverything is ended, and nothing is left.")


if __name__ == "__main__":
    main()
