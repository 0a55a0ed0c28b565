"""Links between the project's own pages and files lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of all headings of a page."""
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", text))}


def links(text: str) -> Iterator[str]:
    """Yield the targets of all links that are neither in code nor leave the project."""
    for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def dead_links(page: Path, root: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    dead = []
    for target in links(page.read_text()):
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        inside = path.exists() and path.is_relative_to(root)
        if not inside or (fragment and path.suffix == ".md" and fragment not in anchors(path.read_text())):
            dead.append(target)
    return dead


def test_every_link_leads_somewhere(pages: list[Path], root: Path) -> None:
    """Every relative link of a page, with its anchor, names a file of the project and a heading in it."""
    dead = {str(page.relative_to(root)): dead_links(page, root) for page in pages}
    assert {page: targets for page, targets in dead.items() if targets} == {}


def test_every_page_is_reached_from_the_map(root: Path) -> None:
    """Every page under docs/ is linked, directly or through other pages, from docs/index.md."""
    start = root / "docs/index.md"
    seen, waiting = {start}, [start]
    while waiting:
        page = waiting.pop()
        for target in links(page.read_text()):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.suffix == ".md" and path not in seen:
                seen.add(path)
                waiting.append(path)
    assert set((root / "docs").rglob("*.md")) - seen == set()


def test_dead_links_are_found(tmp_path: Path) -> None:
    """A link to a missing file, a missing heading or out of the project is dead; code is no link."""
    page = tmp_path / "page.md"
    page.write_text("# The `one` rule\n\n[a](page.md#the-one-rule) [b](#no) [c](no.md) [d](../..) `[e](no)`\n")
    assert dead_links(page, tmp_path) == ["#no", "no.md", "../.."]
