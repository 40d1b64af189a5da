"""What happens for each request: calls meet, a batch leaves, waits, comes back, is tried again."""
