"""The Dockerfile refers to what exists, builds from the same pins, and does not run as root."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

INSTRUCTIONS = {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "CMD"}


@pytest.fixture(scope="module")
def dockerfile(root: Path) -> list[dict[str, str]]:
    """The instructions of the Dockerfile, in order."""
    parser = DockerfileParser(str(root / "Dockerfile"), cache_content=True)
    return [step for step in parser.structure if step["instruction"] != "COMMENT"]


def values(dockerfile: list[dict[str, str]], instruction: str) -> list[str]:
    """Return what is given to each use of an instruction."""
    return [step["value"] for step in dockerfile if step["instruction"] == instruction]


def copied(dockerfile: list[dict[str, str]]) -> list[str]:
    """Return the sources of all COPY instructions."""
    return [source for value in values(dockerfile, "COPY") for source in value.split()[:-1]]


def ignored(root: Path) -> tuple[list[str], set[str]]:
    """Return the lines of .dockerignore that leave out, and the names that they let in again."""
    lines = (root / ".dockerignore").read_text().splitlines()
    return [line for line in lines if not line.startswith("!")], {line[1:] for line in lines if line.startswith("!")}


def test_only_known_instructions(dockerfile: list[dict[str, str]]) -> None:
    """Every line parses as an instruction, the first of which is FROM and the last CMD."""
    names = [step["instruction"] for step in dockerfile]
    assert set(names) <= INSTRUCTIONS
    assert (names[0], names[-1]) == ("FROM", "CMD")


def test_the_base_has_the_python_of_the_requirements(dockerfile: list[dict[str, str]]) -> None:
    """The image is Debian 12 with Python 3.11, and gets Java 17."""
    assert values(dockerfile, "FROM") == ["python:3.11-slim-bookworm"]
    assert any("openjdk-17-jre-headless" in value for value in values(dockerfile, "RUN"))


def test_what_is_copied_exists(dockerfile: list[dict[str, str]], root: Path) -> None:
    """Every source of a COPY exists in the checkout and is let in by .dockerignore, which lets in nothing else."""
    sources = copied(dockerfile)
    assert [source for source in sources if not (root / source).exists()] == []
    outside, inside = ignored(root)
    assert outside[0] == "*"
    assert inside == set(sources)


def test_packages_come_from_the_pins(dockerfile: list[dict[str, str]]) -> None:
    """All packages are those of requirements.txt, and the library is installed without resolving anything."""
    installs = re.findall(r"(?:uv )?pip (?:install|sync)[^&]*", " && ".join(values(dockerfile, "RUN")))
    assert len(installs) == 3
    assert "^uv==" in installs[0]
    assert installs[1].strip() == "uv pip sync --no-cache requirements.txt"
    assert {"--no-deps", "--no-build-isolation"} <= set(installs[2].split())


def test_it_does_not_run_as_root(dockerfile: list[dict[str, str]]) -> None:
    """The last USER is not root, and is one that the image makes."""
    user = values(dockerfile, "USER")[-1]
    assert user not in {"root", "0"}
    assert any(f"--create-home {user}" in value for value in values(dockerfile, "RUN"))


def test_the_library_can_be_built_from_what_is_copied(
    dockerfile: list[dict[str, str]], root: Path, tmp_path: Path
) -> None:
    """The library builds from nothing but the files that the image gets, and brings its job scripts along."""
    context, made = tmp_path / "context", tmp_path / "made"
    context.mkdir()
    for source in copied(dockerfile):
        if (root / source).is_dir():
            shutil.copytree(root / source, context / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / source, context)
    python = Path(sys.executable)
    subprocess.run(
        [python.with_name("uv"), "build", "--wheel", "--no-build-isolation", "--offline", "--out-dir", made, context],
        env={"VIRTUAL_ENV": str(python.parent.parent), "PATH": str(python.parent), "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    (wheel,) = made.glob("*.whl")
    shutil.unpack_archive(wheel, made / "content", "zip")
    assert (made / "content/drystone/jobs.py").is_file()
    assert list((made / "content").glob("*.data/data/share/drystone/spark_jobs/drystone_upload.py"))
    assert list((made / "content").glob("*.dist-info/licenses/LICENSE"))
