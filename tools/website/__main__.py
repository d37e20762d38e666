"""Build the documentation site: `python -m tools.website [FOLDER]`, by default into build/site.

Fails on a page that is not in docs/index.md, a broken link, a docstring that cannot be read, or a file that a page
would load from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from sphinx.cmd.build import main as sphinx_build

from . import api, llms, pages
from .check import complaints

HERE: Final = Path(__file__).parent
# For the search: what docs/index.md says of each page.
WORDS: Final = "page-words.js"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=pages.ROOT / "build" / "site")
    folder: Path = parser.parse_args().folder
    began = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-site-") as temporary:
        source = Path(temporary).resolve() / "source"
        navigation = write_source(source)
        failed = sphinx_build([
            "-q", "-W", "--keep-going", "-j", "auto", "-c", str(HERE),
            "-D", f"html_static_path={HERE / 'static'},{source / WORDS}",
            "-d", f"{temporary}/doctrees", str(source), str(folder),
        ])  # fmt: skip
    if failed:
        print("the site was not built; each line above names a page to correct", file=sys.stderr)
        return failed
    # The home page is where visitors and web servers look for it.
    shutil.copy(folder / "README.html", folder / "index.html")
    llms.write(navigation, folder)
    found = complaints(folder)
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    count = sum(1 for _ in folder.rglob("*.html"))
    print(f"{folder}: {count} pages, {len(found)} broken or external links, {time.monotonic() - began:.0f} s")
    return 1 if found else 0


def write_source(source: Path) -> list[pages.Section]:
    """Write what Sphinx reads, and return the navigation."""
    pages.copy_pages(source)
    api.write_pages(source)
    navigation = [*pages.sections(), api.section()]
    with (source / pages.HOME).open("a", encoding="utf-8") as home:
        home.writelines(map(pages.toctree, navigation))
    words = {
        entry.page.removesuffix(".md"): f"{entry.title} {entry.about}"
        for section in navigation
        for entry in section.entries
    }
    (source / WORDS).write_text(f"const PAGE_WORDS = {json.dumps(words, indent=0)};\n", "utf-8")
    return navigation


if __name__ == "__main__":
    sys.exit(main())
