"""The pages' examples give the rows that they are there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AT = '"at": "2023-11-14T22:13:20+00:00"'
SHOWN = {
    "parse-messages": [
        f'messages:1: [carrier=AA] {{{AT}, "carrier": "AA", "dest": "MIA", "delay": -3}}',
        'messages:2: [carrier=UA] {"at": null, "carrier": "UA", "dest": null, "delay": null}',
        'bare: {"at": "2023-11-14T22:00:00+00:00", "carrier": "AA", "dest": null, "delay": 3}',
        'framed: {"at": "2023-11-14T22:00:00+00:00", "carrier": "AA", "dest": null, "delay": 3}',
        f'message: {{{AT}, "carrier": "AA", "dest": "", "delay": 3}}',
        f'packed: {{{AT}, "carrier": "AA", "dest": null, "delay": null}}',
        f'lines:1: {{{AT}, "carrier": "AA", "dest": "M;IA", "delay": -3}}',
        f'log:1: {{{AT}, "carrier": "AA", "dest": "MIA", "delay": -3}}',
    ],
    "write-a-parser": [f'messages:1: {{{AT}, "carrier": "AA", "delay": 5}}'],
}


@pytest.mark.slow  # `make test` types the same commands, and looks at their exit codes
@pytest.mark.parametrize("page", SHOWN)
def test_the_examples_of_a_page(page: str, tmp_path: Path) -> None:
    """Typed one after the other, each format's example ends with its row."""
    text = (ROOT / f"docs/how-to/{page}.md").read_text()
    script = "\n".join(re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.splitlines() == SHOWN[page], run.stderr
