"""Attributes of very many cells: what a stream of questions about them takes in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
from queries import CategoricalAttribute, Domain, IntegerAttribute

CELLS, LINES = 100_000, 600
MOST_BYTES = 200 * 2**20  # the process takes 80 MB without a question; 8 bytes a cell of each would be 480 MB


_RUN = """
import resource, sys
from pathlib import Path
from pmw.cli.main import main
try:
    main(["ask", sys.argv[1], "--stream"])
finally:
    try:  # the most of this program alone, where the system tells it
        told = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    except (OSError, IndexError):
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path(sys.argv[2]).write_text(str(told))
"""


def test_a_stream_about_a_long_attribute_keeps_no_weights(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    domain = Domain((IntegerAttribute("x", 0, CELLS - 1), CategoricalAttribute("y", (0, 1, 2))))
    frame = pd.DataFrame({"x": generator.integers(0, CELLS, 2000), "y": generator.integers(0, 3, 2000)})
    path, questions = tmp_path / "long.pmw", tmp_path / "questions.jsonl"
    pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path).close()
    with questions.open("w") as lines:
        for number in range(LINES):
            first, last = np.sort(generator.integers(0, CELLS, 2))
            where = f"x BETWEEN {first} AND {last} AND y = {number % 3}"
            if number % 4 == 0:
                where = f"x IN ({', '.join(map(str, generator.integers(0, CELLS, 50)))})"
            lines.write(json.dumps({"where": where}) + "\n")
    peak = tmp_path / "peak"
    with questions.open("rb") as source:
        command = [sys.executable, "-c", _RUN, str(path), str(peak)]
        subprocess.run(command, stdin=source, stdout=subprocess.DEVNULL, check=True)
    assert int(peak.read_text()) * 1024 < MOST_BYTES
