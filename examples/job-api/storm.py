"""Kills and stops instances of the job API and their sidecars by a seed, and checks what became of the jobs.

- Every job has its result, and has it once.
- No job is ever run by two at a time, and no more jobs at once than there are permits.
- No write is accepted from a holder after a later one's.
- All jobs are done soon after the last kill.

Two negative controls must break this: without the lock jobs are run twice, and without the check of the token a writer
that was stopped overwrites what a later one has written.
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from uuid import UUID

from chaos import Chaos, Events, Folder, now, overlaps, until

from instances import SECOND, Instance, World
from worker import AT_ONCE

DONE_WITHIN = 45
# Each change of a job, in the order in which the database made them.
AUDIT = b"""
CREATE TABLE audit (number BIGSERIAL, job_id UUID, fencing_token BIGINT);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fencing_token > 0 THEN
        INSERT INTO audit (job_id, fencing_token) VALUES (NEW.id, NEW.fencing_token);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON job FOR EACH ROW EXECUTE FUNCTION audit();
"""
LATE = """
SELECT count(*) FROM audit late WHERE EXISTS
    (SELECT FROM audit WHERE job_id = late.job_id AND number < late.number AND fencing_token > late.fencing_token)
"""
TWICE = "SELECT count(*) FROM (SELECT job_id FROM result GROUP BY job_id HAVING count(*) > 1) AS twice"
MISSING = "SELECT count(*) FROM job WHERE status <> 'done' OR NOT EXISTS (SELECT FROM result WHERE job_id = id)"


class Runs:
    """When jobs were worked at: of each job and token, from the first moment with valid locks to the last one."""

    def __init__(self, events: Events) -> None:
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for event in events.of("works"):
            key, at = (event["job"], event["token"]), event["at"]
            first, last = found.get(key, (at, at))
            found[key] = (min(first, at), max(last, at))
        self.number = len(found)
        self._of_job: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for (job, token), (first, last) in found.items():
            self._of_job[job].append((first, last, str(token)))

    def two_at_once(self) -> int:
        """How often a job was worked at by two."""
        return sum(len(overlaps(runs)) for runs in self._of_job.values())

    def most_at_once(self) -> int:
        """The most jobs that were worked at at the same moment."""
        changes = [change for runs in self._of_job.values() for a, b, _ in runs for change in ((a, 1), (b, -1))]
        most = at_once = 0
        for _, change in sorted(changes):
            at_once += change
            most = max(most, at_once)
        return most


def pick(world: World, chaos: Chaos, action: Callable[[Instance], bool]) -> bool:
    """Do something to an instance that is at work, and to which nothing else is done now."""
    instance = chaos.random.choice(world.instances)
    if not instance.busy.acquire(blocking=False):
        return False
    try:
        return bool(world.working(instance)) and action(instance)
    finally:
        instance.busy.release()


def kill_app(instance: Instance) -> bool:
    acted = instance.app.kill()
    instance.app.start()
    return acted


def kill_sidecar(instance: Instance) -> bool:
    acted = instance.sidecar.kill()
    instance.sidecar.start()
    return acted


async def make_jobs(world: World, random: Random, number: int, pages: int, is_enough: Callable[[], bool]) -> int:
    """Make jobs, as many as wanted at least and until it is enough, and send each message once more."""
    made = 0
    while made < number or not is_enough():
        job_id = UUID(int=random.getrandbits(128), version=4)
        await world.post(job_id, pages)
        await world.send([job_id])
        made += 1
        await asyncio.sleep(random.uniform(0.2, 0.5))
    return made


def storm(seed: int, *, long: bool) -> None:
    """The real thing."""
    jobs, kills, stops = (300, (40, 20), (5, 5)) if long else (30, (4, 3), (1, 0))
    with Folder("job-api-chaos") as folder:
        world = World(folder, "jobs", 4)
        world.database.execute(AUDIT)
        killer = Chaos(seed, (1.0, 3.0))
        killer.add("instance", kills[0], lambda: pick(world, killer, kill_app))
        killer.add("sidecar", kills[1], lambda: pick(world, killer, kill_sidecar))
        stoppers = [Chaos(seed + 1 + each, (0.2, 1.0)) for each in range(len(stops))]
        for stopper, times in zip(stoppers, stops, strict=True):
            stopper.add("stop", times, partial(pick, world, stopper, world.freeze))
        everything = [killer, *stoppers]
        for each in everything:
            each.start()
        try:
            made = asyncio.run(
                make_jobs(world, Random(seed), jobs, 4, lambda: all(each.is_done for each in everything))
            )
            for each in everything:
                each.end()
        finally:
            for each in everything:
                each.cancel()
        last_at = max(each.last_at for each in everything)
        until("all jobs are done", DONE_WITHIN + 15, lambda: world.count(MISSING) == 0)
        done_after = (now() - last_at) / SECOND
        # What a second message might still do.
        time.sleep(3)
        runs = Runs(world.events)
        stopped = sum(each.done["stop"] for each in stoppers)
        late, twice = world.count(LATE), world.count(TWICE)
        figures = [
            f"seed {seed}, all while they were at work:",
            f"    instances killed with -9             {killer.done['instance']:>6}",
            f"    sidecars killed with -9              {killer.done['sidecar']:>6}",
            f"    both stopped for 20 s                {stopped:>6}",
            f"    jobs, each message sent twice        {made:>6}",
            f"    runs of them                         {runs.number:>6}",
            f"    jobs without a result                {world.count(MISSING):>6}",
            f"    jobs with two results                {twice:>6}",
            f"    jobs run by two at once              {runs.two_at_once():>6}",
            f"    most jobs at once (permits: {AT_ONCE})       {runs.most_at_once():>6}",
            f"    late writes accepted                 {late:>6}",
            f"    late writes refused                  {len(world.events.of('refused')):>6}",
            f"    seconds from the last kill to done   {done_after:>6.1f}",
        ]
        print("\n".join(figures), flush=True)
        assert killer.done == {"instance": kills[0], "sidecar": kills[1]}, "every kill acted"
        assert stopped == sum(stops), "every stop acted"
        assert world.count("SELECT count(*) FROM job") == made, "every job is there"
        assert twice == 0, "every result is there once"
        assert runs.two_at_once() == 0, "no job is run by two at once"
        assert runs.most_at_once() <= AT_ONCE, "no more jobs at once than permits"
        assert late == 0, "no late write is accepted"
        assert done_after <= DONE_WITHIN, f"all jobs are done within {DONE_WITHIN} s"


def control_without_lock(seed: int) -> None:
    """Negative control: without a lock the second message of a job runs it a second time."""
    with Folder("job-api-control") as folder:
        world = World(folder, "without_lock", 2, ("careless.py", "no-lock"))
        asyncio.run(make_jobs(world, Random(seed), 6, 4, lambda: True))
        until("the control has to show a result twice", 20, lambda: world.count(TWICE) > 0)
        runs = Runs(world.events)
        print(f"control, no lock: {world.count(TWICE)} of 6 jobs have two results,", end=" ")
        print(f"{runs.two_at_once()} were run by two at once", flush=True)
        assert runs.two_at_once() > 0, "the control has to show a job run by two at once"


def control_without_token(seed: int) -> None:
    """Negative control: without the check of the token, a writer that was stopped overwrites a later one's."""
    with Folder("job-api-control") as folder:
        world = World(folder, "without_token", 2, ("careless.py", "no-token"))
        world.database.execute(AUDIT)
        asyncio.run(make_jobs(world, Random(seed), 6, 200, lambda: True))
        until("an instance is stopped at work", 10, lambda: any(world.freeze(each) for each in world.instances))
        until("the control has to show a late write that is accepted", 10, lambda: world.count(LATE) > 0)
        print(f"control, no check of the token: {world.count(LATE)} late writes accepted after one stop", flush=True)


def main() -> None:
    """Run everything, and fail if anything is otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="60 kills and 10 stops instead of 7 and 1")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    begun = now()
    with ThreadPoolExecutor(3) as together:
        everything = [
            together.submit(storm, options.seed, long=options.long),
            together.submit(control_without_lock, options.seed),
            together.submit(control_without_token, options.seed),
        ]
    print(f"took {(now() - begun) / SECOND:.0f} s", flush=True)
    failures = [failure for each in everything if (failure := each.exception())]
    for failure in failures:
        print(f"FAILED with seed {options.seed}: {failure!r}", file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
