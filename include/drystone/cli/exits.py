"""What the exit codes mean, and which one an error gets."""

from __future__ import annotations

from drystone.errors import ConfigError, DrystoneError, InputError, UsageError

PROBLEMS = 1
WRONG_USE = 2
TRY_AGAIN = 3

MEANING = (
    "Exit codes: 0 done; 1 something is wrong with the data; 2 wrong use or configuration; "
    "3 the store failed, or something that another attempt may survive."
)


def code_of(error: DrystoneError) -> int:
    """Return the exit code of a command that ends with this error."""
    if error.retryable:
        return TRY_AGAIN
    return WRONG_USE if isinstance(error, ConfigError | UsageError | InputError) else PROBLEMS


def lines_of(error: DrystoneError) -> str:
    """Return the error for a person: one line, or one per wrong value of a configuration."""
    text = str(error)
    notes = " ".join(getattr(error, "__notes__", ()))
    if isinstance(error, ConfigError):
        return text
    return " ".join(f"{text} {notes}".split())
