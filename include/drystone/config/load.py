"""Reading the configuration file: one line per wrong value, with the file, the path in it, and what is allowed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from drystone.config.model import Config, StreamConfig
from drystone.errors import ConfigError, UsageError

ENVIRONMENT = "DRYSTONE_CONFIG"
DEFAULT_FILE = "drystone.yaml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with the file that it came from, against which its relative paths are resolved."""

    path: Path
    config: Config

    def stream(self, name: str) -> StreamConfig:
        """Return one stream's configuration; raise UsageError that lists the known ones."""
        try:
            return self.config.streams[name]
        except KeyError:
            known = ", ".join(sorted(self.config.streams))
            raise UsageError(f"{self.path}: no stream {name!r}.", f"Known: {known}.") from None

    def bucket_url(self, name: str) -> str:
        """Return the address of the bucket of stream `name`, a local folder made absolute."""
        url = self.stream(name).bucket or self.config.bucket
        if url.startswith("file:"):
            folder = Path(url.removeprefix("file://").removeprefix("file:")).expanduser()
            return f"file://{(self.path.parent / folder).resolve()}"
        return url


def find() -> Path:
    """Return the configuration file: $DRYSTONE_CONFIG, else drystone.yaml here. It need not exist."""
    return Path(os.environ.get(ENVIRONMENT) or DEFAULT_FILE)


def load(path: Path | None = None) -> Loaded:
    """Read and check the configuration file (by default the one that `find` names).

    Raises ConfigError with one line per wrong value.
    """
    path = path or find()
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path}: {reason}.", f"Give --config, or set {ENVIRONMENT}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return Loaded(path.absolute(), Config.model_validate(raw))
    except ValidationError as error:
        raise ConfigError("\n".join(_lines(path, error))) from None


def _lines(path: Path, error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"] if part != "[key]") or "the document"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "unknown key"
        given = problem.get("input")
        shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
        lines.append(f"{path}: {place}: {message}{shown}")
    return lines
