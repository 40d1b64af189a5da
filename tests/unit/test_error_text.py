"""The text of an exception beside a dead letter: of whatever is raised."""

from __future__ import annotations

from rqfast.worker.errortext import MOST, text_of, told


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_type_and_text() -> None:
    assert text_of(ValueError("no such order")) == "ValueError: no such order"
    assert text_of(KeyError()) == "KeyError"


def test_odd_text_can_be_stored() -> None:
    assert text_of(ValueError("a\ud800b\0c")) == "ValueError: a\\ud800b\\x00c"


def test_an_exception_whose_text_fails() -> None:
    assert text_of(Rude()) == "Rude: (its text cannot be told: RuntimeError)"


def test_a_line_of_the_log_moves_no_terminal() -> None:
    assert told(ValueError("a\x1b[31mred\nb\u009b1m")) == "ValueError: a\\x1b[31mred\\nb\\x9b1m"


def test_long_text_is_shortened() -> None:
    assert len(text_of(ValueError("x" * 100_000))) == MOST
