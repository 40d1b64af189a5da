"""Workers: handlers on groups of the queue, or on a table of the user's own."""
