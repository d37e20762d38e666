"""Scripts of others in the package: those in the list, as they came, and each of them used."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import holdfast.web

WEB = Path(holdfast.web.__file__).parent
VENDOR = WEB / "static" / "vendor"
ROW = re.compile(r"^\| \S+ \| \S+ \| (?P<file>\S+) \| `(?P<sum>[0-9a-f]{64})` \|", re.MULTILINE)


def test_vendored_files_are_those_of_the_list_with_their_sums() -> None:
    listed = {row["file"]: row["sum"] for row in ROW.finditer((VENDOR / "VENDOR.md").read_text("utf-8"))}
    files = {path for path in VENDOR.rglob("*") if path.suffix in (".js", ".css")}
    found = {str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == listed


def test_each_vendored_script_is_loaded_and_used() -> None:
    head = (WEB / "templates" / "head.html").read_text("utf-8")
    ours = "".join(path.read_text("utf-8") for path in (WEB / "static" / "js").glob("*.js"))
    loaded = re.findall(r"static\('(vendor/[^']+\.js)'\)", head)
    assert loaded == ["vendor/uplot/uPlot.iife.min.js"]
    assert "uPlot(" in ours
