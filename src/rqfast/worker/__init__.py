"""Workers: handlers on groups of the queue, or on a table of the user's own.

What users need of it is in `rqfast` itself; `lifespan` is imported from here, the other modules are not for users.
"""

__all__ = ["lifespan"]
