"""The cluster's machinery on small programs: what is started, started again and ended, whatever has happened since."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from drystone.errors import DrystoneError, UsageError
from drystone.testing.cluster import Cluster
from drystone.testing.cluster import cluster as module
from drystone.testing.cluster.processes import Known, known, marked
from drystone.testing.cluster.service import Service, Step, environment
from drystone.testing.cluster.state import State, locked, read

CHILD = "sh -c 'trap \"\" TERM; while true; do sleep 0.1; done' & echo $! > {folder}/child; touch {folder}/up-$$; wait"


@dataclass(frozen=True)
class Small(Cluster):
    """A cluster of shell programs: `store`, and after it and a step `reader`. `texts` are their programs."""

    texts: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def units(self, state: State) -> list[Service | Step]:  # noqa: ARG002 -- as the real one
        """See `Cluster.units`."""
        return [self.shell("store"), Step(name="init", act=self.step, needs=["store"]), self.shell("reader", "init")]

    def step(self) -> None:
        """The step: notes who is up already."""
        self.done.append(f"init after {' '.join(name for name in self.pids() if self.is_up(name))}")

    def shell(self, name: str, *needs: str) -> Service:
        """A shell program that says when it is up."""
        text = self.texts.get(name, "sleep 0.3; touch {folder}/up-$$; exec sleep 600").format(folder=self.folder)
        return Service(
            name=name,
            address="",
            command=["sh", "-c", text],
            environment=environment(),
            healthy=lambda _: self.is_up(name),
            needs=needs,
        )

    def is_up(self, name: str) -> bool:
        """Whether the program has said that it is up."""
        return (self.folder / f"up-{self.pids()[name]}").exists()

    def pids(self) -> dict[str, int]:
        """The processes that are written down."""
        return {name: known.pid for name, known in read(self.folder / "state.json").running.items()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Small]:
    """A cluster of small programs; whatever becomes of it, none of them is left."""
    made = Small(tmp_path / "cluster", tmp_path, tmp_path, tmp_path)
    yield made
    for name in ("store", "reader"):
        for pid in marked(f"{made.folder}:{name}"):
            os.kill(pid, signal.SIGKILL)


def quiet(_: str) -> None:
    """Who is told nothing."""


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_everything_starts_in_order_and_outlives_its_starter(cluster: Small) -> None:
    """Each service starts once what it needs is there, in a session of its own; a step comes before who needs it."""
    assert cluster.up(quiet) == ["store", "reader"]
    assert cluster.done == ["init after store"]
    assert all(running(pid) and os.getsid(pid) == pid for pid in cluster.pids().values())
    assert [known is not None for _, known in cluster.status()] == [True, True]


def test_a_second_start_starts_nothing(cluster: Small) -> None:
    """What runs is left alone, and no step is done again."""
    cluster.up(quiet)
    before = cluster.pids()
    assert cluster.up(quiet) == []
    assert cluster.pids() == before
    assert len(cluster.done) == 1


def test_what_died_is_started_again_alone(cluster: Small) -> None:
    """A service that was killed starts again; what runs keeps its process, and its step is not done again."""
    cluster.up(quiet)
    before = cluster.pids()
    os.kill(before["store"], signal.SIGKILL)
    wait_for(lambda: not running(before["store"]))
    assert cluster.up(quiet) == ["store"]
    after = cluster.pids()
    assert after["store"] != before["store"]
    assert after["reader"] == before["reader"]
    assert len(cluster.done) == 1


def test_what_a_dead_service_left_is_ended_before_it_starts_again(cluster: Small) -> None:
    """A child that outlives its service, and does not listen, is gone when the service starts anew."""
    cluster.texts["reader"] = CHILD
    cluster.up(quiet)
    child = int((cluster.folder / "child").read_text())
    os.kill(cluster.pids()["reader"], signal.SIGKILL)
    wait_for(lambda: not running(cluster.pids()["reader"]))
    assert running(child)
    reader = cluster.shell("reader")
    assert reader.stop(cluster.folder, None, grace=0.2)
    assert not running(child)
    assert cluster.up(quiet) == ["reader"]


def test_a_start_ends_what_is_left(cluster: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but `up` has to be asked for that."""
    cluster.texts["reader"] = CHILD.replace('trap "" TERM;', "")
    cluster.up(quiet)
    child = int((cluster.folder / "child").read_text())
    os.kill(cluster.pids()["reader"], signal.SIGKILL)
    assert cluster.up(quiet) == ["reader"]
    assert not running(child)
    assert int((cluster.folder / "child").read_text()) != child


def test_down_ends_everything(cluster: Small) -> None:
    """The end of a cluster is the end of its programs and of what they started, one of which is dead; twice is once."""
    cluster.texts["reader"] = CHILD.replace('trap "" TERM;', "")
    cluster.up(quiet)
    pids = [*cluster.pids().values(), int((cluster.folder / "child").read_text())]
    os.kill(cluster.pids()["reader"], signal.SIGKILL)
    told: list[str] = []
    assert cluster.down(told.append) == ["reader", "store"]
    assert told == ["reader is stopped", "store is stopped"]
    assert not any(map(running, pids))
    assert cluster.pids() == {}
    assert cluster.down(quiet) == []


def test_another_program_of_that_id_is_left_alone(cluster: Small) -> None:
    """A process id that has gone to another program since is neither taken for the service nor ended."""
    with subprocess.Popen(["sleep", "600"]) as stranger:
        real = known(stranger.pid)
        cluster.folder.mkdir()
        for other in (replace(real, began=real.began - 1), replace(real, boot="another boot")):
            assert real.alive
            assert not other.alive
            state = State(cluster.folder / "state.json", running={"store": other})
            state.save()
            assert cluster.down(quiet) == []
            state.save()
            assert "store" in cluster.up(quiet)
            assert running(stranger.pid)
            cluster.down(quiet)
        stranger.kill()


def test_a_process_that_has_ended_is_dead_before_anybody_waits_for_it() -> None:
    """A zombie does not count as a process that runs."""
    with subprocess.Popen(["sleep", "600"]) as child:
        found = known(child.pid)
        assert found.alive
        child.kill()
        wait_for(lambda: not found.alive)
    assert not Known(child.pid, found.began, found.boot, 0).alive


def test_one_that_ends_by_itself_is_told_with_its_log(cluster: Small) -> None:
    """A service that ends is started three times in all; then that is an error, with what it said."""
    cluster.texts["store"] = "echo started >> {folder}/count; echo no disk; exit 3"
    with pytest.raises(DrystoneError, match=r"store has ended by itself 3 times; the end of .*store\.log:\n.*no disk"):
        cluster.up(quiet)
    assert (cluster.folder / "count").read_text().split() == ["started"] * 3


def test_one_that_does_not_get_healthy_is_told(cluster: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that runs and does nothing is an error in the end; it stays for `down`."""
    monkeypatch.setattr(module, "HEALTH_SECONDS", 0.5)
    cluster.texts["reader"] = "echo asleep; exec sleep 600"
    with pytest.raises(DrystoneError, match=r"(?s)reader is not healthy after .* s; .*asleep"):
        cluster.up(quiet)
    assert cluster.down(quiet) == ["reader", "store"]


def test_one_command_at_a_time(cluster: Small) -> None:
    """While a command works on a cluster another one is refused."""
    with locked(cluster.folder), pytest.raises(UsageError, match="another command works on the cluster"):
        cluster.up(quiet)
    with locked(cluster.folder), pytest.raises(UsageError, match="another command works on the cluster"):
        cluster.down(quiet)


def test_ports_and_secrets_stay(tmp_path: Path) -> None:
    """What was drawn once is the same ever after, in a file that nobody else may read."""
    state = State(tmp_path / "state.json")
    drawn = [state.port(name) for name in ("a", "b")] + [state.secret("a")]
    state.save()
    again = read(state.file)
    assert [again.port("a"), again.port("b"), again.secret("a")] == drawn
    assert stat.S_IMODE(state.file.stat().st_mode) == 0o600
    assert len(set(drawn)) == 3


def test_a_port_that_somebody_has_taken_is_drawn_anew(cluster: Small) -> None:
    """As long as nothing runs a taken port is replaced; while something runs addresses stay."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster.folder.mkdir()
        State(cluster.folder / "state.json", ports={"a": port}).save()
        cluster.up(quiet)
        found = read(cluster.folder / "state.json")
        assert found.ports.get("a") != port
        found.ports["a"] = port
        found.save()
        os.kill(cluster.pids()["reader"], signal.SIGKILL)
        cluster.up(quiet)
        assert read(cluster.folder / "state.json").ports["a"] == port


def test_a_damaged_state_is_an_error(cluster: Small) -> None:
    """A file that cannot be read ends nothing and starts nothing: it might hide what runs."""
    cluster.folder.mkdir()
    for text in ("{", json.dumps({"ports": {}})):
        (cluster.folder / "state.json").write_text(text)
        with pytest.raises(DrystoneError, match=r"state\.json cannot be read"):
            cluster.up(quiet)
