"""The project's statements against the oracle, over random histories."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from rqfast.sql import Statements

from .driver import drive
from .machine import MixedMachine, QueueMachine, TwoQueuesMachine

# Requests of all tests of this file together; a nightly run sets 1,000,000.
STEPS = int(os.environ.get("RQFAST_MODEL_STEPS", "20000"))
# A machine can shrink what it finds, and takes ten times as long for a step as the histories from fixed seeds.
MACHINE = min(max(STEPS // 20, 20), 10_000)
STEPS_EACH = 50
DRIVEN_EACH = 400
SEEDS = max((STEPS - 4 * MACHINE) // 3 // DRIVEN_EACH, 1)
# Examples of one run; each has about so many requests.  The next run of a derandomized machine is the same again.
ROUND = 1000
REQUESTS_EACH = 8

# What a run must have seen to mean anything, in 1,000 requests.
SEEN = {
    "publish": 200,
    "leases": 80,
    "empty claim": 80,
    "reply lost": 50,
    "given up": 50,
    "tidy": 20,
    "ack": 10,
    "ack lost": 3,
}
SEEN_MIXED = {"publish": 150, "leases": 60, "plain publish": 100, "plain claim": 50, "plain ack": 10}
# And the histories from fixed seeds.
SEEN_AT_ALL = (
    "duplicate", "late", "unasked", "nack", "nack lost", "park", "park lost", "defer", "defer lost", "extend",
    "extend lost", "dead", "dead lost", "give back", "give back lost", "step", "pause", "resume", "pause_queue",
    "resume_queue", "release", "delete", "purge", "purge_queue", "redrive", "redrive_group", "redrive_seqs", "drop",
    "long run", "ack early", "ack in a run", "nack in a run", "park in a run", "defer in a run", "extend in a run",
    "dead in a run", "give back in a run", "bundle", "bundle refused", "publish of a lost ack",
    "claim of some", "crash",
)  # fmt: skip
SEEN_BESIDE = (
    "leases", "long run", "ack", "ack lost", "plain publish", "plain claim", "plain claim of nothing", "plain ack",
    "plain nack", "plain park", "plain settlement of a live lease",
)  # fmt: skip


def run(machine: type[QueueMachine], requests: int, seen: dict[str, int] = SEEN) -> None:
    """Run a machine until it has made so many requests; nothing is kept between runs.

    Hypothesis leaves out some rules in some examples, and so many are without a request: they are not counted.
    """
    machine.counts.clear()
    while machine.counts["requests"] < requests:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=min(ROUND, 2 + requests // REQUESTS_EACH),
                stateful_step_count=STEPS_EACH,
                # The same histories each time, so that a red run means a change; a longer run looks for new ones.
                derandomize=STEPS <= 20_000,
                database=None,
                print_blob=True,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    for what, least in seen.items() if requests >= 1000 else ():
        assert machine.counts[what] >= least * requests // 1000, f"{what}: {machine.counts[what]} in {requests}"


pytestmark = pytest.mark.timeout(max(300, STEPS // 20))


def histories(queue: str | None, seen: tuple[str, ...], **habits: object) -> None:
    """Histories from fixed seeds; the first ones are the same in a short run and in a long one."""
    statements, counts = Statements(queue), Counter[str]()
    for seed in range(SEEDS):
        try:
            counts += drive(statements, queue, seed, DRIVEN_EACH, **habits)
        except BaseException as error:
            error.add_note(f"in the history of seed {seed}, {queue=}, {habits=}")
            raise
    least = 5 if SEEDS >= 10 else 0
    assert not [what for what in seen if counts[what] < least], counts


def test_the_default_queue_does_what_the_oracle_says() -> None:
    run(QueueMachine, 2 * MACHINE)


def test_a_queue_with_a_name_beside_the_default_one_does_what_the_oracle_says() -> None:
    run(TwoQueuesMachine, MACHINE)


def test_the_default_queue_with_old_workers_on_it_does_what_the_oracle_says() -> None:
    run(MixedMachine, MACHINE, SEEN_MIXED)


def test_longer_histories_with_old_workers_from_fixed_seeds() -> None:
    histories(None, SEEN_BESIDE, plain=0.5)


@pytest.mark.parametrize("queue", [None, "orders"])
def test_longer_histories_from_fixed_seeds(queue: str | None) -> None:
    histories(queue, SEEN_AT_ALL)
