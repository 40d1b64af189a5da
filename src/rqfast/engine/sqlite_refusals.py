"""What an error of SQLite means, and what to do about it."""

from __future__ import annotations

import os
import sqlite3

from ..errors import OutcomeUnknown, RqfastError, SchemaError, StatementError

_SCHEMA = ("no such", "there is no", "table ", "duplicate column")
_ADVICE = {
    sqlite3.SQLITE_FULL: "make room on its disk, then call again",
    sqlite3.SQLITE_IOERR: "look at its disk (room, quota, hardware), then call again",
    sqlite3.SQLITE_READONLY: "the file and its folder must be writable for this user",
    sqlite3.SQLITE_CANTOPEN: "it must be a file, in a folder that is there and writable for this user",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: stop its users, and restore it from a backup",
    sqlite3.SQLITE_NOTADB: "look at the path: it is a file of another kind, or a damaged one",
}


def refusal(error: sqlite3.Error, path: str, doing: str) -> RqfastError:
    """The error that a caller gets for one of SQLite, in the statement `doing` on the file `path`."""
    text = str(error)
    code = getattr(error, "sqlite_errorcode", None) or 0
    if doing == "commit" and code == sqlite3.SQLITE_IOERR_FSYNC:
        # It is complete in the log, if perhaps not on the disk: found there after a crash, it counts.
        return OutcomeUnknown(
            f"{path}: {text} (commit could not be synced); this call may take effect if the machine or the program "
            f"now crashes: {_ADVICE[sqlite3.SQLITE_IOERR]}, with the same dedup_id"
        )
    if text.startswith(_SCHEMA) and not doing.startswith("with_statements"):
        return SchemaError(f"{path}: {text}; nothing was applied, check the queue's tables")
    advice = _ADVICE.get(code & 0xFF)
    return StatementError(
        f"{path}: {text} ({doing}); nothing was applied" + (f"; {advice}" if advice else ""), text, doing
    )


def refuse_read_only(path: str) -> None:
    """Raise StatementError for a file that cannot be written.

    SQLite would open it, and leave a log beside it that cannot be written either, also when the file can be again.
    """
    # As the user of the files that this process opens, where the system tells.
    effective = os.access in os.supports_effective_ids
    if os.path.isfile(path) and not os.access(path, os.W_OK, effective_ids=effective):
        text = "attempt to write a readonly database"
        raise StatementError(f"{path}: {text}; nothing was applied; {_ADVICE[sqlite3.SQLITE_READONLY]}", text, "open")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another program holds the lock."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_missing(path: str) -> bool:
    """Whether there is no such file; one that this user may not see is another matter."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
