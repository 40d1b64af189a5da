"""A plain seeded driver of the same world: faster than hypothesis and for ever the same, but it cannot shrink."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from dataclasses import replace

from rqfast.sql import Statements

from .plans import (
    AHEAD,
    ANSWERED,
    BEHIND,
    COUNTS,
    DEDUP_IDS,
    EVERY,
    EXTRAS,
    FATES,
    GROUPS,
    LIMITS,
    MIN_PRIORITIES,
    OPERATIONS,
    PAUSES,
    PLAIN_SETTLEMENTS,
    PRIORITIES,
    RARE_EXTRAS,
    RARE_SETTLEMENTS,
    SETTLEMENTS,
    SOME,
    VISIBILITIES,
    WHICH,
    WORKERS,
    Bound,
    Done,
    Op,
    Plan,
    Pub,
    Take,
)
from .stores import Store
from .world import World

ONLY_ACKS = SETTLEMENTS[:1]


class Habits:
    """What is usual in one history: each seed has habits of its own, so that rare situations are common in some."""

    def __init__(self, seed: int) -> None:
        self.choose = choose = random.Random(seed)
        self.groups = GROUPS[: choose.choice((1, 2, 3, 4, 6))]
        self.crowd = choose.choice((4, 12, 25))
        self.behind = choose.choice((BEHIND, (0.0,), (0.0,)))
        self.fates = choose.choice((FATES, (ANSWERED,)))
        self.pauses = choose.choice((PAUSES[:-1], (0.0, 0.25, 1.0), (1.0, 3.0, 10.0)))
        self.extras = choose.choice((EXTRAS, EXTRAS, EXTRAS[:1], RARE_EXTRAS))
        self.settlements = choose.choice((SETTLEMENTS, RARE_SETTLEMENTS, ONLY_ACKS))
        self.visibilities = choose.choice((VISIBILITIES, VISIBILITIES[1:], VISIBILITIES[2:]))
        self.min_priorities = choose.choice((MIN_PRIORITIES, MIN_PRIORITIES[3:], (0,)))
        self.calls = choose.choice(((1, 2), (2, 4, 8)))
        self.dedup = choose.choice((0.0, 0.2, 0.6))
        self.operating = choose.choice((0.0, 0.05, 0.2))
        self.operations = choose.choice((OPERATIONS, OPERATIONS[7:]))
        self.meddling = choose.choice((0.0, 0.1, 0.3))
        self.ties = choose.choice((0.0, 0.4))
        self.runs = choose.choice((0.0, 0.3, 0.9))
        self.bundles = choose.choice((0.0, 0.0, 0.3))
        self.some = choose.choice((0.0, 0.0, 0.4))
        self.races = 0.0
        # How much of it old workers and publishers do; their clocks.
        self.plain = 0.0
        self.ahead = choose.choice((AHEAD, AHEAD[:1]))


def drive(statements: Statements, queue: str | None, seed: int, steps: int, **habits: object) -> Counter[str]:
    """Run `steps` random steps from this seed on a new queue; returns what happened how often.

    Args:
        habits: fields of `Habits` that are not left to the seed.

    Raises:
        AssertionError: the queue and the oracle do not agree.
        sqlite3.IntegrityError: the statements do not agree with one another.
    """
    with closing(Store()) as store:
        return drive_on(store, statements, queue, seed, steps, **habits)


def drive_on(
    store: Store, statements: Statements, queue: str | None, seed: int, steps: int, **habits: object
) -> Counter[str]:
    """The same on a store that has no such queue yet."""
    world = World(store, statements, queue)
    usual = Habits(seed)
    vars(usual).update(habits)
    for _ in range(steps):
        step(world, usual)
    return world.counts


def step(world: World, habits: Habits) -> None:
    """One step, and all that must hold after it."""
    choose = habits.choose
    world.wait(choose.choice(habits.pauses))
    if habits.plain and choose.random() < habits.plain:
        _plain(world, habits)
    elif choose.random() >= habits.meddling:
        _request(world, habits)
    else:
        _meddle(world, habits)
    world.check()
    some = choose.choice((EVERY, *SOME)) if habits.some else EVERY
    world.look(choose.choice(habits.min_priorities), choose.choice(PAUSES), some)


def _meddle(world: World, habits: Habits) -> None:
    """What others do."""
    choose = habits.choose
    group, kind = choose.choice(habits.groups), choose.random()
    if kind < 0.5:
        world.request("A", [Op("resume", group)])
    else:
        world.pause_by_hand(group)


def _plain(world: World, habits: Habits) -> None:
    """What publishers and workers of the plain transport do."""
    choose, plain = habits.choose, world.plain
    kind = choose.random()
    if kind < 0.3 and len(world.oracle.messages) < habits.crowd + 10:
        plain.publish(choose.choice(habits.groups), choose.choice(PRIORITIES))
    elif kind < 0.65:
        plain.claim(
            choose.choice(habits.visibilities), choose.choice(habits.ahead), choose.choice(habits.min_priorities)
        )
    else:
        how, argument = choose.choice(PLAIN_SETTLEMENTS)
        plain.settle(choose.choice(WHICH[:6]), how, argument, keep=choose.random() < 0.3)


def _request(world: World, habits: Habits) -> None:
    choose = habits.choose
    is_crowded = len(world.oracle.messages) >= habits.crowd
    if habits.races and choose.random() < habits.races:
        plans = {name: _calls(habits, is_crowded) for name in "AB"}
        world.race(plans, choose.choice(habits.behind))
        return
    world.request(
        choose.choice("AB"),
        _calls(habits, is_crowded),
        behind=choose.choice(habits.behind),
        fate=choose.choice(habits.fates),
        tidy=choose.choice((None, None, None, 0, 2)),
    )


def _calls(habits: Habits, is_crowded: bool) -> list[Plan]:
    choose = habits.choose
    plans: list[Plan] = []
    for _ in range(choose.choice(habits.calls)):
        if choose.random() < habits.operating:
            plans.append(replace(choose.choice(habits.operations), group=choose.choice(habits.groups)))
            continue
        kind = choose.random() * (0.65 if is_crowded else 1.0)
        plans.append(_take(habits) if kind < 0.2 else _done(habits) if kind < 0.55 else _publish(habits))
    return plans


def _publish(habits: Habits) -> Pub | Bound:
    new = _pub(habits)
    brings = new.dedup is not None and habits.bundles and habits.choose.random() < 0.5
    return Bound(count=0, publish=(new,), writes=True) if brings else new


def _pub(habits: Habits) -> Pub:
    choose = habits.choose
    rank, delay, headers = choose.choice(habits.extras)
    dedup = choose.choice(DEDUP_IDS) if choose.random() < habits.dedup else None
    return Pub(choose.choice(habits.groups), choose.choice(PRIORITIES), rank, delay, dedup, headers)


def _done(habits: Habits) -> Done | Bound:
    choose = habits.choose
    if habits.bundles and choose.random() < habits.bundles:
        news = tuple(_pub(habits) for _ in range(choose.choice((0, 1, 1, 2))))
        return Bound(choose.choice(WHICH), choose.choice((1, 1, 1, 2, 3)), news, choose.random() < 0.3)
    how, argument = habits.choose.choice(habits.settlements)
    return Done(habits.choose.choice(WHICH), how, argument, habits.choose.choice(COUNTS))


def _take(habits: Habits) -> Take:
    choose = habits.choose
    return Take(
        choose.choice(LIMITS),
        choose.choice(habits.visibilities),
        choose.choice(habits.min_priorities),
        choose.choice(WORKERS),
        choose.choice(WHICH) if choose.random() < habits.ties else None,
        choose.random() < habits.runs,
        choose.choice(SOME) if habits.some and choose.random() < habits.some else EVERY,
    )
