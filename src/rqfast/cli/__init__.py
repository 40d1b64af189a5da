"""The command `rqfast`; needs the extra `cli`.  app.py has the options of all commands, each command its own file."""

from __future__ import annotations

import sys

NEEDS = ("typer", "rich")


def main() -> int:
    """Run the command line; returns the exit status (int): 0 well, 1 not, 2 cannot be understood, 130 Ctrl-C."""
    try:
        from .app import run
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDS:
            raise
        sys.stderr.write("rqfast: the command line needs typer and rich: pip install 'rqfast[cli]'\n")
        return 2
    return run()
