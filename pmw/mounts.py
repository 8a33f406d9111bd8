"""Mounts: whether a path lies on a file system that another machine may be using too.

A session is kept to one writer by a lock of this machine's kernel, and SQLite's log by memory that only its
processes share. Another machine sees neither.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pmw.errors import StoreError

__all__ = [
    "refuse_shared",
    "shared_kind",
]

_TABLE = Path("/proc/self/mountinfo")  # Linux; elsewhere nothing is known, and nothing is refused
_SHARED = frozenset(
    {
        "9p", "afs", "beegfs", "beegfs_nodev", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs",
        "vboxsf", "virtiofs", "vmhgfs", "wekafs",
    }
)  # fmt: skip
_SHARED_PROGRAMS = frozenset(
    {
        "beegfs", "ceph", "ceph-fuse", "cifs", "davfs2", "gcsfuse", "glusterfs", "grpcfuse", "httpfs",
        "juicefs", "nfs", "osxfs", "rclone", "s3fs", "seaweedfs", "smbnetfs", "sshfs", "vmhgfs-fuse",
    }
)  # fmt: skip
# A virtual machine may have its own root by these, which is then nobody else's.
_OF_THE_HOST = frozenset({"9p", "virtiofs"})


def shared_kind(path: Path, table: str) -> str | None:
    """Return the kind of the network file system that a path lies on, or None for one of this machine's own.

    Args:
        path: an absolute path with its symbolic links followed.
        table: the mounted file systems, as in Linux's ``/proc/self/mountinfo``.

    Source: proc_pid_mountinfo(5): ``36 35 98:0 /root /point options [optional …] - kind device options``.
    """
    place, point, kind = f"{path}/", "", ""
    for line in table.splitlines():
        mount, separator, file_system = line.partition(" - ")
        fields = mount.split()
        if not separator or len(fields) < 5 or not file_system:
            continue
        found = _unescaped(fields[4]).rstrip("/") + "/"
        # A later mount over the same point hides the earlier one.
        if place.startswith(found) and len(found) >= len(point):
            point, kind = found, file_system.split()[0]
    if kind in _OF_THE_HOST and point == "/":
        return None
    program = kind.removeprefix("fuse.") if kind.startswith("fuse.") else ""
    return kind if kind in _SHARED or program in _SHARED_PROGRAMS else None


def refuse_shared(path: Path) -> None:
    """Refuse a session file on a network file system.

    Args:
        path: the file, which need not exist.

    Raises:
        StoreError: it lies on one.
    """
    try:
        table = _TABLE.read_text(errors="surrogateescape")
    except OSError:
        return
    kind = shared_kind(Path(os.path.realpath(path)), table)
    if kind is not None:
        raise StoreError(
            f"{path}: expected a disk of this machine, found a network file system ({kind}); another machine "
            "would not see that the session is in use, and its budget could be spent twice; "
            "move the session to a local disk"
        )


def _unescaped(text: str) -> str:
    """Return a mount point; the table writes blanks and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
