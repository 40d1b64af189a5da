"""The transports: each engine in its own colour, and the two adapters at the rim."""
