"""The processes of a soak, seen from their parent: who ended by itself, and who did not; what is written at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast.demo.journal import Journal
from rqfast.errors import OutcomeUnknown, Unavailable
from rqfast.soak.breaks import Broken
from rqfast.soak.calls import DONE, REFUSED, UNKNOWN
from rqfast.soak.crew import Crew
from rqfast.soak.journal import Folder
from rqfast.soak.process import Job, SoakError
from rqfast.soak.recorder import Recorder
from rqfast.soak.run import Plan, run, write_end
from tests.cluster import free_port

SECONDS = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def opening(folder: Folder) -> Iterator[Crew]:
    """A publisher that opens its queue for ever: nothing listens there."""
    job = Job("", f"http://127.0.0.1:{free_port()}", "q", folder.path, 1, groups=("g",), timeout=0.5)
    with Crew([job], [], [], folder, random.Random(1)) as crew:
        yield crew


def test_a_publisher_that_opens_ends_when_it_is_told_to_and_not_before(opening: Crew, folder: Folder) -> None:
    folder.set("drain")
    opening.wait_publishers(SECONDS)
    opening.look()
    assert (opening.kills, opening.dead) == ([], [])
    folder.clear("drain")
    opening.look()
    opening.look()
    assert opening.dead == ["p1-1 ended by itself with exit code 0: no reason is written down"]


def test_a_publisher_that_was_killed_did_not_end_by_itself(opening: Crew, folder: Folder) -> None:
    opening.wait_publishers(0)
    folder.set("drain")
    opening.look()
    assert ([kill.who for kill in opening.kills], opening.dead) == (["p1-1"], [])


class Away(Broken):
    """Answers no question the first time."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self._errors: dict[str, Exception] = {
            "stats": Unavailable("away"),
            "groups": OutcomeUnknown("away"),
            "dead_letters": Unavailable("away"),
        }

    def stats(self) -> Any:
        return self._ask("stats")

    def groups(self, **how: Any) -> Any:
        return self._ask("groups", **how)

    def dead_letters(self, **how: Any) -> Any:
        return self._ask("dead_letters", **how)

    def _ask(self, name: str, **how: Any) -> Any:
        if error := self._errors.pop(name, None):
            raise error
        return getattr(self._transport, name)(**how)


def test_what_is_not_told_at_the_end_is_asked_again(folder: Folder) -> None:
    with rqfast.connect(folder.path / "q.db") as transport, Journal(folder.journal("driver")) as journal:
        transport.publish("g", {"id": "m1"})
        write_end(Recorder("driver", Away(transport), journal), SECONDS)
    told = [(call.name, call.told, len(call.held)) for call in folder.read()]
    assert told == [
        ("stats", REFUSED, 0),
        ("stats", DONE, 0),
        ("left", UNKNOWN, 0),
        ("left", DONE, 1),
        ("dead", REFUSED, 0),
        ("dead", DONE, 0),
    ]


def test_what_is_never_told_at_the_end_is_an_error(folder: Folder) -> None:
    with (
        rqfast.connect(folder.path / "q.db") as transport,
        Journal(folder.journal("driver")) as journal,
        pytest.raises(SoakError, match=r"waited 0 s for stats\(\) at the end"),
    ):
        write_end(Recorder("driver", Away(transport), journal), 0)


class Remover:
    """Takes the database away when a part of the soak begins, so that its queue cannot be dropped."""

    def __init__(self, path: Path, part: str, error: Exception | None) -> None:
        self._path = path
        self._part = part
        self._error = error

    def begin(self, what: str, seconds: float | None) -> None:
        if what == self._part:
            self._path.unlink()
            if self._error is not None:
                raise self._error

    def goes_on(self, seconds: float, published: int, done: int) -> None:
        """Nothing is shown."""

    def killed(self, who: str) -> None:
        """Nothing is shown."""


@pytest.mark.parametrize("error", [None, SoakError("the real one")])
def test_a_queue_that_cannot_be_dropped_hides_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    (tmp_path / "soak").mkdir()
    path = tmp_path / "q.db"
    plan = Plan(str(path), "mine", tmp_path / "soak", minutes=0.005, publishers=1, workers=1, groups=4, kill_every=0)
    remover = Remover(path, "Checking", error)
    if error is None:
        assert run(plan, remover).passed
    else:
        with pytest.raises(SoakError, match="the real one"):
            run(plan, remover)
    assert f"the queue 'mine' stays, it could not be dropped: {path}: there is no such database" in caplog.text
