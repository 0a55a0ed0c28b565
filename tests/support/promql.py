"""Which metrics and labels a PromQL query names."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS = re.compile(r"\{([^}]*)\}")
_RANGE = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "atan2"})


class Named(NamedTuple):
    """What a query names: metrics, labels, functions and aggregations."""

    metrics: frozenset[str]
    labels: frozenset[str]
    functions: frozenset[str]


def named(query: str) -> Named:
    """Return the names in a query; values of labels, durations and numbers are none."""
    rest = _TEXT.sub('""', query)
    labels = [name for part in _MATCHERS.findall(rest) for name in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", part)]
    rest = _RANGE.sub("", _MATCHERS.sub("", rest))
    labels += [name for part in _GROUPING.findall(rest) for name in _NAME.findall(part)]
    rest = re.sub(r"\b\d[\w.]*", "", _GROUPING.sub("", rest))
    found = [(each[0], rest[each.end() :].lstrip().startswith("(")) for each in _NAME.finditer(rest)]
    functions = {name for name, called in found if called}
    metrics = {name for name, called in found if not called and name not in _WORDS}
    return Named(frozenset(metrics), frozenset(labels), frozenset(functions))
