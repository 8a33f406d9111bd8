#!/usr/bin/env python3
"""Adds to a built site what its page in the browser loads: Python, numpy, this project and a model.

    uv run --extra docs --extra demo scripts/build_browser.py [SITE] [--wheels PATH]

Pyodide comes from its npm package, by ``npm``. Wheels that are built for it come from a folder or an archive
that is named, or from where Pyodide takes them by default. Each has to have the digest that Pyodide's lock
file names, and the package the one that is written here. Everything else is of this checkout and of its
environment.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from http.client import HTTPException
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VERSION = "0.27.7"
DIGEST = "89d5d952675eb08e11286e52c7238f1248ce71726e896db9703e73bef23dc343"  # of the npm package, SHA-256
RUNTIME = ["pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"]
WHEELS = ["numpy", "sqlite3"]
PACKAGES = ["pmw", "queries", "sqlglot", "markupsafe"]
_DEFAULT = re.compile(r"https://[^\s\"'`$]+/v\$\{\w+\.version\}/full/")


def main() -> None:
    """Fill ``SITE/browser/runtime``; a folder that is there is replaced once all is at hand."""
    parser = argparse.ArgumentParser(description="Add what the page in the browser loads to a built site.")
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "site", help="the folder of the site")
    parser.add_argument("--wheels", type=Path, help="a folder or an archive of wheels built for Pyodide")
    given = parser.parse_args()
    page = given.site / "browser"
    if not (page / "worker.js").is_file():
        fail(f"expected a built site in {given.site}; scripts/build_site makes it")
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder) / "runtime"
        runtime.mkdir()
        fetch_pyodide(Path(folder), runtime)
        for name in WHEELS:
            fetch_wheel(name, runtime, given.wheels)
        write_packages(runtime / "packages.zip")
        write_model(Path(folder), runtime / "demo.model")
        replace_folder(page / "runtime", runtime)
    size = sum(path.stat().st_size for path in (page / "runtime").iterdir())
    print(f"{page / 'runtime'}: {size / 1e6:.1f} MB; serve the site, and open browser.html")


def replace_folder(old: Path, new: Path) -> None:
    """Put a copy of a folder where an old one may be; that stays until all is copied."""
    copied = old.with_name(f"{old.name}.new")
    shutil.rmtree(copied, ignore_errors=True)
    try:
        shutil.copytree(new, copied)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(copied, ignore_errors=True)
        fail(f"{old} could not be written: {error}")
    shutil.rmtree(old, ignore_errors=True)
    copied.rename(old)


def fail(message: str) -> NoReturn:
    """End with one line."""
    sys.exit(f"scripts/build_browser.py: {message}")


def require_digest(content: bytes, digest: str, name: str) -> bytes:
    """Return a content whose SHA-256 is as expected."""
    if hashlib.sha256(content).hexdigest() != digest:
        fail(f"{name} is not the file that is expected: its digest is another")
    return content


def fetch_pyodide(folder: Path, runtime: Path) -> None:
    """Write Pyodide's own files."""
    if shutil.which("npm") is None:
        fail("expected npm, which brings Pyodide")
    command = ["npm", "pack", f"pyodide@{VERSION}", "--silent", "--pack-destination", str(folder)]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        fail(f"npm could not bring pyodide {VERSION}")
    archive = folder / f"pyodide-{VERSION}.tgz"
    require_digest(archive.read_bytes(), DIGEST, archive.name)
    with tarfile.open(archive) as package:
        for name in RUNTIME:
            found = package.extractfile(f"package/{name}")
            if found is None:
                fail(f"pyodide {VERSION} has no {name}")
            (runtime / name).write_bytes(found.read())


def fetch_wheel(name: str, runtime: Path, wheels: Path | None) -> None:
    """Write a wheel that Pyodide's lock file names."""
    entry = json.loads((runtime / "pyodide-lock.json").read_text())["packages"][name]
    file = entry["file_name"]
    try:
        content = kept(wheels, file) if wheels else fetched(default_address(runtime) + file)
    except (OSError, HTTPException, KeyError, zipfile.BadZipFile):
        fail(f"{file} could not be had; --wheels names a folder or an archive that has it")
    (runtime / file).write_bytes(require_digest(content, entry["sha256"], file))


def kept(wheels: Path, file: str) -> bytes:
    """Return a file of a folder, or of an archive, where it may lie in any folder."""
    if wheels.is_dir():
        return (wheels / file).read_bytes()
    with zipfile.ZipFile(wheels) as archive:
        return archive.read(next((name for name in archive.namelist() if name.endswith(f"/{file}")), file))


def default_address(runtime: Path) -> str:
    """Return the folder that this version of Pyodide takes wheels from, as it says itself."""
    found = _DEFAULT.search((runtime / "pyodide.js").read_text())
    if found is None:
        fail("Pyodide names no address of its wheels; --wheels names a folder or an archive that has them")
    return re.sub(r"\$\{\w+\.version\}", VERSION, found[0])


def fetched(address: str) -> bytes:
    """Return what is at an address."""
    with urllib.request.urlopen(address, timeout=60) as response:  # noqa: S310 - https, by the pattern above
        return bytes(response.read())


def write_packages(path: Path) -> None:
    """Write the modules that a model needs, without what is built for this machine."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in PACKAGES:
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                fail(f"expected the package {name} in this environment")
            package = ROOT / name if (ROOT / name).is_dir() else Path(found.origin).parent
            for file in sorted(package.rglob("*.py")):
                archive.write(file, f"{name}/{file.relative_to(package)}")


def write_model(folder: Path, path: Path) -> None:
    """Write the model of the demonstration, which is made anew."""
    run = [sys.executable, "-m", "pmw"]
    demo = folder / "pmw-demo"
    for command in (
        [*run, "demo", "--output", str(demo), "--queries", "2000"],
        [*run, "export", str(demo / "session.pmw"), "--output", str(path)],
    ):
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            fail(f"the demonstration did not run: {done.stderr.strip()}")


if __name__ == "__main__":
    main()
