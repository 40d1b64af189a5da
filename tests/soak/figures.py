"""The figures of a soak as they stand in a document: Markdown from the report's JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def figures(told: dict[str, Any]) -> str:
    """The tables (str)."""
    shown, replies = told["shown"], told["lost_replies"]
    processes = ", ".join(f"{count} {kind}" for kind, count in told["processes"].items())
    kills = ", ".join(f"{count:,} {kind}" for kind, count in sorted(told["kills"].items()))
    pauses = told["pauses"]
    worst = max(pauses, key=lambda pause: pause["seconds"], default=None)
    rows = [
        ("ended", f"{told['verdict']}; {sum(told['rules'].values()):,} breaks of {len(told['rules'])} rules"),
        ("for", f"{told['minutes']:g} minutes; {processes}; seed {told['seed']}"),
        ("messages", f"{shown['messages']:,} in {shown['groups']:,} groups; {shown['done']:,} confirmed as done"),
        ("leases", f"{shown['leases']:,}; {shown['lapses']:,} lapsed, {shown['taken_over']:,} of them were taken over"),
        ("late", f"{shown['refused']:,} settlements of leases that were lost were refused"),
        ("killed", f"{kills}; {shown['cut']:,} calls were under way in them"),
        ("lost replies", f"{replies['applied']:,} of requests that were applied, {replies['not_applied']:,} of others"),
        ("told that nothing was applied", f"{shown['unavailable']:,} calls"),
    ]
    if worst is not None:
        rows.append(
            (
                "longest pause of a caller",
                f"{worst['seconds']:.2f} s ({worst['kind']}; no node led for {worst['election']:.2f} s)",
            )
        )
    parts = [_table(("", ""), rows)]
    parts.append(_table(("fault", "times", "on the leader of that moment"), _faults(told)))
    parts.append(_table(("unknown outcome of", "applied", "not applied", "cannot be told"), _unknown(shown["unknown"])))
    if pauses:
        parts.append(
            _table(
                ("leader lost by", "times", "longest time without one", "longest pause", "most over"), _pauses(pauses)
            )
        )
    return "\n\n".join(parts) + "\n"


def _faults(told: dict[str, Any]) -> Iterable[Sequence[str]]:
    for kind, seen in told["faults"].items():
        yield kind, f"{seen['times']:,}", f"{seen['on_leader']:,}"


def _unknown(unknown: dict[str, dict[str, int]]) -> Iterable[Sequence[str]]:
    for name, ended in sorted(unknown.items()):
        yield f"`{name}`", f"{ended['applied']:,}", f"{ended['not_applied']:,}", f"{ended['untold']:,}"


def _pauses(pauses: Sequence[dict[str, Any]]) -> Iterable[Sequence[str]]:
    for kind in sorted({pause["kind"] for pause in pauses}):
        of_kind = [pause for pause in pauses if pause["kind"] == kind]
        longest = max(pause["seconds"] for pause in of_kind)
        over = max(pause["seconds"] - pause["election"] for pause in of_kind)
        yield (
            kind,
            f"{len(of_kind)}",
            f"{max(pause['election'] for pause in of_kind):.2f} s",
            f"{longest:.2f} s",
            f"{over:.2f} s",
        )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(figures(json.loads(Path(sys.argv[1]).read_bytes())))
