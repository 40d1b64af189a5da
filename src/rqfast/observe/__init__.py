"""What can be observed of a worker."""
