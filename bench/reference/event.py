"""The event of an application: what is published, and what a claim gives back.

Stands for the pydantic model of the transport's users; its two methods are all that a transport knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import orjson


@dataclass
class Event:
    """A number, and some text to give it a size."""

    number: int
    text: str = ""

    def model_dump_json(self) -> str:
        """The event as JSON text, as pydantic names it."""
        return orjson.dumps(self).decode()

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """The event of that text, likewise."""
        return cls(**orjson.loads(text))
