"""The commands that look at a queue and publish into it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rqfast
from tests.unit.test_cli import environment, rqfast_command

pytest.importorskip("rqfast.cli.app")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A queue with a message in work, one that is delayed, and a group whose name would colour a terminal."""
    path = str(tmp_path / "q.db")
    with rqfast.connect(path) as transport:
        transport.publish("a", {"n": 1}, 2)
        transport.publish("\x1b[31mred", 1, delay=600)
        transport.publish("\x1b[31mred", 2, delay=600)
        assert transport.claim("me", 600) is not None
        transport.pause("held")
    return path


def test_stats(tmp_path: Path, url: str) -> None:
    done = rqfast_command(tmp_path, "stats", "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert shown["messages"] == "3 in 3 groups"
    assert shown["delayed"] == "2" and shown["claimable"] == "0" and shown["paused"] == "1 groups"
    assert shown["in"].startswith("work      1, the oldest for")


def test_stats_for_programs(tmp_path: Path, url: str) -> None:
    done = rqfast_command(tmp_path, "stats", "--url", url, "--json")
    found = json.loads(done.stdout)
    assert found.keys() == rqfast.Stats.__dataclass_fields__.keys()
    assert (found["messages"], found["in_work"], found["oldest_claimable_age"]) == (3, 1, None)


def test_groups(tmp_path: Path, url: str) -> None:
    done = rqfast_command(tmp_path, "groups", "--url", url, "--order", "depth")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head[:2] == ["group", "state"]
    assert [row[:2] for row in rows] == [["?[31mred", "delayed"], ["a", "in_work"], ["held", "paused"]]
    assert "me" in rows[1]
    none = rqfast_command(tmp_path, "groups", "--url", url, "--state", "parked")
    assert none.stdout == "no groups that are parked\n"


def test_groups_for_programs(tmp_path: Path, url: str) -> None:
    done = rqfast_command(tmp_path, "groups", "--url", url, "--json", "--limit", "2")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [group["group_id"] for group in found] == ["a", "\x1b[31mred"]
    assert found[0].keys() == rqfast.GroupInfo.__dataclass_fields__.keys()


def test_publish_one(tmp_path: Path) -> None:
    options = ["--priority", "3", "--rank", "-1", "--dedup-id", "x", "--delay", "0.5"]
    done = rqfast_command(tmp_path, "publish", "g", '{"n":  1}', "--url", "q.db", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    again = rqfast_command(tmp_path, "publish", "g", "2", "--url", "q.db", "--json", *options)
    assert json.loads(again.stdout) == {"seq": 1}
    with rqfast.connect(tmp_path / "q.db", create=False) as transport:
        [message] = transport.peek("g")
        assert (message.raw, message.priority, message.rank) == ('{"n":  1}', 3, -1)
        assert message.due_at > (message.published_at or 0) + 0.4


def test_publish_lines(tmp_path: Path) -> None:
    lines = [
        {"group_id": "g", "event": {"n": 1}},
        {"group_id": "g", "event": None, "rank": 1, "headers": {"h": "v"}},
        {"group_id": "ä", "event": "text", "priority": 4},
    ]
    stdin = "\n\n".join(json.dumps(line) for line in lines)
    done = rqfast_command(tmp_path, "publish", "--url", "q.db", "--queue", "orders", stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, "published 3 messages\n", "")
    with rqfast.connect(tmp_path / "q.db", queue="orders", create=False) as transport:
        assert [message.event for message in transport.peek("g")] == [{"n": 1}, None]
        assert transport.groups(order="depth")[1].priority == 4


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        ("nonsense", "line 1: "),
        ("\n[1]", 'line 2: a line is an object with "group_id" and "event"'),
        ('{"group_id":"g"}', "line 1: a line is an object"),
        ('{"group_id":"g","event":1,"colour":2}', "line 1: a message has no colour; it has group_id, event"),
        ('{"group_id":"g","event":1,"priority":9}', "priority=9"),
    ],
)
def test_a_line_that_is_no_message(tmp_path: Path, stdin: str, told: str) -> None:
    stdin = '{"group_id":"g","event":1}\n' + stdin
    told = told.replace("line 2", "line 3").replace("line 1", "line 2")
    done = rqfast_command(tmp_path, "publish", "--url", "q.db", stdin=stdin)
    assert done.returncode == 1
    assert "the first 1 messages are in" in done.stderr and told in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["stats", "groups"])
def test_looking_makes_nothing(tmp_path: Path, url: str, command: str) -> None:
    missing = rqfast_command(tmp_path, command, "--url", "nowhere.db")
    assert missing.returncode == 1 and missing.stderr.startswith("rqfast: there is no file ")
    assert not (tmp_path / "nowhere.db").exists()
    other = rqfast_command(tmp_path, command, "--url", url, "--queue", "other")
    assert other.returncode == 1 and other.stderr.count("\n") == 1
    assert "queue 'other' is not in this database; queues that are: (default)" in other.stderr
    none = rqfast_command(tmp_path, command)
    assert none.stderr == "rqfast: no URL was given, and the variable RQFAST_URL is not set\n"


def test_the_url_may_be_in_the_environment(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "RQFAST_URL" not in environment(tmp_path)
    monkeypatch.setattr("tests.unit.test_cli.environment", lambda path: environment(path) | {"RQFAST_URL": url})
    assert json.loads(rqfast_command(tmp_path, "stats", "--json").stdout)["messages"] == 3
