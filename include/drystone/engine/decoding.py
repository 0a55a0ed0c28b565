"""Telling damaged files from a failing store, where Arrow tells neither."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from drystone.errors import BucketError, DamagedStreamError

_NEXT = "`drystone verify --deep` names everything that is wrong; restore the file from a backup."


@contextmanager
def decoding(where: str) -> Iterator[None]:
    """Turn what Arrow raises for bytes that are not what they should be into DamagedStreamError, which names `where`.

    An error of the operating system becomes a BucketError; the store's own errors come through.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise DamagedStreamError(f"{where} is damaged, or no Parquet file: {_line(error)}.", _NEXT) from None
    except OSError as error:
        if error.errno is not None:
            raise BucketError(f"{where} cannot be read: {_line(error)}.") from error
        # A compressed page that does not decompress: Arrow has no class of its own for that.
        raise DamagedStreamError(f"{where} is damaged: {_line(error)}.", _NEXT) from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
