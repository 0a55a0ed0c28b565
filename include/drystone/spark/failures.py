"""Spark's errors in our words: wrong input must not be tried again, a failing machine may."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from drystone.errors import (
    BucketError,
    DrystoneError,
    GivenUpError,
    InputError,
    KafkaError,
    SourceChangedError,
    UploadTimeoutError,
)
from drystone.verbs.results import unforeseen

_INPUT = (
    "MALFORMED_RECORD",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "UNRESOLVED_COLUMN",
    "INCOMPATIBLE_DATA",
    "CANNOT_PARSE",
    "CANNOT_MERGE_SCHEMAS",
    "CANNOT_READ_FILE_FOOTER",
    "DATATYPE_MISMATCH",
)
_CAUSE = re.compile(rf"\[(?:{'|'.join(_INPUT)})[^\n]*")
_BROKEN_FILE = re.compile(
    r"FAILED_READ_FILE.*?Caused by: (?:java\.io\.EOFException|java\.util\.zip\.\w+"
    r"|java\.nio\.charset\.\w+|[\w.]+IllegalArgumentException|java\.io\.IOException: (?=not a gzip)): ([^\n]*)",
    re.DOTALL,
)
"""A file that is cut off, not what its name says, or has another header than the others."""
_CALLING = "An error occurred while calling"
_RAISED = re.compile(r"drystone: ([^\n]*)")
_RAISED_IN_TASKS = (BucketError, GivenUpError, InputError, KafkaError, SourceChangedError, UploadTimeoutError)
_OURS = {error.__name__: error for error in _RAISED_IN_TASKS}
_FROM_WORKER = re.compile(r"drystone\.errors\.(\w+): ([^\n]*)")


def translate(error: Exception) -> DrystoneError:
    """Return the error to report for what ended a job, whoever raised it."""
    return _of_spark(error) if isinstance(error, PySparkException | Py4JError) else unforeseen(error)


def _of_spark(error: PySparkException | Py4JError) -> DrystoneError:
    """Return the innermost cause that is ours, else Spark's first line."""
    text = str(error)
    if found := _RAISED.search(text):
        return InputError(found[1])
    if found := _FROM_WORKER.search(text):
        return _OURS.get(found[1], DrystoneError)(found[2])
    condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
    first = _last_of_traceback(text) or _headline(text)
    if any(word in condition or word in text for word in _INPUT):
        return InputError(f"the input does not fit the schema: {_cause(text) or first}", "Nothing of it was uploaded.")
    if found := _BROKEN_FILE.search(text):
        return InputError(f"an input file cannot be read: {first[:300]} {found[1]}", "Nothing of it was uploaded.")
    return BucketError(f"Spark failed: {first}")


def _headline(text: str) -> str:
    """Return the first line that says something: not py4j's, and without the name of the Java class."""
    lines = (line.removeprefix(": ").strip() for line in text.splitlines())
    found = next((line for line in lines if line and not line.startswith(_CALLING)), "Spark gave no reason")
    return re.sub(r"^[\w.$]+(?:Exception|Error): ", "", found)


def _cause(text: str) -> str:
    found = _CAUSE.search(text)
    return found[0][:300] if found else ""


def _last_of_traceback(text: str) -> str:
    """Return the exception of the first Python traceback in Spark's text, "" if there is none."""
    _, found, rest = text.partition("Traceback (most recent call last):\n")
    lines = (line for line in rest.splitlines() if line and not line.startswith((" ", "\t")))
    return next(lines, "") if found else ""
