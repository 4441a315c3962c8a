"""How long the parts of a run took, its slowest tests, and why tests failed; or, without a folder, the last runs side by side.

    python3 tests/tools/times.py [FOLDER]
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = 6
SLOWEST = 10
# As Rust's test programs print it.
TEST = re.compile(r"^test (\S+)(?: - .*)? \.\.\. (?:ok|FAILED) <([0-9.]+)s>$", re.MULTILINE)
FAILED = re.compile(r"^---- (\S+) stdout ----$(.*?)(?=^---- |^failures:$|\Z)", re.MULTILINE | re.DOTALL)
# A panic, and what it says: a test prints what its processes wrote besides.
PANIC = re.compile(r"^thread .* panicked at .*(?:\n.*){1,15}", re.MULTILINE)
WIDEST = 300
# So many lines of a part that failed otherwise: what it marks as a failure, or its last ones.
MOST = 60
LAST = 20


def taken(file):
    """The seconds of a part, how it ended, and the processor's; a run that was cut short, or a full disk, leaves files without."""
    words = file.read_text().split() if file.exists() else []
    seconds, status, processor = (words + ["0"] * (3 - len(words))) if words else (0, 1, 0)
    return int(seconds), int(status), int(processor)


def parts(run):
    return {file.stem: taken(file) for file in run.glob("*.part")}


def shown(seconds):
    return f"{seconds // 60}:{seconds % 60:02}"


def one(run):
    """The table of one run."""
    print(f"\n{'part':<24}{'min:s':>7}{'processor':>11}")
    done = parts(run)
    for name, (seconds, status, processor) in sorted(done.items(), key=lambda part: -part[1][0]):
        print(f"{name:<24}{shown(seconds):>7}{shown(processor):>11}{'' if status == 0 else '   FAILED'}")
    seconds, _, _ = taken(run / "all")
    print(f"{'all, side by side':<24}{shown(seconds):>7}{shown(sum(part[2] for part in done.values())):>11}")
    tests = [found for log in run.glob("*.log") for found in TEST.findall(log.read_text(errors="replace"))]
    slowest = sorted(((float(time), name) for name, time in tests), reverse=True)[:SLOWEST]
    if slowest:
        print(f"\nthe slowest of {len(tests)} tests, in seconds")
    for time, name in slowest:
        print(f"{time:>8.1f}  {name}")
    failures(run)


def failures(run):
    """Each test of Rust that failed, and its first panic; of another part that failed, what it says of its failures, or its end."""
    for name, (_, status, _) in sorted(parts(run).items()):
        if status == 0:
            continue
        log = run / f"{name}.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        tests = FAILED.findall(said)
        for test, words in tests:
            panic = PANIC.search(words)
            show(f"{name}: {test}", panic.group().splitlines() if panic else ["without a panic"])
        if not tests:
            lines = said.splitlines()
            show(name, [line for line in lines if line.startswith("FAILED ")][-MOST:] or lines[-LAST:])


def show(name, lines):
    print(f"\nfailed in {name}")
    for line in lines:
        print(f"    {line[:WIDEST]}")


def side_by_side(runs):
    """The last runs of each goal."""
    for goal in sorted({run.name.split("-", 5)[-1] for run in runs}):
        last = [run for run in runs if run.name.split("-", 5)[-1] == goal][-RUNS:]
        columns = [parts(run) for run in last]
        names = sorted({name for column in columns for name in column})
        # As 2026-05-01T10-20-30-test.
        print(f"\n{goal:<24}" + "".join(f"{run.name[5:16].replace('T', ' '):>13}" for run in last))
        for name in names:
            cells = [column.get(name) for column in columns]
            texts = ["" if cell is None else shown(cell[0]) + (" !" if cell[1] else "") for cell in cells]
            print(f"{name:<24}" + "".join(f"{text:>13}" for text in texts))
        print(f"{'all':<24}" + "".join(f"{shown(taken(run / 'all')[0]):>13}" for run in last))


def main():
    if len(sys.argv) > 1:
        return one(pathlib.Path(sys.argv[1]))
    runs = sorted(run for run in (ROOT / ".tools/times").glob("*") if (run / "all").exists())
    if not runs:
        return print("No run yet: make quick, check, test or test-system.")
    return side_by_side(runs)


if __name__ == "__main__":
    main()
