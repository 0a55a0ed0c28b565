"""What is due, and how much of it."""

from __future__ import annotations

import pytest

from drystone.config.ingest import KafkaIngest
from drystone.ingest.kafka.log import Offsets, Sample
from drystone.ingest.kafka.policy import Due, due

HOUR = 3_600_000
NOW = 1_700_000_000_000
POLICY = KafkaIngest.model_validate(
    {"kind": "kafka", "group": "backup", "bootstrap_servers": "a:1", "topics": "a", "max_bytes": "1000B"}
)
YOUNG, OLD = NOW - HOUR, NOW - HOUR - 1


@pytest.mark.parametrize(
    ("offsets", "sample", "force", "expected"),
    [
        ((5, 5), Sample(), True, None),
        ((5, 14), Sample(9, 100.0, YOUNG), False, None),
        ((5, 15), Sample(10, 100.0, YOUNG), False, Due(15, "size")),
        ((5, 99), Sample(94, 100.0, YOUNG), False, Due(15, "size")),
        ((5, 99), Sample(94, 3000.0, YOUNG), False, Due(6, "size")),
        ((5, 14), Sample(9, 100.0, OLD), False, Due(14, "age")),
        ((5, 14), Sample(9, 100.0, None), False, Due(14, "age")),
        ((5, 14), Sample(9, 100.0, YOUNG), True, Due(14, "forced")),
        ((5, 99), Sample(94, 0.0, OLD), False, Due(99, "age")),
        ((5, 9), Sample(), False, Due(9, "empty")),
    ],
)
def test_what_is_due(offsets: tuple[int, int], sample: Sample, *, force: bool, expected: Due | None) -> None:
    """Enough bytes, an old message or one of unknown age, or force; at most about `max_bytes`; nothing of nothing.

    To the byte and the millisecond; one message that is larger than `max_bytes` is still a plan.
    """
    assert due(Offsets(*offsets), sample, POLICY, NOW, force=force) == expected
