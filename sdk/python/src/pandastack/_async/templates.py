"""Templates, and building new ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, AsyncGenerator, Callable, List, Optional

from .._builds import (
    DEFAULT_SIZE_MB,
    Template,
    TemplateBuild,
    build_fields,
    context_files,
    default_build_id,
    dockerfile_text,
    registry_ref,
)
from .._core import operations
from .._core.call import FormFile, RequestForm
from .._retry import Sending
from .._wire import list_of
from ..exceptions import TemplateBuildError
from . import flavour

if TYPE_CHECKING:
    from .client import AsyncPandaStack

_UPLOAD_SECONDS = 600.0


class AsyncTemplatesAPI:
    """The templates that sandboxes can start from."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(self) -> List[Template]:
        """All templates: the server's own, then those of the workspace."""
        found = list_of(await self._client.transport.json(operations.get_templates()), "items")
        return [Template.from_dict(data) for data in found]

    async def get(self, name: str) -> Template:
        data = await self._client.transport.json(operations.get_templates_name(name))
        return Template.from_dict(data)

    async def delete(self, name: str) -> None:
        """Delete a template. Sandboxes that were created from it keep running."""
        await self._client.transport.empty(operations.delete_templates_name(name))

    async def builds(self) -> List[TemplateBuild]:
        """All builds, newest first."""
        found = list_of(
            await self._client.transport.json(operations.get_templates_builds()), "items"
        )
        return [TemplateBuild.from_dict(data) for data in found]

    async def get_build(self, build_id: str) -> TemplateBuild:
        call = operations.get_templates_builds_build(build_id)
        return TemplateBuild.from_dict(await self._client.transport.json(call))

    async def register(
        self,
        name: str,
        image_ref: str,
        *,
        size_mb: int = DEFAULT_SIZE_MB,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        kernel: Optional[str] = None,
        replace: bool = False,
    ) -> TemplateBuild:
        """Build a template from an image in a registry. Returns the started build."""
        form = build_fields(
            name,
            size_mb=size_mb,
            cpu=cpu,
            memory_mb=memory_mb,
            image_ref=image_ref,
            kernel=kernel,
        )
        return await self._build(RequestForm(form), replace)

    async def build_from_dockerfile(
        self,
        name: str,
        dockerfile: str,
        *,
        context_dir: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        size_mb: int = DEFAULT_SIZE_MB,
        replace: bool = False,
        wait: bool = False,
        on_log: Optional[Callable[[str], None]] = None,
    ) -> TemplateBuild:
        """Build a template from a Dockerfile, on the server.

            await client.templates.build_from_dockerfile(
                "tools", "FROM base\\nRUN pip install ruff\\n", wait=True, on_log=print
            )

        Args:
            name: The name of the template.
            dockerfile: The path of a Dockerfile, or its content.
            context_dir: The directory that `COPY` and `ADD` read from.
            cpu: The number of CPUs of its sandboxes.
            memory_mb: The memory of its sandboxes.
            size_mb: The size of its disk.
            replace: Replace a template of yours with this name.
            wait: Return when the build has ended, instead of at once.
            on_log: Gets each line of the build's log. Implies `wait`.

        Raises:
            TemplateBuildError: The build failed, and `wait` or `on_log` was given.
        """
        form = build_fields(
            name,
            size_mb=size_mb,
            cpu=cpu,
            memory_mb=memory_mb,
            dockerfile=dockerfile_text(dockerfile),
        )
        build = await self._build(RequestForm(form, context_files(context_dir)), replace)
        if not wait and on_log is None:
            return build
        return await self._finish(build, on_log)

    async def build_from_snapshot(
        self,
        name: str,
        snapshot_id: str,
        *,
        size_mb: int = DEFAULT_SIZE_MB,
        replace: bool = False,
    ) -> TemplateBuild:
        """Build a template from a snapshot of a sandbox."""
        form = build_fields(name, size_mb=size_mb, from_snapshot=snapshot_id)
        return await self._build(RequestForm(form), replace)

    async def build_logs(
        self,
        build_id: str,
        *,
        follow: bool = True,
    ) -> AsyncGenerator[str, None]:
        """The lines of a build's log; with `follow` until the build has ended."""
        call = operations.get_templates_builds_build_logs(build_id, follow=follow or None)
        async with flavour.closing(self._client.transport.events(call)) as events:
            async for event in events:
                if event.event == "done":
                    return
                yield event.data

    async def wait_for_build(
        self,
        build_id: str,
        *,
        poll_interval: float = 2.0,
        timeout_seconds: float = 1200.0,
    ) -> TemplateBuild:
        """Wait until a build has ended.

        Raises:
            TemplateBuildError: The build failed, or takes longer than `timeout_seconds`.
        """
        build = await self._wait(build_id, poll_interval, timeout_seconds)
        if not build.is_terminal:
            raise TemplateBuildError(
                f"build {build_id} has not ended after {timeout_seconds:g} s; "
                f"its status is {build.status!r}",
                build=build,
            )
        return _succeeded(build)

    async def build(
        self,
        name: str,
        dockerfile_path: Optional[str] = None,
        rootfs_tar: Optional[str] = None,
        size_mb: int = DEFAULT_SIZE_MB,
        poll_interval: float = 1.0,
        timeout_seconds: float = 600.0,
    ) -> TemplateBuild:
        """Build a template from a Dockerfile with its directory, or from a root file system.

        Waits for the end. The result says whether it failed: nothing is raised then.
        """
        if (dockerfile_path is None) == (rootfs_tar is None):
            raise ValueError("give either dockerfile_path or rootfs_tar")
        if dockerfile_path is not None:
            path = Path(dockerfile_path)
            form = build_fields(name, size_mb=size_mb, dockerfile=path.read_text("utf-8"))
            files = context_files(str(path.parent))
        else:
            form = build_fields(name, size_mb=size_mb)
            files = [FormFile("rootfs", Path(str(rootfs_tar)))]
        build = await self._build(RequestForm(form, files), replace=False)
        if build.is_terminal:
            return build
        return await self._wait(build.id, poll_interval, timeout_seconds)

    async def push(
        self,
        name: str,
        dockerfile: str = "Dockerfile",
        *,
        context: Optional[str] = None,
        platform: str = "linux/amd64",
        size_mb: int = DEFAULT_SIZE_MB,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        kernel: Optional[str] = None,
        build_id: Optional[str] = None,
        region: Optional[str] = None,
        project: Optional[str] = None,
        repo: Optional[str] = None,
        on_log: Optional[Callable[[str], None]] = None,
        wait: bool = True,
    ) -> TemplateBuild:
        """Build an image with your local docker, push it to a registry, and register it.

        `build_from_dockerfile` needs neither docker nor a registry.

        Raises:
            TemplateBuildError: The build on the server failed.
            subprocess.CalledProcessError: docker failed.
        """
        path = Path(dockerfile)
        if not path.is_file():
            raise FileNotFoundError(f"there is no Dockerfile at {dockerfile!r}")
        image = registry_ref(
            name, build_id or default_build_id(), region=region, project=project, repo=repo
        )
        log = on_log or print
        make = ["docker", "build", "--platform", platform, "-t", image, "-f", str(path)]
        log(f"docker build of {image}")
        await flavour.in_thread(lambda: _run([*make, context or str(path.parent)]))
        log(f"docker push of {image}")
        await flavour.in_thread(lambda: _run(["docker", "push", image]))
        build = await self.register(
            name, image, size_mb=size_mb, cpu=cpu, memory_mb=memory_mb, kernel=kernel
        )
        log(f"build {build.id} of template {name} has started")
        return await self._finish(build, log) if wait else build

    async def _build(self, form: RequestForm, replace: bool) -> TemplateBuild:
        call = operations.post_templates_build(form, replace=replace or None)
        data = await self._client.transport.json(call, Sending(timeout=_UPLOAD_SECONDS))
        return TemplateBuild.from_dict(data)

    async def _finish(
        self,
        build: TemplateBuild,
        on_log: Optional[Callable[[str], None]],
    ) -> TemplateBuild:
        """Follow the log of a build to its end."""
        async with flavour.closing(self.build_logs(build.id)) as lines:
            async for line in lines:
                if on_log is not None:
                    on_log(line)
        return await self.wait_for_build(build.id)

    async def _wait(self, build_id: str, interval: float, seconds: float) -> TemplateBuild:
        ends = time.monotonic() + seconds
        build = await self.get_build(build_id)
        while not build.is_terminal and time.monotonic() < ends:
            await flavour.sleep(interval)
            build = await self.get_build(build_id)
        return build


def _succeeded(build: TemplateBuild) -> TemplateBuild:
    if build.is_failed:
        raise TemplateBuildError(
            build.error or f"the build of template {build.name} failed", build=build
        )
    return build


def _run(command: List[str]) -> None:
    import subprocess

    subprocess.run(command, check=True)
