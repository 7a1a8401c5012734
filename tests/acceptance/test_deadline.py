"""The recipe for a monitor that is late, of docs/how-to/alerts.md, under a real scheduler."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from embedded.stack import running_stack
from tests.kit import ROOT
from tests.kit.waiting import wait_for

SLOTS = 4  # that the stack has
HANGS = """
import time
from pathlib import Path
from acker import DeltaSpout
from acker import Topology

HERE = Path(__file__).parent
topology = Topology("hangs")
numbers = topology.spout("numbers", DeltaSpout(str(HERE / "numbers"), key="id"))

def hanging(name):
    def same(tuples):
        (HERE / f"{name}-hangs").touch()
        while (HERE / "hold").exists():
            time.sleep(0.1)
        return tuples
    return same

for name in "abcd":
    topology.bolt(numbers, name=name)(hanging(name))
"""


@pytest.mark.extended
@pytest.mark.thorough
def test_a_monitor_that_finds_no_slot_is_told_as_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    (policy,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    soon = policy.replace("minutes=15", "seconds=10")
    told = f"open({str(tmp_path / 'told')!r}, 'a').write(context['dag_run']['dag_run_id'] + chr(10))"
    (tmp_path / "airflow_local_settings.py").write_text(re.sub(r"print\(.*?\)  #", f"{told}  #", soon))
    (tmp_path / "hangs.py").write_text(HANGS)
    (tmp_path / "hold").touch()
    write_deltalake(str(tmp_path / "numbers"), pa.table({"id": [1]}))
    ours = SHORT_LIVED | {
        "PIPELINE_HOME": str(tmp_path / "home"),
        "PIPELINE_DRIVER_MEMORY": "1g",
        "PIPELINE_TOPOLOGIES": "hangs:topology",
        "PIPELINE_WATCH_SECONDS": "1",
        "PIPELINE_MONITOR_SCHEDULE": "* * * * *",
        "PIPELINE_DISK_FREE_PERCENT": "0",
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
    }
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(tmp_path))
    with running_stack(Settings.from_env(), ROOT / "dags") as stack:

        def runs(kind: str) -> dict[str, str]:
            found = stack.api("GET", f"dags/hangs.{kind}/dagRuns")["dag_runs"]
            return {run["dag_run_id"]: run["state"] for run in found}

        def told() -> list[str]:
            return (tmp_path / "told").read_text().split()

        wait_for(lambda: len([*tmp_path.glob("*-hangs")]) == SLOTS)
        before = {run for run, state in runs("monitor").items() if state == "success"}
        wait_for(lambda: set(told()) - before, not_yet=(FileNotFoundError,))
        (late,) = set(told()) - before
        assert runs("monitor")[late] in ("queued", "running")  # it waits for a slot
        (tmp_path / "hold").unlink()
        wait_for(lambda: runs("monitor")[late] == "success" and "success" in runs("run").values())
