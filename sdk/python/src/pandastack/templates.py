"""Templates. The functions of this module use the default client."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional

from ._builds import (
    DEFAULT_REGISTRY_PROJECT,
    DEFAULT_REGISTRY_REGION,
    DEFAULT_REGISTRY_REPO,
    DEFAULT_SIZE_MB,
    Template,
    TemplateBuild,
    registry_ref,
)
from ._sync.client import get_default_client
from ._sync.templates import TemplatesAPI


def _api() -> TemplatesAPI:
    return get_default_client().templates


def list() -> List[Template]:
    """All templates."""
    return _api().list()


def get(name: str) -> Template:
    return _api().get(name)


def delete(name: str) -> None:
    """Delete a template."""
    _api().delete(name)


def build(
    name: str,
    dockerfile_path: Optional[str] = None,
    rootfs_tar: Optional[str] = None,
    size_mb: int = DEFAULT_SIZE_MB,
) -> TemplateBuild:
    """Build a template from a Dockerfile or a root file system, and wait for the end."""
    return _api().build(name, dockerfile_path, rootfs_tar, size_mb)


def register(
    name: str,
    image_ref: str,
    *,
    size_mb: int = DEFAULT_SIZE_MB,
    cpu: Optional[int] = None,
    memory_mb: Optional[int] = None,
    kernel: Optional[str] = None,
) -> TemplateBuild:
    """Build a template from an image in a registry."""
    return _api().register(
        name, image_ref, size_mb=size_mb, cpu=cpu, memory_mb=memory_mb, kernel=kernel
    )


def build_from_dockerfile(
    name: str,
    dockerfile: str,
    *,
    context_dir: Optional[str] = None,
    cpu: Optional[int] = None,
    memory_mb: Optional[int] = None,
    size_mb: int = DEFAULT_SIZE_MB,
) -> TemplateBuild:
    """Build a template from a Dockerfile, on the server."""
    return _api().build_from_dockerfile(
        name,
        dockerfile,
        context_dir=context_dir,
        cpu=cpu,
        memory_mb=memory_mb,
        size_mb=size_mb,
    )


def build_logs(build_id: str, *, follow: bool = True) -> Iterator[str]:
    """The lines of a build's log."""
    return _api().build_logs(build_id, follow=follow)


def wait_for_build(
    build_id: str,
    *,
    poll_interval: float = 2.0,
    timeout_seconds: float = 1200.0,
) -> TemplateBuild:
    """Wait until a build has ended."""
    return _api().wait_for_build(
        build_id, poll_interval=poll_interval, timeout_seconds=timeout_seconds
    )


def push(
    name: str,
    dockerfile: str = "Dockerfile",
    *,
    context: Optional[str] = None,
    platform: str = "linux/amd64",
    size_mb: int = DEFAULT_SIZE_MB,
    cpu: Optional[int] = None,
    memory_mb: Optional[int] = None,
    kernel: Optional[str] = None,
    on_log: Optional[Callable[[str], None]] = None,
    wait: bool = True,
) -> TemplateBuild:
    """Build an image with your local docker, push it to a registry, and register it."""
    return _api().push(
        name,
        dockerfile,
        context=context,
        platform=platform,
        size_mb=size_mb,
        cpu=cpu,
        memory_mb=memory_mb,
        kernel=kernel,
        on_log=on_log,
        wait=wait,
    )


__all__ = [
    "DEFAULT_REGISTRY_PROJECT",
    "DEFAULT_REGISTRY_REGION",
    "DEFAULT_REGISTRY_REPO",
    "Template",
    "TemplateBuild",
    "TemplatesAPI",
    "build",
    "build_from_dockerfile",
    "build_logs",
    "delete",
    "get",
    "list",
    "push",
    "register",
    "registry_ref",
    "wait_for_build",
]
