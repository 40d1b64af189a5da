"""Every statement of rqfast: named and explained in the .sql files here, rendered once for each queue."""

from .statements import Statements, read_statements

__all__ = ["Statements", "read_statements"]
