"""Reading the configuration file: one line per wrong value, with the file, the path in it, and what is allowed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from drystone.config.complaints import describe
from drystone.config.model import Config, StreamConfig
from drystone.errors import ConfigError, UsageError

ENVIRONMENT = "DRYSTONE_CONFIG"
DEFAULT_FILE = "drystone.yaml"
if TYPE_CHECKING:
    from yaml import SafeLoader as _Safe
else:
    # The parser in C where there is one: fifty streams are read in a fifth of the time.
    _Safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMED = re.compile(r"'[^'<]{2,}'")


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

    def bucket_connection(self, name: str) -> str:
        """Return the name of the Airflow connection for the bucket of stream `name`."""
        return self.stream(name).bucket_connection or self.config.bucket_connection


def find() -> Path:
    """Return the configuration file: $DRYSTONE_CONFIG, else drystone.yaml here. It need not exist."""
    return Path(os.environ.get(ENVIRONMENT) or DEFAULT_FILE)


def load(path: Path | None = None) -> Loaded:
    """Read and check the configuration file (by default the one that `find` names).

    Raises ConfigError with one line per wrong value.
    """
    path = path or find()
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path}: {reason}.", f"Give --config, or set {ENVIRONMENT}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error.reason} at byte {error.start}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {_what_is_wrong(error)}.") from None
    try:
        return Loaded(path.absolute(), Config.model_validate(raw))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in describe(error, Config, raw))) from None


def _what_is_wrong(error: yaml.YAMLError) -> str:
    """Return what is wrong, and where; not the line itself, in which a secret may stand."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    # What stands after * ! or & is a name to YAML: it quotes it, and a password may begin like that.
    return _NAMED.sub("'…'", " ".join(error.problem.split())) + where


class _Loader(_Safe):
    """Reads plain YAML, and refuses a key that stands twice in one place: the last one would silently win."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Look at the keys before merges (`<<`) bring in others, which may be overridden."""
        seen: set[object] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    where = f"{key.start_mark.line + 1}, column {key.start_mark.column + 1}"
                    raise yaml.YAMLError(f"the key {key.value!r} stands twice (line {where})")
                seen.add(key.value)
        super().flatten_mapping(node)
