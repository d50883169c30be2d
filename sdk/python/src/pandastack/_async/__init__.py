"""The asynchronous classes. `scripts/write_sync.py` writes the synchronous ones from them."""
