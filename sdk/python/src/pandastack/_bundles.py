"""Packing of a function's code."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SKIPPED = {
    ".git",
    ".next",
    ".turbo",
    ".venv",
    "__pycache__",
    "dist",
    "node_modules",
    "venv",
}


def make_bundle(path: Path, entrypoint: str) -> bytes:
    """A tar.gz of a directory, or of one file under the name of the entrypoint."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        if not path.is_dir():
            tar.add(path, arcname=entrypoint)
        else:
            for file in sorted(path.rglob("*")):
                name = file.relative_to(path)
                if file.is_file() and not _SKIPPED.intersection(name.parts):
                    tar.add(file, arcname=name.as_posix())
    return packed.getvalue()
