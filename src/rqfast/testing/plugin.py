"""A fixture for pytest: `pytest_plugins = ["rqfast.testing.plugin"]` in the topmost conftest.py, or in a test module.

>>> def test_sync(test_worker):
...     test = test_worker(worker)
...     test.publish("crm", {"customer": 7})
...     test.assert_handled("sync", {"customer": 7})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ..worker.worker import Worker
from .blocking import BlockingTest
from .worker import TestWorker

__all__ = ["test_worker"]


@pytest.fixture
def test_worker() -> Iterator[Callable[..., BlockingTest]]:
    """`test_worker(worker, clock=, timeout=)` starts a `TestWorker`, which ends after the test.

    For plain tests; in an async one write `async with TestWorker(worker) as test`.
    """
    with ExitStack() as stack:

        def start(worker: Worker, **options: Any) -> BlockingTest:
            return stack.enter_context(TestWorker(worker, **options))

        yield start
