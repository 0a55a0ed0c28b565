"""The pages of all streams in Airflow's own server: behind its login, and with what Airflow lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.models import Pool
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from drystone.airflow.needs import missing
from drystone.airflow.overviews import look_and_keep
from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.airflow.setup import setup
from drystone.bucket import LocalBucket
from drystone.config.load import load
from drystone.testing.streams import write_record


@pytest.fixture
def _nothing_set_up(database: Path) -> None:
    """Airflow without Drystone's pools and connection."""
    with create_session() as session:
        for name in (SPARK_POOL, remover_pool("events"), remover_pool("daily")):
            if there := Pool.get_pool(name, session=session):
                session.delete(there)
        for connection in session.query(Connection).filter_by(conn_id="spark_default"):
            session.delete(connection)


@pytest.fixture
def client(database: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Airflow's own app, with the plugin, on a configuration of two streams; one of them was looked at."""
    from airflow.api_fastapi.app import create_app, purge_cached_app  # noqa: PLC0415 -- it takes seconds

    monkeypatch.setenv("DRYSTONE_CONFIG", str(config_file))
    loaded = load(config_file)
    bucket = LocalBucket(config_file.parent / "bucket")
    write_record(bucket, "events", loaded.stream("events"))
    look_and_keep(bucket, "events", loaded.stream("events"))
    with TestClient(create_app(apps="core")) as client:
        yield client
    purge_cached_app()


def login(client: TestClient, role: str) -> dict[str, str]:
    """Return the headers of somebody with this role."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: PLC0415 -- as above

    token = client.app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="somebody", role=role))  # type: ignore[attr-defined]
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.usefixtures("_nothing_set_up")
def test_pages_need_a_login(client: TestClient) -> None:
    """Both pages are refused without a login, and answer a viewer: with each stream's row, and what Airflow lacks."""
    assert [client.get(f"/drystone/{page}").status_code for page in ("fleet", "metrics")] == [401, 401]
    viewer = login(client, "viewer")
    html = client.get("/drystone/fleet", headers=viewer)
    assert html.status_code == 200
    assert "2 streams, 1 with something wrong" in html.text
    assert "nobody has looked yet" in html.text
    assert "Airflow has no pool drystone_spark" in html.text
    text = client.get("/drystone/metrics", headers=viewer)
    families = {each.name: each.samples for each in text_string_to_metric_families(text.text)}
    streams = {sample.labels["stream"]: sample.value for sample in families["drystone_stream_unreadable"]}
    assert streams == {"events": 0, "daily": 1}
    lacking = {(sample.labels["kind"], sample.labels["name"]) for sample in families["drystone_airflow_missing"]}
    assert ("connection", "spark_default") in lacking


@pytest.mark.usefixtures("_nothing_set_up")
def test_what_is_missing(config_file: Path) -> None:
    """Pools and connections are missing until `drystone airflow setup`; a bucket's own one until somebody adds it."""
    loaded = load(config_file)
    assert missing(loaded) == [
        ("pool", "drystone_spark"),
        ("pool", "drystone_remover_events"),
        ("pool", "drystone_remover_daily"),
        ("connection", "spark_default"),
    ]
    setup(loaded)
    assert missing(loaded) == []
    text = config_file.read_text()
    config_file.write_text(text.replace("bucket: file:bucket", "bucket: s3://abc\nbucket_connection: mine"))
    assert missing(load(config_file)) == [("connection", "mine")]
    config_file.write_text(text.replace("bucket: file:bucket", "bucket: s3://abc"))
    assert missing(load(config_file)) == []
