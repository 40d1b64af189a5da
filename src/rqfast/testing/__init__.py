"""Tests of your own handlers: a worker on a database in memory, with the real statements and a clock moved by hand.

>>> def test_sync():
...     with TestWorker(worker) as test:
...         test.publish("crm", {"customer": 7})  # returns when the message is settled
...         test.assert_handled("sync", {"customer": 7})

In an async test `async with`, and `await` before `publish`, `advance` and `idle`.  `rqfast.testing.plugin` has a
fixture for pytest.
"""

from .blocking import BlockingTest
from .clock import Clock
from .record import Handled
from .worker import TestWorker

__all__ = ["BlockingTest", "Clock", "Handled", "TestWorker"]
