"""`make demo-kafka`: flights from a real Kafka broker into blocks, exactly once, through Airflow's scheduler and Spark.

It starts clean each time, and leaves build/demo-kafka/report.json, the bucket and Airflow's home.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import flights
import yaml
from follow import Run, follow
from home import ROOT, stop_on_signals
from kafka_feed import BROKEN, FIRST, PARTITIONS, TOPICS, Feed, feed
from kafka_produce import Producing
from kafka_proof import BACKUP, FLIGHTS, contents, judge, lags, ledger_is_true, show, truths
from show import console, say
from watch import Watch

from drystone.bucket import Bucket, open_bucket
from drystone.config.load import load
from drystone.errors import DrystoneError
from drystone.ingest.kafka.broker import Broker
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, AirflowError, wait_until
from drystone.testing.kafka import KafkaBroker, kafka_broker
from drystone.testing.kafka_jars import source_jars

BUILD = ROOT / "build" / "demo-kafka"
PACE = 1.5
"""Seconds between five portions of messages: producing shall go on while ingest runs."""
_DAGS = [f"{stream}__{workflow}" for stream in (BACKUP, FLIGHTS) for workflow in ("ingest", "lifecycle")]
_BACKFILL = f"{FLIGHTS}__backfill"
_PARTITIONS = [f"{topic}:{number}" for topic, count in PARTITIONS.items() for number in range(count)]
_START_SECONDS = 60


def write_config(folder: Path, servers: str) -> Path:
    """Write the demo's configuration with the address of the broker and the jars that Spark needs; return its path."""
    config = yaml.safe_load((ROOT / "demo" / "kafka.yaml").read_text())
    config["spark"]["conf"]["spark.driver.extraClassPath"] = ":".join(map(str, source_jars()))
    for stream in config["streams"].values():
        if stream["ingest"]["kind"] == "kafka":
            stream["ingest"]["bootstrap_servers"] = servers
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "drystone.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def mistakes_in(config: Path) -> dict[str, str]:
    """Return which columns the parser reads from the field of another one."""
    fields = yaml.safe_load(config.read_text())["streams"][FLIGHTS]["ingest"]["parser"]["fields"]
    return dict(fields)


def correct(config: Path) -> None:
    """Take the parser's mistakes out of the configuration."""
    found = yaml.safe_load(config.read_text())
    del found["streams"][FLIGHTS]["ingest"]["parser"]["fields"]
    config.write_text(yaml.safe_dump(found, sort_keys=False))


class Demo:
    """One run of the demo on an Airflow and a broker that are up."""

    def __init__(self, client: AirflowClient, bucket: Bucket, server: KafkaBroker, config: Path) -> None:
        """`config`: the one that `write_config` wrote."""
        loaded = load(config)
        group = f"drystone.{BACKUP}.{loaded.stream(BACKUP).generation}"
        self.rounds: list[dict[str, object]] = []
        self._client, self._bucket, self._server, self._config = client, bucket, server, config
        self._broker = Broker(loaded.stream(BACKUP).kafka, group)

    def run(self, plan: Feed) -> tuple[dict[str, object], list[str]]:
        """Produce and ingest at the same time, compact, backfill; return what is to be reported, and what is wrong."""
        producing = Producing(self._server, plan, PACE)
        producing.begin()
        self.ingest("the first topic")
        producing.second_topic.wait()
        self.ingest("a second topic")
        producing.finish()
        say(f"All is produced: {len(producing.committed):,} messages are committed.")
        self.ingest("all the rest", force=True)
        mistakes = mistakes_in(self._config)
        as_parsed, wanted = (truths(producing.committed, plan, each) for each in (mistakes, {}))
        wrong = list(ledger_is_true(self._server, self._broker, TOPICS, producing.committed))
        with self.watched(as_parsed, wrong):
            self.lifecycle()
        untouched = truths(producing.committed, replace(plan, rows=plan.rows.drop_columns([*mistakes])))
        with self.watched(untouched, wrong, frozenset(mistakes)):
            self.backfill(mistakes)
        found, partitions = contents(self._bucket), lags(self._bucket, self._broker, TOPICS)
        wrong += judge(found, wanted, partitions, (plan.rows.num_rows, BROKEN))
        show(producing, found, wanted, partitions)
        return {
            "messages_committed": len(producing.committed),
            "transactions": producing.transactions,
            "transactions_aborted": producing.aborted,
            "streams": {
                name: {"rows": rows.rows, "checksum": rows.checksum, "expected": asdict(wanted[name])}
                for name, rows in found.items()
            },
            "partitions": [asdict(each) for each in partitions],
            "rounds": self.rounds,
        }, wrong

    def ingest(self, name: str, *, force: bool = False) -> None:
        """Run the ingest of both streams at the same time, and wait for both."""
        self._both("ingest", name, {"force": force})

    def lifecycle(self) -> None:
        """Compact both streams, and remove what is replaced."""
        self._both("lifecycle", "lifecycle", {})

    def backfill(self, mistakes: Mapping[str, str]) -> None:
        """Correct the parser, and have every message parsed anew that it has ever parsed wrongly."""
        begun = time.monotonic()
        say(f"The parser reads {', '.join(f'{name} from {other}' for name, other in mistakes.items())}: corrected.")
        correct(self._config)
        conf = {"offsets": _PARTITIONS, "reason": "a wrong field", "approval": False, "dry_run": False}
        follow(self._client, Run(_BACKFILL, self._client.trigger(_BACKFILL, conf), "backfill"))
        seconds = round(time.monotonic() - begun, 1)
        self.rounds.append({"name": "backfill", "workflow": "backfill", "seconds": seconds})
        say(f"[bold]backfill[/] is over: {seconds:.0f} s.")

    @contextmanager
    def watched(
        self, wanted: Mapping[str, flights.Truth], wrong: list[str], without: AbstractSet[str] = frozenset()
    ) -> Iterator[None]:
        """Read both streams again and again meanwhile; what is ever not as it must be goes to `wrong`.

        `without`: columns that are left out of it.
        """
        with ExitStack() as stack:
            watches = [
                stack.enter_context(Watch(self._bucket, wanted[name], name, without)) for name in (BACKUP, FLIGHTS)
            ]
            yield
        wrong += [line for watch in watches for line in watch.wrong]
        say(f"Both streams were read {sum(watch.reads for watch in watches)} times meanwhile.")

    def _both(self, workflow: str, name: str, conf: Mapping[str, object]) -> None:
        begun = time.monotonic()
        dags = {stream: f"{stream}__{workflow}" for stream in (BACKUP, FLIGHTS)}
        runs = [Run(dag, self._client.trigger(dag, conf), f"{stream} {workflow}") for stream, dag in dags.items()]
        follow(self._client, *runs)
        seconds = round(time.monotonic() - begun, 1)
        self.rounds.append({"name": name, "workflow": workflow, "seconds": seconds})
        say(f"[bold]{workflow}[/] of both streams is over: {name}, {seconds:.0f} s.")


def main() -> int:
    """Run everything; return 0 only if all of it holds."""
    begun = time.monotonic()
    shutil.rmtree(BUILD, ignore_errors=True)
    say("A Kafka broker starts, Airflow's home is made, and the flights of 2013 are fetched.")
    with kafka_broker(BUILD / "kafka") as server:
        server.create_topic(FIRST, PARTITIONS[FIRST])
        config = write_config(BUILD, server.bootstrap_servers)
        home = AirflowHome(BUILD / "airflow", ROOT / "dags", ROOT / "plugins", config)
        with ThreadPoolExecutor(1) as pool:
            prepared = pool.submit(home.prepare)
            plan = feed(flights.load())
            prepared.result()
        say(f"Kafka is up: {server.bootstrap_servers}. {len(plan.messages):,} messages will be produced.")
        with home.running() as client:
            home.drystone("airflow", "setup")
            dags = [*_DAGS, _BACKFILL]
            wait_until(lambda: all(client.has_dag(dag) for dag in dags), _START_SECONDS, "The DAGs are there")
            for dag in dags:
                client.unpause(dag)
            say(f"Airflow is up: {client.url}, user admin, password {home.password}")
            demo = Demo(client, open_bucket(load(config).bucket_url(FLIGHTS)), server, config)
            report, wrong = demo.run(plan)
    for line in wrong:
        console.print(f"[red]{line}[/]")
    if not wrong:
        console.print("[green]Every committed message is there exactly once[/], and nothing else.")
    report |= {"ok": not wrong, "wrong": wrong, "seconds": round(time.monotonic() - begun, 1)}
    (BUILD / "report.json").write_text(json.dumps(report, indent=1))
    say(f"Written: {(BUILD / 'report.json').relative_to(ROOT)}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    stop_on_signals()
    try:
        sys.exit(main())
    except (AirflowError, DrystoneError, KeyboardInterrupt) as error:
        say(str(error) or "stopped")
        sys.exit(1)
