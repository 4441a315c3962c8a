"""Writes what dateutil's rules of iCalendar make of dated intervals, for tests/timetable/dated.rs: `make occurrences`.

Each line: zone, days, the first local time, first instant, and the instants from it on; all are seconds since 1970. dateutil counts by
the wall clock and knows no zone; what becomes of a local time that does not exist, or comes twice, is done here by T14's words.
"""

import datetime
import itertools
import pathlib
import random
import zoneinfo

from dateutil.rrule import DAILY, rrule

HERE = pathlib.Path(__file__).parent
ZONES = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "America/Santiago",
    "Pacific/Apia",
    "America/Havana",
    "Asia/Kolkata",
]
# Where clocks jump, and where they do not.
TIMES = ["00:00", "00:30", "01:30", "02:00", "02:30", "02:45", "03:15", "12:00", "23:45"]
EACH = 12
SHOWN = 40


def offset(at, zone):
    return datetime.datetime.fromtimestamp(at, zone).utcoffset()


def instant(local, zone):
    """The first pass of a local time; the end of the gap if it falls into one."""
    before, after = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    if datetime.datetime.fromtimestamp(before, zone).replace(tzinfo=None) == local:
        return before
    low, high = after, before
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle, zone) == offset(after, zone) else (low, middle)
    return high


def line(name, days, start, first):
    zone = zoneinfo.ZoneInfo(name)
    found = (instant(local, zone) for local in rrule(DAILY, interval=days, dtstart=start))
    # Equal instants are one.
    later = (at for at, _ in itertools.groupby(at for at in found if at >= first))
    shown = itertools.islice(later, SHOWN)
    return "|".join([name, str(days), start.isoformat("T", "minutes"), str(first), ",".join(map(str, shown))])


def main():
    chosen = random.Random(14)
    lines = []
    for name in ZONES:
        for _ in range(EACH):
            day = datetime.date(2000, 1, 1) + datetime.timedelta(days=chosen.randrange(9_500))
            start = datetime.datetime.combine(day, datetime.time.fromisoformat(chosen.choice(TIMES)))
            days = chosen.choice([1, 1, 2, 7, 10, 14, 28, 91])
            # Before it, at it, and long after it.
            after = chosen.choice([-86_400, 0, chosen.randrange(400_000_000)])
            lines.append(line(name, days, start, int(start.replace(tzinfo=datetime.timezone.utc).timestamp()) + after))
    # The day that Samoa left out, and midnights that do not exist.
    lines.append(line("Pacific/Apia", 1, datetime.datetime(2011, 12, 1, 2, 0), 1_324_900_000))
    lines.append(line("America/Havana", 1, datetime.datetime(2012, 3, 1, 0, 30), 1_330_600_000))
    HERE.joinpath("dated.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
