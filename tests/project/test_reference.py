"""The generated reference is in step with the code, and the exported schemas accept what the library writes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from drystone.block.marks import DeletionMark
from drystone.config.durations import format_duration, format_size, parse_duration, parse_size
from drystone.config.load import load
from drystone.errors import ConfigError
from drystone.jobs import JobResult

MINIMAL = """
version: 1
bucket: file:bucket
streams:
  flights:
    labels: {dataset: flights}
    time_column: departure
    sort_key: [carrier, departure]
    times: {sync_delay: 20 min}
    ingest: {path: "*.csv", format: csv}
"""


@pytest.fixture(scope="module")
def generator(root: Path) -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", root / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def config_schema(root: Path) -> dict[str, Any]:
    """The exported schema of the configuration file."""
    schema: dict[str, Any] = json.loads((root / "docs/reference/config.schema.json").read_text())
    return schema


def test_generated_pages_are_in_step(root: Path, generator: ModuleType) -> None:
    """Every page that `make docs` writes is in docs/ as the code would write it now."""
    stale = [path for path, text in generator.pages().items() if (root / "docs" / path).read_text() != text]
    assert stale == [], "run `make docs`"


def test_no_generated_page_is_left_over(root: Path, generator: ModuleType) -> None:
    """Every JSON Schema in docs/ is one that `make docs` writes."""
    there = {str(path.relative_to(root / "docs")) for path in (root / "docs").rglob("*.schema.json")}
    assert there <= generator.pages().keys()


def test_every_schema_is_one(root: Path) -> None:
    """Every exported file is a valid JSON Schema of the draft that it names."""
    schemas = sorted((root / "docs").rglob("*.schema.json"))
    assert schemas
    for path in schemas:
        schema = json.loads(path.read_text())
        jsonschema.validators.validator_for(schema).check_schema(schema)


def test_every_key_of_the_configuration_is_explained(root: Path, config_schema: dict[str, Any]) -> None:
    """The reference page has a line for every key that the configuration file can have."""
    page = (root / "docs/reference/config.md").read_text()
    for model in [config_schema, *config_schema["$defs"].values()]:
        for key in model["properties"]:
            assert f"| `{key}` |" in page


def test_the_schema_accepts_what_the_library_loads(config_schema: dict[str, Any], tmp_path: Path) -> None:
    """A configuration that loads is valid by the exported schema."""
    path = tmp_path / "drystone.yaml"
    path.write_text(MINIMAL)
    load(path)
    jsonschema.validate(yaml.safe_load(MINIMAL), config_schema)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("20 min", "20"),
        ("20 min", "20 weeks"),
        ("sort_key: [carrier, departure]", "sort_key: []"),
        ("format: csv", "format: xml"),
        ("times:", "tims:"),
        ("version: 1", "version: 2"),
    ],
)
def test_the_schema_refuses_what_the_library_refuses(
    config_schema: dict[str, Any], tmp_path: Path, right: str, wrong: str
) -> None:
    """A wrong unit, choice, key or version is refused by the library and by the exported schema alike."""
    text = MINIMAL.replace(right, wrong)
    path = tmp_path / "drystone.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load(path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), config_schema)


@given(st.integers(0, 1 << 50))
def test_durations_and_sizes_are_written_as_they_are_read(value: int) -> None:
    """What the reference shows as a default is read back as the same value."""
    assert parse_duration(format_duration(value)) == value
    assert parse_size(format_size(value)) == value


def test_written_objects_fit_their_schemas(root: Path) -> None:
    """A mark and a job's result, as the library writes them, are valid by the exported schemas."""
    mark = DeletionMark(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", details="covered", deletion_time=1)
    result = JobResult(verb="mark", stream="flights", run="r", ok=True, started=1, ended=2)
    for name, written in {"deletion-mark": mark, "job-result": result}.items():
        schema = json.loads((root / f"docs/reference/formats/{name}.schema.json").read_text())
        jsonschema.validate(json.loads(written.to_json()), schema)
