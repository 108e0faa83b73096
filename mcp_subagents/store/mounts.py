"""Which kind of file system a path is on."""

from pathlib import Path, PurePosixPath

NETWORK = frozenset(
    "afs beegfs ceph cifs coda davfs fuse.ceph fuse.cephfs fuse.davfs fuse.gcsfuse fuse.glusterfs fuse.goofys "
    "fuse.juicefs fuse.mfs fuse.rclone fuse.s3fs fuse.sshfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 "
    "orangefs panfs smb2 smb3 smbfs".split()
)
"""File systems that several machines can write, or that do not keep locks.

Not `9p` and `virtiofs`: containers and virtual machines show their own disks that way, to one kernel alone. Where
such a mount has no locks, SQLite refuses to open the file.
"""


def network_file_system(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The name of the network file system that the absolute `path` is on; `None` if it is a local one.

    Only Linux says so; elsewhere every file system passes for a local one.
    """
    try:
        mounts = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kind, depth = "", -1
    for line in mounts:
        before, _, after = line.partition(" - ")
        point = PurePosixPath(_unescaped(before.split()[4]))
        # Of mounts on the same point, the last one covers those before it.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = after.split()[0], len(point.parts)
    return kind if kind in NETWORK else None


def _unescaped(point: str) -> str:
    for code, plain in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        point = point.replace(code, plain)
    return point
