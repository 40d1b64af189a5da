"""What can be observed: hooks, and what is built on them.

`prometheus` (extra `prometheus`) and `otel` (extra `otel`) are to be imported by themselves.
"""

from .byhand import Handling, handling
from .hooks import Event, Hooks, Sending

__all__ = ["Event", "Handling", "Hooks", "Sending", "handling"]
