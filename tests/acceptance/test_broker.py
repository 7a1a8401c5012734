"""The Kafka broker of a home: a process that ends with its starter, on data that outlive it."""

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acker.core.errors import ServerError
from tests.kit.broker import Broker, Records, running_broker
from tests.kit.listeners import listeners
from tests.kit.waiting import wait_for

STARTER = """
import pathlib, sys, time
from embedded.broker import running_broker
with running_broker(pathlib.Path(sys.argv[1])) as broker:
    print(broker.process.pid, flush=True)
    time.sleep(600)
"""


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(each.parent.name))
    return found


def take_port(broker, other):
    """Listen on a broker's port as soon as its process is there, which listens seconds later."""
    wait_for(lambda: broker.process is not None, every_seconds=0.01)
    other.bind(("127.0.0.1", broker.port))
    other.listen()


@pytest.mark.thorough
def test_a_broker_that_is_started_again_has_what_it_had_and_nobody_starts_a_second_one(tmp_path):
    with running_broker(tmp_path / "a home, of ü") as broker:
        broker.create("orders").add("tea")
        assert {address for address, _ in listeners(members(broker.process.pid))} == {"127.0.0.1"}
        with pytest.raises(ServerError, match=r"did not start: another one is using .*a home, of ü"):
            Broker(broker.folder).start()
        assert Records(broker, "orders").offsets() == [0]  # which the second one has left alone
        broker.stop()
        assert not broker.is_running
        late = Broker(broker.folder)
        with ThreadPoolExecutor() as pool, socket.socket() as other:
            pool.submit(take_port, late, other)  # then who listens there is not the broker
            with pytest.raises(ServerError, match=r"did not start: .*in use.*broker\.log"):
                late.start()
        broker.start()
        assert Records(broker, "orders").offsets() == [0]


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_broker_ends_with_a_starter_that_is_killed(tmp_path):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    group = int(starter.stdout.readline())
    assert len(members(group)) == 2  # the guard and the broker
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    wait_for(lambda: not members(group), every_seconds=0.05)
