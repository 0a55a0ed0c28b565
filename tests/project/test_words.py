"""The files of the project speak of the project only, not of the machine or the registry that it was made with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SUFFIXES = {"", ".cfg", ".in", ".json", ".md", ".properties", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}

# Written in parts, so that this file does not break its own rule.
MACHINE = ["/" + "work/", "/" + "root/", "/" + "opt/wheels"]
REGISTRIES = ["pypi" + ".org", "pythonhosted" + ".org", "repo1.maven" + ".org", "repo.maven.apache" + ".org"]
REGISTRIES += ["proxy.golang" + ".org", "index" + "-url", "find" + "-links"]
FORBIDDEN = re.compile("|".join(re.escape(word) for word in MACHINE + REGISTRIES))
ALLOWED = {"Makefile": {"index" + "-url"}}
"""The Makefile says that no address goes into requirements.txt, and needs the option's name to do so."""


def found_in(text: str, allowed: set[str]) -> set[str]:
    """Return the forbidden words of `text`."""
    return set(FORBIDDEN.findall(text)) - allowed


def test_no_file_names_a_machine_or_a_registry(files: list[Path]) -> None:
    """No file of the checkout holds a path of somebody's machine or the address of a package registry."""
    texts = [path for path in files if path.suffix in SUFFIXES and path.name != "LICENSE"]
    assert len(texts) > 10
    found = {str(path): found_in(path.read_text(), ALLOWED.get(path.name, set())) for path in texts}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize("word", MACHINE + REGISTRIES)
def test_a_forbidden_word_is_found(word: str) -> None:
    """Each forbidden word is seen in the middle of a line."""
    assert found_in(f"see {word}x for more", set()) == {word}
