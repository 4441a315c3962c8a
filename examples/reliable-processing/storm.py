"""Kills workers between their steps and at work, by a seed, and checks what became of the jobs.

- Killed once at each job after a step, all jobs succeed, and are performed exactly as often as that step says.
- Jobs that take three times as long as their message is hidden are never run by two workers at once, also when
  workers and sidecars are killed or stopped.
- The archive has one document for each job, of the holder that recorded it, and took none that came late.
- No job changes its state in a way that the worker does not know.

Two negative controls must break this: without the lock jobs are run by two at once, and without the check of the token
the archive takes a document that was on its way while a later holder had written.
"""

import argparse
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from signal import SIGKILL

from chaos import Chaos, Folder, now, overlaps, until

from held import Network
from stage import INVISIBLE, LONG_PAGES, SECOND, STEPS, Worker, World

STOP_SECONDS = 20
# How often a job is performed whose worker was killed after this step.
PERFORMED = {"fetched": 1, "claimed": 1, "performed": 2, "recorded": 1, "deleted": 1}
# Each change of a job, and each document that the archive took, in the databases' own order.
CHANGES = """
CREATE TABLE change (job_id UUID, before TEXT, after TEXT, token_before BIGINT, token_after BIGINT);
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO change VALUES (NEW.id, OLD.state, NEW.state, OLD.fencing_token, NEW.fencing_token);
    RETURN NULL;
END $$;
CREATE TRIGGER change AFTER UPDATE ON job FOR EACH ROW EXECUTE FUNCTION change();
"""
TAKEN = """
CREATE TABLE taken (number BIGSERIAL, job_id UUID, fencing_token BIGINT);
CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taken (job_id, fencing_token) VALUES (NEW.job_id, NEW.fencing_token);
    RETURN NULL;
END $$;
CREATE TRIGGER taken AFTER INSERT OR UPDATE ON document FOR EACH ROW EXECUTE FUNCTION taken();
"""
ILLEGAL = """
SELECT count(*) FROM change WHERE NOT
    (before IN ('queued', 'running') AND after = 'running' AND token_after > token_before
  OR before = 'running' AND after = 'done' AND token_after = token_before)
"""
# Taken twice from one holder, or after a later holder's.
LATE = """
SELECT count(*) FROM taken late WHERE EXISTS
    (SELECT FROM taken WHERE job_id = late.job_id AND number < late.number AND fencing_token >= late.fencing_token)
"""
# What PostgreSQL says to an INSERT: how many rows it has changed.
ANSWER = re.compile(rb"INSERT 0 (\d)")


def watched(folder: Folder, name: str, number: int, *, locks: bool = True) -> World:
    """Make a world whose databases keep what was done to them."""
    world = World(folder, name, number, locks=locks)
    world.jobs.ask(CHANGES)
    world.archive.ask(TAKEN)
    return world


def check(world: World, jobs: int) -> list[str]:
    """Check what holds for all jobs; gives its figures."""
    recorded = dict(world.jobs.ask("SELECT id, fencing_token FROM job WHERE state = 'done'"))
    archived = dict(world.archive.ask("SELECT job_id, fencing_token FROM document"))
    illegal, late, twice = world.jobs.count(ILLEGAL), world.archive.count(LATE), two_at_once(world)
    assert len(recorded) == jobs, f"all {jobs} jobs succeed: {len(recorded)}"
    assert world.unfinished() == 0, "no message is left"
    assert archived == recorded, "the archive has one document for each job, with the token of its record"
    assert illegal == 0, f"no illegal transition: {illegal}"
    assert late == 0, f"the archive took nothing late: {late}"
    assert twice == 0, f"no job is run by two at once: {twice}"
    return [
        row("jobs that succeeded", len(recorded)),
        row("documents in the archive", len(archived)),
        row("illegal changes of state", illegal),
        row("late documents taken", late),
        row("jobs run by two at once", twice),
    ]


def two_at_once(world: World) -> int:
    """How often a job was worked at by two: by the first and the last moment of each run of it."""
    runs: dict[str, dict[tuple[str, int], tuple[int, int]]] = defaultdict(dict)
    for event in world.events.of("works"):
        key, at = (event["worker"], event["token"]), event["at"]
        first, last = runs[event["job"]].get(key, (at, at))
        runs[event["job"]][key] = (min(first, at), max(last, at))
    return sum(
        len(overlaps((first, last, str(key)) for key, (first, last) in of_job.items())) for of_job in runs.values()
    )


def row(what: str, figure: object) -> str:
    return f"    {what:<44}{figure!s:>6}"


class Keeper:
    """Starts workers again that were killed, and counts them."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.killed = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "keeper")
        self._kept = self._pool.submit(self._keep)

    def kill(self, worker: Worker) -> bool:
        with self._lock:
            acted = worker.program.kill()
            self.killed += acted
            worker.program.start()
        return acted

    def has_counted(self, kills: int) -> bool:
        return self.killed >= kills

    def kill_for_good(self, worker: Worker) -> bool:
        with self._lock:
            self.workers.remove(worker)
            return worker.program.kill()

    def _keep(self) -> None:
        while not self._over.wait(0.01):
            for worker in self.workers:
                with self._lock:
                    status = worker.program.status
                    if status is None:
                        continue
                    assert status == -SIGKILL, f"{worker.name} ended with status {status}"
                    self.killed += 1
                    worker.program.start()

    def end(self) -> None:
        self._over.set()
        self._pool.shutdown()
        for worker in self.workers:
            worker.program.end()
        self._kept.result()


def is_over(world: World, step: str, jobs: int) -> bool:
    """Whether a worker was killed at each job after this step, and everything is done."""
    return len(list(world.crashed(step).iterdir())) == jobs and world.unfinished() == 0


def crash(seed: int, jobs: int) -> list[str]:
    """Kill the worker after each of its steps, once for each job."""
    random = Random(seed)
    figures = [f"killed with -9 after a step, once for each job, 3 workers (seed {seed}):"]
    with Folder("reliable-chaos") as folder:
        world = watched(folder, "crash", 3)
        for step in STEPS:
            keeper = Keeper(world.workers(crash_at=step))
            try:
                ids = set(world.submit(random.randint(1, 3) for _ in range(jobs)))
                until(
                    f"all jobs are done whose workers were killed after {step!r}",
                    120,
                    partial(is_over, world, step, jobs),
                )
                # The last one that was killed is counted when it is started again.
                until("every kill is counted", 10, partial(keeper.has_counted, jobs))
            finally:
                keeper.end()
            times = Counter(job for (job,) in world.archive.ask("SELECT job_id FROM taken") if job in ids)
            told = Counter(each["job"] for each in world.events.of("performed") if each["job"] in ids)
            assert keeper.killed == jobs, f"{step}: one kill a job: {keeper.killed} of {jobs}"
            performed = sorted(set(times.values()))
            figures.append(
                row(f"after {step!r}: kills", keeper.killed) + f"   performed {'/'.join(map(str, performed))} times"
            )
            assert set(times) == ids, f"{step}: every job was performed"
            assert performed == [PERFORMED[step]], f"{step}: performed exactly {PERFORMED[step]} times: {times}"
            assert told == times, f"{step}: workers tell what the archive has"
        return figures + check(world, jobs * len(STEPS))


def pick(world: World, chaos: Chaos, workers: list[Worker], action: Callable[[Worker], bool]) -> bool:
    """Do something to a worker that is at work."""
    worker = chaos.random.choice(workers)
    return world.working(worker.name) is not None and action(worker)


def kill_sidecar(worker: Worker) -> bool:
    acted = worker.sidecar.kill()
    worker.sidecar.start()
    return acted


def long_jobs(seed: int, jobs: int, kills: tuple[int, int], stops: int) -> list[str]:
    """Jobs three times as long as their message is hidden, and always a worker that is free to fetch it again."""
    with Folder("reliable-chaos") as folder:
        world = watched(folder, "long", 3)
        workers = world.workers()
        keeper = Keeper(workers)
        killer = Chaos(seed, (1.0, 3.0))
        killer.add("worker", kills[0], lambda: pick(world, killer, workers, keeper.kill))
        killer.add("sidecar", kills[1], lambda: pick(world, killer, workers, kill_sidecar))
        killer.add("stop", stops, lambda: pick(world, killer, workers, lambda each: each.stop_for(STOP_SECONDS)))
        killer.start()
        made = 0
        try:
            while made < jobs or not killer.is_done:
                if world.jobs.count("SELECT count(*) FROM job WHERE state <> 'done'") < len(workers) - 1:
                    world.submit([LONG_PAGES])
                    made += 1
                time.sleep(0.1)
            killer.end()
            until("all jobs are done", 60, lambda: world.unfinished() == 0)
        finally:
            killer.cancel()
            keeper.end()
        assert killer.done == {"worker": kills[0], "sidecar": kills[1], "stop": stops}, "every kill and stop acted"
        assert keeper.killed == kills[0], f"workers were killed {keeper.killed} times"
        busy = len(world.events.of("busy"))
        assert busy > made, f"running jobs are fetched a second time, and found busy: {busy}"
        return [
            f"jobs of {LONG_PAGES / 10:.0f} s, messages hidden for {INVISIBLE} s, 3 workers (seed {seed}):",
            row("workers killed with -9, at work", killer.done["worker"]),
            row("sidecars killed with -9, their workers at work", killer.done["sidecar"]),
            row(f"both stopped for {STOP_SECONDS} s, at work", killer.done["stop"]),
            row("fetched again while they ran, found busy", busy),
            row("late writes refused", len(world.events.of("refused"))),
            *check(world, made),
        ]


def late_write(folder: Folder, world: World, round_: int, *program: str) -> bool:
    """Kill a worker whose document is on its way, and let it arrive when a later holder has written.

    Whether the archive took it.
    """
    network = Network(world.archive.url, folder.path / f"network-{round_}")
    keeper = Keeper(world.workers(*program, archive=network.url))
    try:
        # The first worker gets one of them before long.
        until("a document is on its way", 20, lambda: network.held.wait(1) or not world.submit([1]))
        assert keeper.kill_for_good(keeper.workers[0]), "the worker was killed"
        until("the others have done all jobs", 20, lambda: world.unfinished() == 0)
        network.deliver()
        until("the archive has answered", 10, lambda: any(ANSWER.search(each) for each in network.answers))
    finally:
        network.deliver()
        network.close()
        keeper.end()
    answer = next(found for each in network.answers if (found := ANSWER.search(each)))
    return answer[1] == b"1"


def late_writes(times: int) -> list[str]:
    """Writes that the network holds back until a later holder has written."""
    with Folder("reliable-chaos") as folder:
        world = watched(folder, "late", 2)
        taken = sum(late_write(folder, world, each) for each in range(times))
        jobs = world.jobs.count("SELECT count(*) FROM job")
        figures = [
            "worker killed with -9, its document held back until a later holder had written:",
            row("times", times),
            row("taken by the archive", taken),
            *check(world, jobs),
        ]
        assert taken == 0, f"the archive refuses what is late: {taken} of {times} taken"
        return figures


def control_without_token() -> list[str]:
    """Negative control: an archive that does not compare tokens takes what is late."""
    with Folder("reliable-control") as folder:
        world = watched(folder, "no_token", 2)
        late_write(folder, world, 0, "careless", "no-token")
        late = world.archive.count(LATE)
        assert late == 1, f"the control has to show a late document taken: {late}"
        return ["control, no check of the token:", row("late documents taken, of 1", late)]


def control_without_lock(jobs: int) -> list[str]:
    """Negative control: without the lock a message that comes back has its job run by two at once."""
    with Folder("reliable-control") as folder:
        world = watched(folder, "no_lock", 3, locks=False)
        workers = world.workers("careless", "no-lock")
        world.submit([LONG_PAGES] * jobs)
        until("the control has to show jobs run by two at once", 30, lambda: two_at_once(world) >= jobs)
        for worker in workers:
            worker.program.end()
        return ["control, no lock:", row("jobs", jobs), row("runs of them beside another one", two_at_once(world))]


def main() -> None:
    """Run everything, and fail if anything is otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="100 kills after each step instead of 10, and more jobs")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    jobs, long, kills, stops, late = (100, 40, (20, 10), 4, 20) if options.long else (10, 4, (2, 1), 1, 2)
    begun = now()
    with ThreadPoolExecutor(5) as together:
        everything = [
            together.submit(crash, options.seed, jobs),
            together.submit(long_jobs, options.seed, long, kills, stops),
            together.submit(late_writes, late),
            together.submit(control_without_lock, 2),
            together.submit(control_without_token),
        ]
    failures = []
    for each in everything:
        if failure := each.exception():
            failures.append(failure)
        else:
            print("\n".join(each.result()))
    print(f"took {(now() - begun) / SECOND:.0f} s", flush=True)
    for failure in failures:
        print(f"FAILED with seed {options.seed}: {failure!r}", file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
