"""Showing that a queue keeps its promises."""
