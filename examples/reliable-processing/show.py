"""Shows workers that die at each step, and jobs that outlast their message; `run` starts it beside PostgreSQL."""

from functools import partial

from chaos import Events, Folder, until

from stage import INVISIBLE, LONG_PAGES, STEPS, Worker, World


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m", flush=True)


def tell(events: Events, job: str) -> None:
    """Print what workers did with a job."""
    told = ""
    for event in events:
        token = f", fencing token {event['token']}" if event["token"] else ""
        line = f"    {event['worker']} {event['what']}{token}"
        if event["job"] == job and line != told:
            print(line, flush=True)
            told = line


def done(world: World) -> None:
    """Wait until every job is done and no message is left."""
    until("all jobs are done", 30, lambda: world.unfinished() == 0)


def claimed(world: World, job: str) -> list[str]:
    """Give the workers that have claimed a job."""
    return [event["worker"] for event in world.events.of("claimed") if event["job"] == job]


def was_killed(workers: list[Worker]) -> bool:
    """Whether one of them has ended."""
    return not all(worker.program.is_running for worker in workers)


def end(workers: list[Worker]) -> None:
    """End workers that are still there."""
    for worker in workers:
        worker.program.end()


def show(world: World) -> None:
    """Show it."""
    step("1. A job: fetch, claim under the lock, perform, record, delete.")
    workers = world.workers()
    (job,) = world.submit([3])
    done(world)
    tell(world.events, job)
    end(workers)

    step(
        f"2. kill -9 after each of these steps. {INVISIBLE} s later the message is visible, and another worker goes on."
    )
    for name in STEPS:
        workers = world.workers(crash_at=name)
        (job,) = world.submit([3])
        until("a worker was killed", 20, partial(was_killed, workers))
        done(world)
        print(f"  killed after {name!r}:")
        tell(world.events, job)
        end(workers)

    step(f"3. A job of {LONG_PAGES // 10} s. Its message comes back every {INVISIBLE} s; the lock is busy then.")
    workers = world.workers()
    (job,) = world.submit([LONG_PAGES])
    done(world)
    tell(world.events, job)
    end(workers)

    step("4. The same without the lock: a message that is hidden was taken for a job that is reserved.")
    workers = world.workers("careless", "no-lock")
    (job,) = world.submit([LONG_PAGES])
    until("two workers have claimed it", 20, lambda: len(claimed(world, job)) > 1)
    print(f"    claimed by {' and '.join(claimed(world, job))}, and run by both")
    end(workers)


def main() -> None:
    """Show it, and leave nothing."""
    with Folder("reliable") as folder:
        print("Starting three workers, with a sidecar each.", flush=True)
        show(World(folder, "jobs", 3))
    print("\nEverything is ended, and nothing is left.")


if __name__ == "__main__":
    main()
