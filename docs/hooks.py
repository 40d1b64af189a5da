"""What building the pages does beside MkDocs: a page of `nav` that is not written yet is left out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Called by MkDocs with its configuration."""
    config.nav = _there(config.nav, Path(config.docs_dir))
    return config


def _there(entries: list[Any], docs: Path) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            below = _there(target, docs)
            kept += [{title: below}] if below else []
        elif (docs / target).is_file():
            kept.append(entry)
    return kept
