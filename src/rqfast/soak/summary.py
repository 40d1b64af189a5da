"""How a soak went, in words and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from .faults import LOST_REPLY
from .history import RULES
from .shown import Shown

if TYPE_CHECKING:
    from .run import Result

KINDS = {"p": "publishers", "w": "workers", "s": "subscribers"}


class KindSeen(NamedTuple):
    """A kind of fault: how often it was, and how often on the leader of that moment."""

    kind: str
    times: int
    on_leader: int


def verdict(result: Result, short: Sequence[str]) -> str:
    """In a word how it went (str)."""
    if not result.passed:
        return "FAILED"
    return "nothing was broken, but too little was shown" if short else "passed"


def summary(result: Result) -> dict[str, str]:
    """What was seen, in figures: what -> how much."""
    shown, figures = result.shown, result.figures
    seconds = max(figures.seconds, 1e-9)
    rows = {
        "messages": f"{shown.messages:,} in {shown.groups:,} groups, {shown.messages / seconds:,.0f} a second",
        "done": f"{shown.done:,} acknowledgements were confirmed, of {shown.leases:,} leases",
        "other calls": ", ".join(f"{count:,} {name}" for name, count in sorted(shown.calls.items()) if name != "ack"),
        "killed": f"{_killed(result)}, {shown.cut:,} {'call' if shown.cut == 1 else 'calls'} under way in them",
        "lapsed": f"{shown.lapses:,} leases; {shown.taken_over:,} were taken over, {shown.orphans:,} of killed workers",
        "refused": f"{shown.refused:,} settlements of leases that were lost; {shown.late:,} late ones were accepted",
        "not applied": f"{shown.unavailable:,} calls, as they were told",
        "unknown": _unknown(shown),
        "longest": f"pause {shown.longest_pause:.2f} s, call {shown.longest_call:.2f} s, "
        f"take-over {shown.longest_take_over:.2f} s after the lease",
    }
    if result.faults:
        rows["faults"] = ", ".join(f"{seen.times:,} {seen.kind}" for seen in kinds_of(result))
    applied, not_applied = lost_replies(result)
    if applied or not_applied:
        rows["lost replies"] = f"{applied + not_applied:,}, of which {applied:,} were of requests that were applied"
    if result.pauses:
        worst = max(result.pauses, key=lambda pause: pause.seconds)
        rows["leader lost"] = (
            f"{len(result.pauses):,} times; the longest that a call stood still was {worst.seconds:.2f} s, "
            f"{worst.fault.election or 0.0:.2f} s of them without a leader"
        )
    return rows


def kinds_of(result: Result) -> list[KindSeen]:
    """The kinds of faults, by name; of lost replies as many as there were."""
    times: Counter[str] = Counter()
    on_leader: Counter[str] = Counter()
    for fault in result.faults:
        times[fault.kind] += fault.count
        on_leader[fault.kind] += fault.on_leader
    return [KindSeen(kind, times[kind], on_leader[kind]) for kind in sorted(times, key=str.lower)]


def lost_replies(result: Result) -> tuple[int, int]:
    """Replies that were lost: of requests that were applied, and of others."""
    replies = [fault for fault in result.faults if fault.is_lost_reply]
    applied = sum(fault.count for fault in replies if fault.applied)
    return applied, sum(fault.count for fault in replies) - applied


def record(result: Result, short: Sequence[str]) -> dict[str, Any]:
    """The same for programs: what JSON can hold."""
    plan, shown = result.plan, result.shown
    applied, not_applied = lost_replies(result)
    kinds = [seen for seen in kinds_of(result) if seen.kind != LOST_REPLY]
    return {
        "verdict": verdict(result, short),
        "short": list(short),
        "seed": plan.seed,
        "minutes": plan.minutes,
        "processes": {"publishers": plan.publishers, "workers": plan.workers, "subscribers": plan.subscribers},
        "seconds": result.seconds,
        "shown": _plain(shown),
        "rules": {rule: result.verdict.counts.get(rule, 0) for rule in RULES},
        "kills": dict(Counter(KINDS[kill.who[0]] for kill in result.kills)),
        "faults": {seen.kind: {"times": seen.times, "on_leader": seen.on_leader} for seen in kinds},
        "lost_replies": {"applied": applied, "not_applied": not_applied},
        "pauses": [
            {"kind": pause.fault.kind, "election": pause.fault.election, "seconds": pause.seconds, "call": pause.name}
            for pause in result.pauses
        ],
    }


def _plain(shown: Shown) -> dict[str, Any]:
    plain = {one.name: getattr(shown, one.name) for one in fields(shown)}
    return plain | {"unknown": {name: asdict(ended) for name, ended in shown.unknown.items()}}


def _killed(result: Result) -> str:
    counts = Counter(KINDS[kill.who[0]] for kill in result.kills)
    return (
        ", ".join(f"{count:,} {kind.removesuffix('s') if count == 1 else kind}" for kind, count in counts.items())
        or "none"
    )


def _unknown(shown: Shown) -> str:
    told = [
        f"{name}: {_listed(ended.applied, ended.not_applied, ended.untold)}"
        for name, ended in sorted(shown.unknown.items())
    ]
    return "; ".join(told) or "none"


def _listed(applied: int, not_applied: int, untold: int) -> str:
    parts: Iterable[tuple[int, str]] = ((applied, "applied"), (not_applied, "not"), (untold, "cannot be told"))
    return ", ".join(f"{count:,} {what}" for count, what in parts if count)
