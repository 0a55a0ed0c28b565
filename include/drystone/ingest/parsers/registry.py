"""From a stream's configuration to its parser: of one of Drystone's own formats, or an installed package's."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from drystone.block.schema import Column, Schema
from drystone.config.ingest import POSITION
from drystone.config.model import StreamConfig
from drystone.config.parser import (
    FORMATS,
    AvroParser,
    DelimitedParser,
    FieldAt,
    JsonParser,
    MessagePackParser,
    OwnParser,
    ParserConfig,
    ProtobufParser,
    RegexParser,
)
from drystone.errors import InputError
from drystone.ingest.parsers import avro, protobuf
from drystone.ingest.parsers.json import JsonDecoder
from drystone.ingest.parsers.json_batches import JsonBatches
from drystone.ingest.parsers.layout import Layout
from drystone.ingest.parsers.lines import DelimitedDecoder, RegexDecoder
from drystone.ingest.parsers.msgpack import MessagePackDecoder
from drystone.ingest.parsers.one_by_one import Decoder, OneByOne
from drystone.ingest.parsers.own import GROUP, MessageDecoder
from drystone.ingest.parsers.paths import show
from drystone.ingest.parsers.protocol import Parser
from drystone.ingest.parsers.times import USUAL, TimeLimits
from drystone.jobs import moment

VERSION = 1
"""Of the code in this folder: raised whenever the same message may give another row, so that no plan mixes the two."""

_Made = tuple[Decoder, Mapping[str, bytes]]
"""A decoder, and the contents of the files that it rests on."""


def parser_of(stream: StreamConfig, base: Path) -> Parser:
    """Return the parser of a stream's messages, as its configuration says. See `make_parser`."""
    ingest = stream.kafka
    if ingest.parser is None:
        raise InputError("a backup group parses no messages.", "Name a stream with ingest.group: partition.")
    schema = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in stream.parsed_columns.items()))
    limits = TimeLimits(int(moment(ingest.earliest_time).timestamp() * 1000), ingest.latest_time)
    return make_parser(ingest.parser, schema, stream.time_column, base, limits)


def make_parser(
    config: ParserConfig, schema: Schema, time_column: str, base: Path, limits: TimeLimits = USUAL
) -> Parser:
    """Return the parser of a stream. `schema`: its columns; those of the message's position are not the parser's.

    `base`: the folder that paths of files in the configuration are relative to. Raises InputError, in one line, for
    what no message could be parsed with: a file that is missing or no schema, a path that leads nowhere, a column that
    cannot be split by, an unknown format.
    """
    layout = _layout(config, schema, time_column, limits)
    decoder, files = _MAKERS.get(type(config), _own)(config, layout, base)
    digest = _digest(config, layout, files)
    slow = OneByOne(decoder, layout, digest)
    return JsonBatches(slow) if isinstance(config, JsonParser) else slow


def _layout(config: ParserConfig, schema: Schema, time_column: str, limits: TimeLimits) -> Layout:
    columns = tuple((column.name, column.type) for column in schema.columns if column.name not in POSITION)
    kinds = dict(columns)
    if complaint := config.complaint(kinds, time_column):
        raise InputError(f"ingest.parser.{complaint}.", "Change the configuration.")
    for each in config.split:
        if each.column is not None and kinds[each.column] == "binary":
            raise InputError(f"ingest.parser.split: {each.column} is binary.", "Split by a column that has texts.")
    fields = tuple(
        (name, kind, config.fields.get(name, FieldAt(path=(name,)))) for name, kind in columns if name != time_column
    )
    return Layout(columns, fields, time_column, config.time, config.split, limits)


def _digest(config: ParserConfig, layout: Layout, files: Mapping[str, bytes]) -> str:
    what = {
        "version": VERSION,
        "config": config.model_dump(mode="json", by_alias=True),
        "columns": layout.columns,
        "time_column": layout.time_column,
        "limits": [layout.limits.earliest, layout.limits.ahead],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]


def _json(config: Any, layout: Layout, base: Path) -> _Made:
    del config, base
    exact = any(kind.startswith("decimal") for _, kind, _ in layout.fields)
    return JsonDecoder(tuple(layout.paths), exact), {}


def _avro(config: Any, layout: Layout, base: Path) -> _Made:
    assert isinstance(config, AvroParser)  # noqa: S101 - for the type checker: _MAKERS pairs them
    where, content = "ingest.parser.schema", b""
    schemas: dict[str, Any] = {"": config.writer}
    if config.schema_file is not None:
        where, content = _read(base, config.schema_file, "schema_file")
        schemas = {"": _document(where, content)}
    elif config.registry is not None:
        where, content = _read(base, config.registry, "registry")
        schemas = avro.registry(_document(where, content), where)
    known = avro.heads(config.framing, schemas, where)
    avro.check_paths(known, layout.paths, where)
    return avro.AvroDecoder(config.framing, known), {where: content}


def _protobuf(config: Any, layout: Layout, base: Path) -> _Made:
    assert isinstance(config, ProtobufParser)  # noqa: S101 - as above
    where, content = _read(base, config.descriptor_set, "descriptor_set")
    decoder = protobuf.ProtobufDecoder(content, config.message, tuple(layout.paths))
    protobuf.check(decoder, where)
    return decoder, {where: content}


def _msgpack(config: Any, layout: Layout, base: Path) -> _Made:
    del config, layout, base
    return MessagePackDecoder(), {}


def _delimited(config: Any, layout: Layout, base: Path) -> _Made:
    assert isinstance(config, DelimitedParser)  # noqa: S101 - as above
    del base
    _check_names(config.columns, layout, "ingest.parser.columns")
    return DelimitedDecoder(config.columns, config.delimiter, config.quote, frozenset(config.null_values)), {}


def _regex(config: Any, layout: Layout, base: Path) -> _Made:
    assert isinstance(config, RegexParser)  # noqa: S101 - as above
    del base
    _check_names(tuple(re.compile(config.pattern).groupindex), layout, "ingest.parser.pattern")
    return RegexDecoder(config.pattern, frozenset(config.null_values)), {}


def _own(config: Any, layout: Layout, base: Path) -> _Made:
    """Return the decoder of an installed package."""
    del layout
    assert isinstance(config, OwnParser)  # noqa: S101 - as above
    offered = {point.name: point for point in entry_points(group=GROUP)}
    point = offered.get(config.format)
    if point is None:
        names = ", ".join(sorted({*FORMATS, *offered}))
        raise InputError(f"ingest.parser: format {config.format!r} is unknown.", f"Known here: {names}.")
    kind = _loaded(point)
    try:
        decoder = kind(config.options, base)
        files = decoder.files()
        pickle.dumps(decoder)
    except Exception as error:  # a package of somebody else's: whatever is wrong with it is said in one line
        what = f"parser {config.format!r} of {_distribution(point)} cannot be used: {type(error).__name__}: {error}."
        raise InputError(what, "Look at ingest.parser.options.") from error
    own = f"{_distribution(point)} {kind.version}".encode()
    return decoder, {**files, f"entry point {config.format}": own}


def _loaded(point: EntryPoint) -> type[MessageDecoder]:
    try:
        found = point.load()
    except Exception as error:
        what = f"parser {point.name!r}: {point.value} cannot be imported: {type(error).__name__}: {error}."
        raise InputError(what, "Install its package again.") from error
    derived = isinstance(found, type) and issubclass(found, MessageDecoder)
    if not derived or not isinstance(getattr(found, "version", None), str):
        what = f"parser {point.name!r}: {point.value} is no drystone.ingest.parsers.own.MessageDecoder with a version."
        raise InputError(what, "Derive it from that class.")
    kind: type[MessageDecoder] = found
    return kind


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _check_names(names: tuple[str, ...], layout: Layout, where: str) -> None:
    for path in layout.paths:
        if len(path) != 1 or path[0] not in names:
            raise InputError(f"{where} gives no {show(path)}.", f"It gives {', '.join(names)}.")


def _read(base: Path, name: str, key: str) -> tuple[str, bytes]:
    """Return a file's path, as people know it, and its content."""
    path = base / name
    try:
        return name, path.read_bytes()
    except OSError as error:
        raise InputError(f"ingest.parser.{key}: {path} cannot be read: {error.strerror}.") from None


def _document(where: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise InputError(f"{where} is no JSON: {error}.") from None


_MAKERS: Mapping[type[ParserConfig], Callable[[Any, Layout, Path], _Made]] = {
    JsonParser: _json,
    AvroParser: _avro,
    ProtobufParser: _protobuf,
    MessagePackParser: _msgpack,
    DelimitedParser: _delimited,
    RegexParser: _regex,
}
