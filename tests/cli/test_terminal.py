"""The command on a terminal: live screens, questions, bars, Ctrl-C, colours."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import rqfast
from rqfast.cli.console import middle
from tests.cli.command import Terminal
from tests.cli.conftest import Place

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pty") is None, reason="needs a pseudo-terminal")

CTRL_C = "\x03"
RED = "\x1b[31mred"
SCREEN, LEFT = "\x1b[?1049h", "\x1b[?1049l"


def fill(place: Place, count: int = 30) -> None:
    """Messages in three groups, one of a name that would colour a terminal, and two dead letters."""
    with place.open() as transport:
        transport.publish_many((("a", "b", RED)[n % 3], n) for n in range(count))
        for lease in transport.claim_many(limit=2):
            transport.dead_letter(lease, "broken")


def test_top_shows_the_queue_and_obeys_its_keys(place: Place, folder: Path) -> None:
    fill(place)
    with place.open() as transport, Terminal(folder, "top", *place.options, "--every", "0.2") as terminal:
        first = terminal.wait_for("\\x1b[31mred")
        assert SCREEN in first and place.name in first and "\x1b[31mred" not in first
        terminal.wait_for("/s")
        if place.url.startswith("http"):
            terminal.wait_for("leader")
        terminal.wait_for("? y/n", since=terminal.press("p"))
        terminal.wait_for("Nothing was done.", since=terminal.press("n"))
        assert not transport.stats().queue_paused
        terminal.wait_for("? y/n", since=terminal.press("p"))
        terminal.wait_for("Paused the whole queue.", since=terminal.press("y"))
        assert transport.stats().queue_paused
        terminal.wait_for("the queue is paused", since=terminal.press("x"))
        terminal.wait_for("? y/n", since=terminal.press("r"))
        terminal.wait_for("Resumed the whole queue.", since=terminal.press("y"))
        terminal.wait_for("of the whole queue? y/n", since=terminal.press("d"))
        terminal.wait_for("Redriven 2 dead letters.", since=terminal.press("y"))
        assert transport.stats().dead == 0
        terminal.wait_for("groups by depth", since=terminal.press("s"))
        # All in one go, as somebody in a hurry does: the first group, the second, back, and paused.
        terminal.wait_for("Paused group ", since=terminal.press("\x1b[B\x1b[B\x1b[Ap"))
        assert [group.state for group in transport.groups()].count("paused") == 1
        terminal.wait_for("Resumed group ", since=terminal.press("r"))
        terminal.wait_for("Nothing holds group ", since=terminal.press("l"))
        terminal.wait_for("choose a group", since=terminal.press("\x1b"))
        terminal.press("q")
        assert terminal.ended() == 0
        assert LEFT in terminal.shown


def test_top_ends_with_ctrl_c_and_needs_little_room(folder: Path) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish_many(("g" * 300 + str(n), n) for n in range(50))
    with Terminal(folder, "top", "--url", "q.db", size=(40, 12)) as terminal:
        terminal.wait_for("published")
        terminal.wait_for("Too small a terminal to act", since=terminal.press("p"))
        terminal.press("y" + CTRL_C)
        assert terminal.ended() == 0 and LEFT in terminal.shown
    with rqfast.connect("q.db") as transport:
        assert not transport.stats().queue_paused


def test_top_cuts_long_names_in_the_middle_and_never_a_question(folder: Path) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish_many(("first-" + "g" * 200 + f"-{n}th", n) for n in range(3))
        for holder in ("six", "two"):
            assert transport.claim("worker-" + "w" * 90 + holder, 600) is not None
    with Terminal(folder, "top", "--url", "q.db", size=(80, 24)) as terminal:
        for end in ("-0th", "-1th", "-2th", "six", "two"):
            terminal.wait_for(end)
        terminal.wait_for("esc none", since=terminal.press("j"))
        terminal.wait_for("? y/n", since=terminal.press("d"))
        terminal.wait_for("Redriven 0 dead letters.", since=terminal.press("y"))
        terminal.press("q")
        assert terminal.ended() == 0


def test_groups_keep_their_heads_and_the_ends_of_their_names(folder: Path) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish_many(("first-" + "g" * 200 + f"-{n}th", n) for n in range(3))
        assert transport.claim("worker-" + "w" * 60, 600) is not None
    with Terminal(folder, "groups", "--url", "q.db", size=(80, 24)) as terminal:
        assert terminal.ended() == 0
    assert "priority" not in terminal.shown and "head" in terminal.shown
    assert all(f"-{n}th" in terminal.shown for n in range(3)) and "ggggg\r" not in terminal.shown
    with Terminal(folder, "groups", "--url", "q.db", size=(400, 24)) as terminal:
        assert terminal.ended() == 0
    assert "priority" in terminal.shown and "g" * 200 in terminal.shown


def test_dropping_dead_letters_says_how_many(folder: Path) -> None:
    with rqfast.connect("q.db", queue="night") as transport:
        transport.publish_many(("g", n) for n in range(3))
        for _ in range(3):
            lease = transport.claim()
            assert lease is not None
            transport.dead_letter(lease, "why " * 99 + "END")
    options = ("--url", "q.db", "--queue", "night")
    for arguments, asked in (
        (("--all",), "Delete all 3 dead letters of queue night for good? [y/N]"),
        (("--group", "g"), "Delete all 3 dead letters of group g of queue night for good? [y/N]"),
        (("1",), "Delete 1 dead letter of queue night for good? [y/N]"),
    ):
        with Terminal(folder, "dead", "drop", *arguments, *options) as terminal:
            terminal.wait_for(asked)
            terminal.press("n\n")
            assert terminal.ended() == 1
    with Terminal(folder, "dead", "drop", "--group", "nosuch", *options) as terminal:
        assert terminal.ended() == 0 and "No dead letters of group nosuch." in terminal.shown
    with Terminal(folder, "dead", "list", *options, size=(80, 24)) as terminal:
        assert terminal.ended() == 0
    assert "END" not in terminal.shown and terminal.shown.count("\n") == 4


def test_top_goes_on_while_no_node_answers(folder: Path) -> None:
    from rqfast.devserver import DevServer

    with DevServer(folder / "dev.db") as server:
        port, url = server.port, server.url
        rqfast.connect(url).close()
        terminal = Terminal(folder, "top", "--url", url, "--every", "0.2")
        terminal.wait_for("/s")
    with terminal:
        terminal.wait_for("no answer")
        seen = len(terminal.shown)
        with DevServer(folder / "dev.db", port):
            terminal.wait_for("/s", since=seen)
            terminal.press("q")
            assert terminal.ended() == 0


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", CTRL_C])
def test_purge_asks_and_takes_anything_but_yes_for_no(answer: str, folder: Path) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish_many(("g", n) for n in range(10))
        with Terminal(folder, "purge", "--all", "--url", "q.db") as terminal:
            terminal.wait_for("Delete all 10 messages of the default queue for good? [y/N]")
            terminal.press(answer)
            assert terminal.ended() == (130 if answer == CTRL_C else 1)
            assert ("Nothing was done." in terminal.shown) == (answer != CTRL_C)
        assert transport.stats().messages == 10


def test_purge_does_what_was_agreed(place: Place, folder: Path) -> None:
    fill(place)
    with Terminal(folder, "purge", RED, *place.options) as terminal:
        asked = terminal.wait_for("[y/N]")
        assert "Delete all 10 messages of group " in asked
        assert "\\x1b[31mred" in asked and RED not in asked
        terminal.press("y\n")
        assert terminal.ended() == 0 and "Deleted 10 messages." in terminal.shown


def test_purge_may_be_interrupted_and_says_what_is_left(folder: Path) -> None:
    with rqfast.connect("q.db", synchronous="OFF") as transport:
        transport.publish_many((f"g{n % 50}", n) for n in range(150_000))
        with Terminal(folder, "purge", "--all", "--yes", "--url", "q.db") as terminal:
            terminal.wait_for("Purging")
            terminal.press(CTRL_C)
            status = terminal.ended()
        left = transport.stats().messages
    # A fast machine may be through before the key comes.
    told = f"interrupted; {left:,} messages are still in the queue" if status == 130 else "Deleted 150,000 messages."
    assert (status, told in terminal.shown) == (130 if left else 0, True), terminal.shown


def test_publish_shows_a_bar_and_ctrl_c_says_how_to_go_on(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(json.dumps({"g": n % 9, "n": n}) + "\n" for n in range(3000)))
    arguments = ("publish", "--url", "q.db", "--create", "--file", "rows.jsonl", "--group-field", "g")
    with Terminal(folder, *arguments, "--rate", "200") as terminal:
        terminal.wait_for("Publishing")
        terminal.wait_for("messages")
        terminal.wait_for("/s")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        told = terminal.shown.split("interrupted; ")[1]
    lines = int(told.split("--skip ")[1].split()[0])
    assert told.startswith(f"{lines:,} messages are in; go on with --skip {lines}")
    with Terminal(folder, *arguments, "--skip", str(lines)) as terminal:
        assert terminal.ended() == 0 and f"Published {3000 - lines:,} messages in " in terminal.shown
    with rqfast.connect("q.db") as transport:
        assert transport.stats().messages == 3000


def test_publish_without_anything_says_so_and_does_not_wait(folder: Path) -> None:
    with Terminal(folder, "publish", "--url", "q.db", "--create") as terminal:
        assert terminal.ended() == 2
        assert "nothing to publish: say GROUP and EVENT" in terminal.shown


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_tables_fit_and_have_colours_only_where_they_are_wanted(
    variables: dict[str, str], coloured: bool, size: tuple[int, int], folder: Path
) -> None:
    with rqfast.connect("q.db") as transport:
        transport.publish("customer-" + "long" * 40, {"text": "x" * 500})
        assert transport.claim("worker-" + "w" * 60, 600) is not None
    for arguments in (["groups"], ["stats"]):
        with Terminal(folder, *arguments, "--url", "q.db", size=size, variables=variables) as terminal:
            assert terminal.ended() == 0
        assert ("\x1b[1m" in terminal.shown) or not coloured
        plain = terminal.shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert "\x1b[3" not in plain
        assert max(map(len, plain.splitlines())) <= size[0]
        assert coloured or "\x1b[3" not in terminal.shown


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 5, "short"),
        ("customer-0123456789-7", 12, "custom…789-7"),
        ("customer-0123456789-7", 8, "c…6789-7"),
        ("until 12:00:00 ship@host-28692", 21, "until 12:00:00 s…8692"),
        ("Redrive the dead letters of group abcdefgh? y/n", 20, "Redrive th…efgh? y/n"),
        ("一" * 9, 12, "一一一…一一"),
        ("ab", 1, "…"),
    ],
)  # fmt: skip
def test_a_text_is_cut_in_its_middle(text: str, most: int, shown: str) -> None:
    assert middle(text, most) == shown
