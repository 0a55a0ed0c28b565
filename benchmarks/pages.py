"""Putting the tables into the pages that show them, so that nobody edits one by hand.

A page has a pair of comments, `<!-- bench: NAME -->` and `<!-- /bench -->`; what is between them is replaced by
build/bench/NAME.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import table

ROOT = Path(__file__).parents[1]
EXPLANATION = ROOT / "docs" / "explanation"
PAGES = (ROOT / "README.md", EXPLANATION / "performance.md", EXPLANATION / "thanos.md")
_PLACE = re.compile(r"(<!-- bench: ([a-z]+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


def insert(pages: tuple[Path, ...] = PAGES, made: Path = table.MADE) -> list[Path]:
    """Replace the tables of all pages by those in `made`, where there are any; return the pages that have changed."""
    changed = []
    for page in pages:
        text = page.read_text()
        new = _PLACE.sub(lambda match: _filled(match, made), text)
        if new != text:
            page.write_text(new)
            changed.append(page)
    return changed


def _filled(match: re.Match[str], made: Path) -> str:
    path = made / f"{match[2]}.md"
    return f"{match[1]}\n{path.read_text()}\n{match[3]}" if path.is_file() else match[0]
