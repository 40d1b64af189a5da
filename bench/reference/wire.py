"""Where statements go, and what comes back."""

from __future__ import annotations

from typing import Any

EXECUTE = "/db/execute"
TRANSACTION = "/db/execute?transaction"
QUERY = "/db/query?level=strong"

# Connections that are kept.
POOL = 256


def results_of(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The result of each statement.

    Raises:
        RuntimeError: one of them, or all, failed.
    """
    for part in [reply, *reply.get("results", [])]:
        if "error" in part:
            raise RuntimeError(part["error"])
    results: list[dict[str, Any]] = reply["results"]
    return results


def rows_of(reply: dict[str, Any]) -> list[list[Any]]:
    """The rows of a query."""
    rows: list[list[Any]] = results_of(reply)[0].get("values", [])
    return rows
