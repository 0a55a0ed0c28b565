"""Topics that a stream has read and that are not among its topics any more: what is unfinished there.

Source: the design, "Ingest: from Kafka". A topic that was deleted shows in no list, and neither does a plan that a run
left unfinished there: the stream's own chains tell of it. What is finished needs nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from drystone.errors import InputError
from drystone.ingest.kafka.chain import Chain, Ground, Next
from drystone.ingest.kafka.log import Topic
from drystone.ingest.kafka.plans import Root
from drystone.ingest.kafka.records import Records


def left_behind(
    ground: Ground, known: Sequence[str], topics: Sequence[Topic], pattern: str
) -> Iterator[tuple[Chain, str]]:
    """Yield the chains that stand at an unfinished plan of a topic that is not among these, each with the reason.

    `known`: the UUIDs of topics that the stream had met before `topics` were listed: one that is made later is no lost
    one. `pattern`: of the names of its topics.
    """
    records = Records(ground.bucket, ground.stream, ground.generation)
    here = {topic.id for topic in topics}
    for topic_id in known:
        root = None if topic_id in here else records.root(topic_id)
        if root is not None:
            chains = (ground.chain(root, number) for number in records.partitions(topic_id))
            yield from ((chain, _why(root, topics, pattern)) for chain in chains if _is_open(chain))


def _is_open(chain: Chain) -> bool:
    try:
        return not isinstance(chain.position(), Next)
    except InputError:
        # It cannot be read: the run meets that again, and says it of this partition.
        return True


def _why(root: Root, topics: Sequence[Topic], pattern: str) -> str:
    topic = f"topic {root.topic} with UUID {root.topic_id}"
    if any(each.name == root.topic for each in topics):
        return f"{topic} was deleted, and one of its name was made"
    if re.fullmatch(pattern, root.topic) is None:
        return f"ingest.topics does not fit {topic} any more"
    return f"{topic} was deleted, or its client may not see it any more"
