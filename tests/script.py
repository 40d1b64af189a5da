"""A Python of its own, as a user would start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 120
# But for the one that Python 3.12.0 to 3.12.3 give of a numbered parameter, ?1, which they take for a named one.
WARNINGS_ARE_ERRORS = ("-W", "error", "-W", "ignore:Binding:DeprecationWarning")


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in that folder, with warnings as errors, and wait for its end."""
    return subprocess.run(
        [sys.executable, *WARNINGS_ARE_ERRORS, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
