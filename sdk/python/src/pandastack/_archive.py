"""Packing and unpacking of directories. No input or output beyond the local disk."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import List


def new_file() -> Path:
    """An empty temporary file."""
    with tempfile.NamedTemporaryFile(prefix="pandastack-", suffix=".tar", delete=False) as file:
        return Path(file.name)


def pack(directory: Path, archive: Path) -> None:
    """Pack what a directory contains; names are relative to it."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for entry in sorted(directory.iterdir()):
            tar.add(entry, arcname=entry.name)


def unpack(archive: Path, directory: Path) -> List[str]:
    """Unpack an archive that comes from a sandbox, so nothing in it is trusted."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:*") as tar:
        members = [member for member in tar.getmembers() if member.name not in {"", "."}]
        for member in members:
            _check(member)
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, members=members, filter="data")
        else:  # an early 3.9 or 3.10: the check above refuses what the filter would refuse
            tar.extractall(directory, members=members)
    return [member.name for member in members]


def _check(member: tarfile.TarInfo) -> None:
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise ValueError(f"the archive has a special file: {member.name!r}")
    names = [member.name]
    if member.islnk():
        names.append(member.linkname)
    if member.issym():
        names.append(str(PurePosixPath(member.name).parent / member.linkname))
        if PurePosixPath(member.linkname).is_absolute():
            raise ValueError(f"a link of the archive leads out of it: {member.name!r}")
    for name in names:
        if PurePosixPath(name).is_absolute() or _climbs(name):
            raise ValueError(f"a name of the archive leads out of it: {name!r}")


def _climbs(name: str) -> bool:
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False
