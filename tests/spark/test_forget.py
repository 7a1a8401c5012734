"""What is forgotten of messages that share tuples."""

from pyspark.sql import functions as F

from acker import DeltaSpout, ExponentialBackoff, Topology, merge_anchors
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.forget import Forgotten, forget
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report


def test_a_reason_of_what_was_made_of_two_messages_goes_with_each_of_them(place):
    topology = Topology("pairs", retry=ExponentialBackoff(limit=0))
    orders = topology.spout(
        "orders", DeltaSpout(place.add("orders", id=[1, 2], who=["ada", "bob"]), key="id")
    )
    paid = topology.spout("paid", DeltaSpout(place.add("paid", id=[1, 2], card=["41", "42"]), key="id"))

    @topology.bolt(orders, paid)
    def pairs(orders, paid):
        both = orders.join(paid.withColumnRenamed("anchor", "other"), "id")
        return both.select(merge_anchors("anchor", "other"), F.concat_ws(" ", "who", "card").alias("text"))

    @topology.basic_bolt(pairs, schema="n int")
    def checked(tup):
        raise LookupError(tup.text)

    run = place.run(topology)
    run_cycle(run)
    chosen = Selection(spout="orders", positions=(("0", 1),))
    assert forget(run, chosen, "asked to", "ada") == Forgotten(1, partners=1, events=2, ledger=4)
    for name in (EVENTS, LEDGER):
        found = query("SELECT DISTINCT reason FROM t WHERE reason IS NOT NULL", t=run.store.require(name))
        told = {row["reason"] for row in found}
        assert told == {"forgotten", "LookupError: bob 42"}
    assert audit_report(run.topology, run.store).passed
