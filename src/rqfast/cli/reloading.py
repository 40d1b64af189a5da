"""Sources that change, for `rqfast work --reload`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Folders in which nobody writes sources by hand.
PASSED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
MOST = 20_000


class Files:
    """The Python files below the working folder, as they were at the last look."""

    def __init__(self) -> None:
        self._root = Path.cwd()
        self._seen = dict(self._all())

    def changed(self) -> str | None:
        """A file that was changed, made or removed since the last look; None: there is none."""
        now = dict(self._all())
        before, self._seen = self._seen, now
        for name in now.keys() | before.keys():
            if now.get(name) != before.get(name):
                return os.path.relpath(name, self._root)
        return None

    def _all(self) -> Iterator[tuple[str, int]]:
        count = 0
        for folder, folders, files in os.walk(self._root):
            folders[:] = [name for name in folders if name not in PASSED and not name.startswith(".")]
            for name in files:
                if not name.endswith(".py"):
                    continue
                path = os.path.join(folder, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:  # gone meanwhile
                    continue
                count += 1
                if count >= MOST:
                    return
