"""The synchronous classes, written by `scripts/write_sync.py` from `_async`."""
