"""The types of a schema, looked at without Spark: a misspelt one is told, and what Spark takes passes."""

import pytest

from acker import FileSpout, Json, Topology
from acker.core.ddl import check_schema, columns_in
from acker.core.errors import SettingsError


@pytest.mark.parametrize(
    "ddl",
    [
        "id bigint, name string",
        "ID BIGINT NOT NULL COMMENT 'of an order, int', at TIMESTAMP_NTZ",
        "price decimal(10, 2), code varchar(3), `a b,c` int",
        "tags array<string>, sizes map<string, array<int>>, who struct<name: string, at: timestamp>",
        "who struct<name string, inner struct<`x,y` int>>, n int",
        "a: int, b: string",
        "bigint",
        "",
        "struct<a: int, _b: int>",
        "a string collate UTF8_BINARY, b interval day to second",
        'a int COMMENT "it\'s, strng"',
        "a int COMMENT 'numeric(99); array<int', b decimal(38, 2)",
        "a struct<a: int, b: struct<a: int>>, b struct<a: int>, c struct<>",
    ],
)
def test_a_schema_of_known_types_passes(ddl):
    check_schema("schema", ddl)


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("item", r'gives item no type .* Write one behind the name, as in "item string"\.$'),
        ("id bigint, item", "gives item no type"),
        ("bigint, id bigint", "gives bigint no type"),
        ("id bigint; name string", r"has a semicolon .*\. Put commas between its columns\.$"),
        ("tags array<struct<a: int>", r"leaves < open .*\. Close it\.$"),
        ("price decimal(10, 2", r"leaves \( open"),
        ("price decimal(40,2)", r"has a decimal of 40 digits .*\. Spark has 38 at most\.$"),
        ("who struct<sum: NUMERIC ( 39 )>", "has a decimal of 39 digits"),
        ("id bigint, `na\0me` string", r"has in it the character NUL .*\. Leave it out\.$"),
        ("`caf\udce9` string", r"has in it half of a surrogate pair, which is no character .*"),
    ],
)
def test_what_no_schema_has_is_told(ddl, told):
    with pytest.raises(SettingsError, match=f"^schema of x {told}"):
        check_schema("schema of x", ddl)


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        (
            "id bigint, _id string",
            "has _id .*: `anchor` and names that begin with an underscore are res",
        ),
        ("`_a b` int", "has _a b .* reserved"),
        ("ANCHOR bigint", "has ANCHOR .* reserved"),
        ("id bigint, Id string", r"has Id twice .*\. Rename or drop one\."),
        ("who struct<name: string, NAME: string>, name string", "has NAME twice"),
        ("tags array<map<string, struct<a struct<x int>, b struct<y int, `y` int>>>>", "has y twice"),
    ],
)
def test_a_name_that_is_reserved_or_there_twice_is_told(ddl, told):
    with pytest.raises(SettingsError, match=f"^schema of x {told}"):
        check_schema("schema of x", ddl)


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("id bigint, name strng", "name the type strng"),
        ("id Integr", "id the type Integr"),
        ("tags array<strng>", "tags the type strng"),
        ("sizes map<string, array<itn>>", "sizes the type itn"),
        ("who struct<name: string, at: tiemstamp>", "at the type tiemstamp"),
        ("who struct<inner struct<x integger>>", "x the type integger"),
        ("price decimel(10, 2)", "price the type decimel"),
    ],
)
def test_a_misspelt_type_is_told_with_its_column(ddl, told):
    with pytest.raises(
        SettingsError, match=rf"^schema of x gives {told}, which Spark does not have .*Did you"
    ):
        check_schema("schema of x", ddl)


SCHEMAS = {
    "json": lambda ddl: FileSpout("/nowhere", format="json", schema=ddl),
    "csv": lambda ddl: FileSpout("/nowhere", format="csv", schema=ddl),
    "records": Json,
    "bolt": lambda ddl: Topology("t").basic_bolt("lines", schema=ddl)(dict),
}


@pytest.mark.parametrize("ddl", ["_id string", "name string, NAME string", "name strng"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_schema_is_checked_when_it_is_given(kind, ddl):
    with pytest.raises(SettingsError, match=r"^schema of "):
        SCHEMAS[kind](ddl)


def test_the_columns_of_a_schema_are_its_own_and_not_those_of_structs():
    ddl = "ID BIGINT NOT NULL, price decimal(10, 2), who struct<name: string>, `a b,c`: map<string, int>"
    assert columns_in(ddl) == {"ID": "bigint", "price": "decimal", "who": "struct", "a b,c": "map"}
    assert columns_in("bigint") == {}
