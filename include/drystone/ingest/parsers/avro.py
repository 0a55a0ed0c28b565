"""Avro messages, decoded by fastavro: bare records, single-object encoding, the wire format of schema registries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar, Literal

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from drystone.config.parser import Path
from drystone.errors import InputError
from drystone.ingest.parsers.paths import is_index, show

_SINGLE_OBJECT = b"\xc3\x01"
_FINGERPRINT = 8
_CONFLUENT = 5


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes one record. `schemas`: their JSON, by the bytes that stand before a record, in hex."""

    framing: Literal["datum", "single_object", "confluent"]
    schemas: tuple[tuple[str, str], ...]
    text: ClassVar[bool] = False

    def decode(self, value: bytes) -> object:
        """See `Decoder`."""
        schemas = _parsed(self.schemas)
        size = {"datum": 0, "single_object": 2 + _FINGERPRINT, "confluent": _CONFLUENT}[self.framing]
        schema = schemas.get(value[:size])
        if schema is None:
            raise ValueError(self._unknown(value[:size], size))
        stream = BytesIO(value[size:])
        try:
            found = fastavro.schemaless_reader(stream, schema, None)
        except EOFError:
            raise ValueError("the message ends in the middle of the record") from None
        rest = len(value) - size - stream.tell()
        if rest:
            raise ValueError(f"{rest} bytes are left behind the record: it was written with another schema")
        return found

    def _unknown(self, head: bytes, size: int) -> str:
        if len(head) < size:
            return f"the message has {len(head)} bytes, and {size} stand before a record"
        if self.framing == "confluent":
            if head[0]:
                return f"the message begins with byte {head[0]}, not with the zero byte of a schema registry"
            return f"schema {int.from_bytes(head[1:])} is not in the registry file"
        if head[:2] != _SINGLE_OBJECT:
            return "the message does not begin with the marker of single-object encoding, C3 01"
        return f"the schema of fingerprint {head[2:].hex()} is not known"


def heads(framing: str, schemas: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return schemas by what stands before a record. `schemas`: by their id; raises InputError for one that is none."""
    found = []
    for name, schema in schemas.items():
        place = f"{where}, schema {name}" if name else where
        plain = _plain(schema, place)
        if framing == "datum":
            head = b""
        elif framing == "single_object":
            canonical = fastavro.schema.to_parsing_canonical_form(plain)
            # Avro gives the fingerprint with its lowest byte first.
            head = _SINGLE_OBJECT + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
        else:
            if not name.isdecimal() or not int(name) < 1 << 32:
                raise InputError(f"{place}: ids are numbers.", 'Write {"1": {…}}.')
            head = b"\0" + int(name).to_bytes(4)
        found.append((head.hex(), json.dumps(plain)))
    return tuple(found)


def registry(document: object, where: str) -> dict[str, Any]:
    """Return the schemas of a registry file by their id: each as it is, as text, or as a registry answers."""
    if not isinstance(document, dict) or not document:
        raise InputError(f"{where} is no registry of schemas.", 'Write {"1": {…}}, by the id.')
    found = {}
    for name, schema in document.items():
        inner = schema["schema"] if isinstance(schema, dict) and isinstance(schema.get("schema"), str) else schema
        found[str(name)] = inner
    return found


def _plain(schema: Any, where: str) -> Any:
    """Return a schema that fastavro takes as a record's; raise InputError for any other."""
    try:
        plain = json.loads(schema) if isinstance(schema, str) else schema
        parsed = fastavro.parse_schema(plain)
    except (ValueError, KeyError, TypeError, SchemaParseException, UnknownType) as error:
        raise InputError(f"{where} is no Avro schema: {type(error).__name__}: {error}.") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise InputError(f"{where} is no schema of a record.", "Columns are made of a record's fields.")
    _check_arrays(plain, where)
    return plain


def _check_arrays(schema: Any, where: str) -> None:
    """Raise InputError for an array of items that take no bytes: a short message could name any number of them."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    for each in _within(schema):
        if each.get("type") == "array" and _is_weightless(each.get("items"), named):
            msg = f"{where} has an array of items that take no bytes: a message of a few bytes can name billions."
            raise InputError(msg, "Give the items a field with a value, or leave the array out of the schema.")


def _within(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _within(each)
    elif isinstance(schema, dict):
        yield schema
        for below in ("fields", "items", "values", "type"):
            yield from _within(schema.get(below))


def _is_weightless(schema: Any, named: Mapping[str, Any], above: frozenset[str] = frozenset()) -> bool:
    """Tell whether a value of this type takes no bytes: nothing, or a record of such, or a `fixed` of none.

    `above`: the types that it is a part of. One that is a part of itself, and in no union, map or array, has no value.
    """
    if isinstance(schema, str):
        name = schema.rpartition(".")[2]
        if name not in named:
            return schema == "null"
        return name in above or _is_weightless(named[name], named, above | {name})
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if kind in {"record", "error"}:
        return all(_is_weightless(field["type"], named, above) for field in schema.get("fields", ()))
    if kind == "fixed":
        return schema.get("size") == 0
    return _is_weightless(kind, named, above)


@lru_cache(maxsize=16)
def _parsed(schemas: tuple[tuple[str, str], ...]) -> dict[bytes, Any]:
    return {bytes.fromhex(head): fastavro.parse_schema(json.loads(schema)) for head, schema in schemas}


def check_paths(schemas: tuple[tuple[str, str], ...], paths: list[Path], where: str) -> None:
    """Raise InputError if a path leads nowhere in any of the schemas."""
    trees: list[tuple[Any, dict[str, Any]]] = [(json.loads(schema), {}) for _, schema in schemas]
    for tree, named in trees:
        _collect(tree, named)
    for path in paths:
        if not any(_leads(tree, path, named) for tree, named in trees):
            raise InputError(f"{where} has no field {show(path)}.", "Say in ingest.parser.fields where the column is.")


def _collect(schema: Any, named: dict[str, Any]) -> None:
    """Find the types that have a name, by its last part."""
    if isinstance(schema, list):
        for each in schema:
            _collect(each, named)
    elif isinstance(schema, dict):
        if isinstance(schema.get("name"), str) and isinstance(schema.get("type"), str):
            named[schema["name"].rpartition(".")[2]] = schema
        for below in ("fields", "items", "values", "type"):
            _collect(schema.get(below), named)


def _leads(schema: Any, path: Path, named: Mapping[str, Any]) -> bool:
    if not path:
        return True
    return any(_leads(below, path[1:], named) for below in _below(schema, path[0], named))


def _below(schema: Any, step: str | int, named: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the types that a step from this one may lead to."""
    if isinstance(schema, str):
        schema = named.get(schema.rpartition(".")[2])
    if isinstance(schema, list):
        for each in schema:
            yield from _below(each, step, named)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind in {"record", "error"}:
        yield from (field["type"] for field in schema.get("fields", ()) if field["name"] == step)
    elif kind == "map":
        yield schema["values"]
    elif kind == "array" and is_index(step):
        yield schema["items"]
    elif isinstance(kind, dict | list):
        yield from _below(kind, step, named)
