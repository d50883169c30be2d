"""The files of a sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, AsyncGenerator, List, Optional, Tuple, Union

from .._core import operations
from .._core.call import Upload
from .._results import FileChange, FileContent, FileInfo
from .._retry import READY, Sending
from ..exceptions import NotFoundError, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._core import models
    from .._core.call import BytesCall, Progress
    from .sandbox import AsyncSandbox

PathLike = Union[str, "os.PathLike[str]"]

_READY_ONCE = Sending(starting=True, repeats=False)


class AsyncSandboxFilesystem:
    """Reads and writes the files of a sandbox. Paths in the sandbox are absolute."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def read(self, path: str, *, on_progress: Optional[Progress] = None) -> FileContent:
        """Read a file. The result is bytes that print as text."""
        transport = self._sandbox.client.transport
        return FileContent(await transport.data(self._get(path), READY, on_progress))

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """Read a file as text."""
        return (await self.read(path)).decode(encoding)

    def stream(
        self,
        path: str,
        *,
        on_progress: Optional[Progress] = None,
    ) -> AsyncGenerator[bytes, None]:
        """Read a file piece by piece."""
        return self._sandbox.client.transport.pieces(self._get(path), READY, on_progress)

    async def write(
        self,
        path: str,
        content: Union[bytes, str],
        *,
        mode: Optional[Union[int, str]] = None,
        on_progress: Optional[Progress] = None,
    ) -> models.Written:
        """Write a file, and its parent directories if they are missing. `mode` is like `0o755`."""
        data = content.encode() if isinstance(content, str) else bytes(content)
        # The length of a large body is known either way, but only pieces can report progress.
        body = data if on_progress is None else Upload(data, on_progress)
        call = operations.put_sandboxes_id_fs(
            self._sandbox.id, body, path=path, mode=_mode_text(mode)
        )
        return await self._sandbox.client.transport.json(call, self._transfer(len(data)))

    async def upload(
        self,
        local_path: PathLike,
        remote_path: str,
        *,
        mode: Optional[Union[int, str]] = None,
        on_progress: Optional[Progress] = None,
    ) -> models.Written:
        """Copy a local file into the sandbox. `on_progress(sent, total)` is called as it goes."""
        body = Upload(Path(local_path), on_progress)
        call = operations.put_sandboxes_id_fs(
            self._sandbox.id, body, path=remote_path, mode=_mode_text(mode)
        )
        return await self._sandbox.client.transport.json(call, self._transfer(body.size))

    async def download(
        self,
        remote_path: str,
        local_path: PathLike,
        *,
        on_progress: Optional[Progress] = None,
    ) -> None:
        """Copy a file of the sandbox to the local disk. It appears there when it is complete."""
        target = Path(local_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            await self._save(self._get(remote_path), partial, on_progress)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    async def upload_dir(
        self,
        local_dir: PathLike,
        remote_dir: str,
        *,
        on_progress: Optional[Progress] = None,
    ) -> models.Unpacked:
        """Copy a local directory into the sandbox, in one request."""
        from .. import _archive

        archive = _archive.new_file()
        try:
            await flavour.in_thread(lambda: _archive.pack(Path(local_dir), archive))
            return await self.write_tar(remote_dir, archive, on_progress=on_progress)
        finally:
            archive.unlink()

    async def download_dir(
        self,
        remote_dir: str,
        local_dir: PathLike,
        *,
        on_progress: Optional[Progress] = None,
    ) -> List[str]:
        """Copy a directory of the sandbox to the local disk. Returns the names below it."""
        from .. import _archive

        archive = _archive.new_file()
        try:
            call = operations.get_sandboxes_id_fs_tar(self._sandbox.id, path=remote_dir)
            await self._save(call, archive, on_progress)
            return await flavour.in_thread(lambda: _archive.unpack(archive, Path(local_dir)))
        finally:
            archive.unlink()

    async def read_tar(self, path: str) -> bytes:
        """A directory as a tar archive."""
        call = operations.get_sandboxes_id_fs_tar(self._sandbox.id, path=path)
        return await self._sandbox.client.transport.data(call, READY)

    async def write_tar(
        self,
        path: str,
        archive: Union[bytes, PathLike],
        *,
        on_progress: Optional[Progress] = None,
    ) -> models.Unpacked:
        """Unpack a tar archive (bytes, or the path of a local file) into a directory."""
        source = archive if isinstance(archive, bytes) else Path(archive)
        body = Upload(source, on_progress)
        call = operations.put_sandboxes_id_fs_tar(self._sandbox.id, body, path=path)
        return await self._sandbox.client.transport.json(call, self._transfer(body.size))

    async def listdir(
        self,
        path: str = "/",
        *,
        recursive: bool = False,
        depth: Optional[int] = None,
    ) -> List[FileInfo]:
        """List a directory; with `recursive` everything below it, at most `depth` levels."""
        call = operations.get_sandboxes_id_fs_dir(
            self._sandbox.id, path=path, recursive=recursive or None, depth=depth
        )
        found = await self._sandbox.client.transport.json(call, READY)
        return [FileInfo.from_dict(dict(entry), path) for entry in found.get("entries") or []]

    async def list(self, path: str = "/") -> List[FileInfo]:
        """The same as `listdir`."""
        return await self.listdir(path)

    async def stat(self, path: str) -> FileInfo:
        """The size, mode and time of a path."""
        return await self._stat(path, READY)

    async def exists(self, path: str) -> bool:
        """Whether there is such a path."""
        try:
            await self._stat(path, READY)
        except NotFoundError:
            return False
        return True

    async def walk(
        self,
        path: str = "/",
    ) -> AsyncGenerator[Tuple[str, List[FileInfo], List[FileInfo]], None]:
        """Like `os.walk`: for each directory its path, its directories and its files."""
        waiting = [path]
        while waiting:
            current = waiting.pop()
            entries = await self.listdir(current)
            directories = [entry for entry in entries if entry.is_dir]
            yield current, directories, [entry for entry in entries if not entry.is_dir]
            waiting.extend(entry.path for entry in reversed(directories))

    async def mkdir(self, path: str, *, parents: bool = True) -> None:
        """Make a directory. With `parents` an existing one is accepted."""
        body: models.MakeDir = {"path": path, "parents": parents}
        call = operations.post_sandboxes_id_fs_mkdir(self._sandbox.id, body)
        await self._sandbox.client.transport.json(call, READY)

    async def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move or rename a path."""
        body: models.MovePath = {"from": source, "to": target, "overwrite": overwrite}
        call = operations.post_sandboxes_id_fs_move(self._sandbox.id, body)
        await self._sandbox.client.transport.json(call, READY)

    async def chmod(
        self,
        path: str,
        mode: Union[int, str],
        *,
        recursive: bool = False,
    ) -> None:
        """Set permission bits, such as `0o755` or `"0755"`."""
        body: models.Chmod = {
            "path": path,
            "mode": _mode_text(mode) or "",
            "recursive": recursive,
        }
        call = operations.post_sandboxes_id_fs_chmod(self._sandbox.id, body)
        await self._sandbox.client.transport.json(call, READY)

    async def remove(self, path: str) -> None:
        """Delete a path and everything below it. A missing path is not an error."""
        call = operations.delete_sandboxes_id_fs(self._sandbox.id, path=path)
        await self._sandbox.client.transport.empty(call, _READY_ONCE)

    async def watch(
        self,
        path: str,
        *,
        recursive: bool = False,
    ) -> AsyncGenerator[FileChange, None]:
        """Iterate over the changes below a path, from now on.

        The first item has the type `ready`: every change after it is reported.
        """
        call = operations.get_sandboxes_id_fs_watch(
            self._sandbox.id, path=path, recursive=recursive or None
        )
        async with flavour.closing(self._sandbox.client.transport.events(call, READY)) as events:
            async for event in events:
                fields = event.json()
                if event.event == "change":
                    yield FileChange(
                        type=str(fields["type"]),
                        path=str(fields["path"]),
                        is_dir=bool(fields.get("is_dir")),
                        cookie=fields.get("cookie"),
                    )
                elif event.event == "error":
                    raise ServerError(str(fields.get("error", "unknown error")))
                else:
                    yield FileChange(type=event.event, path=str(fields.get("path", path)))

    def _get(self, path: str) -> BytesCall:
        return operations.get_sandboxes_id_fs(self._sandbox.id, path=path)

    async def _stat(self, path: str, sending: Sending) -> FileInfo:
        call = operations.get_sandboxes_id_fs_stat(self._sandbox.id, path=path)
        found = await self._sandbox.client.transport.json(call, sending)
        return FileInfo.from_dict(dict(found), os.path.dirname(path))

    async def _save(self, call: BytesCall, target: Path, on_progress: Optional[Progress]) -> None:
        pieces = self._sandbox.client.transport.pieces(call, READY, on_progress)
        async with flavour.closing(pieces):
            with target.open("wb") as file:
                async for piece in pieces:
                    file.write(piece)

    def _transfer(self, size: int) -> Sending:
        """Large bodies get more time: at least a megabyte per second is expected."""
        seconds = self._sandbox.client.transport.settings.timeout + size / 1_000_000
        return Sending(starting=True, timeout=seconds)


def _mode_text(mode: Optional[Union[int, str]]) -> Optional[str]:
    return f"{mode:04o}" if isinstance(mode, int) else mode
