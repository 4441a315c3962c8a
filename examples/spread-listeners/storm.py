"""Replaces and adds replicas of listeners, and checks who listened to what, and when.

- No two replicas listen to a queue at once, and each goes on where the last one stopped.
- In a rolling restart no queue is without a listener for longer than a lease and the poll cap; in the long form, which
  is to run on a machine that has nothing else to do, for longer than the poll cap and a second.
- In the end no replica has two queues more than another.

The negative control, the same without a share, must leave most queues to one replica.
"""

import argparse
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from chaos import Folder, Sidecar, percentile, until

from stage import MOVED, Deployment

# The poll cap by default, and a second, in seconds.
WITHOUT_LISTENER = 6.0
# What is promised whatever the machine does: a lease duration and the poll cap.
PROMISED = 20.0
COLUMNS = ["listeners in", "queues that went on elsewhere", "without a listener: p50", "longest"]
COLUMNS += ["even after a scale-out", "queues each", "faults"]


class Watch:
    """`leasehold ls --by-sidecar --watch`, at a sidecar that has no listeners; each line with its time."""

    def __init__(self, folder: Folder, deployment: Deployment) -> None:
        self._sidecar: Sidecar = folder.add(deployment.sidecar(f"{deployment.name}-watch"))
        self._sidecar.start()
        self._begun = time.monotonic()
        command = [self._sidecar.program, "ls", "--by-sidecar", "--share", "listeners", "--watch"]
        command += ["--endpoint", self._sidecar.endpoint]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            self.lines.append(f"{time.monotonic() - self._begun:7.1f} s  {line.rstrip()}")

    def note(self, text: str) -> None:
        """Write what is done into the transcript."""
        self.lines.append(f"{time.monotonic() - self._begun:7.1f} s  # {text}")

    def end(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._thread.join()


def storm(folder: Folder, language: str, *, long: bool) -> tuple[list[str], list[str]]:
    """The real thing in one language: its row, and the transcript."""
    deployment = Deployment(folder, language)
    watch = Watch(folder, deployment)
    try:
        watch.note("three replicas are started at once")
        deployment.start(3)
        until(f"{language}: even after a cold start", MOVED, deployment.is_even)
        watch.note("each is replaced by a new one")
        before = len(deployment.gaps())
        deployment.roll()
        until(f"{language}: even after a rolling restart", MOVED, deployment.is_even)
        gaps = deployment.gaps()[before:]
        grown = "-"
        if long:
            watch.note("a fourth one is added")
            begun = time.monotonic()
            deployment.add()
            until(f"{language}: even after a scale-out", MOVED, deployment.is_even)
            grown = f"{time.monotonic() - begun:.0f} s"
        watch.note("all are ended")
        counts = ", ".join(map(str, sorted(deployment.counts(), reverse=True)))
        for replica in deployment.replicas:
            replica.end()
    finally:
        watch.end()
    faults = deployment.faults()
    assert not faults, f"{language}: {faults}"
    assert gaps, f"{language}: a rolling restart moves queues"
    longest = WITHOUT_LISTENER if long else PROMISED
    assert max(gaps) <= longest, f"{language}: a queue had no listener for {max(gaps):.1f} s"
    moved = f"{len(gaps)} | {percentile(gaps, 0.5):.1f} s | {max(gaps):.1f} s"
    return [f"| {language} | {moved} | {grown} | {counts} | 0 |"], watch.lines


def control(folder: Folder) -> list[int]:
    """Negative control: no lock names a share."""
    deployment = Deployment(folder, "without-share")
    for _ in range(3):
        deployment.add()
    until("every queue is listened to", 30, lambda: len(deployment.owners()) == deployment.queues)
    counts = deployment.counts()
    for replica in deployment.replicas:
        replica.end()
    return counts


def main() -> None:
    """Run everything, and fail if anything is otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="in Go too, a fourth replica, and the transcript")
    long: bool = parser.parse_args().long
    try:
        with Folder("spread-listeners") as folder:
            languages = ["python", "go"] if long else ["python"]
            with ThreadPoolExecutor(len(languages) + 1) as together:
                runs = [together.submit(storm, folder, language, long=long) for language in languages]
                plain = together.submit(control, folder)
                done = [run.result() for run in runs]
                counts = plain.result()
            print(f"| {' | '.join(COLUMNS)} |")
            print(f"| --- |{' ---: |' * (len(COLUMNS) - 1)}")
            for rows, _ in done:
                print("\n".join(rows))
            print(f"control, no share: queues of each replica {', '.join(map(str, counts))}")
            assert max(counts) - min(counts) > 1, "the control has to be uneven"
            if long:
                print("\n".join(["", *done[0][1]]))
    except AssertionError as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
