"""A session on a network file system is refused with a reason: another machine would not see its lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.books import read_ledger, read_session, seal_session, verify_session
from pmw.mounts import shared_kind
from queries import Domain

TABLE = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
41 40 0:41 / /home/local rw - tmpfs tmpfs rw
42 27 0:42 / /mnt/two\040words rw - cifs //server/share rw
43 27 0:43 / /mnt/ssh rw shared:2 master:3 - fuse.sshfs me@server:/ rw
44 27 8:1 / /mnt/stick rw - fuseblk /dev/sda1 rw
45 27 0:45 / /mnt/windows rw - 9p drvfs rw
46 27 0:46 / /mnt/hidden rw - nfs server:/ rw
47 46 8:2 / /mnt/hidden rw - ext4 /dev/sdb1 rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/s.pmw", None),
        ("/home/me/s.pmw", "nfs4"),
        ("/homeless/s.pmw", None),
        ("/home/local/s.pmw", None),
        ("/mnt/two words/s.pmw", "cifs"),
        ("/mnt/ssh/deep/s.pmw", "fuse.sshfs"),
        ("/mnt/stick/s.pmw", None),
        ("/mnt/windows/s.pmw", "9p"),
        ("/mnt/hidden/s.pmw", None),
    ],
)
def test_a_path_lies_on_the_innermost_and_newest_mount(path: str, kind: str | None) -> None:
    assert shared_kind(Path(path), TABLE) == kind


@pytest.mark.parametrize(("kind", "told"), [("9p", None), ("virtiofs", None), ("nfs", "nfs")])
def test_a_root_that_a_host_gives_to_its_virtual_machine_is_that_machines_own(
    kind: str, told: str | None
) -> None:
    assert shared_kind(Path("/tmp/s.pmw"), f"1 0 0:1 / / rw - {kind} none rw\n") == told  # noqa: S108


USES: list[Callable[[Path], object]] = [
    pmw.resume_session,
    seal_session,
    read_session,
    read_ledger,
    verify_session,
]


def test_a_session_on_a_network_file_system_is_neither_made_nor_used(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, table = tmp_path / "shared" / "s.pmw", tmp_path / "mounts"
    path.parent.mkdir()
    pmw.open_session(frame, domain, epsilon=1, path=path).close()
    names = sorted(path.parent.iterdir())
    (tmp_path / "link.pmw").symlink_to(path)
    table.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / {path.parent} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr("pmw.mounts._TABLE", table)
    refusal = r"network file system \(nfs4\); .* move the session to a local disk"
    with pytest.raises(pmw.StoreError, match=refusal):
        pmw.open_session(frame, domain, epsilon=1, path=path.with_name("t.pmw"))
    for use in USES:
        for name in (path, tmp_path / "link.pmw"):
            with pytest.raises(pmw.StoreError, match=refusal):
                use(name)
    assert sorted(path.parent.iterdir()) == names
    table.unlink()  # a system that does not say
    assert verify_session(path).holds
