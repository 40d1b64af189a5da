"""The exit statuses: what each number means, and what it means to a single command where that is more exact."""

from __future__ import annotations

import typer

from ..errors import OutcomeUnknown, PublishIncomplete, RqfastError, Unavailable

WELL, FAILED, USAGE, UNAVAILABLE, UNKNOWN = 0, 1, 2, 3, 4
INTERRUPTED, PIPE_CLOSED = 130, 141

USUAL = {
    WELL: "done",
    FAILED: "it failed, and stderr says why",
    USAGE: "the command line cannot be understood",
    UNAVAILABLE: "no leader answered and nothing was applied: try again",
    UNKNOWN: "it cannot be told whether it was applied",
    INTERRUPTED: "interrupted (Ctrl-C)",
}

# Command -> what is different there.
OWN: dict[str, dict[int, str]] = {
    "bench": {UNKNOWN: ""},
    "dead drop": {FAILED: "it failed, was refused at the question, or not all of them were there"},
    "dead list": {UNKNOWN: ""},
    "dead redrive": {FAILED: "it failed, or not all that were named were there"},
    "dead show": {FAILED: "it failed, or there is no such dead letter", UNKNOWN: ""},
    "delete": {FAILED: "it failed, or the message is not there or is in work"},
    "demo": {FAILED: "a promise was broken, or it could not be run", UNAVAILABLE: "no leader answered", UNKNOWN: ""},
    "dev": {WELL: "stopped (Ctrl-C, SIGTERM)", UNAVAILABLE: "", UNKNOWN: "", INTERRUPTED: ""},
    "groups": {UNKNOWN: ""},
    "inbox check": {FAILED: "something is missing, or it failed", UNKNOWN: ""},
    "peek": {UNKNOWN: ""},
    "publish": {
        FAILED: "it failed; stderr says what is in and how to go on",
        UNAVAILABLE: "no leader answered; stderr says what is in and how to go on",
        UNKNOWN: "it cannot be told whether all is in; stderr says what may be",
        INTERRUPTED: "interrupted; stderr says how to go on",
    },
    "purge": {FAILED: "it failed, or was refused at the question"},
    "queues": {UNKNOWN: ""},
    "release": {FAILED: "it failed, or nothing held the group"},
    "schema check": {FAILED: "something is missing or of another version, or it failed", UNKNOWN: ""},
    "schema show": {UNKNOWN: ""},
    "soak": {
        WELL: "all is well",
        FAILED: "a rule was broken, or it could not be run",
        USAGE: "it showed too little to say so, or the command line cannot be understood",
        UNAVAILABLE: "no leader answered",
        UNKNOWN: "",
    },
    "stats": {UNKNOWN: ""},
    "top": {WELL: "left (q, Ctrl-C)", UNKNOWN: "", INTERRUPTED: ""},
    "verify": {
        WELL: "all agrees",
        FAILED: "something does not agree",
        USAGE: "it could not be told, or the command line cannot be understood",
        UNAVAILABLE: "",
        UNKNOWN: "",
    },
    "work": {
        WELL: "stopped (Ctrl-C, SIGTERM, or by itself)",
        FAILED: "it failed, and stderr says why",
        USAGE: "there is no such worker or queue, or the command line cannot be understood",
        UNAVAILABLE: "no leader answered",
        UNKNOWN: "",
        INTERRUPTED: "",
    },
}


class Misused(typer.BadParameter):
    """A command line whose parts do not go together; the text says what to do."""

    def format_message(self) -> str:
        """See click."""
        return str(self.message)


def statuses(command: str) -> dict[int, str]:
    """What each exit status of a command means (status -> text)."""
    return {number: text for number, text in (USUAL | OWN.get(command, {})).items() if text}


def epilog(command: str) -> str:
    """The line of the help that tells them (str)."""
    return "Exit status: " + "; ".join(f"{number} {text}" for number, text in statuses(command).items()) + "."


def status_of(error: BaseException) -> int:
    """The exit status that tells of an error (int)."""
    if isinstance(error, PublishIncomplete) and isinstance(error.__cause__, RqfastError):
        return UNKNOWN if error.unknown else status_of(error.__cause__)
    if isinstance(error, Unavailable):
        return UNAVAILABLE
    if isinstance(error, OutcomeUnknown):
        return UNKNOWN
    return FAILED
