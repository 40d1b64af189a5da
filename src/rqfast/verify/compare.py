"""Tables of several nodes side by side, a page at a time: pure functions, and the sums that they fill.

A row is a list: its key, then its values.  All pages are in the order of their keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .found import TableState

Row = list[Any]
Pages = Mapping[str, list[Row]]


def advance(pages: Pages) -> tuple[Any, dict[str, list[Row]]]:
    """How far all pages reach: the key up to which they may be compared (None: no node has more), and the rows
    up to it.  What lies behind it on some nodes is read again."""
    ends = [rows[-1][0] for rows in pages.values() if rows]
    if not ends:
        return None, {}
    bound = min(ends)
    return bound, {node: [row for row in rows if row[0] <= bound] for node, rows in pages.items()}


def first_difference(pages: Pages, columns: Sequence[str]) -> str:
    """The first row that is not the same in all pages: its key, where it is missing, and what differs ("" if none)."""
    lists = list(pages.values())
    if all(rows == lists[0] for rows in lists):
        return ""
    held = {node: {row[0]: row for row in rows} for node, rows in pages.items()}
    for key in sorted({key for rows in held.values() for key in rows}):
        seen = {node: rows.get(key) for node, rows in held.items()}
        kinds = list(seen.values())
        if any(row != kinds[0] for row in kinds):
            return _describe(key, seen, columns)
    # A key that stands twice in one table.
    return f"{columns[0]} {lists[0][0][0] if lists[0] else '?'!r}: not as often on every node"


def _describe(key: Any, seen: Mapping[str, Row | None], columns: Sequence[str]) -> str:
    kinds: list[tuple[Row, list[str]]] = []
    missing = [node for node, row in seen.items() if row is None]
    for node, row in seen.items():
        alike = next((nodes for other, nodes in kinds if other == row), None)
        if alike is not None:
            alike.append(node)
        elif row is not None:
            kinds.append((row, [node]))
    told = []
    if missing:
        there = [node for node, row in seen.items() if row is not None]
        told.append(f"missing on {_nodes(missing)}, there on {_nodes(there)}")
    if len(kinds) > 1:
        values = zip(*(row for row, _ in kinds), strict=False)
        names = dict.fromkeys(name for name, of in zip(columns, values, strict=False) if of.count(of[0]) < len(of))
        told.append(f"{', '.join(names)} differs between {' and '.join(_nodes(nodes) for _, nodes in kinds)}")
    return f"{columns[0]} {key!r}: {'; '.join(told)}"


def _nodes(nodes: Sequence[str]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(nodes)}"


class Sums:
    """Counts and checksums of one table on each node, and its first difference."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._hashes = {node: hashlib.blake2b(digest_size=16) for node in nodes}
        self.rows: dict[str, int] = dict.fromkeys(nodes, 0)
        self.difference: str = ""

    def add(self, pages: Pages, columns: Sequence[str]) -> None:
        """Take in the rows up to a common bound."""
        for node, rows in pages.items():
            self.rows[node] += len(rows)
            self._hashes[node].update(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        self.difference = self.difference or first_difference(pages, columns)

    def finish(self, state: TableState) -> None:
        """Write down what came of it."""
        state.rows = self.rows
        state.sums = {node: found.hexdigest() for node, found in self._hashes.items()}
        state.difference = self.difference
