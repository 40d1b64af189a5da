"""The operating calls as the oracle does them: step by step, as those of the queue go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

from .oracle import NO_PRIORITY, PARKED, DeadLetter, Group, Message, Oracle


class Operation:
    """One operating call on its way; `done` counts the messages."""

    def __init__(self, kind: str, group: str | None, seqs: list[int] | None, limit: int | None, step: int) -> None:
        self.kind = kind
        self.group = group
        self.seqs = seqs or []
        self.limit = limit
        self.step = step
        self.done = 0
        self._at = 0
        self._after = -inf
        self._bound: float | None = None

    def take_step(self, oracle: Oracle) -> bool:
        """Do the next step; whether there may be more."""
        steps: dict[str, Callable[[Oracle], bool]] = {
            "pause": self._pause,
            "resume": self._resume,
            "pause_queue": self._pause,
            "resume_queue": self._resume,
            "release": self._release,
            "delete": self._delete,
            "purge": self._purge_group,
            "purge_queue": self._purge_queue,
            "redrive": self._redrive,
            "redrive_group": self._redrive,
            "redrive_seqs": self._redrive_seqs,
            "drop": self._drop,
        }
        return steps[self.kind](oracle)

    def _pause(self, oracle: Oracle) -> bool:
        oracle.pause(self.group)
        return False

    def _resume(self, oracle: Oracle) -> bool:
        oracle.resume(self.group)
        return False

    def _release(self, oracle: Oracle) -> bool:
        assert self.group is not None
        for message in oracle.of(self.group):
            if message.holder is not None:
                # Of a parking that is over nothing is left; the holder of a lapsed lease could still settle.
                # Nor of a run that has ended.
                is_over = message.holder == PARKED and not message.held_at(oracle.time)
                self.done += not (is_over or message.holder in oracle.ended)
                message.holder, message.held_until = None, 0.0
        return False

    def _delete(self, oracle: Oracle) -> bool:
        self._remove(oracle, [seq for seq in self.seqs if seq in oracle.messages])
        return False

    def _purge_group(self, oracle: Oracle) -> bool:
        assert self.group is not None
        bound = self._fix_bound(oracle.last_seq)
        may = [one.seq for one in oracle.of(self.group) if one.seq <= bound and not oracle.in_work(one)]
        self._remove(oracle, may[: self.step])
        return len(may) >= self.step

    def _purge_queue(self, oracle: Oracle) -> bool:
        bound = self._fix_bound(oracle.last_seq)
        seen = [seq for seq in sorted(oracle.messages) if self._after < seq <= bound][: self.step]
        self._remove(oracle, seen)
        self._after = seen[-1] if seen else inf
        return len(seen) == self.step

    def _redrive(self, oracle: Oracle) -> bool:
        bound, most = self._fix_bound(oracle.time), self._most()
        letters = [
            letter
            for seq, letter in sorted(oracle.dead.items())
            if seq > self._after and letter.died_at <= bound and self.group in (None, letter.message.group)
        ][:most]
        self._bring_back(oracle, letters)
        self._after = letters[-1].message.seq if letters else inf
        return len(letters) == most and self.done != self.limit

    def _redrive_seqs(self, oracle: Oracle) -> bool:
        chunk = self._next_seqs()
        letters = [oracle.dead[seq] for seq in chunk if seq in oracle.dead]
        self._bring_back(oracle, [one for one in letters if self.group in (None, one.message.group)][: self._most()])
        return self._at < len(self.seqs) and self.done != self.limit

    def _drop(self, oracle: Oracle) -> bool:
        for seq in self._next_seqs():
            self.done += oracle.dead.pop(seq, None) is not None
        return self._at < len(self.seqs)

    def _fix_bound(self, now: float) -> float:
        """What came after the call began is not of its business."""
        if self._bound is None:
            self._bound = now
        return self._bound

    def _most(self) -> int:
        return self.step if self.limit is None else min(self.step, self.limit - self.done)

    def _next_seqs(self) -> list[int]:
        chunk = self.seqs[self._at : self._at + self.step]
        self._at += self.step
        return chunk

    def _remove(self, oracle: Oracle, seqs: Iterable[int]) -> None:
        for seq in seqs:
            message = oracle.messages[seq]
            if not oracle.in_work(message):
                del oracle.messages[seq]
                oracle.drain(message.group)
                self.done += 1

    def _bring_back(self, oracle: Oracle, letters: list[DeadLetter]) -> None:
        new: dict[str, int] = {}
        for letter in letters:
            seq, group = letter.message.seq, letter.message.group
            del oracle.dead[seq]
            oracle.messages[seq] = _as_new(letter.message)
            new[group] = max(letter.priority, new.get(group, 0))
        for name, priority in new.items():
            known = oracle.groups.setdefault(name, Group(priority, oracle.new_turn))
            if known.priority == NO_PRIORITY:
                known.priority = priority
        self.done += len(letters)


def _as_new(message: Message) -> Message:
    return replace(message, attempts=0, holder=None, held_until=0.0)
