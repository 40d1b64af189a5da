"""Other queues that a user would pick, at the same work on the same machine: `python -m bench.peers`.

Each peer is one module here and needs what `pip install rqfast[peers]` brings; one that is not installed is skipped
with a line. All are used through their own public calls, in the way that is fastest for them, and with the same
durability: a message that was confirmed is on the disk (SQLite in WAL mode with synchronous=FULL, PostgreSQL with
fsync and synchronous_commit, rqlited as it comes). A run that lost a message, or broke an order that the peer
promises, is no measurement: it fails.
"""
