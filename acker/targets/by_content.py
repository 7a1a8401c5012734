"""The audit of published rows by content: message by message, and trimmed rows fold by fold.

The digests of rows add up, so nothing is sorted and no row is looked for: a message's rows in the stream and
in the table have the same number and the same sum, or something is wrong with them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

import polars as pl
from deltalake import DeltaTable

from acker.core.messages import message_name
from acker.core.snapshot.kept import GONE, Kept
from acker.core.snapshot.refusals import recorded, refused_roots
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.trims import Trim
from acker.core.snapshot.verdict import Finding
from acker.core.store.schemas import LEDGER, stream
from acker.core.stream_names import component_of
from acker.targets.acked import Acked, is_gone, unacked
from acker.targets.base import Evidence, Verdict
from acker.targets.contents import Contents, Sum, padded, users

_FOUND, _WANTED = "_found", "_wanted"  # ends of the names of columns: what a table holds, and should hold
_NOT_KEPT = (
    "nothing is kept: an older version trimmed them, their stream was not published row by row, or what was "
    "kept was removed"
)
_UNTOLD = "of which rows were damaged when others were replayed, or what was kept was deleted"


def audit_contents(evidence: Evidence, table: DeltaTable | None, uri: str) -> Verdict:
    """Compare the rows of a table with the tuples of acked roots, by their column `_root_id`.

    Args:
        uri: path or URI of the table, which may not be there yet.

    Raises:
        NoDigest: a column is of a type that cannot be compared.
    """
    acked, columns = Acked.of(evidence), _columns(evidence.streams.values())
    passes = acked.passes()
    with ExitStack() as stack:
        blanks = padded(table)
        wanted, found = (stack.enter_context(Contents(len(passes), blanks)) for _ in range(2))
        for name, stream_table in evidence.streams.items():
            wanted.take_stream(name, stream_table, evidence.batches_of(name))
        if table is not None:
            found.take_rows(table, columns)
        judged = _Judged(evidence, table, uri, wanted.with_values)
        for each in passes:
            there = found.sums(each.number).rename({name: f"{name}{_FOUND}" for name in ("rows", "digest")})
            both = (
                acked.roots(each)
                .join(wanted.sums(each.number), on="root_id", how="left")
                .join(there, on="root_id", how="full", coalesce=True)
                .with_columns(pl.col("rows", "digest", f"rows{_FOUND}", f"digest{_FOUND}").fill_null(0))
            )
            judged.take(both, acked.earlier)
        return judged.verdict(wanted.of_no_root, found.of_no_root)


def _columns(streams: Iterable[DeltaTable]) -> list[str]:
    return [*dict.fromkeys(name for table in streams for name in users(table))]


def sums_of_table(
    table: DeltaTable, streams: Iterable[DeltaTable], acked: Acked, *conditions: pl.Expr
) -> Iterator[pl.DataFrame]:
    """Acked roots that fulfil all conditions, with the `rows` and the `digest` that a table has of each.

    Args:
        streams: the tables of the streams whose columns count.
    """
    passes = acked.passes(*conditions)
    with Contents(len(passes), padded(table)) as contents:
        contents.take_rows(table, _columns(streams))
        for each in passes:
            yield acked.roots(each, *conditions).join(contents.sums(each.number), on="root_id", how="left")


def sums_of_folds(roots: pl.DataFrame) -> pl.DataFrame:
    """The sums of roots by fold: columns fold, messages, rows and digest."""
    sums = [pl.col(name).sum() for name in ("rows", "digest")]
    return roots.group_by("fold").agg(pl.len().cast(pl.Int64).alias("messages"), *sums)


class _Judged:
    """The findings on a table's rows, gathered pass by pass."""

    def __init__(self, evidence: Evidence, table: DeltaTable | None, uri: str, columns: set[str]) -> None:
        self._evidence, self._uri = evidence, uri if table is None else table.table_uri
        there = columns if table is None else {name.lower() for name in users(table)}
        self._missing = sorted(columns - there)
        self._findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
        self._gone = [pl.DataFrame(schema=GONE)]
        self._edited = self._compared = self._unknown = 0

    def take(self, both: pl.DataFrame, earlier: pl.DataFrame) -> None:
        """Take in the roots of a pass.

        Args:
            both: roots with the rows that they should have, and those that the table has of them.
            earlier: the acked attempts whose messages were acked again later.
        """
        is_acked, counted = pl.col("spout").is_not_null(), is_gone(self._evidence.counted)
        present, gone = both.filter(is_acked & ~counted), both.filter(is_acked & counted)
        known = gone.filter(~is_gone(self._evidence.kept_rows.since))
        self._compared += present.height + known.height
        self._unknown += gone.height - known.height
        self._take_present(present)
        found = {name: pl.col(f"{name}{_FOUND}") for name in ("rows", "digest")}
        self._gone.append(sums_of_folds(known.with_columns(**found)))
        others = both.filter(~is_acked).select("root_id", found=f"rows{_FOUND}")
        for row in others.join(earlier, on="root_id", how="left").iter_rows(named=True):
            self._find(*unacked(row, self._uri))

    def _take_present(self, present: pl.DataFrame) -> None:
        rows, found = pl.col("rows"), pl.col(f"rows{_FOUND}")
        for row in present.filter(rows != found).iter_rows(named=True):
            kind = "duplicated" if row[f"rows{_FOUND}"] > row["rows"] else "lost"
            counts = f"{row[f'rows{_FOUND}']} of {row['rows']} rows in {self._uri}"
            self._find(kind, Finding(message_name(row), counts))
        edited = present.filter(rows == found, pl.col("digest") != pl.col(f"digest{_FOUND}"))
        if self._missing:  # one finding for all of them
            self._edited += edited.height
            return
        for row in edited.iter_rows(named=True):
            why = f"its rows in {self._uri} do not say what was acked"
            self._find("unexpected", Finding(message_name(row), why))

    def _find(self, kind: str, finding: Finding) -> None:
        self._findings[kind].append(finding)

    def verdict(self, wanted: Sum, found: Sum) -> Verdict:
        """The verdict after all passes.

        Args:
            wanted: the sum of the rows of no message in the streams.
            found: the sum of the rows of no message in the table.
        """
        if self._edited:
            why = (
                f"has no {', '.join(self._missing)}, which was dropped or renamed: the rows of "
                f"{self._edited:,} messages do not say what was acked"
            )
            self._find("unexpected", Finding(self._uri, why))
        kept, why_not = self._evidence.kept_rows, []
        if self._unknown:
            why_not.append(f"{self._unknown:,} trimmed messages, of which {_NOT_KEPT}")
        untold = self._judge_gone(kept)
        if untold:
            why_not.append(f"{untold:,} trimmed messages of folds {_UNTOLD}")
        if not self._judge_others(kept, wanted, found):
            why_not.append(f"rows of no message, of which {_NOT_KEPT}")
        compared, unknown = self._compared - untold, self._unknown + untold
        return Verdict(self._findings, compared, 0, unknown, tuple(why_not))

    def _judge_gone(self, kept: Kept) -> int:
        """Compare the table's rows of trimmed tuples with the sums that were kept of them, fold by fold.

        Returns:
            The number of messages whose rows cannot be compared.
        """
        sums = [pl.col(name).sum() for name in ("rows", "digest")]
        of_folds = kept.rows.filter(pl.col("fold").is_not_null()).group_by("fold")
        wanted = of_folds.agg(*sums, untold=pl.col("digest").has_nulls())
        gone = pl.concat(self._gone).group_by("fold").agg(pl.col("messages").sum(), *sums)
        both = gone.join(wanted, on="fold", how="left", suffix=_WANTED).sort("fold")
        is_untold = pl.col("untold").fill_null(True)  # null where what was kept was deleted by hand
        for row in both.filter(~is_untold).iter_rows(named=True):
            rows, expected = row["rows"], row[f"rows{_WANTED}"]
            name = f"fold {row['fold']} of {self._evidence.stream}"
            if rows != expected:
                kind = "duplicated" if rows > expected else "lost"
                self._find(kind, Finding(name, f"{rows} of {expected} trimmed rows in {self._uri}"))
            elif row["digest"] != row[f"digest{_WANTED}"]:
                why = f"its trimmed rows in {self._uri} do not say what was acked"
                self._find("unexpected", Finding(name, why))
        return int(both.filter(is_untold)["messages"].sum())

    def _judge_others(self, kept: Kept, wanted: Sum, found: Sum) -> bool:
        """Compare the table's rows of no message with those that it should have, all at once.

        Args:
            kept: the sums of trimmed rows.
            wanted: the sum of such rows in the streams.
            found: the sum of such rows in the table.

        Returns:
            Whether the rows could be compared.
        """
        for row in kept.rows.filter(pl.col("fold").is_null()).iter_rows(named=True):
            wanted = wanted.plus(row["rows"], row["digest"])
        if wanted == found:
            return True
        name = f"rows of no message of {self._evidence.stream}"
        if found.rows < wanted.rows:
            self._find("lost", Finding(name, f"{found.rows} of {wanted.rows} rows in {self._uri}"))
        elif kept.since.number and self._evidence.may_be_untracked:
            return False
        elif found.rows > wanted.rows:
            kind = "duplicated" if wanted.rows else "unexpected"
            self._find(kind, Finding(name, f"{found.rows} of {wanted.rows} rows in {self._uri}"))
        else:
            self._find("unexpected", Finding(name, f"they do not say in {self._uri} what was emitted"))
        return True


def gone_rows(
    snapshot: Snapshot, name: str, before: Trim, after: Trim, upto: int, batches: Sequence[int]
) -> pl.DataFrame:
    """Sums of the rows that a trimming deletes from a stream: fold, messages, rows and digest.

    A row has the sums of the messages that one fold acked. The row without a fold has the sum of the tuples
    of no message.

    Args:
        name: the stream.
        before: the trimming before. The rows that it deleted do not count.
        after: the trimming that deletes the rows.
        upto: the newest batch of the stream whose tuples of no message were published.
        batches: batches of the stream, among them all that have tuples of the deleted messages.

    Raises:
        NoDigest: a column is of a type that has no digest.
    """
    assert snapshot.fold is not None
    table = snapshot.require(stream(name))
    refused = refused_roots(recorded(snapshot), [name], snapshot.fold)
    acked = Acked(snapshot.require(LEDGER), {name: table}, snapshot.fold.number, refused=refused)
    goes = (~is_gone(before), is_gone(after))
    passes = acked.passes(*goes)
    first, last = (trim.upto.get(component_of(name), 0) for trim in (before, after))
    others = f"_batch > {first} AND _batch <= {min(last, upto)}"
    mine = f"_batch BETWEEN {min(batches)} AND {max(batches)}" if batches else "false"
    found = [pl.DataFrame(schema=GONE)]
    with Contents(len(passes)) as contents:
        contents.take_stream(name, table, others, mine)
        for each in passes:
            roots = acked.roots(each, *goes).join(contents.sums(each.number), on="root_id", how="left")
            found.append(sums_of_folds(roots))
        none = contents.of_no_root
    folds = pl.concat(found).group_by("fold").agg(pl.exclude("fold").sum())
    return pl.concat([folds, pl.DataFrame([(None, 0, none.rows, none.digest)], GONE, orient="row")])
