"""Writes what croniter makes of expressions, for tests/timetable/croniter.rs: `make occurrences`.

Each line: zone, expression, first instant, last instant, and the occurrences after the first and up to the last; all
instants are seconds since 1970. croniter is told UTC for the calendar and real zones for the odd days of clocks.
"""

import datetime
import itertools
import pathlib
import zoneinfo

import croniter

HERE = pathlib.Path(__file__).parent

# Days on which a clock jumps; two days of each are looked at.
ODD_DAYS = [
    ("America/New_York", "2025-03-09"),
    ("America/New_York", "2025-11-02"),
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Australia/Lord_Howe", "2025-10-05"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Pacific/Chatham", "2025-09-28"),
    ("Pacific/Chatham", "2026-04-05"),
    ("America/Santiago", "2025-09-07"),
    ("America/Santiago", "2026-04-05"),
    ("Pacific/Apia", "2011-12-30"),
]

ODD_EXPRESSIONS = [
    "30 2 * * *",
    "0 2,14 * * *",
    "*/10 0-6 * * *",
    "*/10 2 * * *",
    "30 * * * *",
    "0 */2 * * *",
    "*/15 * * * *",
    "0 0 * * *",
    "30 1 * * *",
    "45 23 * * *",
    "0 12 30 * *",
]

CALENDAR = [
    "0 0 31 * *",
    "0 0 29 2 *",
    "0 0 L * *",
    "0 0 * * 5L",
    "0 0 15W * *",
    "0 0 1W * *",
    "0 0 31W * *",
    "0 0 * * 5#3",
    "0 0 * * 0#5",
    "0 0 13 * 5",
    "0 0 1-31/2 * 1",
    "0 0 1,15 * 1-5",
    "30 6 * * 7",
    "0 0 * * 5-7",
    "0 0 * 2 0",
    "15 10 28-31 2,4,6 *",
    "*/7 9-17 1 */3 *",
    "5,10,35-40 */5 * 1 1-5",
    "0 22 * * 1-5",
    "0 0,12 1 */2 *",
    "0 4 8-14 * *",
    "23 0-20/2 * * *",
    "0 0 30,31 * *",
]


def occurrences(expression, zone, first, last):
    start = datetime.datetime.fromtimestamp(first, zone)
    # croniter writes the last Friday the other way round.
    schedule = croniter.croniter(expression.replace("5L", "L5"), start, ret_type=float)
    return list(itertools.takewhile(lambda at: at <= last, map(int, schedule.all_next(float))))


def line(name, expression, first, last):
    found = occurrences(expression, zoneinfo.ZoneInfo(name), first, last)
    return "|".join([name, expression, str(first), str(last), ",".join(map(str, found))])


def main():
    lines = []
    for name, day in ODD_DAYS:
        noon = datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00")
        around = [noon + datetime.timedelta(days=days) for days in (-2, 2)]
        first, last = (int(at.timestamp()) for at in around)
        lines += [line(name, expression, first, last) for expression in ODD_EXPRESSIONS]
    first = int(datetime.datetime(2023, 12, 31, 23, 59, tzinfo=datetime.timezone.utc).timestamp())
    for expression in CALENDAR:
        # Enough for a leap year of the rare ones, and no more of the frequent ones.
        years = 13 if expression == "0 0 29 2 *" else 2
        last = first + years * 366 * 86_400
        written = line("UTC", expression, first, last).split("|")
        found = written[-1].split(",")[:60]
        lines.append("|".join([*written[:3], found[-1], ",".join(found)]))
    HERE.joinpath("croniter.txt").write_text("\n".join(lines) + "\n")


main()
