"""The demo: its checker finds what is wrong on purpose, its file is read as it should be, and a small run passes."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import rqfast
from rqfast.demo.check import SECOND, Verdict, check
from rqfast.demo.journal import Attempt, Journal, Reader, Signals
from rqfast.demo.publish import Published, publish
from rqfast.demo.run import Plan, Result, run
from rqfast.demo.source import FLIGHTS, DemoError, Row, Source
from rqfast.demo.work import Job, Worker, work

VISIBILITY = 2.0
GROUPS = ["A", "B", "A", "B", "A", "A"]
KILLED = "worker 1"


# -- the checker -------------------------------------------------------------------------------------------


@pytest.fixture
def published() -> Published:
    """Six messages in two groups; message i is line i and has the seq 100 + i."""
    lines = list(range(1, len(GROUPS) + 1))
    sums = [zlib.crc32(b"%d" % line) for line in lines]
    return Published(lines, list(GROUPS), sums, array("q", [100 + line for line in lines]), 1.0)


def worked(line: int, at: float, *, worker: str = "worker 2", attempts: int = 1) -> Attempt:
    """Work on a message that began `at` seconds, took 10 ms and was acknowledged."""
    begun = round((50 + at) * SECOND)
    return Attempt(
        worker=worker,
        seq=100 + line,
        group=GROUPS[line - 1],
        line=line,
        attempts=attempts,
        asked=begun - SECOND // 1000,
        begun=begun,
        ended=begun + SECOND // 100,
        sum=zlib.crc32(b"%d" % line),
        acked=True,
    )


def undone(line: int, at: float, *, worker: str = KILLED, attempts: int = 1) -> Attempt:
    """Work that was begun and cut short."""
    return replace(worked(line, at, worker=worker, attempts=attempts), ended=None, sum=None, acked=False)


def good() -> list[Attempt]:
    """What workers write down when all goes well: line 3 of group A is in work when its worker is killed."""
    return [
        worked(1, 0.0, worker=KILLED),
        worked(2, 0.0),
        undone(3, 0.1),
        worked(4, 0.2),
        worked(3, 2.15, attempts=2),
        worked(5, 2.2, worker="worker 3"),
        worked(6, 2.3),
    ]


def verdict_on(published: Published, attempts: list[Attempt], *killed: str) -> Verdict:
    return check(published, attempts, visibility=VISIBILITY, killed=killed or (KILLED,))


def kinds(verdict: Verdict) -> set[str]:
    return {fault.partition(":")[0] for fault in verdict.faults}


def test_records_of_a_run_that_went_well_pass(published: Published) -> None:
    verdict = verdict_on(published, good())
    assert verdict.passed, verdict.faults
    assert (verdict.done, verdict.groups, verdict.redelivered, verdict.held) == (6, 2, 1, 1)
    assert verdict.seconds == pytest.approx(2.31)
    [wait] = verdict.waits
    assert (wait.group, wait.line, wait.behind) == ("A", 3, 2)
    assert wait.seconds == pytest.approx(2.051)


def test_the_order_in_which_records_are_read_does_not_matter(published: Published) -> None:
    assert verdict_on(published, good()[::-1]) == verdict_on(published, good())


def test_a_lost_message_is_found(published: Published) -> None:
    verdict = verdict_on(published, [one for one in good() if one.line != 4])
    assert verdict.faults == ["lost: line 4 of group B was never done"]
    assert verdict.done == 5


def test_a_message_that_was_begun_and_never_done_is_found(published: Published) -> None:
    verdict = verdict_on(published, [*good()[:-1], undone(6, 2.3, worker="worker 3")])
    assert verdict.faults == ["lost: line 6 of group A was never done"]


def test_a_publish_that_is_missing_is_found(published: Published) -> None:
    published.seqs = published.seqs[:-1]
    assert "lost: 6 messages were published, 5 are in" in verdict_on(published, good()[:-1]).faults


def test_broken_order_is_found(published: Published) -> None:
    attempts = good()
    attempts[5], attempts[6] = worked(5, 2.3), worked(6, 2.2)
    verdict = verdict_on(published, attempts)
    assert verdict.faults == ["order: group A: line 6 was done before line 5"]


def test_a_group_that_goes_on_past_what_was_left_undone_is_found(published: Published) -> None:
    attempts = [*good()[:4], worked(5, 2.2), worked(3, 2.3, attempts=2), worked(6, 2.4)]
    verdict = verdict_on(published, attempts)
    assert "order: group A: went on to line 5 when worker 1 had left line 3 undone" in verdict.faults


def test_two_workers_at_once_in_a_group_are_found(published: Published) -> None:
    attempts = [*good()[:5], worked(5, 2.155, worker="worker 3"), worked(6, 2.3)]
    verdict = verdict_on(published, attempts)
    assert verdict.faults == [
        "two at once: group A: worker 3 began line 5, 0.005 s before worker 2 was through with line 3"
    ]


def test_a_long_work_is_held_against_all_that_begin_in_it(published: Published) -> None:
    attempts = good()
    attempts[4].ended = attempts[6].begun + SECOND // 200
    verdict = verdict_on(published, attempts)
    assert len([fault for fault in verdict.faults if fault.startswith("two at once")]) == 2


def test_work_in_a_group_before_the_dead_workers_lease_is_over_is_found(published: Published) -> None:
    attempts = [*good()[:4], worked(3, 1.1, attempts=2), *good()[5:]]
    verdict = verdict_on(published, attempts)
    assert kinds(verdict) == {"two at once", "came again"}
    assert "came to worker 2 1.001 s after worker 1 asked for it" in verdict.faults[1]


def test_a_kill_without_a_redelivery_is_found(published: Published) -> None:
    verdict = verdict_on(published, [*good()[:4], *good()[5:]])
    assert "no redelivery" in kinds(verdict) and "lost" in kinds(verdict)
    assert verdict.redelivered == 0


def test_a_kill_that_hit_nothing_is_found(published: Published) -> None:
    verdict = verdict_on(published, good(), KILLED, "worker 3")
    assert verdict.faults == ["kill: worker 3 was killed, but had no message in work"]


def test_a_message_that_comes_again_after_its_acknowledgement_is_found(published: Published) -> None:
    verdict = verdict_on(published, [*good(), worked(6, 5.0, attempts=2, worker="worker 3")])
    assert verdict.faults == ["came again: line 6 of group A was acknowledged, then worker 3 got it too"]


def test_a_message_whose_acknowledgement_was_lost_may_come_again_after_its_lease(published: Published) -> None:
    unsure = replace(worked(6, 2.3), acked=False, lost=True)
    verdict = verdict_on(published, [*good()[:-1], unsure, worked(6, 4.4, attempts=2)])
    assert verdict.passed, verdict.faults
    assert verdict.redelivered == 2
    early = verdict_on(published, [*good()[:-1], unsure, worked(6, 3.0, attempts=2)])
    assert kinds(early) == {"came again"}


def test_attempts_that_do_not_rise_are_found(published: Published) -> None:
    attempts = [*good()[:4], worked(3, 2.15, attempts=1), *good()[5:]]
    assert verdict_on(published, attempts).faults == ["attempts: line 3 of group A came with 1, then with 1"]


def test_work_without_a_confirmed_acknowledgement_is_found(published: Published) -> None:
    verdict = verdict_on(published, [*good()[:-1], replace(good()[-1], acked=False)])
    assert verdict.faults == ["not acknowledged: line 6 of group A was done, but not confirmed"]


def test_a_changed_text_group_or_number_is_found(published: Published) -> None:
    attempts = good()
    attempts[0] = replace(attempts[0], sum=7)
    attempts[1] = replace(attempts[1], group="A")
    attempts[3] = replace(attempts[3], seq=999)
    verdict = verdict_on(published, attempts)
    assert "changed message: line 1 of group A came with another text" in verdict.faults
    assert any("got line 2 of group A as message 102" in fault for fault in verdict.faults)
    assert any("got 999, which nobody published" in fault for fault in verdict.faults)


def test_of_each_kind_of_fault_only_a_few_are_told(published: Published) -> None:
    verdict = verdict_on(published, [])
    assert [fault for fault in verdict.faults if fault.startswith("lost")][-1] == "lost: and 1 more"
    assert len(verdict.faults) == 7


# -- what workers write down ------------------------------------------------------------------------------


def test_a_journal_is_read_while_it_is_written_and_a_cut_line_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    reader = Reader(path, "worker 1")
    assert reader.read() == 0
    begin = {"what": "begin", "seq": 7, "group": "A", "line": 3, "attempts": 1, "asked": 10, "at": 11}
    with Journal(path) as journal:
        journal.write([{"what": "ready"}, begin])
        assert (reader.read(), reader.ready) == (0, True)
        journal.write([{"what": "end", "seq": 7, "attempts": 1, "sum": 5, "at": 12}])
        assert reader.read() == 1
        journal.write([{"what": "acked", "seqs": [7]}, {"what": "holding", "count": 2}])
        assert (reader.read(), reader.holding) == (0, 2)
    with path.open("ab") as file:
        file.write(b'{"what": "fai')
    assert reader.read() == 0
    assert reader.attempts == [Attempt("worker 1", 7, "A", 3, 1, 10, 11, 12, 5, acked=True)]


def test_a_record_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"what": "sing"}\n')
    with pytest.raises(ValueError, match="no such record"):
        Reader(path, "worker 1").read()


# -- the file ---------------------------------------------------------------------------------------------


def test_the_packaged_flights_are_there() -> None:
    source = Source(None, "origin")
    rows = list(source.rows())
    assert (source.name, source.count, len(rows)) == (FLIGHTS, 20_000, 20_000)
    assert len({row.group for row in rows}) == 220
    assert (rows[0].line, rows[-1].line) == (1, 20_000)
    assert json.loads(rows[0].text) == {
        "date": "2001/01/01 00:47",
        "delay": 66,
        "distance": 1750,
        "origin": "DTW",
        "destination": "LAS",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_plain_or_compressed(tmp_path: Path, packed: bool) -> None:
    text = b'{"k": "a", "x": 1.00}\r\n\n  {"k": 7}\n{"k": true}'
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(text) if packed else text)
    source = Source(path, "k")
    assert source.count == 3
    assert list(source.rows()) == [
        Row(1, "a", b'{"k": "a", "x": 1.00}'),
        Row(3, "7", b'{"k": 7}'),
        Row(4, "true", b'{"k": true}'),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\n \n", "no lines"),
        (b'{"k": 1}\n{"k": ', "line 2: not JSON"),
        (b"[1]\n", "line 1: not a JSON object"),
        (b'{"a": 1, "b": 2}\n', "no group in the field 'k'; the fields are a, b"),
        (b'{"k": ""}\n', "no group"),
        (b'{"k": null}\n', "no group"),
        (b'{"k": [1]}\n', "no group"),
        (gzip.compress(b'{"k": 1}\n' * 100, mtime=0)[:-12], "damaged"),
    ],
)
def test_a_file_that_will_not_do_is_refused_before_anything_is_published(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(DemoError, match=told):
        Source(path, "k")


# -- running ----------------------------------------------------------------------------------------------


class Log:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.counts: list[int] = []
        self.kills: list[tuple[str, int]] = []

    def begin_publishing(self, total: int) -> None:
        self.totals.append(total)

    def published(self, count: int) -> None:
        self.counts.append(count)

    def begin_working(self, total: int) -> None:
        self.totals.append(total)

    def worked(self, count: int) -> None:
        self.counts.append(count)

    def killed(self, worker: str, held: int) -> None:
        self.kills.append((worker, held))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For what the workers write; afterwards none of them runs."""
    made = tmp_path / "run"
    made.mkdir()
    yield made
    assert multiprocessing.active_children() == []


def lines(path: Path, count: int, groups: int) -> Path:
    path.write_text("".join(json.dumps({"k": f"g{n % groups}", "n": n}) + "\n" for n in range(count)))
    return path


def run_on(tmp_path: Path, folder: Path, count: int, groups: int, workers: int) -> tuple[Result, Log]:
    source = Source(lines(tmp_path / "rows.jsonl", count, groups), "k")
    log = Log()
    plan = Plan(source, str(tmp_path / "q.db"), "demo", folder, workers, visibility=1.0)
    return run(plan, log), log


@pytest.mark.parametrize(("count", "groups", "workers"), [(600, 40, 3), (1, 1, 2), (30, 1, 2)])
def test_a_run_kills_a_worker_that_holds_messages_and_passes(
    tmp_path: Path, folder: Path, count: int, groups: int, workers: int
) -> None:
    result, log = run_on(tmp_path, folder, count, groups, workers)
    assert result.verdict.passed, result.verdict.faults
    assert result.verdict.done == count
    assert result.verdict.redelivered >= result.verdict.held >= 1
    assert log.kills == [(result.victim, result.verdict.held)]
    assert log.totals == [count, count] and log.counts[-1] == count
    assert all(wait.seconds >= 0.95 for wait in result.verdict.waits)
    with rqfast.connect(tmp_path / "q.db", queue="demo") as transport:
        assert transport.claim() is None


def test_the_journals_and_not_the_tables_are_what_is_checked(tmp_path: Path, folder: Path) -> None:
    """The verdict of a real run, with a record taken out of a worker's file, is another one."""
    result, _ = run_on(tmp_path, folder, 100, 10, 2)
    readers = [Reader(path, path.stem.replace("-", " ")) for path in sorted(folder.glob("*.jsonl"))]
    for reader in readers:
        reader.read()
    attempts = [attempt for reader in readers for attempt in reader.attempts]
    assert check(result.published, attempts, visibility=1.0, killed=[result.victim]).passed
    taken = next(attempt for attempt in attempts if attempt.acked)
    rest = [attempt for attempt in attempts if attempt.seq != taken.seq]
    assert kinds(check(result.published, rest, visibility=1.0, killed=[result.victim])) == {"lost"}


def test_a_queue_that_is_there_already_is_left_alone(tmp_path: Path, folder: Path) -> None:
    with rqfast.connect(tmp_path / "q.db", queue="demo") as transport:
        transport.publish("orders", 1)
        with pytest.raises(DemoError, match="'demo' is there already"):
            run_on(tmp_path, folder, 10, 2, 2)
        assert transport.claim_many(limit=10)[0].attempts == 1


def test_a_queue_in_memory_or_a_single_worker_is_refused(tmp_path: Path, folder: Path) -> None:
    source = Source(lines(tmp_path / "rows.jsonl", 3, 1), "k")
    with pytest.raises(DemoError, match="memory"):
        run(Plan(source, "sqlite://:memory:", None, folder), Log())
    with pytest.raises(DemoError, match="1 workers: 2 to 64"):
        run(Plan(source, str(tmp_path / "q.db"), None, folder, workers=1), Log())


def test_workers_that_cannot_start_end_the_run_with_their_reason(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "worker-2.jsonl").touch()  # it will not overwrite what another one wrote
    with pytest.raises(DemoError, match="a worker did not start: worker 2 ended by itself with exit code 1"):
        run_on(tmp_path, folder, 10, 2, 2)


def job(tmp_path: Path, folder: Path, run_tag: str) -> Job:
    return Job("worker 2", str(tmp_path / "q.db"), None, run_tag, folder, 32, 1.0, 0, False)


def test_a_worker_gives_back_messages_that_are_not_of_the_demo_and_says_so(tmp_path: Path, folder: Path) -> None:
    signals = Signals(folder)
    for name in ("go", "on"):
        signals.set(name)
    with rqfast.connect(tmp_path / "q.db") as transport, Journal(folder / "journal") as journal:
        transport.publish("orders", 1)
        worker = Worker(job(tmp_path, folder, "tag"), transport, journal, signals)
        with pytest.raises(DemoError, match="not of this demo"):
            worker.run()
        lease = transport.claim()
        assert lease is not None and lease.event == 1


def test_a_worker_works_what_is_there_and_stops(tmp_path: Path, folder: Path) -> None:
    signals = Signals(folder)
    for name in ("go", "on", "stop"):
        signals.set(name)
    with rqfast.connect(tmp_path / "q.db") as transport, Journal(signals.journal("worker 2")) as journal:
        rows = [Row(n, f"g{n % 3}", b"%d" % n) for n in range(1, 10)]
        published = publish(transport, rows, "tag", lambda _: None)
        Worker(job(tmp_path, folder, "tag"), transport, journal, signals).run()
        assert transport.claim() is None
    reader = Reader(signals.journal("worker 2"), "worker 2")
    assert reader.read() == 9
    assert check(published, reader.attempts, visibility=1.0, killed=[]).passed


def test_a_worker_that_fails_writes_down_why(tmp_path: Path, folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=(job(tmp_path, folder, "tag"),))
    process.start()
    process.join(60)
    assert process.exitcode == 1
    process.close()
    reader = Reader(Signals(folder).journal("worker 2"), "worker 2")
    reader.read()
    assert reader.error is not None and reader.error.startswith("SchemaError: ")
