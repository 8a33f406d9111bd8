"""``python -m pmw`` is the ``pmw`` command."""

from __future__ import annotations

from pmw.cli import main

if __name__ == "__main__":
    main(prog_name="pmw")
