"""Commands that change a queue: pause, resume, release, delete, purge, dead."""

from __future__ import annotations

import pytest

from tests.cli.command import call
from tests.cli.conftest import Place

GROUP = "[b]g\x07"
SHOWN = "[b]g\\x07"


def test_pause_and_resume(place: Place) -> None:
    with place.open() as transport:
        transport.publish(GROUP, 1)
        paused = call("pause", GROUP, *place.options).ok
        ends_it = f"rqfast resume --queue {place.name} '{SHOWN}'"
        assert paused.out == f"Paused group {SHOWN} of queue {place.name}; `{ends_it}` ends it.\n"
        assert transport.claim() is None
        assert call("pause", *place.options, "--json").ok.json == [{"paused": None, "queue": place.name}]
        assert transport.stats().queue_paused
        resumed = call("resume", *place.options).ok.lines
        assert resumed[0] == f"Resumed all of queue {place.name}."
        shows_them = f"`rqfast groups --state paused --queue {place.name}` shows them."
        assert resumed[1] == f"Still paused by name: 1; {shows_them}"
        assert transport.claim() is None
        assert call("resume", GROUP, *place.options, "--json").ok.json == [{"resumed": GROUP, "queue": place.name}]
        assert transport.claim() is not None
        again = call("resume", GROUP, *place.options).ok.out
        assert again == f"Nothing to do: group {SHOWN} of queue {place.name} was not paused.\n"
        again = call("resume", *place.options).ok.out
        assert again == f"Nothing to do: queue {place.name} was not paused.\n"
        none = call("pause", "empty", *place.options).ok.out
        assert none.startswith(f"Paused group empty of queue {place.name} (it has no messages now); `rqfast resume")
        assert call("resume", "empty", *place.options).ok.out == f"Resumed group empty of queue {place.name}.\n"


def test_release(place: Place) -> None:
    with place.open() as transport:
        transport.publish(GROUP, 1)
        lease = transport.claim("w", 600)
        assert lease is not None
        assert call("release", GROUP, *place.options).ok.out == f"Released group {SHOWN}: its head can be claimed.\n"
        assert transport.ack_many([lease]) == [lease]
    again = call("release", GROUP, *place.options)
    assert (again.status, again.out) == (1, "")
    assert again.err == f"rqfast: nothing holds group {SHOWN} of queue {place.name}: no lease, no parking\n"
    machine = call("release", GROUP, *place.options, "--json")
    assert (machine.status, machine.json) == (1, [{"released": False, "group_id": GROUP, "queue": place.name}])


def test_delete(place: Place) -> None:
    with place.open() as transport:
        seqs = [transport.publish("g", n) for n in range(2)]
        assert transport.claim("w", 600) is not None
        in_work = call("delete", str(seqs[0]), *place.options)
        assert in_work.status == 1 and f"no message {seqs[0]} in queue {place.name} that is not in work" in in_work.err
        for advice in ("release", "dead drop"):
            assert f"`rqfast {advice} --queue {place.name}`" in in_work.err
        machine = call("delete", str(seqs[0]), *place.options, "--json").json
        assert machine == [{"deleted": False, "seq": seqs[0], "queue": place.name}]
        assert call("delete", str(seqs[1]), *place.options).ok.out == f"Deleted message {seqs[1]}.\n"
        assert transport.stats().messages == 1


def test_purge(place: Place) -> None:
    with place.open() as transport:
        transport.publish_many((f"g{n % 3}", n) for n in range(30))
        unsaid = call("purge", *place.options)
        assert (unsaid.status, unsaid.err) == (2, "rqfast purge: say which: a GROUP, or --all\n")
        unasked = call("purge", "g1", *place.options)
        assert (unasked.status, unasked.err) == (
            2, "rqfast purge: there is no terminal on which to ask: say --yes\n",
        )  # fmt: skip
        assert transport.stats().messages == 30
        assert call("purge", "g1", *place.options, "--yes").ok.out == "Deleted 10 messages.\n"
        assert call("purge", "--all", *place.options, "-y", "--json").ok.json == [{"purged": 20, "queue": place.name}]
        assert transport.stats().messages == 0


@pytest.fixture
def with_dead(place: Place) -> tuple[Place, list[int]]:
    """Three dead letters in two groups, with a reason that would colour a terminal."""
    with place.open() as transport:
        seqs = [transport.publish(group, {"n": n}, headers={"trace": n}) for n, group in enumerate((GROUP, "h", GROUP))]
        for _ in seqs:
            lease = transport.claim()
            assert lease is not None
            transport.dead_letter(lease, "\x1b[31mbroken")
    return place, seqs


def test_dead_letters_are_listed_and_shown(with_dead: tuple[Place, list[int]]) -> None:
    place, seqs = with_dead
    rows = [line.split() for line in call("dead", "list", *place.options).ok.lines]
    assert [row[0] for row in rows] == ["seq", *map(str, seqs)]
    assert rows[1][1] == SHOWN and rows[1][-1] == "\\x1b[31mbroken"
    found = call("dead", "list", *place.options, "--group", GROUP, "--json").ok.json
    assert [one["seq"] for one in found] == [seqs[0], seqs[2]]
    assert found[0]["reason"] == "\x1b[31mbroken" and "raw" not in found[0]
    page = call("dead", "list", *place.options, "--limit", "1", "--after", str(seqs[0])).ok.lines
    assert page[1].split()[0] == str(seqs[1]) and page[-1] == f"The first 1; go on with --after {seqs[1]}, or --limit."
    shown = call("dead", "show", str(seqs[1]), *place.options).ok.out
    assert "trace: 1" in shown and '{"n":1}' not in shown
    assert '{"n":1}' in call("dead", "show", str(seqs[1]), *place.options, "--payload").ok.out
    assert call("dead", "show", str(seqs[1]), *place.options, "--payload", "--json").ok.json[0]["raw"] == '{"n":1}'
    none = call("dead", "show", str(seqs[2] + 1), *place.options)
    assert none.status == 1 and f"no dead letter {seqs[2] + 1}" in none.err
    assert f"`rqfast dead list --queue {place.name}`" in none.err
    titles = [line.split("  ")[0] for line in shown.splitlines()]
    assert "group" in titles and "group id" not in titles
    payload = call("dead", "show", str(seqs[1]), *place.options, "--payload").ok.lines
    assert payload[-1].split() == ["payload", '{"n":1}']


def test_dead_letters_come_back_or_go(with_dead: tuple[Place, list[int]]) -> None:
    place, seqs = with_dead
    unsaid = call("dead", "redrive", *place.options)
    assert (unsaid.status, unsaid.err) == (2, "rqfast dead redrive: say which: their seqs, --group, or --all\n")
    assert call("dead", "redrive", str(seqs[0]), *place.options).ok.out == "Redriven 1 dead letter.\n"
    again = call("dead", "redrive", str(seqs[0]), *place.options, "--json")
    assert (again.status, again.json) == (1, [{"redriven": 0, "queue": place.name}])
    assert again.err == f"rqfast: 1 of those that were named is no dead letter (any more): {seqs[0]}\n"
    assert call("dead", "drop", str(seqs[1]), *place.options).status == 2
    assert call("dead", "drop", str(seqs[1]), *place.options, "--yes").ok.out == "Dropped 1 dead letter.\n"
    for what in ("redrive", "drop"):
        agreed = ("--yes",) if what == "drop" else ()
        none = call("dead", what, "--group", "nosuch\x07", *place.options, *agreed).ok.out
        assert none == "No dead letters of group nosuch\\x07.\n"
    assert call("dead", "drop", "--group", "h", *place.options, "-y", "--json").ok.json == [
        {"dropped": 0, "queue": place.name}
    ]
    assert call("dead", "drop", "--all", *place.options, "-y", "--json").ok.json == [
        {"dropped": 1, "queue": place.name}
    ]
    assert call("dead", "list", *place.options).ok.out == "No dead letters.\n"
    with place.open() as transport:
        assert [message.seq for message in transport.peek(GROUP)] == [seqs[0]]


def test_a_long_reason_is_whole_in_a_pipe(place: Place) -> None:
    with place.open() as transport:
        transport.publish("g", 1)
        lease = transport.claim()
        assert lease is not None
        transport.dead_letter(lease, "why " * 99 + "END")
    assert call("dead", "list", *place.options).ok.lines[1].endswith("why END")
