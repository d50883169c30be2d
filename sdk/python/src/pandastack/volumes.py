"""Volumes: durable disks that outlive sandboxes."""

from __future__ import annotations

from ._sync.volumes import Volume, VolumesAPI

__all__ = ["Volume", "VolumesAPI"]
