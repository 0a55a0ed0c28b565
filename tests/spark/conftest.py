"""A real local Spark for all tests of this folder, and January's flights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import flights
import pyarrow as pa
import pytest
from flight_streams import Flights, make_stream
from kafka_streams import spark_options
from pyspark.sql import SparkSession
from small_streams import Small, make_small

from drystone.spark import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests: it takes seconds to start."""
    # Two tasks at once, and each is tried up to three times.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[2,3] {spark_options()} pyspark-shell"
    started, _ = session.start("tests")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def all_flights() -> pa.Table:
    """The flights of 2013."""
    return flights.load()


@pytest.fixture(scope="session")
def january(all_flights: pa.Table) -> pa.Table:
    """January's flights: 31 days of three origins."""
    return flights.month(all_flights, 1)


@pytest.fixture
def stream(tmp_path: Path, january: pa.Table) -> Flights:
    """A stream whose input is January's flights; nothing is ingested yet."""
    return make_stream(tmp_path, january)


@pytest.fixture
def small(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Small:
    """A small stream with its own configuration and input, and a clock that can be put forward."""
    return make_small(tmp_path, spark, monkeypatch)
