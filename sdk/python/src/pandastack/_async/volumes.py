"""Volumes: durable disks that outlive sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from .._core import operations
from .._retry import Sending
from .._wire import list_of
from ..exceptions import ConflictError, NotFoundError
from .state import default_client

if TYPE_CHECKING:
    from .._core import models
    from .client import AsyncPandaStack

_MB_PER_GB = 1024


class AsyncVolume(Dict[str, Any]):
    """A volume. It is a dict of the API's fields, with some of them as attributes.

    Example:
        volume = await AsyncVolume.get_or_create(name="cache", size_gb=20)
        sandbox = await AsyncSandbox.create(volumes=[volume.mount("/cache")])
    """

    def __init__(self, data: Mapping[str, Any], client: AsyncPandaStack) -> None:
        super().__init__(data)
        self._client = client

    @classmethod
    async def get_or_create(
        cls,
        name: str,
        size_gb: Optional[float] = None,
        *,
        size_mb: Optional[int] = None,
        client: Optional[AsyncPandaStack] = None,
    ) -> AsyncVolume:
        """The volume with this name, which is created if it does not exist.

        The size is only for a new volume. Use `grow` for an existing one.
        """
        volumes = (client or default_client()).volumes
        try:
            return await volumes._find(name)  # pyright: ignore[reportPrivateUsage]
        except NotFoundError:
            pass
        try:
            return await volumes.create(name, size_mb, size_gb=size_gb)
        except ConflictError:
            # Somebody else was faster.
            return await volumes.get(name)

    @property
    def name(self) -> str:
        return str(self["name"])

    @property
    def size_mb(self) -> int:
        return int(self["size_mb"])

    @property
    def attached_to(self) -> List[str]:
        """The ids of the sandboxes that use it."""
        return list(self.get("attached_to") or [])

    @property
    def sandbox_id(self) -> Optional[str]:
        """The sandbox that it was copied for, and is deleted with. None: it is on its own."""
        return self.get("sandbox_id")

    def mount(self, path: str, *, read_only: bool = False) -> models.VolumeAttachmentRequest:
        """What to give to `volumes=` of a create, so that the volume is mounted at this path."""
        attachment: models.VolumeAttachmentRequest = {"name": self.name, "mount_path": path}
        if read_only:
            attachment["read_only"] = True
        return attachment

    async def grow(self, size_gb: Optional[float] = None, *, size_mb: Optional[int] = None) -> None:
        """Make it larger, also while it is in use."""
        self.update(await self._client.volumes.grow(self.name, size_mb, size_gb=size_gb))

    async def delete(self) -> None:
        """Delete it with its data. No sandbox may use it."""
        await self._client.volumes.delete(self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.size_mb} MB>"


class AsyncVolumesAPI:
    """The volumes of the workspace."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def create(
        self,
        name: str,
        size_mb: Optional[int] = None,
        *,
        size_gb: Optional[float] = None,
    ) -> AsyncVolume:
        """Create a volume."""
        body: models.CreateVolume = {"name": name}
        size = _megabytes(size_mb, size_gb)
        if size is not None:
            body["size_mb"] = size
        return self._volume(await self._client.transport.json(operations.post_volumes(body)))

    async def list(self) -> List[AsyncVolume]:
        """All volumes, by name."""
        found = await self._client.transport.json(operations.get_volumes())
        return [self._volume(data) for data in list_of(found, "items")]

    async def get(self, name: str) -> AsyncVolume:
        return self._volume(await self._client.transport.json(operations.get_volumes_name(name)))

    async def _find(self, name: str) -> AsyncVolume:
        call = operations.get_volumes_name(name)
        return self._volume(await self._client.transport.json(call, Sending(repeats=False)))

    async def grow(
        self,
        name: str,
        size_mb: Optional[int] = None,
        *,
        size_gb: Optional[float] = None,
    ) -> AsyncVolume:
        """Make a volume larger, also while it is in use."""
        call = operations.patch_volumes_name(name, {"size_mb": _megabytes(size_mb, size_gb)})
        return self._volume(await self._client.transport.json(call))

    async def delete(self, name: str) -> None:
        """Delete a volume that no sandbox uses."""
        await self._client.transport.empty(operations.delete_volumes_name(name))

    def _volume(self, data: Mapping[str, Any]) -> AsyncVolume:
        return AsyncVolume(data, self._client)


def _megabytes(size_mb: Optional[int], size_gb: Optional[float]) -> Optional[int]:
    if size_mb is not None and size_gb is not None:
        raise ValueError("give size_mb or size_gb, not both")
    return int(size_gb * _MB_PER_GB) if size_gb is not None else size_mb
