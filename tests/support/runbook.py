"""The page of emergencies, as data: its sections, the commands in them, and what they are said to print.

A block fenced as `console` has commands behind `$ `, each with lines of what it prints below it; `…` stands for
anything. `# exit code N` behind a command says how it ends; a comment of its own that ends in `later` lets time pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit code (\d)$")


@dataclass
class Step:
    """A command with its exit code and its output, or, without a command, some time that passes."""

    command: str
    code: int = 0
    output: list[str] = field(default_factory=list)


def sections(page: str) -> dict[str, list[Step]]:
    """Return the steps of each section, by its title."""
    return {title: _steps("".join(_CONSOLE.findall(text))) for title, text in _SECTION.findall(page)}


def _steps(text: str) -> list[Step]:
    found: list[Step] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            code = _EXIT.search(line)
            found.append(Step(_EXIT.sub("", line[2:]), int(code[1]) if code else 0))
        elif line.startswith("# ") and line.endswith(" later"):
            found.append(Step(""))
        elif line.strip():
            found[-1].output.append(line.strip())
    return found


def missing(expected: list[str], printed: str) -> list[str]:
    """Return the expected lines that are not among those printed, in this order; spaces count as one."""
    left = [" ".join(line.split()) for line in printed.splitlines()]
    lost = []
    for line in expected:
        parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
        pattern = re.compile(".*".join(parts))
        place = next((number for number, each in enumerate(left) if pattern.search(each)), None)
        if place is None:
            lost.append(line)
        else:
            left = left[place + 1 :]
    return lost
