"""Where messages come from and go to: groups of the queue, and tables of the user's own."""
