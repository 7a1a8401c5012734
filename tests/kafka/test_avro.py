"""Avro as a scheme: records of one schema, and records that name theirs in a registry."""

import base64
import json
from contextlib import ExitStack

import pytest

from acker import Avro, SourceError
from acker.spouts import History
from acker.spouts.kafka.spout import KafkaSpout
from tests.kafka.endpoints import answering


def schema(*fields):
    made = [{"name": name, "type": kind, **more} for name, kind, more in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": made})


ORDER = schema(("id", "long", {}), ("item", ["null", "string"], {}))
TEA = b"\x02\x02\x06tea"  # 1, the second of the two types, 3 bytes


def read(spark, broker, records, scheme, **more):
    spout = KafkaSpout(broker.servers, records.name, scheme=scheme, **more)
    found = spout.read_range(spark, spout.next_range(None, History(None, list), 1_000))
    rows = found.sort("_source_offset").drop("_source_partition", "_source_offset").collect()
    return [tuple(row) for row in rows]


def test_records_of_one_schema_are_columns_and_what_is_none_is_failed_for_good(broker, topic, spark):
    one = topic()
    huge = b"\x02\x02\xfc\xff\xff\xff\x0f"  # a text of 2 GB, which is not there
    one.add(TEA, b"\x04\x00", b"\x02", huge, None, TEA + b"\x00")
    bad = "not valid Avro for the schema: "
    assert read(spark, broker, one, Avro(ORDER), tombstones=True) == [
        (None, None, 1, "tea"),
        (None, None, 2, None),
        ("reject", f"{bad}02", None, None),
        ("reject", f"{bad}{huge.hex().upper()}", None, None),
        (None, None, None, None),
        ("reject", f"{bad}{TEA.hex().upper()}00", None, None),  # a byte is left over
    ]


@pytest.mark.thorough
def test_a_record_that_names_its_schema_is_read_as_the_columns_that_are_wanted(broker, topic, spark):
    schemas = {
        1: {"schema": ORDER},
        2: {"schema": schema(("item", "string", {}), ("id", "long", {}))},  # in another order
        3: {"schema": schema(("other", "string", {}))},
        4: {"schema": "message Order {}", "schemaType": "PROTOBUF"},
    }

    def answer(path, headers):
        found = schemas.get(int(path.removeprefix("/schemas/ids/")))
        return (200, found) if found else (404, {"error_code": 40403})

    one = topic()
    frame = [b"\x00" + number.to_bytes(4, "big") for number in range(6)]
    one.add(frame[1] + TEA, frame[2] + b"\x08milk\x04", frame[3] + b"\x02x", frame[4] + b"x", frame[5] + b"x")
    one.add(b"\x00\x00", b"no frame", frame[1])
    wanted = schema(
        ("id", "long", {}), ("item", ["null", "string"], {}), ("by", "string", {"default": "ada"})
    )
    with answering(answer) as url:
        found = read(spark, broker, one, Avro(wanted, registry=url))
    assert found == [
        (None, None, 1, "tea", "ada"),
        (None, None, 2, "milk", "ada"),
        ("reject", "not valid Avro for the schema: 0278", None, None, None),
        ("reject", "schema 4 is not one of Avro, or refers to others", None, None, None),
        ("reject", "the registry knows no schema 5", None, None, None),
        ("reject", "the value does not name a schema of a registry", None, None, None),
        ("reject", "the value does not name a schema of a registry", None, None, None),
        ("reject", "not valid Avro for the schema: ", None, None, None),
    ]


@pytest.mark.thorough
def test_bytes_that_could_be_any_schema_are_failed_and_what_most_records_name_is_read(broker, topic, spark):
    one = topic()
    one.add(*(b"\x00" + number.to_bytes(4, "big") for number in range(100, 300)))
    one.add(*[b"\x00\x00\x00\x10\x00" + TEA] * 2)

    def answer(path, headers):
        return (200, {"schema": ORDER}) if path == "/schemas/ids/4096" else (404, {})

    with answering(answer) as url:
        found = read(spark, broker, one, Avro(ORDER, registry=url))
    assert found[0][1] == "the registry knows no schema 100"
    assert found[199][1] == "the batch names too many schemas to look up 299"
    assert found[200:] == [(None, None, 1, "tea")] * 2


def test_a_registry_may_want_a_login_and_is_named_where_it_refuses(broker, topic, spark, monkeypatch):
    one = topic()
    one.add(b"\x00\x00\x00\x00\x01" + TEA)

    def answer(path, headers):
        may = headers["Authorization"] == f"Basic {base64.b64encode(b'ada:s3cret').decode()}"
        return (200, {"schema": ORDER}) if may else (401, {})

    with ExitStack() as stack:
        url = stack.enter_context(answering(answer))
        extra = {"url": url, "basic.auth.user.info": "ada:s3cret"}
        monkeypatch.setenv("AIRFLOW_CONN_REGISTRY", json.dumps({"conn_type": "http", "extra": extra}))
        scheme = Avro(ORDER, connection="registry")
        assert read(spark, broker, one, scheme) == [(None, None, 1, "tea")]
        refused = Avro(ORDER, registry=url)
        with pytest.raises(SourceError, match=f"registry at {url}, asked for schema 1: HTTP Error 401"):
            read(spark, broker, one, refused)
        stack.close()
        with pytest.raises(SourceError, match=f"registry at {url} does not answer"):
            read(spark, broker, one, refused)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": '"string"'}, "is no record"),
        ({"schema": "id bigint"}, "is no record"),
        ({"schema": ORDER, "registry": "a", "connection": "b"}, "a registry or a connection"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, said):
    with pytest.raises(SourceError, match=said):
        Avro(**given)
