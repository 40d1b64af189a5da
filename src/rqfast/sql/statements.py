"""Reads the .sql files and renders them for one queue.  Owns the text of statements, nothing else."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from .names import quote, table_names

_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)


@cache
def read_statements(file: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the statements and the fragments of one .sql file, in the order they stand there."""
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    parts = _HEADING.split(text)[1:]
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = [line for line in body.splitlines() if line and not line.startswith("--")]
        found[kind][name] = " ".join(lines)
    return found["name"], found["fragment"]


def _closing(text: str, start: int) -> int:
    """Where the brace that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"unbalanced braces in {text!r}")


def _render(text: str, pieces: dict[str, str], x: str = "") -> str:
    """Replace each {name} and {name(expression)} of `text` by the piece of that name, rendered likewise."""
    done: list[str] = []
    at = 0
    while (brace := text.find("{", at)) >= 0:
        end = _closing(text, brace)
        name, _, argument = text[brace + 1 : end].partition("(")
        done.append(text[at:brace])
        if name == "x":
            done.append(x)
        else:
            done.append(_render(pieces[name], pieces, _render(argument[:-1], pieces, x)))
        at = end + 1
    done.append(text[at:])
    return "".join(done)


class Statements:
    """The rendered statements of one queue, as attributes of a mapping from name to text.

    `queue` holds those of publishing, claiming and settling, `operate` those of the operating calls, `table` the parts
    of those on a table of the user's own (inbox.py), `schema` those
    that make the tables, `compat` those that keep old workers in order (of the default queue only), `finish` those
    that end this, `verify` those of `rqfast verify`.
    """

    def __init__(self, queue: str | None) -> None:
        self.names: dict[str, str] = table_names(queue)
        pieces = {name: quote(real) for name, real in self.names.items()}
        pieces |= {f"{name}_raw": self.names[name] for name in ("messages", "groups")}
        statements, fragments = read_statements("queue.sql")
        pieces |= fragments
        self.queue: dict[str, str] = {name: _render(text, pieces) for name, text in statements.items()}
        self.schema: dict[str, str] = {
            name: _render(text, pieces) for name, text in read_statements("schema.sql")[0].items()
        }
        self.table: dict[str, str] = {
            name: _render(text, pieces) for name, text in read_statements("table.sql")[0].items()
        }
        statements, fragments = read_statements("operate.sql")
        pieces |= fragments
        self.operate: dict[str, str] = {name: _render(text, pieces) for name, text in statements.items()}
        statements, more = read_statements("verify.sql")
        self.verify: dict[str, str] = {name: _render(text, pieces | more) for name, text in statements.items()}
        self.compat: dict[str, str] = {}
        self.finish: dict[str, str] = {}
        if queue is None:
            statements, more = read_statements("compat.sql")
            self.compat = {name: _render(text, pieces | more) for name, text in statements.items()}
            self.finish = {name: _render(text, pieces) for name, text in read_statements("finish.sql")[0].items()}
        statements, fragments = read_statements("opening.sql")
        pieces |= fragments
        self.opening: dict[str, str] = {name: _render(text, pieces) for name, text in statements.items()}

    def look(self, min_priority: int, only: tuple[str, str] | None) -> tuple[str, str, list[object]]:
        """What a claim of these groups looks with: name, text, and its parameters after the time."""
        if only is not None:
            name = f"look_{only[0]}"
            return name, self.queue[name], [min_priority, only[1]]
        name = "look_high" if min_priority else "look"
        return name, self.queue[name], [min_priority]
