"""What the option `lost="warn"` does instead of raising."""

from __future__ import annotations

import logging

log: logging.Logger = logging.getLogger("rqfast")


def warn_lost(error: Exception) -> None:
    """Log that a lease was lost."""
    log.warning("%s", error)
