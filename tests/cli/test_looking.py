"""Commands that look at a queue: stats, groups, peek, queues; what they print for people and for programs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rich.console import Console

import rqfast
from rqfast.cli.top_feed import Feed, Seen
from rqfast.cli.top_screen import View, draw
from rqfast.devserver import DevServer
from rqfast.verify.found import NodeState
from tests.cli.command import call, rqfast_command
from tests.cli.conftest import Place
from tests.proxy import Proxy

RED = "\x1b[31mred"
SHOWN = "\\x1b[31mred"


@pytest.fixture
def filled(place: Place) -> Place:
    """A message in work, two that are delayed in a group whose name would colour a terminal, and a paused group."""
    with place.open() as transport:
        transport.publish("a", {"n": 1}, 2)
        transport.publish(RED, {"text": "\u009b1m[bold]\n"}, delay=600, headers={"trace": "7"})
        transport.publish(RED, 2, delay=600, rank=3)
        assert transport.claim("me", 600) is not None
        transport.pause("held")
    return place


def test_stats(filled: Place) -> None:
    shown = dict(line.split(maxsplit=1) for line in call("stats", *filled.options).ok.lines)
    assert shown["messages"] == "3 in 3 groups"
    assert shown["delayed"] == "2" and shown["claimable"] == "0" and shown["paused"] == "1 group"
    assert shown["in"].startswith("work      1, the oldest for")
    assert shown["waiting"] == "0"
    (found,) = call("stats", *filled.options, "--json").ok.json
    assert found.keys() == rqfast.Stats.__dataclass_fields__.keys()
    assert (found["messages"], found["in_work"], found["oldest_claimable_age"]) == (3, 1, None)
    with filled.open() as transport:
        transport.pause()
    assert "paused       the whole queue" in call("stats", *filled.options).ok.lines


def test_the_lines_of_stats_add_up(place: Place) -> None:
    with place.open() as transport:
        transport.publish_many((f"g{n % 3}", n) for n in range(12))
        transport.publish("later", 1, delay=600)
        transport.pause("g1")
        assert transport.claim("me", 600) is not None
    rows = {line[:13].rstrip(): line[13:] for line in call("stats", *place.options).ok.lines}
    assert rows["waiting"] == "10 behind the head of their group, or paused"
    parts = [rows[name].split()[0].rstrip(",") for name in ("claimable", "in work", "parked", "delayed", "waiting")]
    assert list(map(int, parts)) == [1, 1, 0, 1, 10] and rows["messages"] == "13 in 4 groups"


def test_groups(filled: Place) -> None:
    ran = call("groups", *filled.options, "--order", "depth").ok
    assert ran.out.isprintable() or set(ran.out) - set(map(chr, range(32, 127))) == {"\n"}
    head, *rows = [line.split() for line in ran.lines]
    assert head[:3] == ["group", "state", "depth"]
    assert [row[:3] for row in rows] == [[SHOWN, "delayed", "2"], ["a", "in_work", "1"], ["held", "paused", "0"]]
    assert re.search(r" until [0-9: -]+ by me$", ran.lines[2])
    assert ran.lines[3].endswith(" until it is resumed")
    assert call("groups", *filled.options, "--state", "parked").ok.out == "No groups that are parked.\n"
    limited = call("groups", *filled.options, "--json", "--limit", "2").ok.json
    assert [group["group_id"] for group in limited] == ["a", RED]
    assert limited[0].keys() == rqfast.GroupInfo.__dataclass_fields__.keys()
    assert call("groups", *filled.options, "--limit", "1").ok.lines[-1] == "The first 1; --limit shows more."
    assert call("groups", *filled.options, "--order", "colour").status == 2


def test_peek_shows_payloads_only_when_asked(filled: Place) -> None:
    plain = call("peek", RED, *filled.options).ok
    assert [line.split()[1:3] for line in plain.lines[1:]] == [["0", "0"], ["0", "3"]]
    assert "bold" not in plain.out
    shown = call("peek", RED, *filled.options, "--payload").ok
    assert shown.lines[1].endswith('{"text":"\\x9b1m[bold]\\n"}')
    first, second = call("peek", RED, *filled.options, "--json").ok.json
    assert (first["headers"], first["bytes"], second["rank"]) == ({"trace": "7"}, 23, 3)
    assert "raw" not in first
    machine = call("peek", RED, *filled.options, "--json", "--payload", "--limit", "1").ok
    assert "\x9b" not in machine.out and machine.json[0]["raw"] == '{"text":"\u009b1m[bold]\\n"}'
    assert call("peek", "nobody\n", *filled.options).ok.out == "Group nobody\\n has no messages.\n"


def test_queues(filled: Place) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in call("queues", "--url", filled.url).ok.lines}
    assert rows["queue"][:2] == ["messages", "groups"]
    assert rows[filled.name][:4] == ["3", "3", "0", "1"]
    found = {one["queue"]: one for one in call("queues", "--url", filled.url, "--json").ok.json}
    assert found[filled.name]["messages"] == 3


def test_top_for_programs(filled: Place) -> None:
    first, second = call("top", *filled.options, "--json", "--times", "2", "--every", "0.1").ok.json
    assert (first["messages"], first["published_a_second"], first["error"]) == (3, None, None)
    assert (second["published_a_second"], second["done_a_second"]) == (0, 0)
    assert [node["leads"] for node in first["nodes"]] == ([True] if filled.url.startswith("http") else [])


def test_top_tells_of_what_it_cannot_understand_and_goes_on(folder: Path) -> None:
    with DevServer() as server:
        address = urlsplit(server.url)
        with Proxy(address.hostname or "", address.port or 0) as proxy:
            rqfast.connect(proxy.url).close()
            proxy.answer(200, b'{"x":1}', lambda exchange: exchange.path.startswith("/nodes?ver=2&nonvoters"))
            ran = rqfast_command(folder, "top", "--url", proxy.url, "--json", "--times", "2", "--every", "0.1")
    assert ran.returncode == 0, ran
    first, second = map(json.loads, ran.stdout.splitlines())
    assert "it answers /nodes with something else" in first["error"] and second["error"] is None


def test_a_look_that_fails_in_any_way_is_trouble(filled: Place) -> None:
    with filled.open() as transport:
        feed = Feed(transport, filled.url, filled.name, 1.0)
        feed.order = ["oldest"]  # type: ignore[assignment]
        feed.look()
        assert feed.seen.trouble and feed.news.is_set()
        feed.order = "oldest"
        feed.look()
        assert not feed.seen.trouble and feed.seen.looks == 2


def shown(seen: Seen, now: float) -> str:
    """The screen of `rqfast top`, at that time."""
    console = Console(width=100, height=30, record=True, file=io.StringIO())
    console.print(draw(seen, View("queue q on http://a:1"), 100, 30, now))
    return console.export_text()


def test_top_tells_how_old_its_figures_are(filled: Place) -> None:
    now = 1000.0
    with filled.open() as transport:
        feed = Feed(transport, filled.url, filled.name, 1.0, now=lambda: now)
        feed.look()
        feed.seen.nodes = [
            NodeState("1", "http://a:1", leads=True, applied=77),
            NodeState("2", "http://a:2", applied=77),
        ]
        fresh = shown(feed.seen, 1002.0)
        assert "every 1 s" in fresh and "as of" not in fresh
        assert "leader" in fresh and "follower" in fresh and "unknown" not in fresh
        # A look is under way, and does not come to an end.
        hung = shown(feed.seen, 1014.0)
        assert "as of 14 s ago, every 1 s" in hung and hung.count("unknown") == 2
        assert "leader" not in hung and "follower" not in hung and "77" not in hung
        # It failed.
        now = 1001.0
        feed.order = ["oldest"]  # type: ignore[assignment]
        feed.look()
        failed = shown(feed.seen, 1001.5)
        assert "no answer for 1.5 s: " in failed and failed.count("unknown") == 2 and "leader" not in failed
        feed.order = "oldest"
        feed.look()
        assert "as of" not in shown(feed.seen, 1002.0)


def test_top_shows_figures_though_the_nodes_do_not_tell_of_themselves() -> None:
    with DevServer() as server:
        address = urlsplit(server.url)
        with Proxy(address.hostname or "", address.port or 0) as proxy, rqfast.connect(proxy.url) as transport:
            feed = Feed(transport, proxy.url, None, 0.1)
            feed.look()
            assert (feed.seen.trouble, feed.seen.of_nodes) == ("", "") and "leader" in shown(feed.seen, feed.seen.at)
            transport.publish("g", 1)
            proxy.stall(lambda exchange: exchange.path.startswith("/nodes?ver=2&nonvoters"))
            feed.look()
            stats = feed.seen.stats
            assert stats is not None and stats.messages == 1 and not feed.seen.trouble
            screen = shown(feed.seen, feed.seen.at)
            assert "nodes: " in screen and "unknown" in screen and "leader" not in screen
            assert feed.seen.every > 0.1
            feed.look()
            assert "leader" in shown(feed.seen, feed.seen.at)


def test_a_database_without_queues(folder: Path) -> None:
    (folder / "empty.db").touch()
    assert call("queues", "--url", "empty.db").ok.out == "No queues.\n"
    none = call("stats", "--url", "empty.db", "--queue", "night")
    assert none.status == 1
    assert none.err == "rqfast: queue 'night' is not in this database, nor is any other; check --url\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats",), ("groups",), ("peek", "g"), ("top", "--json"), ("pause",), ("resume", "g"), ("release", "g"),
        ("delete", "1"), ("purge", "g", "--yes"), ("dead", "list"), ("dead", "show", "1"), ("dead", "redrive", "--all"),
        ("dead", "drop", "1", "--yes"), ("publish", "g", "1"), ("schema", "check"), ("verify",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_queue_that_is_not_there_is_never_made(arguments: tuple[str, ...], folder: Path) -> None:
    with rqfast.connect("q.db", queue="orders"):
        pass
    no_file = call(*arguments, "--url", "nowhere.db")
    assert no_file.status == (2 if arguments == ("verify",) else 1) and no_file.out == ""
    assert "nowhere.db" in no_file.err and no_file.err.count("\n") == 1
    assert not (folder / "nowhere.db").exists()
    for queue, name in (("", "the default queue"), ("other", "queue 'other'")):
        missing = call(*arguments, "--url", "q.db", "--queue", queue)
        assert missing.status == no_file.status and missing.out == ""
        assert f"{name} is not in this database; queues that are: orders" in missing.err
        assert missing.err.count("\n") == 1
    assert call("queues", "--url", "q.db", "--json").ok.json[0]["queue"] == "orders"


def test_the_url_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    none = call("stats")
    assert (none.status, none.err) == (
        1, "rqfast: no database was named: say --url, or set the variable RQFAST_URL\n",
    )  # fmt: skip
    with rqfast.connect("q.db") as transport:
        transport.publish("g", 1)
    monkeypatch.setenv("RQFAST_URL", "q.db")
    assert call("stats", "--json").ok.json[0]["messages"] == 1
    assert call("stats", "--url", "other.db").status == 1


def test_a_queue_in_memory_is_refused() -> None:
    ran = call("stats", "--url", ":memory:")
    assert ran.status == 1 and "ends with the command" in ran.err
