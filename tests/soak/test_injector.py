"""Of the faults that chance picks, none is left out."""

from __future__ import annotations

import random

from tests.cluster import Node
from tests.soak.injector import Deck
from tests.soak.network import Seen
from tests.soak.site import Site


def hits_nothing(site: Site, node: Node | None) -> Seen:
    return Seen(0)


def test_each_kind_comes_as_often_as_any_other_and_once_more_if_it_hit_nothing() -> None:
    deck = Deck(dict.fromkeys("abc", hits_nothing), random.Random(1))
    for _ in range(20):
        drawn = []
        for _ in range(4):
            drawn.append(deck.draw()[0])
            if drawn[-1] == "b":
                deck.put_back("b")
        assert sorted(drawn) == ["a", "b", "b", "c"]
        assert drawn[-1] == "b"
