"""Templates and their builds, and what is sent to build one. Only local files are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Type, TypeVar

from ._core.call import FormFile

DEFAULT_REGISTRY_REGION = os.environ.get("PANDASTACK_REGISTRY_REGION", "us-central1")
DEFAULT_REGISTRY_PROJECT = os.environ.get("PANDASTACK_REGISTRY_PROJECT", "pandastack-production")
DEFAULT_REGISTRY_REPO = os.environ.get("PANDASTACK_REGISTRY_REPO", "pandastack-templates")

TERMINAL_STATES = frozenset({"done", "failed"})
DEFAULT_SIZE_MB = 1024

D = TypeVar("D")


@dataclass(frozen=True)
class Template:
    """What sandboxes start from."""

    name: str
    rootfs_path: Optional[str] = None
    size_bytes: Optional[int] = None
    cpu: Optional[int] = None
    memory_mb: Optional[int] = None
    is_global: Optional[bool] = None
    workspace: Optional[str] = None
    label: Optional[str] = None
    description: Optional[str] = None
    category: Optional[str] = None
    base: Optional[str] = None
    tools: Optional[List[str]] = None
    meta: Optional[Dict[str, Any]] = None
    databases: Optional[Dict[str, Any]] = None
    """Whether databases start from it at once: `status` is `waiting`, `preparing`, `ready` or
    `failed`. Only of templates of databases."""
    #: Why nothing can start from it now: ``waiting``, ``baking`` or ``failed``.
    status: Optional[str] = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Template:
        return _known(cls, data)


@dataclass(frozen=True)
class TemplateBuild:
    """One build of a template."""

    id: str
    name: str
    status: str
    error: Optional[str] = None
    started_at: Optional[str] = None
    ended_at: Optional[str] = None
    size_mb: Optional[int] = None
    bytes: Optional[int] = None
    image_ref: Optional[str] = None
    cpu: Optional[int] = None
    memory_mb: Optional[int] = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TemplateBuild:
        return _known(cls, {"id": "", "name": "", "status": "", **data})

    @property
    def is_done(self) -> bool:
        return self.status == "done"

    @property
    def is_failed(self) -> bool:
        return self.status == "failed"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATES


@dataclass(frozen=True)
class Token:
    """An API key. `token`, the whole key, is only known when it was just created."""

    prefix: str
    name: str = ""
    token: Optional[str] = None
    created_at: Optional[str] = None
    expires_at: Optional[str] = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Token:
        name = str(data.get("name") or data.get("label") or "")
        return _known(cls, {"prefix": "", **data, "name": name})

    def __repr__(self) -> str:
        # The key itself must not end up in a log.
        return f"Token(prefix={self.prefix!r}, name={self.name!r}, created_at={self.created_at!r})"


def _known(cls: Type[D], data: Mapping[str, Any]) -> D:
    """An object of the fields that it knows. The server may send more."""
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in data.items() if name in names})


def build_fields(
    name: str,
    *,
    size_mb: int = DEFAULT_SIZE_MB,
    cpu: Optional[int] = None,
    memory_mb: Optional[int] = None,
    **texts: Optional[str],
) -> Dict[str, str]:
    """The text fields of a build form."""
    form = {"name": name, "size_mb": str(size_mb)}
    if cpu is not None:
        form["cpu"] = str(cpu)
    if memory_mb is not None:
        form["memory_mb"] = str(memory_mb)
    form.update({field: text for field, text in texts.items() if text is not None})
    return form


def dockerfile_text(dockerfile: str) -> str:
    """The content of a Dockerfile, given as a path or as the content itself."""
    if "\n" not in dockerfile and Path(dockerfile).is_file():
        return Path(dockerfile).read_text(encoding="utf-8")
    return dockerfile


def context_files(directory: Optional[str]) -> List[FormFile]:
    """The files of a build context. The name of each part is its path."""
    if directory is None:
        return []
    root = Path(directory)
    if not root.is_dir():
        raise NotADirectoryError(f"the build context {directory!r} is not a directory")
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return [FormFile(path.relative_to(root).as_posix(), path) for path in found]


def default_build_id() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def registry_ref(
    name: str,
    build_id: str,
    *,
    region: Optional[str] = None,
    project: Optional[str] = None,
    repo: Optional[str] = None,
) -> str:
    """The name under which `push` stores an image in a registry."""
    host = f"{region or DEFAULT_REGISTRY_REGION}-docker.pkg.dev"
    path = f"{project or DEFAULT_REGISTRY_PROJECT}/{repo or DEFAULT_REGISTRY_REPO}"
    return f"{host}/{path}/{name}:{build_id}"
