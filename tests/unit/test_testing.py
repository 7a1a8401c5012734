"""What `acker.testing` refuses before it looks for Spark, and what pytest loads of it."""

import subprocess
import sys
from functools import partial

import pytest

from acker.core.errors import SettingsError
from acker.spouts import FileSpout
from acker.testing import run_bolt, run_topology
from acker.topology.topology import Topology

SHOP = Topology("shop")
ORDERS = SHOP.spout("orders", FileSpout("/nowhere"))
PAYMENTS = SHOP.spout("payments", FileSpout("/nowhere"))


@SHOP.bolt(ORDERS, PAYMENTS)
def matched(orders, payments):
    return orders


REFUSED = {
    "a bolt with two inputs reads two lists of rows": (
        partial(run_bolt, matched, [{"value": "a"}]),
        r"Bolt matched reads 2 inputs; give their rows as \{'orders': \[…\], 'payments': \[…\]\}\.",
    ),
    "an input that the bolt does not read": (
        partial(run_bolt, matched, {"order": [], "payments": []}),
        r"Bolt matched does not read 'order'\. Did you mean orders\? There are: orders, payments\.",
    ),
    "a schema of an input that the bolt does not read": (
        partial(run_bolt, matched, {}, schema={"payment": "id int"}),
        r"Bolt matched does not read 'payment'\. Did you mean payments\?",
    ),
    "a function": (partial(run_bolt, matched.function, []), "run_bolt runs a bolt, .* and not <function"),
    "a spout": (partial(run_bolt, ORDERS, []), "run_bolt runs a bolt, .* and not SpoutComponent"),
    "a spout that the topology does not have": (
        partial(run_topology, SHOP, {"paymints": []}),
        r"Topology shop has no spout 'paymints'\. Did you mean payments\? There are: orders,",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(call, message):
    with pytest.raises(SettingsError, match=message):
        call()


def test_what_pytest_loads_by_itself_has_no_spark():
    heavy = "{'pyspark', 'polars', 'pyarrow', 'deltalake', 'pandas', 'airflow'}"
    loaded = "{name.partition('.')[0] for name in sys.modules}"
    code = f"import acker.testing.plugin, sys; print(sorted({heavy} & {loaded}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
