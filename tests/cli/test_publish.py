"""`rqfast publish`: one message, lines, what is said of a bad one, and how it goes on."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rqfast
from rqfast.devserver import DevServer
from tests.cli.command import COMMAND, SECONDS, call, environment
from tests.cli.conftest import Place

ROWS = [{"customer": n % 7, "n": n} for n in range(500)]


def lines_of(*values: object) -> bytes:
    """As JSON lines."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_one(place: Place) -> None:
    options = ["--priority", "3", "--rank", "-1", "--dedup-id", "x", "--delay", "0.5", "--header", "trace=7"]
    seq = int(call("publish", "g", '{"n":  1}', *place.options, *options).ok.out)
    assert call("publish", "g", "2", *place.options, "--json", *options).ok.json == [{"seq": seq}]
    big = call("publish", "g", "-", *place.options, stdin=b' "from stdin"\n').ok
    with place.open() as transport:
        first, second = transport.peek("g")
        assert (first.raw, first.priority, first.rank, first.headers) == ('{"n":  1}', 3, -1, {"trace": "7"})
        assert first.due_at > (first.published_at or 0) + 0.4
        assert (second.seq, second.raw) == (int(big.out), '"from stdin"')


def test_nothing_is_made_but_with_create(folder: Path) -> None:
    missing = call("publish", "g", "1", "--url", "q.db")
    assert missing.status == 1 and missing.err.endswith("q.db: check --url and --queue, or make it with --create\n")
    assert list(folder.iterdir()) == []
    assert call("publish", "g", "1", "--url", "q.db", "--create").ok.out == "1\n"
    assert call("publish", "g", "1", "--url", "q.db").ok.out == "2\n"
    assert "--create" in call("publish", "g", "1", "--url", "q.db", "--queue", "orders").err
    assert call("publish", "g", "1", "--url", "q.db", "--queue", "orders", "--create").ok.out == "1\n"


def test_messages_from_stdin(place: Place) -> None:
    given = [
        {"group_id": "g", "event": {"n": 1}},
        {"group_id": "g", "event": None, "rank": 1, "headers": {"h": "v"}},
        {"group_id": "ä", "event": "text", "priority": 4},
    ]
    ran = call("publish", *place.options, "--priority", "1", stdin=lines_of(*given).replace(b"\n", b"\n\n")).ok
    assert ran.out.startswith("Published 3 messages in ")
    with place.open() as transport:
        assert [message.event for message in transport.peek("g")] == [{"n": 1}, None]
        assert [group.priority for group in transport.groups(order="depth")] == [1, 4]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_events_from_a_file(name: str, place: Place, folder: Path) -> None:
    data = lines_of(*ROWS)
    (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for _ in range(2):
        ran = call(
            "publish", *place.options, "--file", name, "--group-field", "customer", "--dedup-field", "n", "--json"
        )
        assert ran.ok.json[0]["published"] == len(ROWS) and ran.json[0]["lines"] == len(ROWS)
    with place.open() as transport:
        assert transport.stats().messages == len(ROWS)
        assert [message.event["n"] for message in transport.peek("3", 3)] == [3, 10, 17]
        assert transport.peek("3", 1)[0].raw == '{"customer": 3, "n": 3}'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nonsense", "line 2: "),
        ("\n[1]", 'line 3: a line is an object with "group_id" and "event"'),
        ('{"group_id":"g"}', "line 2: a line is an object"),
        ('{"group_id":"g","event":1,"colour":2}', "line 2: a message has no colour; it has group_id, event"),
        ('{"group_id":"g","event":1,"priority":9}', "line 2: priority=9"),
        ('\n\n{"group_id":7,"event":1}', "line 4: group_id is a str, not int"),
    ],
)
def test_a_line_that_is_no_message(line: str, told: str) -> None:
    stdin = f'{{"group_id":"g","event":1}}\n{line}\n{{"group_id":"g","event":3}}\n'.encode()
    ran = call("publish", "--url", "q.db", "--create", stdin=stdin)
    assert (ran.status, ran.out) == (1, "")
    assert told in ran.err and ran.err.count("\n") == 1
    assert ran.err.endswith("; the first message is in; mend it and go on with --skip 1\n")
    mended = call("publish", "--url", "q.db", "--skip", "1", stdin=stdin.replace(line.strip().encode(), b""))
    assert mended.ok.out.startswith("Published 1 message ")
    with rqfast.connect("q.db") as transport:
        assert [message.event for message in transport.peek("g")] == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["g"], "an event is missing after the group"),
        (["g", "hello"], "a text needs quotes of its own, as in '\"hello\"'"),
        (["g", "1", "--file", "x"], "GROUP is for one message"),
        (["g", "1", "--header", "x"], "--header x: it must be NAME=VALUE"),
        (["--dedup-id", "x"], "--dedup-id is for one message"),
        (["--skip", "x"], "Invalid value for '--skip': it must be a whole number;"),
        (["--skip", "-1"], "Invalid value for '--skip': it must be 0 at least;"),
        (["--rate", "x"], "Invalid value for '--rate': it must be a number;"),
        (["--skip", "1", "--resume", "x"], "leave --skip away"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], told: str) -> None:
    ran = call("publish", "--url", "q.db", "--create", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("rqfast publish: ") and told in ran.err and ran.err.count("\n") == 1


def test_a_field_that_is_not_there(folder: Path) -> None:
    ran = call("publish", "--url", "q.db", "--create", "--group-field", "shop", stdin=lines_of(ROWS[0]))
    assert "line 1: no text or whole number in the field 'shop'; it has customer, n; nothing is in; " in ran.err
    assert ran.err.endswith("; mend it and start again\n")


def test_a_file_that_is_not_there(folder: Path) -> None:
    ran = call("publish", "--url", "q.db", "--create", "--file", "nope.jsonl")
    assert (ran.status, ran.err) == (1, "rqfast: there is no file nope.jsonl\n")
    assert call("publish", "--url", "q.db", "--create", "--file", ".").err == "rqfast: . is a folder, not a file\n"


def test_so_many_a_second_at_most() -> None:
    began = time.monotonic()
    stdin = lines_of(*ROWS[:40])
    ran = call("publish", "--url", "q.db", "--create", "--group-field", "customer", "--rate", "50", stdin=stdin)
    assert ran.ok.out.startswith("Published 40 messages ")
    assert time.monotonic() - began > 0.7


def test_no_node_is_3_and_says_what_is_in(folder: Path) -> None:
    with DevServer() as server:
        url = server.url
        assert call("publish", "--url", url, "--create", "g", "1").ok.out == "1\n"
    ran = call("publish", "--url", url, "--group-field", "customer", stdin=lines_of(*ROWS))
    assert (ran.status, ran.out) == (3, "") and "no leader answered" in ran.err and ran.err.count("\n") == 1


def test_resumed_after_a_bad_line_and_after_new_ones(folder: Path) -> None:
    path = folder / "rows.jsonl"
    arguments = ["publish", "--url", "q.db", "--create", "--file", "rows.jsonl", "--group-field", "customer"]
    arguments += ["--resume", "state.json"]
    path.write_bytes(lines_of(*ROWS[:300]) + b"oh\n")
    stopped = call(*arguments)
    assert stopped.status == 1 and stopped.err.endswith(
        "300 messages are in; mend it and go on with the same command\n"
    )
    path.write_bytes(lines_of(*ROWS))
    assert call(*arguments).ok.out.startswith("Published 200 messages ")
    assert call(*arguments).ok.out == "Published 0 messages.\n"
    other = call(*arguments[:5], "other.jsonl", *arguments[6:])
    assert other.status == 1
    (folder / "other.jsonl").touch()
    other = call(*arguments[:5], "other.jsonl", *arguments[6:])
    assert "state.json is about" in other.err and "name another file for --resume" in other.err
    with rqfast.connect("q.db") as transport:
        assert transport.stats().messages == len(ROWS)


RESUMED = ["publish", "--url", "q.db", "--create", "--group-field", "customer", "--resume", "state.json", "--file"]


def test_resumed_where_the_first_piece_was_not_noted(folder: Path) -> None:
    (folder / "rows.jsonl").write_bytes(lines_of(*ROWS))
    (folder / "state.json.new").mkdir()  # so that nothing can be noted
    assert call(*RESUMED, "rows.jsonl").status == 1
    (folder / "state.json.new").rmdir()
    assert call(*RESUMED, "rows.jsonl").status == 0
    with rqfast.connect("q.db") as transport:
        assert transport.stats().messages == len(ROWS)


def test_resumed_with_another_file_of_the_same_name(folder: Path) -> None:
    path, state = folder / "rows.jsonl", folder / "state.json"
    path.touch()
    assert call(*RESUMED, "rows.jsonl").ok.out == "Published 0 messages.\n"
    path.write_bytes(b"nonsense\n" + lines_of(*ROWS[1:3]))
    assert call(*RESUMED, "rows.jsonl").err.endswith("; nothing is in; mend it and go on with the same command\n")
    path.write_bytes(lines_of(*ROWS[:3]))
    assert call(*RESUMED, "rows.jsonl").ok.out.startswith("Published 3 messages ")
    path.write_bytes(lines_of(*ROWS[10:20]))
    ran = call(*RESUMED, "rows.jsonl")
    assert (ran.status, ran.out) == (1, "") and "another file (of the one before 3 lines are in)" in ran.err
    assert ran.err.endswith(f"or delete {state.name}\n")
    state.unlink()
    assert call(*RESUMED, "rows.jsonl").ok.out.startswith("Published 10 messages ")


@pytest.mark.parametrize("resumes", [False, True])
def test_a_compressed_file_that_is_cut_off_or_damaged(resumes: bool, folder: Path) -> None:
    path, whole = folder / "rows.jsonl.gz", gzip.compress(lines_of(*ROWS))
    arguments = RESUMED if resumes else [*RESUMED[:6], "--file"]
    path.write_bytes(whole[:-200])
    ran = call(*arguments, path.name)
    assert (ran.status, ran.out) == (1, "") and "is cut off: the compressed data ends too early; " in ran.err
    with rqfast.connect("q.db") as transport:
        done = transport.stats().messages
        assert 0 < done < len(ROWS) and f"; {done:,} messages are in; get the whole file and go on with " in ran.err
        path.write_bytes(whole)
        how = [] if resumes else ["--skip", str(done)]
        assert ran.err.endswith("the same command\n" if resumes else f"--skip {done}\n")
        assert call(*arguments, path.name, *how).ok.out.startswith(f"Published {len(ROWS) - done} messages ")
        assert transport.stats().messages == len(ROWS)
    for data in (whole[:20] + b"x" * 200, b"no gzip at all"):
        path.write_bytes(data)
        ran = call(*arguments, path.name)
        assert ran.status == 1 and "is damaged, or no gzip: " in ran.err and "nothing is in" in ran.err, ran


def count_lines(file: Path, least: int) -> int:
    """Wait until so many lines are noted there; how many they are."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            lines = int(json.loads(file.read_bytes())["lines"])
        except (FileNotFoundError, ValueError):
            lines = 0
        if lines >= least:
            return lines
        assert time.monotonic() < end, f"waited {SECONDS:g} s for {least} lines; so far {lines}"
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_killed_and_interrupted_it_goes_on_and_nothing_is_there_twice(place: Place, folder: Path) -> None:
    (folder / "rows.jsonl").write_bytes(lines_of(*ROWS))
    arguments = [*COMMAND, "publish", *place.options, "--file", "rows.jsonl", "--group-field", "customer"]
    arguments += ["--resume", "state.json"]
    lines = 0
    for number, status in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            [*arguments, "--rate", "100"],
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = count_lines(folder / "state.json", lines + 50)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, out) == (status, "")
    assert err.startswith("rqfast: interrupted; ") and err.endswith("go on with the same command\n")
    # What was published after the last note of a process that was killed is published again, and is there once.
    noted = json.loads((folder / "state.json").read_bytes())
    (folder / "state.json").write_text(json.dumps(noted | {"lines": noted["lines"] - 20}))
    assert call(*arguments[len(COMMAND) :]).ok.out.startswith("Published ")
    with place.open() as transport:
        assert transport.stats().messages == len(ROWS)
        found = [message.event["n"] for group in range(7) for message in transport.peek(str(group), 1000)]
        assert sorted(found) == list(range(len(ROWS)))


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_a_slow_pipe_is_published_as_it_comes_and_the_end_is_exact(folder: Path) -> None:
    with rqfast.connect("q.db") as transport:
        process = subprocess.Popen(
            [*COMMAND, "publish", "--url", "q.db", "--group-field", "customer"],
            env=environment(folder),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        for n, row in enumerate(ROWS[:3]):
            process.stdin.write(lines_of(row))
            process.stdin.flush()
            end = time.monotonic() + SECONDS
            while transport.stats().messages <= n:
                assert time.monotonic() < end, f"waited {SECONDS:g} s for line {n + 1} to be published"
                time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert err == b"rqfast: interrupted; 3 messages are in; go on with --skip 3\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_is_interrupted_only_by_the_second_signal(number: signal.Signals) -> None:
    from rqfast.cli.interrupts import Interrupts

    before, done = signal.getsignal(number), []

    def step(interrupts: Interrupts, signals: int) -> None:
        with interrupts.step():
            for _ in range(signals):
                signal.raise_signal(number)
            done.append("the step")
        done.append("what follows")

    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        step(interrupts, 1)
    assert (done, interrupts.torn) == (["the step"], False)
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        step(interrupts, 2)
    assert (done, interrupts.torn, signal.getsignal(number)) == (["the step"], True, before)
