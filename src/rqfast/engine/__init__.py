"""The two engines: each runs one batch as one transaction, and knows the queue's time."""
