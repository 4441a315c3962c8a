"""Judges a run of this example by what was added, what Redis's ledgers have, and when work went on."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos import Event, overlaps, percentile

SECOND = 1_000_000_000


@dataclass
class Verdict:
    """What was found. The faults are to be 0; the rest are figures."""

    added: int
    applied: int
    lost: int
    twice: int
    out_of_order: int
    overlapping: int
    repeated: int
    holds: int
    waited_p50: float
    waited_p95: float
    stuck: float
    seconds: float

    @property
    def faults(self) -> int:
        """How often something happened that must not."""
        return self.lost + self.twice + self.out_of_order + self.overlapping

    @property
    def a_second(self) -> float:
        """How many movements were applied a second."""
        return self.applied / self.seconds


def judge(events: list[Event], ledgers: dict[str, list[dict[str, Any]]]) -> Verdict:
    """Compares what was added with what was applied, and looks at when each account was worked at."""
    by_account: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: int(event["at"])):
        if "account" in event:
            by_account[event["account"]].append(event)
    applied = lost = twice = out_of_order = overlapping = repeated = holds = 0
    waits: list[float] = []
    stuck = 0.0
    for account, its in by_account.items():
        amounts = {event["number"]: int(event["amount"]) for event in its if event["what"] == "added"}
        numbers = [int(entry["number"]) for entry in ledgers.get(account, [])]
        applied += len(numbers)
        holds += len({entry.get("token") for entry in ledgers.get(account, [])})
        lost += len(amounts.keys() - set(numbers))
        twice += len(numbers) - len(set(numbers))
        out_of_order += sum(later <= earlier for earlier, later in pairwise(numbers))
        out_of_order += _wrong_balances(ledgers.get(account, []), amounts)
        works = _works(its)
        overlapping += len(overlaps(works))
        repeated += len(works) - len({name for _, _, name in works})
        waited, gap = _waits(its)
        waits += waited
        stuck = max(stuck, gap)
    ats = [int(event["at"]) for event in events if event["what"] in ("added", "applied")]
    return Verdict(
        added=sum(event["what"] == "added" for event in events),
        applied=applied,
        lost=lost,
        twice=twice,
        out_of_order=out_of_order,
        overlapping=overlapping,
        repeated=repeated,
        holds=holds,
        waited_p50=percentile(waits, 0.5),
        waited_p95=percentile(waits, 0.95),
        stuck=stuck,
        seconds=(max(ats) - min(ats)) / SECOND,
    )


def _wrong_balances(ledger: list[dict[str, Any]], amounts: dict[int, int]) -> int:
    balance = wrong = 0
    for entry in ledger:
        balance += amounts.get(int(entry["number"]), 0)
        wrong += balance != int(entry["balance"])
    return wrong


def _works(events: list[Event]) -> list[tuple[int, int, str]]:
    """From when to when each movement was worked at. What a kill cut off counts as a moment."""
    works: list[tuple[int, int, str]] = []
    begun: dict[tuple[int, int], int] = {}
    for event in events:
        at, of = int(event["at"]), (int(event["pid"]), int(event["number"]))
        if event["what"] == "begin":
            begun[of] = len(works)
            works.append((at, at, str(event["number"])))
        elif event["what"] == "end":
            place = begun.pop(of)
            works[place] = (works[place][0], at, str(event["number"]))
    return works


def _waits(events: list[Event]) -> tuple[list[float], float]:
    """How long each movement waited until it was begun, and the longest time in which nobody was at an account."""
    waits: list[float] = []
    longest = 0
    added: dict[int, int] = {}
    open_since: dict[int, int] = {}
    busy_at = 0
    for event in events:
        at, number = int(event["at"]), int(event["number"])
        if event["what"] == "added":
            added[number] = at
            if not open_since:
                busy_at = at
            open_since[number] = at
        elif event["what"] == "begin":
            if number in open_since:
                longest = max(longest, at - busy_at)
            if number in added:
                waits.append((at - added.pop(number)) / SECOND)
            busy_at = at
            # This is not written by who was killed just before: the next begin says the same.
            for earlier in [each for each in open_since if each < number]:
                del open_since[earlier]
        elif event["what"] == "applied":
            open_since.pop(number, None)
            busy_at = at
    return waits, longest / SECOND
