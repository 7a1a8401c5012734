"""Where SQL on the store's own tables stands: as named questions, in one room."""

import re

from tests.kit import ROOT

ROOM = ROOT / "acker" / "core" / "snapshot"
_ASKS = re.compile(r"\b(FROM|JOIN)\s+(ledger|events|batches)\b")


def test_what_is_asked_of_the_ledger_events_and_batches_is_asked_in_one_room():
    files = [*(ROOT / "acker").rglob("*.py")]
    asking = {file for file in files if _ASKS.search(file.read_text())}
    assert {file for file in asking if file.parent != ROOM} == set()
    assert {file.stem for file in asking} >= {"ledger", "settled", "in_flight", "logged", "journal"}
