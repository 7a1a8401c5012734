"""Topologies are checked when they are built: no Spark session is there."""

from datetime import timedelta
from functools import partial

import pytest

from acker.components.collector import RichBolt
from acker.components.kafka_bolt import KafkaBolt
from acker.core.errors import SettingsError, TopologyError
from acker.spouts import DeltaSpout, FileSpout
from acker.targets.append import DeltaAppend
from acker.targets.functions import Count
from acker.topology.argument_checks import duration
from acker.topology.topology import Topology

SOURCE = DeltaSpout("source", key="id")


def same(*tuples):
    return tuples[0]


@pytest.fixture
def topology() -> Topology:
    built = Topology("tried")
    built.spout("numbers", SOURCE)
    return built


def test_a_diamond_knows_its_order_and_its_edges(topology):
    topology.bolt("left", "right", name="joined")(same)
    topology.bolt("numbers", name="left")(same)
    topology.bolt("numbers", name="right")(same)
    topology.validate()
    assert [component.name for component in topology.order()] == ["numbers", "left", "right", "joined"]
    assert [component.name for component in topology.bolts] == ["left", "right", "joined"]
    assert [component.name for component in topology.spouts] == ["numbers"]
    edges = {name: topology.edges(name) for name in topology.components}
    assert edges == {"numbers": ("left", "right"), "joined": (), "left": ("joined",), "right": ("joined",)}


def test_a_bolt_is_named_after_its_function(topology):
    assert topology.bolt("numbers")(same).name == "same"
    assert topology.basic_bolt("same", schema="id bigint", name="other")(same).inputs == ("same",)


def test_a_bolt_is_called_as_its_function(topology):
    bolt = topology.bolt("numbers", name="first")(same)
    assert (bolt("a", "b"), bolt.__name__, bolt.__doc__, bolt.__wrapped__) == ("a", "same", None, same)
    each = topology.basic_bolt("first", schema="word string", name="each")(str.split)
    none = topology.basic_bolt("first", schema="word string", name="none")(lambda tup: None)
    assert (each("to be"), list(none("to be"))) == (["to", "be"], [])


def test_a_rich_bolt_is_called_as_its_class(topology):
    class Kept(RichBolt):
        def execute(self, tup, collector):
            collector.ack(tup)

    assert type(topology.rich_bolt("numbers", schema="id bigint")(Kept)()) is Kept


def test_a_cycle_is_named(topology):
    topology.bolt("numbers", "there", name="back")(same)
    topology.bolt("back", name="there")(same)
    with pytest.raises(TopologyError, match=r"has a cycle: (back → there → back|there → back → there)\."):
        topology.validate()


def test_a_bolt_that_reads_itself_is_a_cycle(topology):
    topology.bolt("numbers", "echo", name="echo")(same)
    with pytest.raises(TopologyError, match="has a cycle: echo → echo"):
        topology.validate()


def test_an_unknown_input_is_named(topology):
    topology.bolt("letters", name="doubled")(same)
    with pytest.raises(TopologyError, match="doubled reads letters, which topology tried does not have"):
        topology.validate()


def test_a_published_component_must_be_there(topology):
    topology.publish("letters", to="here")
    with pytest.raises(TopologyError, match="publishes letters, which it does not have"):
        topology.validate()


def test_a_bolt_must_read_something(topology):
    topology.bolt(name="idle")(same)
    with pytest.raises(TopologyError, match="Bolt idle of topology tried reads nothing"):
        topology.validate()


def test_a_bolt_reads_an_input_once(topology):
    topology.bolt("numbers", "numbers", name="twice")(same)
    with pytest.raises(TopologyError, match="Bolt twice of topology tried reads an input twice"):
        topology.validate()


def test_a_topology_needs_a_spout():
    with pytest.raises(TopologyError, match="Topology empty has no spout"):
        Topology("empty").validate()


def test_two_components_of_one_name_are_refused(topology):
    with pytest.raises(TopologyError, match="two components called numbers"):
        topology.bolt("numbers", name="numbers")(same)


@pytest.mark.parametrize(
    "name", ["", "Upper", "1st", "with space", "with-dash", "../up", "_hidden", "naïve", "a\n"]
)
def test_a_name_that_could_not_be_a_folder_is_refused(topology, name):
    with pytest.raises(TopologyError, match="cannot name a topology"):
        Topology(name)
    with pytest.raises(TopologyError, match="cannot name a component"):
        topology.spout(name, SOURCE)


def test_a_component_is_published_once(topology):
    topology.publish("numbers", to="here")
    with pytest.raises(TopologyError, match="numbers is published twice"):
        topology.publish("numbers", to="there")


def test_a_target_takes_no_key_beside_it(topology):
    with pytest.raises(TopologyError, match="`by` goes with a path, and not with a DeltaAppend"):
        topology.publish("numbers", to=DeltaAppend("here"), by="id", aggregates={"n": Count()})


@pytest.mark.parametrize("same_table", ["here", "./here", "elsewhere/../here"])
def test_two_components_do_not_share_a_table(topology, same_table):
    topology.bolt("numbers", name="doubled")(same)
    topology.publish("numbers", to="here")
    with pytest.raises(TopologyError, match="give each a table of its own"):
        topology.publish("doubled", to=same_table)


def test_a_key_and_aggregates_come_together(topology):
    with pytest.raises(TopologyError, match="come together or not at all"):
        topology.publish("numbers", to="here", by="id")
    with pytest.raises(TopologyError, match="come together or not at all"):
        topology.publish("numbers", to="here", aggregates={"count": Count()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", timedelta(minutes=10)),
        ("1 second", timedelta(seconds=1)),
        (" 1.5 hours ", timedelta(minutes=90)),
        (timedelta(days=2), timedelta(days=2)),
        (None, None),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, expected):
    assert duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "10", "minutes", "-1 minutes", "0 seconds", "ten minutes", timedelta(-1)]
)
def test_what_is_no_positive_duration_is_refused(text):
    with pytest.raises(SettingsError):
        Topology("tried", message_timeout=text)


def test_a_duration_past_what_python_holds_is_refused():
    with pytest.raises(SettingsError, match="is too long a duration"):
        duration("99999999999999 days")


@pytest.mark.parametrize("column", ["", " ", "_source_partition"])
def test_a_column_that_no_message_has_of_its_own_says_no_day(column):
    with pytest.raises(SettingsError, match=r"^reprocess_by of topology shop is .*, which names no col"):
        Topology("shop", reprocess_by=column)


@pytest.mark.parametrize(
    "limits", [{"max_pending": 0}, {"batch_rows": 0}, {"batch_rows": -1}, {"windows": 0}]
)
def test_a_limit_below_one_is_refused(limits):
    with pytest.raises(SettingsError, match=r"must be 1 (to|or more)"):
        Topology("tried", **limits)


class Tool(RichBolt):
    """It has no `execute`."""

    def __init__(self, size=1):
        self.size = size


@pytest.mark.parametrize("make", [Tool, partial(Tool, 2)], ids=["class", "with arguments"])
def test_a_rich_bolt_without_execute_is_refused(topology, make):
    with pytest.raises(TopologyError, match=r"Bolt sized .*Give the class Tool a method execute\("):
        topology.rich_bolt("numbers", schema="id bigint", name="sized")(make)
    assert "sized" not in topology.components


def test_a_topology_says_why_a_bolt_takes_nothing_from_a_stream(topology):
    topology.bolt("numbers", name="words")(same)
    assert topology.unread("numbers", "words") is None
    assert topology.unread("numbers", "counts") == "bolt counts is no longer in the topology"
    assert topology.unread("words", "words") == "bolt words no longer reads words"


@pytest.mark.parametrize(("one", "other"), [("a", "a/b"), ("a/b/c", "a"), ("a", "link/b")])
def test_a_table_in_the_folder_of_another_is_refused(one, other, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    topology = Topology("nested")
    for name, path in (("first", "ab"), ("second", one)):
        topology.publish(topology.spout(name, FileSpout("in")), to=path)
    with pytest.raises(TopologyError, match=r"would delete the inner one; publish them side by side\.$"):
        topology.publish(topology.spout("third", FileSpout("in")), to=other)


@pytest.mark.parametrize(
    ("base", "name", "value", "told"),
    [
        (Tool, "as_text", "word", "as_text of bolt sends is 'word', a text .* Give it a tuple of texts"),
        (KafkaBolt, "servers", ["a:9092"], "servers of bolt sends is a list .* Give it a text"),
        (KafkaBolt, "servers", property(lambda self: "a:9092"), None),
    ],
    ids=["a text", "a list", "a property"],
)
def test_an_attribute_of_a_rich_bolt_of_a_wrong_type_is_told(topology, base, name, value, told):
    bolt = type("Sends", (base,), {"execute": KafkaBolt.execute, name: value})
    add = topology.rich_bolt("numbers", schema="id bigint", name="sends")
    if told is None:
        assert add(bolt).factory is bolt
    else:
        with pytest.raises(SettingsError, match=told):
            add(bolt)


def yields(notice):
    yield notice


def test_what_would_do_nothing_is_refused_where_it_is_written():
    topology = Topology("tried")
    orders = topology.spout("orders", DeltaSpout("orders", key="id"))
    with pytest.raises(TopologyError, match=r"^Hook on_ack of topology tried yields, so that nothing of it"):
        topology.on_ack(yields)
    with pytest.raises(SettingsError, match=r"^fields_grouping of orders names no column"):
        orders.fields_grouping()
    with pytest.raises(TopologyError, match=r"^A lambda has no name"):
        topology.bolt(orders)(lambda tuples: tuples)
    with pytest.raises(TopologyError, match=r"^aggregates of publish orders have _n .*reserved"):
        topology.publish(orders, "sums", by="id", aggregates={"_n": Count()})
    with pytest.raises(TopologyError, match=r"^aggregates of publish orders have 'a.x00b' .*character NUL"):
        topology.publish(orders, "sums", by="id", aggregates={"a\0b": Count()})


def test_a_duration_that_is_none_is_told_with_whose_it_is():
    with pytest.raises(SettingsError, match=r"^expects of topology tried: 'often' is not a duration"):
        Topology("tried", expects="often")


class Echo(RichBolt):
    def execute(self, tup, collector):
        collector.ack(tup)


@pytest.mark.parametrize(
    "use",
    [
        lambda topology, stream: topology.bolt(stream, name="b")(lambda rows: rows),
        lambda topology, stream: topology.basic_bolt(stream, schema="id bigint", name="b")(lambda row: []),
        lambda topology, stream: topology.publish(stream, to="out"),
        lambda topology, stream: topology.rich_bolt(stream, schema="id bigint")(Echo),
        lambda topology, stream: topology.rich_bolt(stream.global_grouping(), schema="id bigint")(Echo),
    ],
    ids=["bolt", "basic bolt", "publish", "rich bolt", "grouping"],
)
@pytest.mark.parametrize("name", ["lines", "others"])
def test_a_component_of_another_topology_is_no_stream_of_this_one(use, name):
    topology, other = Topology("here"), Topology("there")
    topology.spout("lines", FileSpout("in"))
    with pytest.raises(TopologyError, match=f"^{name} is of another topology than here"):
        use(topology, other.spout(name, FileSpout("elsewhere")))


def test_a_key_that_is_named_twice_is_told():
    topology = Topology("shop")
    lines = topology.spout("lines", FileSpout("in"))
    with pytest.raises(
        TopologyError, match=r"^publish of lines has value twice in `by` .*\. Name it once\.$"
    ):
        topology.publish(lines, to="out", by=["value", "Value"], aggregates={"n": Count()})
