"""`drystone lag`: how far a stream is behind Kafka."""

from __future__ import annotations

from dataclasses import asdict

import typer

from drystone import clock
from drystone.cli import exits, options, output
from drystone.config.load import load
from drystone.errors import LagError
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.lag import Lag, lag_of
from drystone.ingest.kafka.streams import kafka_stream

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command(epilog=exits.MEANING)
def lag(stream: options.Stream, *, config: options.Config = None, as_json: options.AsJson = False) -> None:
    """Show for each partition what is in blocks, what waits in Kafka and for how long, and the dead letters.

    Fails if messages were lost, or the oldest waits for longer than the stream's `max_lag`.
    """
    loaded = load(config)
    found = kafka_stream(loaded, stream)
    rules, now = found.config.kafka, clock.system()
    with Broker(rules, rules.consumer_group or f"drystone.{stream}.{found.generation}") as broker:
        lags = lag_of(found, broker, now)
    if as_json:
        output.write_json({"stream": stream, "at": now, "partitions": [asdict(each) for each in lags]})
    else:
        _show(lags)
    lost = next((each for each in lags if each.lost), None)
    if lost is not None:
        msg = f"Kafka has deleted {lost.lost:,} offsets of {lost.topic}-{lost.partition} that are in no block."
        raise LagError(msg, "The next ingest says which, and goes on once the loss is accepted.")
    late = max((each.age or 0 for each in lags), default=0)
    if rules.max_lag is not None and late > rules.max_lag:
        raise LagError(f"the oldest message waits for {output.length(late)}.", "See whether the ingest runs.")


def _show(lags: list[Lag]) -> None:
    columns = ("partition", ">in blocks to", ">Kafka to", ">waiting", "oldest", "for", ">dead letters", ">lost")
    rows = (
        (
            f"{each.topic}-{each.partition}",
            each.committed,
            each.end,
            each.waiting,
            "" if each.oldest is None else output.moment(each.oldest),
            "" if each.age is None else output.length(each.age),
            each.dead_letters,
            each.lost,
        )
        for each in lags
    )
    output.write_table(columns, rows)
