"""What to do next with a numbered request: pure, so each case is one line."""

import pytest

from rqfast.engine.outcome import Kind, Result
from rqfast.pipeline.retry import LONGEST_PAUSE, Progress, Step, next_step


@pytest.mark.parametrize(
    ("progress", "kind", "step"),
    [
        (Progress(), Kind.APPLIED, Step.DONE),
        (Progress(open=1), Kind.APPLIED, Step.DONE),
        (Progress(), Kind.REFUSED, Step.READ_AGAIN),
        (Progress(abandoned=True), Kind.REFUSED, Step.READ_AGAIN),
        (Progress(), Kind.FATAL, Step.RAISE),
        (Progress(), Kind.NOT_APPLIED, Step.SEND),
        (Progress(open=1), Kind.NOT_APPLIED, Step.WAIT),
        (Progress(), Kind.UNKNOWN, Step.SEND),
        (Progress(open=1), Kind.UNKNOWN, Step.WAIT),
        # Nobody waits: a number that no copy can have used is left; one that may be used is spent.
        (Progress(abandoned=True), Kind.NOT_APPLIED, Step.GIVE_UP),
        (Progress(abandoned=True, unsure=True), Kind.NOT_APPLIED, Step.SEND),
        (Progress(abandoned=True), Kind.UNKNOWN, Step.SEND),
    ],
)
def test_next_step(progress: Progress, kind: Kind, step: Step) -> None:
    assert next_step(progress, Result(kind)) is step


def test_unknown_once_is_unsure_until_the_number_is_settled() -> None:
    progress = Progress()
    next_step(progress, Result(Kind.UNKNOWN))
    next_step(progress, Result(Kind.NOT_APPLIED))
    assert progress.ambiguous


def test_an_open_copy_is_ambiguous_and_a_refused_connection_is_not() -> None:
    progress = Progress(open=1)
    assert progress.ambiguous
    progress.open = 0
    next_step(progress, Result(Kind.NOT_APPLIED))
    assert not progress.ambiguous


def test_a_refused_number_counts_as_applied_while_its_results_are_read() -> None:
    progress = Progress()
    next_step(progress, Result(Kind.REFUSED))
    assert progress.ambiguous


def test_pauses_grow_to_a_bound() -> None:
    progress = Progress()
    pauses = [progress.next_pause() for _ in range(20)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
