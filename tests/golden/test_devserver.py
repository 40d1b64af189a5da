"""The dev server against what a real server was seen to answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rqfast.devserver import DevServer
from tests.devserver import Reply, ask
from tests.golden.exchanges import IMITATED, UNSUPPORTED, exchanges, fields, replay

DOCS = Path(__file__).parents[2] / "docs" / "dev-server.md"


@pytest.fixture(scope="module")
def replies() -> Iterator[dict[str, Reply]]:
    with DevServer() as server:
        yield replay(IMITATED, lambda one: ask(server.host, server.port, one.method, one.path, one.body, one.headers))


@pytest.mark.parametrize("name", [name for name in exchanges(IMITATED) if name not in UNSUPPORTED])
def test_it_answers_as_the_server_does(replies: dict[str, Reply], name: str) -> None:
    got, expected = replies[name], exchanges(IMITATED)[name].reply
    if name == "explain":  # one of its columns is SQLite's own business: it is not the same in each release
        pattern = r"(\[\d+,\d+),\d+(,\")"
        got = got._replace(body=re.sub(pattern, r"\1,0\2", got.body))
        expected = expected._replace(body=re.sub(pattern, r"\1,0\2", expected.body))
    assert fields(name, got) == fields(name, expected)


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_what_it_does_not_support_is_refused_in_words(replies: dict[str, Reply], name: str) -> None:
    reply = replies[name]
    assert 400 <= reply.status < 600 and "not supported by the dev server" in reply.body


def test_most_exchanges_are_supported() -> None:
    assert len(exchanges(IMITATED)) == 83 and len(UNSUPPORTED) <= 8


def test_the_docs_list_what_is_not_supported() -> None:
    assert listed("Exchanges that are refused") == UNSUPPORTED


def test_the_docs_list_where_the_versions_differ() -> None:
    old, new = exchanges("8"), exchanges("10")
    differ = {name for name in new if fields(name, old[name].reply) != fields(name, new[name].reply)}
    assert old.keys() == new.keys()
    assert listed("Where v8 differs") == differ


def listed(heading: str) -> set[str]:
    """The names that stand first in the items under a heading of the docs."""
    part = DOCS.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^- `([^`]+)`", part, re.MULTILINE))
