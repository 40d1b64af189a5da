"""A disk that is full or fails, a file that cannot be written or is damaged: typed errors, nothing half-done, and it
goes on when the cause goes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import rqfast
from rqfast import OutcomeUnknown, PublishIncomplete, RqfastError, SchemaError, StatementError
from rqfast.verify.found import AGREE
from rqfast.verify.run import verify
from tests.contract.conftest import COLOURS
from tests.contract.processes import SPAWN, join_all
from tests.contract.storage import filled, give_up_rights, small_disk, without_sync
from tests.contract.views import Address, Lease, View, open_address

pytestmark = pytest.mark.skipif(os.name != "posix", reason="disks and modes of files as POSIX has them")

LARGE = "x" * 3000
OWN = [["INSERT INTO own(mark) VALUES(?)", "own"]]


class Told:
    """Calls that a disk may refuse, and what their callers were told."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.refused: list[RqfastError] = []
        self.seqs: dict[str, int] = {}
        self._number = 0

    def call(self, call: Callable[[], Any]) -> Any:
        """What it gives, or None when it is refused."""
        try:
            return call()
        except (StatementError, PublishIncomplete) as error:
            self.refused.append(error)
            return None

    def publish(self, group: str = "p", **more: Any) -> bool:
        """Whether it was accepted."""
        self._number += 1
        event = f"{self._number} {LARGE}"
        seq = self.call(lambda: self.view.publish(group, event, **more))
        if seq is not None:
            self.seqs[event] = seq
        return seq is not None

    def until_refused(self) -> None:
        """Publish until nothing goes any more."""
        refused = 0
        for _ in range(5000):
            refused = 0 if self.publish() else refused + 1
            if refused == 5:
                return
        raise AssertionError("5,000 publishes filled nothing")

    def check(self, path: Path) -> None:
        """What was accepted is there, once; what was refused is not."""
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT event, seq FROM messages WHERE group_id IN ('p','many','own')").fetchall()
            marks = database.execute("SELECT count(*) FROM own").fetchone()[0]
        assert {event[1:-1]: seq for event, seq in rows} == self.seqs
        assert len(rows) == len(self.seqs), "published twice"
        with closing(sqlite3.connect(path)) as database:
            with_own = database.execute("SELECT count(*) FROM messages WHERE group_id='own'").fetchone()[0]
        assert marks == with_own, "the caller's own statement without its message"
        report = asyncio.run(verify(str(path), False))
        assert report.findings == [] and report.status == AGREE


def leases_for(view: View, path: Path) -> list[Lease]:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE own(mark TEXT)")
        database.commit()
    view.publish_many([(f"lease {n}", n) for n in range(6)])
    leases = view.claim_many("w", 600, 6)
    assert len(leases) == 6
    return leases


def hinder(told: Told, leases: list[Lease]) -> None:
    """Every kind of call, where most are refused; those that were accepted are made good by their own words."""
    view = told.view
    told.until_refused()
    told.publish("own", with_statements=OWN)
    many = told.call(lambda: view.publish_many([("many", f"m{n} {LARGE}") for n in range(3)], atomic=True))
    for n, seq in enumerate(many or ()):
        told.seqs[f"m{n} {LARGE}"] = seq
    with pytest.raises(PublishIncomplete) as caught:
        view.publish_many(("many", f"s{n} {LARGE}") for n in range(2000))
    assert isinstance(caught.value.__cause__, StatementError) and caught.value.unknown == 0
    assert caught.value.index == len(caught.value.seqs)
    told.seqs.update((f"s{n} {LARGE}", seq) for n, seq in enumerate(caught.value.seqs))
    told.until_refused()
    kept = []
    for settle in (
        lambda lease: view.ack(lease),
        lambda lease: view.nack(lease, 60),
        lambda lease: view.defer(lease, 60),
        lambda lease: view.dead_letter(lease, LARGE),
        lambda lease: view.extend(lease, 700) and None,
        lambda lease: view.ack(lease, publish=[("never", LARGE * 100)]),
    ):
        lease = leases[len(kept)]
        before = len(told.refused)
        told.call(lambda settle=settle, lease=lease: settle(lease))  # type: ignore[misc]
        kept.append(len(told.refused) > before)
    assert kept[-1], "a large publish with an ack went where nothing goes"
    # What was refused left its lease as it was: it can be settled when there is room.
    leases[:] = [lease for lease, still in zip(leases, kept, strict=True) if still]
    told.call(lambda: view.pause("p") or view.resume("p"))
    assert view.stats().messages > 0, "reading goes on"


def goes_on(told: Told, leases: list[Lease]) -> None:
    view = told.view
    assert view.ack_many(leases) == []
    before = len(told.refused)
    assert told.publish() and told.publish("own", with_statements=OWN)
    lease = view.claim("w", 600)
    assert lease is not None
    view.nack(lease)
    assert len(told.refused) == before


@pytest.mark.parametrize("colour", COLOURS)
def test_a_full_disk(tmp_path: Path, colour: str) -> None:
    with small_disk(tmp_path / "disk", "3m") as disk:
        path = disk / "queue.db"
        with open_address(Address(str(path), {}, colour)) as view:
            leases, told = leases_for(view, path), Told(view)
            with filled(disk, leave=500_000):
                hinder(told, leases)
                assert all("disk is full" in str(error) for error in told.refused)
                with pytest.raises(StatementError, match="make room"):
                    rqfast.connect(disk / "other.db")
            goes_on(told, leases)
        told.check(path)


def limited(path: str, colour: str) -> None:
    """In a process whose files may not grow beyond a size."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_address(Address(path, {}, colour)) as view:
        leases, told = leases_for(view, Path(path)), Told(view)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, most))
        hinder(told, leases)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        goes_on(told, leases)
    told.check(Path(path))


def in_child(work: Callable[..., None], *args: Any) -> None:
    process = SPAWN.Process(target=work, args=args, daemon=True)
    process.start()
    join_all([process], 60)


@pytest.mark.parametrize("colour", COLOURS)
def test_files_that_may_not_grow(tmp_path: Path, colour: str) -> None:
    """`ulimit -f`."""
    in_child(limited, str(tmp_path / "queue.db"), colour)


def test_a_commit_that_cannot_be_synced(tmp_path: Path) -> None:
    """It is not there, and would be after a crash: the caller is told neither, and publishes again under its id."""
    path, crashed = tmp_path / "queue.db", tmp_path / "crashed.db"
    with rqfast.connect(path) as view:
        view.publish("g", "before")

        def unsynced() -> None:
            with pytest.raises(OutcomeUnknown, match="synced"):
                view.publish("g", "event", dedup_id="event")
            for end in ("", "-wal"):
                shutil.copy(f"{path}{end}", f"{crashed}{end}")

        without_sync(unsynced)
        assert view.stats().messages == 1
        seq = view.publish("g", "event", dedup_id="event")
        assert view.publish("g", "event", dedup_id="event") == seq
        assert view.stats().messages == 2
    with rqfast.connect(crashed) as view:
        assert view.stats().messages == 2
        view.publish("g", "event", dedup_id="event")
        assert view.stats().messages == 2


# -- files that cannot be written --------------------------------------------------------------------------


def read_only(folder: str) -> None:
    give_up_rights()
    path = Path(folder) / "queue.db"
    rqfast.connect(path).close()
    for what, mode in ((path, 0o444), (path.parent, 0o555), (path.parent, 0)):
        before = what.stat().st_mode
        os.chmod(what, mode)
        try:
            for colour in COLOURS:
                with pytest.raises(StatementError, match="writable") as caught:
                    open_address(Address(str(path), {"create": False}, colour))
                assert str(path) in str(caught.value)
        finally:
            os.chmod(what, before)
        with rqfast.connect(path) as view:
            view.publish("g", mode)
    assert sorted(os.listdir(folder)) == ["queue.db"]


def test_a_file_or_a_folder_that_is_read_only(tmp_path: Path) -> None:
    in_child(read_only, str(tmp_path))


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "queue.db"):
        with pytest.raises(StatementError, match="nothing was applied; it must be a file"):
            rqfast.connect(path)
    with pytest.raises(SchemaError, match="there is no file"):
        rqfast.connect(tmp_path / "nowhere" / "queue.db", create=False)
    assert list(tmp_path.iterdir()) == []


# -- damaged files -----------------------------------------------------------------------------------------

PAGE = 4096
MESSAGES = 2000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with messages in 50 groups."""
    path = tmp_path_factory.mktemp("whole") / "queue.db"
    with rqfast.connect(path) as view:
        view.publish_many((f"g{n % 50}", [n, "x" * 300]) for n in range(MESSAGES))
    return path.read_bytes()


def overwritten(whole: bytes, first: int, last: int) -> bytes:
    return whole[: first * PAGE] + b"\xa5" * ((last - first) * PAGE) + whole[last * PAGE :]


DAMAGES = [
    pytest.param(lambda whole: b"this is no database at all\n" * 999, True, id="no database"),
    pytest.param(lambda whole: whole[:1000], True, id="cut in its first page"),
    pytest.param(lambda whole: whole[: len(whole) // 2], True, id="cut in half"),
    pytest.param(lambda whole: overwritten(whole, 0, 1), True, id="first page"),
    pytest.param(lambda whole: overwritten(whole, 1, 30), False, id="tables and indexes"),
    pytest.param(lambda whole: overwritten(whole, 60, 61), False, id="one page"),
]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(("damage", "not_opened"), DAMAGES)
def test_a_damaged_file(
    tmp_path: Path, whole: bytes, damage: Callable[[bytes], bytes], not_opened: bool, colour: str
) -> None:
    """Each call works or says what is wrong, and leaves no half-done transaction: restored, all is as it was."""
    path = tmp_path / "queue.db"
    path.write_bytes(damage(whole))
    address = Address(str(path), {"busy_timeout": 0.5}, colour)
    refused: list[Exception] = []

    def tries(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (StatementError, SchemaError, PublishIncomplete) as error:
            refused.append(error)
            return None

    view = tries(lambda: open_address(address))
    if view is not None:
        with view:
            for call in (
                lambda: view.publish("g1", 1),
                lambda: view.publish_many([(f"g{n}", n) for n in range(50)]),
                lambda: view.claim_many("w", 60, 100),
                lambda: view.claim_run("w", 60, 100),
                lambda: view.stats(),
                lambda: view.groups(limit=100),
                lambda: [view.peek(f"g{n}", 100) for n in range(50)],
                lambda: view.purge(everything=True),
            ):
                tries(call)
    assert refused and (view is None or not not_opened)
    assert all("malformed" in str(error) or "not a database" in str(error) for error in refused)
    for leftover in tmp_path.iterdir():
        leftover.unlink()
    path.write_bytes(whole)
    with open_address(address) as again:
        assert again.stats().messages == MESSAGES
        assert again.publish("g1", "after") == MESSAGES + 1
