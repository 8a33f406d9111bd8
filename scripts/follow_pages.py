"""Follow the README and the tutorials in this checkout, as a newcomer does, and leave there what they write.

``uv run scripts/follow_pages.py`` runs their commands, page by page, and stops at one that fails. What they
print is compared by the tests, which have to pass in such a checkout, too.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # run from a checkout

from tests.test_docs_commands import TUTORIALS, sessions, users_added  # noqa: E402

REFUSED = 4  # the exit code of a question that is refused, as pages show
# Each page makes these itself, and refuses to write over them.
MADE = ("study*.pmw*", "users.json*", "synthetic.csv*", "report.html")


def made() -> list[Path]:
    """Return what a page before this one has made, which would be in this one's way."""
    return [file for pattern in MADE for file in ROOT.glob(pattern)]


def main() -> None:
    """Run the commands of each page, the README's last: what it leaves is a session in use."""
    if found := made():
        sys.exit(f"expected a checkout where nobody has begun yet, found {found[0]}; move it elsewhere")
    for page in (*TUTORIALS, ROOT / "README.md"):
        for file in made():
            file.unlink()
        for command in (*users_added(page), *(command for command, _ in sessions(page))):
            print(f"$ {command}", flush=True)
            ended = subprocess.run(["sh", "-c", command], cwd=ROOT, check=False, timeout=600).returncode
            if ended not in (0, REFUSED):
                sys.exit(f"expected exit code 0, got {ended}")


if __name__ == "__main__":
    main()
