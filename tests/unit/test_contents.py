"""What the rows of tables say, compared by root."""

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema, write_deltalake

from acker.targets.contents import Contents, padded


def test_blanks_with_which_a_char_column_is_filled_up_do_not_count(tmp_path):
    char = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)"}
    fields = [Field("_root_id", "long"), Field("code", "string", metadata=char)]
    published = DeltaTable.create(str(tmp_path / "rows"), Schema(fields))
    write_deltalake(published, pa.table({"_root_id": [1], "code": ["ab  "]}), mode="append")
    write_deltalake(str(tmp_path / "stream"), pa.table({"_root_id": [1], "code": ["ab"]}))
    found = []
    for path in ("rows", "stream"):
        with Contents(1, padded(published)) as contents:
            contents.take_rows(DeltaTable(str(tmp_path / path)), ["code"])
            found.append(contents.sums(0).rows())
    assert found[0] == found[1]
