"""What building the pages does beside MkDocs and griffe; `mkdocs.yml` names it for both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from griffe import Extension

EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Leave a page that is not written yet out of the contents; called by MkDocs."""
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


class Examples(Extension):
    """An example in a docstring is code; griffe knows it only under a heading in the plural."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe with each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub("Examples:", obj.docstring.value)
