"""The deliberate bugs: what each takes away from the guarantees, and the tests that must see it.

A mutant's text must be there exactly once, which a unit test checks; where the code has moved on, the mutant
moves with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

REPLAYED = "tests/store/test_replayed.py::"
APPROVALS = "tests/store/test_approvals.py::"
CONDITIONS = "tests/unit/test_conditions.py::"
FILES = "tests/spark/test_files.py::"
LISTING = "tests/unit/test_listing.py::"
FORGET = "tests/store/test_forget.py::"
REASONS = "tests/unit/test_reasons.py::"
HANDLES = "tests/unit/test_handles.py::"
MIGRATE = "tests/store/test_migrate.py::"
JOB = "tests/unit/test_job.py::"
JOURNAL = "tests/unit/test_journal.py::"
BACKUP = "tests/store/test_backup.py::"
LEASE = "tests/unit/test_lease.py::"
MADE = "tests/unit/test_made_at_once.py::"
LOG = "tests/unit/test_log.py::"
BY_CONTENT = "tests/store/test_audit_by_content.py::"
BY_KEY = "tests/spark/test_audit_by_key.py::"
BATCH = "tests/spark/test_batch.py::"
BRANCHES = "tests/store/test_branches.py::"
CHANGES = "tests/store/test_changes.py::"
CYCLES = "tests/store/test_cycles.py::"
FEW = "tests/spark/test_local_reads.py::"
HEALTH = "tests/store/test_health.py::"
NEWS = "tests/unit/test_news.py::"
HOLDS = "tests/spark/test_holds.py::"
KAFKA = "tests/kafka/test_kafka_spout.py::"
KAFKA_BACKUP = "tests/kafka/test_backup.py::"
KAFKA_TARGET = "tests/kafka/test_kafka_target.py::"
KAFKA_AUDIT = "tests/kafka/test_audit_of_topics.py::"
MAINTAIN = "tests/spark/test_maintain.py::"
OVERDUE = "tests/store/test_overdue.py::"
STUCK = "tests/spark/test_overdue.py::"
REFUSALS = "tests/store/test_refusals.py::"
REFUSED = "tests/spark/test_refused.py::"
REPLY = "tests/unit/test_lost_reply.py::"
DAYS = "tests/store/test_days.py::"
REPLAY = "tests/store/test_replay.py::"
REQUESTS = "tests/store/test_requests.py::"
STORE_MAINTAIN = "tests/store/test_maintain.py::"
WAITING = "tests/store/test_waiting.py::"
RUNS = "tests/spark/test_topology_runs.py::"
RICH = "tests/spark/test_rich_bolts.py::"
PUBLISH = "tests/spark/test_publish.py::"
RULES = "tests/spark/test_rules.py::"
SUMS = "tests/spark/test_sums.py::"
NOTHING = "tests/store/test_nothing.py::"
VALUES = "tests/unit/test_values.py::"
STREAMS = "tests/spark/test_streams.py::"
TEXTS = "tests/unit/test_parsed_texts.py::"
DDL = "tests/unit/test_ddl.py::"
SPOUTS = "tests/spark/test_spouts.py::"


@dataclass(frozen=True)
class Mutant:
    """A deliberate bug.

    Args:
        name: what the code does wrongly then.
        text: what is there in `file`, once.
        instead: what takes its place.
        tests: pytest's ids of those that must all fail; the cheapest that can.
    """

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def applied_to(self, code: str) -> str:
        """The code of the file with the bug in it.

        Raises:
            ValueError: the mutant is stale.
        """
        found = code.count(self.text)
        if found != 1:
            raise ValueError(
                f"The mutant {self.name!r} is stale: its text is {found} times in {self.file} and not once."
            )
        mutated = code.replace(self.text, self.instead)
        compile(mutated, self.file, "exec")
        return mutated

    def mentions(self, word: str) -> bool:
        """Whether its name, its file or one of its tests has the word in it."""
        return any(word in text for text in (self.name, self.file, *self.tests))

    @property
    def names(self) -> tuple[str, ...]:
        """The tests' names, without their files."""
        return tuple(test.partition("::")[2] for test in self.tests)


def scenario(name: str) -> tuple[str, ...]:
    """A scenario of the fold that must go wrong."""
    return (f"tests/unit/test_fold.py::test_a_scenario_goes_in_frames_as_in_the_oracle[{name}]",)


def listing(mutants: Iterable[Mutant]) -> str:
    """The mutants for people: each with its file, and below it the tests that catch it."""
    return "\n".join("\n  ".join([f"{m.name} ({m.file})", *m.tests]) for m in mutants)


MUTANTS = (
    # Commits that happen once.
    Mutant(
        "who makes a table that another has just made makes it again",
        "acker/core/store/tables.py",
        "max_commit_retries=RETRIES_OF_MAKING if table is None else None",
        "max_commit_retries=None",
        (f"{MADE}test_a_stream_is_made_once_with_its_first_batch",),
    ),
    Mutant(
        "who lost the reply to a commit takes it for another's",
        "acker/core/store/tables.py",
        "return _is_marked(newest, mark, table)",
        "return False",
        (f"{REPLY}test_a_commit_whose_reply_is_lost_is_known_as_ones_own",),
    ),
    Mutant(
        "a handle moves on that somebody reads",
        "acker/core/store/store.py",
        " if _references(opened, place) == _ONE_REFERENCE)",
        ")",
        (f"{HANDLES}test_a_snapshot_stays_as_it_is_although_others_are_taken_and_go",),
    ),
    Mutant(
        "a handle moves on in the log of a table that was put back",
        "acker/core/store/store.py",
        "        and _file_of_commit(table, then.version) == then\n",
        "",
        (f"{HANDLES}test_a_table_that_was_put_back_and_went_on_is_opened_anew",),
    ),
    Mutant(
        "what is known of a version is taken for that of a later one",
        "acker/core/store/tables.py",
        "        if version != self.version():\n            numbers = {}\n",
        "",
        (f"{HANDLES}test_the_numbers_of_own_commits_and_of_others_are_told",),
    ),
    Mutant(
        "an append without Spark leaves its transaction number out",
        "acker/core/store/tables.py",
        ", commit_properties=once)",
        ")",
        (f"{HANDLES}test_a_handle_that_nobody_has_any_more_is_used_again_at_the_newest_version",),
    ),
    Mutant(
        "a lease is taken although another deployment has it",
        "acker/core/store/lease.py",
        "(found.closed or self.left(found) > _NONE)",
        "found.closed",
        (f"{LEASE}test_the_second_deployment_is_told_who_works_and_for_how_long",),
    ),
    Mutant(
        "a lease that was never seen before counts as seen for as long as it lasts",
        "acker/core/store/lease.py",
        "            return found.lasts\n",
        "            return _NONE\n",
        (f"{LEASE}test_two_deployments_never_work_at_once_whatever_their_calendars_say",),
    ),
    Mutant(
        "two compact a store at once",
        "acker/operations/maintenance/compact.py",
        "Lease(run.store, uuid4().hex, run.clock, COMPACTS",
        'Lease(run.store, "anybody", run.clock, COMPACTS',
        (
            "tests/store/test_maintain.py::"
            "test_of_two_compactions_at_once_one_is_done_and_no_row_is_there_twice",
        ),
    ),
    Mutant(
        "a home that was copied keeps its name",
        "acker/runtime/deployment.py",
        "return name if is_moved or is_in_place else None",
        "return name",
        (f"{LEASE}test_a_home_that_was_copied_is_another_deployment",),
    ),
    Mutant(
        "what was given up after the look is acknowledged",
        "acker/operations/acknowledge.py",
        "append_rows(table, rows, APP, fold)",
        "append_rows(table, rows, APP, newest.number)",
        ("tests/store/test_health.py::test_what_was_given_up_after_the_look_stays_unacknowledged",),
    ),
    Mutant(
        "a lease is not renewed",
        "acker/core/store/lease.py",
        "elif self._commit(table, LASTS):",
        "else:",
        (f"{LEASE}test_who_goes_on_working_keeps_it",),
    ),
    Mutant(
        "a fold leaves its transaction number out",
        "acker/core/fold/files.py",
        "partition_by, commit_properties=once",
        "partition_by",
        (f"{JOB}test_a_fold_that_is_repeated_after_its_commit_changes_nothing",),
    ),
    Mutant(
        "an append without Spark does not look for its number",
        "acker/core/store/tables.py",
        "        if _is_there(table, free):\n            return False\n",
        "",
        (f"{JOURNAL}test_a_number_that_was_planned_before_keeps_its_row",),
    ),
    Mutant(
        "an append of Spark's leaves its transaction number out",
        "acker/spark/delta.py",
        '.option("txnAppId", app).option("txnVersion", number)',
        "",
        (f"{PUBLISH}test_folds_are_published_one_by_one_and_once",),
    ),
    Mutant(
        "the files of a batch are committed without its number",
        "acker/core/store/commits.py",
        "table.schema(), commit_properties=once)",
        "table.schema())",
        (f"{STREAMS}test_a_batch_that_is_written_twice_is_there_once_and_vacuum_takes_the_rest",),
    ),
    Mutant(
        "events are committed without their batch's number",
        "acker/core/store/commits.py",
        "found.schema(), commit_properties=once)",
        "found.schema())",
        (f"{LOG}test_of_two_that_log_a_batch_at_once_one_does",),
    ),
    Mutant(
        "a snapshot opens the journal before what is logged",
        "acker/core/snapshot/snapshot.py",
        "(LEDGER, EVENTS, BATCHES)",
        "(LEDGER, BATCHES, EVENTS)",
        (f"{JOURNAL}test_a_snapshot_holds_every_plan_of_what_is_logged_in_it",),
    ),
    Mutant(
        "a spout's range that looks like a bolt's spans is taken for them",
        "acker/core/snapshot/journal.py",
        'return "bolt" if component in self._former_bolts else "spout"',
        'return "bolt"',
        (f"{JOURNAL}test_a_spouts_range_may_be_any_json_value[0]",),
    ),
    Mutant(
        "a fold counts the events of folded batches again",
        "acker/core/snapshot/ledger.py",
        "AND batch > {folded.get(name, 0)} AND",
        "AND",
        (f"{JOB}test_a_fold_goes_on_from_the_one_before",),
    ),
    # Plan, write, log.
    Mutant(
        "a run follows its own plan and not the journal's",
        "acker/core/snapshot/journal.py",
        "        return newest.read(batch.component, batch.number)\n",
        "        return batch\n",
        (f"{JOURNAL}test_a_number_that_was_planned_before_keeps_its_row",),
    ),
    Mutant(
        "a bolt passes over the batch that was left unfinished",
        "acker/batches/plan.py",
        "    left = journal.unfinished(bolt.name)\n    if left is not None:\n        return left\n",
        "",
        ("tests/spark/test_crashes.py::test_a_run_that_is_stopped_at_every_step_ends_as_one_that_was_not",),
    ),
    Mutant(
        "a batch takes in what is there when it runs and not what was planned",
        "acker/core/snapshot/journal.py",
        "batch.component, span.after, span.upto)",
        "batch.component, span.after, self.logged(upstream))",
        (f"{CYCLES}test_max_pending_holds_the_spout_back_and_batch_rows_splits_what_is_read",),
    ),
    Mutant(
        "a batch is logged before it is written",
        "acker/batches/batch.py",
        "    if found.state is BatchState.PLANNED:\n        write(",
        "    if found.state is BatchState.PLANNED:\n        log(run, journal, found)\n        write(",
        (f"{BATCH}test_a_batch_is_taken_once_it_is_logged_and_not_before",),
    ),
    Mutant(
        "a batch that nobody wrote is logged",
        "acker/batches/log.py",
        "        snapshot.require(stream(request.component))",
        "        snapshot.open(stream(request.component))",
        ("tests/unit/test_log.py::test_a_batch_that_nobody_wrote_acks_nothing",),
    ),
    Mutant(
        "a bolt takes a batch before it is logged, so acks come before inits",
        "acker/batches/plan.py",
        "numbers_for(upstream, consumer, taken, journal.logged(upstream))",
        "numbers_for(upstream, consumer, taken, journal.planned(upstream))",
        (f"{BATCH}test_a_batch_is_taken_once_it_is_logged_and_not_before",),
    ),
    Mutant(
        "the log leaves out what was emitted",
        "acker/batches/log.py",
        'ack_val=pl.col("id").bitwise_xor(),',
        'ack_val=pl.col("id").filter(pl.col("consumed").is_not_null()).bitwise_xor().fill_null(0),',
        (f"{CHANGES}test_a_bolt_with_another_function_goes_on_where_the_other_was",),
    ),
    Mutant(
        "a tuple that two bolts read is one edge",
        "acker/core/store/ids.py",
        "row) for consumer in consumers]",
        "row) for consumer in consumers[:1]]",
        ("tests/unit/test_ids.py::test_a_tuple_that_two_bolts_read_is_two_edges",),
    ),
    Mutant(
        "an attempt has the ids of the one before",
        "acker/spark/columns.py",
        '*message, attempt, bound_literal(batch, "_source_offset", "bigint")',
        "*message",
        (f"{FEW}test_ids_of_roots_are_those_that_spark_makes",),
    ),
    Mutant(
        "an anchor of another batch is taken",
        "acker/components/anchors.py",
        'F.when(_is_mine(anchor, secret), anchor["_root_id"]).otherwise(foreign)',
        'F.when(F.lit(True), anchor["_root_id"]).otherwise(foreign)',
        ("tests/spark/test_joins.py::test_an_anchor_of_nobody_is_refused",),
    ),
    # The fold.
    Mutant(
        "a fold believes the XOR without the count",
        "acker/core/fold/decide.py",
        '(pl.col("ack_val") == 0) & (pl.col("outstanding") == 0)',
        '(pl.col("ack_val") == 0)',
        scenario("two equal ids make a zero that the count does not believe"),
    ),
    Mutant(
        "a fold believes the count without the XOR",
        "acker/core/fold/decide.py",
        '(pl.col("ack_val") == 0) & (pl.col("outstanding") == 0)',
        '(pl.col("outstanding") == 0)',
        scenario("a count of nothing outstanding is no ack while the XOR differs"),
    ),
    Mutant(
        "a zero wins over a fail",
        "acker/core/fold/decide.py",
        '| (pl.col("fails") > 0) | (pl.col("inits") > 1))',
        '| (pl.col("inits") > 1))',
        scenario("a fail wins over a zero in the same fold"),
    ),
    Mutant(
        "two equal inits are an ack",
        "acker/core/fold/decide.py",
        '| (pl.col("fails") > 0) | (pl.col("inits") > 1))',
        '| (pl.col("fails") > 0))',
        scenario("two identical inits cancel and are still no ack"),
    ),
    Mutant(
        "an attempt settles although a later one is in flight",
        "acker/core/fold/decide.py",
        '.when(pl.col("superseded") | (',
        ".when((",
        scenario("an attempt is superseded by the init of its successor and not tried again"),
    ),
    Mutant(
        "late events write anew what has settled",
        "acker/core/fold/decide.py",
        '        .filter(pl.col("row").is_not_null())',
        "",
        scenario("late acks and fails of a settled root are counted and change nothing"),
    ),
    Mutant(
        "a message that waits for its retry is acked by the zero of its old root",
        "acker/core/fold/decide.py",
        'return self.live.filter(pl.col("state") == State.PENDING)',
        "return self.live",
        scenario("a retrying message is not acked by the zero of its old root"),
    ),
    Mutant(
        "a message that waits for its retry is forgotten by the next fold",
        "acker/core/fold/decide.py",
        ", _followers(found, fold), others.lazy()]",
        ", _followers(found, fold)]",
        scenario("a late success of a timed out attempt does not ack its message"),
    ),
    Mutant(
        "joined messages settle apart",
        "acker/core/fold/decide.py",
        "_rows(groups.decided(roots, others), others.clear(), fold)",
        "_rows(roots, others.clear(), fold)",
        scenario("messages that are joined are acked together, when the last of them is complete"),
    ),
    Mutant(
        "a dead letter is tried again",
        "acker/core/fold/decide.py",
        'again = pl.col("delay").is_not_null()',
        "again = pl.lit(True)",
        scenario("a message whose attempts are used up is a dead letter"),
    ),
    Mutant(
        "a message that was failed for good is tried again",
        "acker/core/fold/decide.py",
        ' & ~pl.col("rejected")',
        "",
        scenario("a message that is failed for good is a dead letter at once"),
    ),
    Mutant(
        "a record that is gone before its replay is passed over",
        "acker/spouts/kafka/spout.py",
        'F.when(F.col("missing").isNotNull(), Kind.LOST.value)',
        'F.when(F.col("missing").isNotNull(), F.lit(None))',
        (f"{KAFKA}test_what_retention_deleted_is_lost_with_the_earliest_offset_that_is_left",),
    ),
    Mutant(
        "a record that a broker does not have yet is taken for gone",
        "acker/spouts/kafka/offsets.py",
        "if offset <= last:",
        "if offset < 0:",
        (
            "tests/kafka/test_kafka_offsets.py::"
            "test_an_offset_that_a_broker_does_not_have_yet_is_not_taken_for_a_hole",
        ),
    ),
    Mutant(
        "a batch is planned up to records whose transaction is open",
        "acker/spouts/kafka/spout.py",
        "self._cluster.ends(partitions, self.committed)",
        "self._cluster.ends(partitions, False)",
        (f"{KAFKA}test_what_a_transaction_aborted_is_no_message_and_what_is_open_waits",),
    ),
    Mutant(
        "a fold takes over the file of a root that has new events",
        "acker/core/fold/decide.py",
        'pl.any_horizontal(pl.col("has_events", "has_arrived",',
        'pl.any_horizontal(pl.col("has_arrived",',
        ("tests/unit/test_fold.py::test_a_random_scenario_goes_in_frames_as_in_the_oracle",),
    ),
    Mutant(
        "a fold takes over the file of an attempt that another one succeeds",
        "acker/core/fold/decide.py",
        'pl.any_horizontal(pl.col("has_events", "has_arrived",',
        'pl.any_horizontal(pl.col("has_events",',
        ("tests/unit/test_fold.py::test_a_random_scenario_goes_in_frames_as_in_the_oracle",),
    ),
    Mutant(
        "a fold takes over the file of a root that is too old",
        "acker/core/fold/decide.py",
        "        | (is_pending & _expired(fold))\n",
        "",
        ("tests/unit/test_fold.py::test_a_random_scenario_goes_in_frames_as_in_the_oracle",),
    ),
    Mutant(
        "what has settled lies where a compaction deletes it",
        "acker/core/fold/files.py",
        "self._write([first], is_live=False)",
        "self._write([first], is_live=True)",
        (f"{JOB}test_rows_that_settled_lie_apart_from_those_that_live_on",),
    ),
    Mutant(
        "a fold forgets the messages of all tasks but the first",
        "acker/core/fold/decide.py",
        "map(fold.part, found) if whole is None",
        "[fold.part(found[0])] if whole is None",
        (f"{JOB}test_a_fold_by_several_tasks_is_the_same[caller in passes]",),
    ),
    Mutant(
        "a fold counts what a task has done twice as often as it was done",
        "acker/core/fold/job.py",
        "tasks.run(partial(work.written, request.name, groups), found)",
        "tasks.run(partial(work.written, request.name, groups), [*found, found[0]])",
        (f"{JOB}test_a_fold_by_several_tasks_is_the_same[3 elsewhere]",),
    ),
    Mutant(
        "a task reads the files of its own name alone",
        "acker/core/store/ids.py",
        "        common = math.gcd(of, self.of)\n",
        "        common = max(of, self.of)\n",
        (f"{JOB}test_a_fold_by_other_tasks_than_the_one_before_is_the_same[4]",),
    ),
    Mutant(
        "attempts of a message lie in several buckets",
        "acker/spark/columns.py",
        ".bitwiseAND(F.lit(~low)).bitwiseOR(of_message.bitwiseAND(F.lit(low)))",
        "",
        ("tests/spark/test_batch.py::test_all_attempts_of_a_message_lie_in_one_bucket",),
    ),
    # Timeouts and retries.
    Mutant(
        "a timeout does not wait for tuples that wait for a bolt",
        "acker/core/fold/decide.py",
        '(age >= turns) & pl.col("waits").is_null()',
        "(age >= turns)",
        scenario("a root whose tuples wait for a bolt is not timed out"),
    ),
    Mutant(
        "a time-out does not say which rich bolt held the tuples back",
        "acker/core/snapshot/holders.py",
        'on="root_id", how="semi")',
        'on="root_id", how="anti")',
        scenario("a root times out with the rich bolts that hold its tuples back, and takes others along"),
    ),
    Mutant(
        "a fold does not look for tuples that wait for a bolt",
        "acker/operations/fold.py",
        "waiting=_waiting(run.topology, journal, logged),",
        "waiting={},",
        ("tests/store/test_outage.py::test_messages_that_wait_for_a_bolt_are_never_too_old",),
    ),
    Mutant(
        "an outage is as many turns as it had windows",
        "acker/core/timeouts.py",
        "previous.number + (window > previous.window)",
        "previous.number + max(0, window - previous.window)",
        ("tests/unit/test_timeouts.py::test_many_windows_without_a_fold_are_one_turn",),
    ),
    Mutant(
        "a delay that overflows starts anew",
        "acker/core/retry.py",
        "            return self.cap_seconds\n",
        "            return self.initial_seconds\n",
        ("tests/unit/test_retry.py::test_the_ten_thousandth_failure_does_not_overflow[1e+300-3600.0]",),
    ),
    Mutant(
        "a message is tried once more than its limit",
        "acker/core/retry.py",
        "failure > self.limit:",
        "failure > self.limit + 1:",
        ("tests/unit/test_retry.py::test_the_failure_after_the_limit_gives_the_message_up",),
    ),
    # The ledger as of a fold.
    Mutant(
        "the live rows of a fold are read as of now",
        "acker/core/snapshot/ledger.py",
        '    files = files_of(fold.ledger, f"live_in =',
        '    files = files_of(DeltaTable(fold.ledger.table_uri), f"live_in =',
        (f"{JOB}test_a_fold_is_read_as_it_was_although_a_later_one_was_compacted_since",),
    ),
    Mutant(
        "trimming reads the live rows of its fold as of now",
        "acker/core/snapshot/settled.py",
        'WHERE batch IS NOT NULL GROUP BY spout""",\n        ledger=fold.ledger,',
        'WHERE batch IS NOT NULL GROUP BY spout""",\n        ledger=DeltaTable(fold.ledger.table_uri),',
        (f"{MAINTAIN}test_what_is_live_in_a_fold_stays_although_a_later_one_is_compacted_meanwhile",),
    ),
    Mutant(
        "a store of another format is read and written",
        "acker/core/store/store.py",
        "        check_format(found, path, self.topology)\n",
        "",
        (f"{MIGRATE}test_a_newer_store_is_refused_with_a_sentence",),
    ),
    Mutant(
        "small files become ever more until the night",
        "acker/operations/fold.py",
        "        compact_if_many(run, after)\n",
        "",
        (f"{STORE_MAINTAIN}test_small_files_are_compacted_once_there_are_many",),
    ),
    Mutant(
        "a compaction drops history",
        "acker/operations/maintenance/compact.py",
        'f"live_in < {newest.number}"',
        'f"fold < {newest.number}"',
        (f"{STORE_MAINTAIN}test_compaction_in_the_middle_of_a_batch_changes_no_result",),
    ),
    Mutant(
        "a trimming does not look at what is live",
        "acker/core/snapshot/settled.py",
        "(live_in = {fold.number} OR ({_SETTLED} AND fold > {published}))",
        "({_SETTLED} AND fold > {published})",
        (f"{MAINTAIN}test_what_is_live_in_a_fold_stays_although_a_later_one_is_compacted_meanwhile",),
    ),
    Mutant(
        "a trimming does not look at what is yet to be taken in",
        "acker/operations/maintenance/trim.py",
        "        _untaken(journal),\n",
        "",
        (f"{STORE_MAINTAIN}test_what_waits_for_a_bolt_is_not_trimmed_although_nobody_tracks_it",),
    ),
    # Spouts, replays and changes.
    Mutant(
        "max_pending is ignored",
        "acker/operations/cycle.py",
        "room = min(rows, room_for_new(run.topology, journal, spout.name))",
        "room = rows",
        (f"{CYCLES}test_max_pending_holds_the_spout_back_and_batch_rows_splits_what_is_read",),
    ),
    Mutant(
        "a message is tried again before its time",
        "acker/operations/replay.py",
        ' & (pl.col("retry_at") <= now)',
        "",
        (f"{REPLAY}test_nothing_is_replayed_before_it_is_due",),
    ),
    Mutant(
        "a message goes over to the day on which it was emitted again",
        "acker/operations/selection/days.py",
        'rows.filter(is_of_day, pl.col("attempt") == 1)',
        "rows.filter(is_of_day)",
        (f"{DAYS}test_a_message_stays_with_the_day_of_its_first_emission",),
    ),
    Mutant(
        "of several numbers that a plan takes only the last need be free",
        "acker/core/store/tables.py",
        "    free = {**numbers, **(firsts or {})}\n",
        "    free = numbers\n",
        (f"{JOURNAL}test_of_batches_that_are_planned_together_all_numbers_must_be_free",),
    ),
    Mutant(
        "events that several tasks share are not checked",
        "acker/core/fold/job.py",
        "    new.check()\n",
        "    new.check() if len(found) == 1 else None\n",
        (
            "tests/unit/test_fuzz_store.py::"
            "test_an_event_that_no_component_logged_stops_the_fold_before_it_writes[no root]",
        ),
    ),
    Mutant(
        "messages of a planned replay may be others than those that were recorded",
        "acker/core/snapshot/replays.py",
        "(planned.count, planned.checksum):",
        "(found.height, found.select(checksum_of_replay()).item()):",
        (f"{REPLAY}test_a_replay_whose_recorded_messages_were_altered_is_not_emitted",),
    ),
    Mutant(
        "a replay by hand parts messages that were acked together",
        "acker/operations/selection/matching.py",
        "pl.when(group.is_null()).then(place)",
        "pl.when(True).then(place)",
        ("tests/unit/test_matching.py::test_messages_are_parted_and_no_group_is",),
    ),
    Mutant(
        "what a replay has emitted is emitted by a second one of the same fold",
        "acker/operations/replay.py",
        'on=POSITION, how="anti")',
        'on=POSITION, how="left").select(messages.columns)',
        (f"{REPLAY}test_what_is_due_is_emitted_once_however_often_the_spout_runs_before_a_fold",),
    ),
    Mutant(
        "a request emits what was emitted again since it was recorded",
        "acker/operations/selection/matching.py",
        'key = [*MESSAGE, "attempt"]',
        "key = [*MESSAGE]",
        (f"{REQUESTS}test_a_message_that_is_in_flight_or_was_emitted_since_is_left_out",),
    ),
    Mutant(
        "a request that is made again counts what matches by then",
        "acker/operations/selection/requests.py",
        '"matched": recorded(store, plan).height',
        '"matched": messages.height',
        (f"{REQUESTS}test_a_request_is_of_the_messages_that_were_recorded_before_its_process_was_killed",),
    ),
    Mutant(
        "a replay drops what its source no longer holds",
        "acker/components/spout.py",
        '["_source_partition", "_source_offset"], "left")',
        '["_source_partition", "_source_offset"], "inner")',
        (f"{FEW}test_a_replay_without_spark_leaves_the_rows_that_one_with_spark_leaves[0]",),
    ),
    Mutant(
        "a replay without Spark drops what its source no longer holds",
        "acker/components/spout.py",
        'on=POSITION, how="left")',
        'on=POSITION, how="inner")',
        ("tests/spark/test_storm.py::test_retry_service_passes_over_what_retention_deleted",),
    ),
    Mutant(
        "a table that was made anew is read as the one before it",
        "acker/spouts/delta/same.py",
        "and not _goes_on(table, planned, by_key)",
        "and False",
        (
            "tests/spark/test_table_made_anew.py::"
            "test_a_table_that_was_dropped_and_made_anew_is_refused_by_all_that_looks_at_it[(1, 2, 3)]",
        ),
    ),
    Mutant(
        "a file that changed after it was read is told by nobody",
        "acker/spouts/files/listing.py",
        "if file is not None and file.mark != mark:",
        "if False:",
        (
            "tests/unit/test_backlog.py::"
            "test_a_file_that_changed_or_vanished_since_it_was_read_is_told[appended]",
        ),
    ),
    Mutant(
        "a file that was read and is gone is told by nobody",
        "acker/spouts/files/listing.py",
        "if (self._listed(path) if self.aliases else path) not in there]",
        "if False]",
        (
            "tests/unit/test_backlog.py::"
            "test_files_that_were_read_and_are_gone_are_told_whatever_spout_read_them",
        ),
    ),
    Mutant(
        "a Parquet file has the rows that its footer counts in all",
        "acker/spouts/files/columns.py",
        "rows = sum(found.row_group(number).num_rows for number in range(found.num_row_groups))",
        "rows = found.num_rows",
        (
            "tests/unit/test_packing.py::"
            "test_a_parquet_file_has_the_rows_of_its_row_groups_whatever_its_footer_counts",
        ),
    ),
    Mutant(
        "a batch is taken in however many messages were read of it",
        "acker/spark/streams.py",
        "if planned not in (None, found):",
        "if planned is not None and not found:",
        (f"{FILES}test_messages_that_a_file_had_when_it_was_planned_and_has_no_more_are_lost",),
    ),
    Mutant(
        "a value that Delta's writer hides is nobody's fault",
        "acker/targets/refusing.py",
        "self._hidden() if _HIDES in str(error) else fault_of_a_row(error)",
        "fault_of_a_row(error)",
        (
            "tests/spark/test_rules_of_aggregates.py::"
            "test_a_row_that_breaks_a_rule_of_a_table_of_aggregates_fails_its_message_alone"
            "[a check that raises]",
        ),
    ),
    Mutant(
        "files of a Delta table are read as others",
        "acker/spouts/files/listing.py",
        'tables = {before for before, log, _ in found if log and before[-1:] in ("", "/")}',
        "tables = {before for before, log, _ in found if log and not before}",
        (f"{LISTING}test_files_of_a_delta_table_are_left_out_wherever_its_folder_is",),
    ),
    Mutant(
        "nobody is told that no file can be opened",
        "acker/spouts/files/listing.py",
        "except FileNotFoundError:\n            return None",
        "except OSError:\n            return None",
        (
            "tests/unit/test_packing.py::"
            "test_a_file_that_a_disk_or_a_network_refuses_is_tried_again_and_not_taken_for_another",
        ),
    ),
    Mutant(
        "lines of a growing file are read whatever it held before them",
        "acker/spouts/files/growing.py",
        'return None if left or crc != entry["crc"] else',
        "return None if left else",
        (
            "tests/spark/test_growing_files.py::"
            "test_a_planned_part_of_a_file_that_was_rewritten_is_lost_and_so_is_its_replay",
        ),
    ),
    Mutant(
        "a growing file is taken for another that has its path",
        "acker/spouts/files/growing.py",
        'return bool(file.size() >= entry["bytes"] and _ends(file, entry["bytes"]) == entry["ends"])',
        "return True",
        (
            "tests/unit/test_growing.py::"
            "test_rotated_files_keep_their_names_in_the_plans_and_no_line_is_read_twice",
        ),
    ),
    Mutant(
        "a row that went into another file is given the row id of its place there",
        "acker/spouts/delta/local.py",
        "return pc.coalesce(written, counted)",
        "return counted",
        (f"{FEW}test_rows_are_read_by_their_row_ids_as_spark_reads_them_whatever_has_been_done_to_them",),
    ),
    Mutant(
        "an attempt that is made without Spark cannot be found by its message",
        "acker/core/store/ids.py",
        "of_emission & ~(BUCKETS - 1) | of_message & (BUCKETS - 1)",
        "of_emission",
        (f"{FEW}test_ids_of_roots_are_those_that_spark_makes",),
    ),
    Mutant(
        "a replay by hand leaves joined messages behind",
        "acker/operations/selection/matching.py",
        "partners = _partners(topology, snapshot, fold, trim, chosen)",
        "partners = chosen.clear()",
        (f"{RICH}test_a_message_that_is_replayed_takes_its_partner_along",),
    ),
    Mutant(
        "a bolt takes what was not emitted for it",
        "acker/core/snapshot/journal.py",
        "for batch in found if edge(upstream, consumer) in batch.edges]",
        "for batch in found]",
        (f"{CHANGES}test_a_bolt_that_is_added_begins_with_the_first_batch_that_is_planned_for_it",),
    ),
    Mutant(
        "what waits for a bolt that is gone waits for ever",
        "acker/operations/fold.py",
        "    journal = fail_orphaned(run, journal)\n",
        "",
        (f"{CHANGES}test_what_waited_for_a_bolt_that_was_removed_fails_and_completes_without_it",),
    ),
    # Files.
    Mutant(
        "a folder is entered again over each link to it",
        "acker/spouts/files/walking.py",
        "        return first != folder\n",
        "        return False\n",
        (f"{LISTING}test_a_file_is_read_once_whatever_links_lead_to_it[no_circle]",),
    ),
    Mutant(
        "a file that was read is read again under a name that comes before",
        "acker/spouts/files/listing.py",
        "(each[0] not in held, each[1].linked, each[0])",
        "(each[1].linked, each[0])",
        (f"{LISTING}test_a_file_that_was_read_is_not_read_again_under_a_name_that_comes_before",),
    ),
    Mutant(
        "a file is unpacked by its name alone",
        "acker/spouts/files/packing.py",
        "    way = next((way for magic, way in _MAGIC if magic.match(head)), None)\n",
        "    way = None\n",
        (f"{FILES}test_a_message_of_a_packed_file_is_recovered_whatever_case_its_ending_has",),
    ),
    Mutant(
        "a name that the view is for is given to Spark",
        "acker/spouts/files/reading.py",
        " or not _ODD.isdisjoint(path)",
        "",
        (f"{FILES}test_a_file_is_read_whatever_its_name_is",),
    ),
    Mutant(
        "Parquet files are read with the columns of the first",
        "acker/spouts/files/columns.py",
        "StructType([*found, *(StructField(each.name, each.dataType) for each in others.values())])",
        "StructType(found) if found else more",
        (f"{FILES}test_columns_are_those_of_all_parquet_files_whatever_share_a_batch",),
    ),
    Mutant(
        "a decimal of more places is rounded",
        "acker/spouts/parsed/texts.py",
        "value.quantize(least, context=_EXACT)",
        "value.quantize(least)",
        (f"{TEXTS}test_a_text_that_is_another_value_or_none_fails_its_row_alone[decimal]",),
    ),
    Mutant(
        "what Arrow makes of too long a decimal is taken",
        "acker/spouts/parsed/json_objects.py",
        "return pa.decimal256(_DIGITS, kind.scale)",
        "return kind",
        (f"{TEXTS}test_a_text_that_is_another_value_or_none_fails_its_row_alone[decimal]",),
    ),
    Mutant(
        "a row that stands in the header's place is taken for it",
        "acker/spouts/files/lines.py",
        'rows.where((F.col("_source_offset") > 1) | F.col("_wrong").isNotNull())',
        'rows.where(F.col("_source_offset") > 1)',
        (f"{SPOUTS}test_all_lines_of_a_file_without_the_header_are_failed[no header]",),
    ),
    Mutant(
        "a column with a reserved name goes without a word",
        "acker/core/ddl.py",
        "    check_types(which, ddl)\n    check_names(which, ddl)\n",
        "    check_types(which, ddl)\n",
        (f"{DDL}test_every_schema_is_checked_when_it_is_given[json-_id string]",),
    ),
    # Rich bolts.
    Mutant(
        "a bolt forgets what it holds back",
        "acker/components/collector.py",
        "        return emitted + self._reports + held\n",
        "        return emitted + self._reports\n",
        (f"{RICH}test_a_tuple_that_is_held_back_is_joined_batches_later",),
    ),
    Mutant(
        "a join takes of each branch all that there is",
        "acker/batches/plan.py",
        "    if bolt.takes_all:\n        upto = meeting(run.topology, journal, bolt.name, ends, upto)\n",
        "",
        (f"{BRANCHES}test_what_is_emitted_between_the_plans_of_two_branches_is_joined_once_both_have_it",),
    ),
    Mutant(
        "the log takes what is held back for consumed",
        "acker/batches/log.py",
        ", _held(own, work.own, consumer, -1)]",
        "]",
        (f"{RICH}test_a_tuple_that_is_held_back_is_joined_batches_later",),
    ),
    Mutant(
        "a bolt holds on to what belongs to a message that has settled",
        "acker/core/snapshot/streams.py",
        'return found.with_row_index("n").join(settled, on="n", how="anti").drop("n")',
        "return found",
        (f"{RICH}test_a_held_tuple_whose_message_timed_out_is_let_go_and_its_replay_joined",),
    ),
    Mutant(
        "a tuple may be acked twice",
        "acker/components/collector.py",
        '            self._fail(tup, "acked twice")\n',
        "            return\n",
        (f"{RICH}test_a_rich_bolt_acks_fails_and_holds_back_each_tuple_by_itself",),
    ),
    # Batches that are held.
    Mutant(
        "a bolt that raises stops the others",
        "acker/operations/cycle.py",
        "        if _stops_all(error):\n            raise\n",
        "        raise\n",
        (f"{HOLDS}test_the_bolts_after_a_held_batch_and_other_branches_go_on",),
    ),
    Mutant(
        "a module that is missing fails the tuple",
        "acker/components/workers.py",
        "        except NO_TUPLES_FAULT:\n            raise\n",
        "",
        (f"{HOLDS}test_a_module_that_is_not_installed_holds_the_batch",),
    ),
    Mutant(
        "a scheduled task does not wait",
        "acker/batches/holds.py",
        "if found is not None and now < found.retry_at:",
        "if False:",
        (f"{HOLDS}test_a_scheduled_task_waits_for_the_next_try_and_one_by_hand_does_not",),
    ),
    # Publishing.
    Mutant(
        "what is pending is published",
        "acker/core/snapshot/settled.py",
        "{fold} AND {_SETTLED} AND state = 'acked'",
        "{fold} AND state IN ('acked', 'pending')",
        (f"{RICH}test_a_rich_bolt_acks_fails_and_holds_back_each_tuple_by_itself",),
    ),
    Mutant(
        "what has failed is published",
        "acker/core/snapshot/settled.py",
        "{fold} AND {_SETTLED} AND state = 'acked'",
        "{fold} AND {_SETTLED}",
        (f"{RICH}test_a_rich_bolt_acks_fails_and_holds_back_each_tuple_by_itself",),
    ),
    Mutant(
        "the rows of two attempts are published",
        "acker/targets/append.py",
        "        if changes.replaced_roots is not None and table is not None:\n",
        "        if False:\n",
        (f"{PUBLISH}test_a_replay_after_a_mended_bug_replaces_rows_and_corrects_counts_and_sums",),
    ),
    Mutant(
        "a table with rules of its own is appended to without Spark",
        "acker/targets/plain.py",
        "and key not in _PROPERTIES",
        "and False",
        (
            f"{PUBLISH}test_a_small_fold_goes_without_spark_into_a_table_that_asks_for_nothing_more[optimized]",
        ),
    ),
    Mutant(
        "a table is not asked for its lengths",
        "acker/targets/rules.py",
        "rules |= too_long(field) | nulls_within(field)",
        "rules |= nulls_within(field)",
        (f"{RULES}test_a_row_that_breaks_any_rule_of_its_table_fails_its_message_alone",),
    ),
    Mutant(
        "a rule that raises for a row stops its spout",
        "acker/components/spout.py",
        "        return {**bad, **found_in(self, work, messages, self._checked, error)}\n",
        "        raise error\n",
        (f"{RULES}test_a_rule_that_raises_for_a_row_of_a_spout_or_a_rich_bolt_fails_its_message[spout]",),
    ),
    Mutant(
        "a sum of decimals is rounded",
        "acker/spark/delta.py",
        '"spark.sql.decimalOperations.allowPrecisionLoss": "false"',
        '"spark.sql.decimalOperations.allowPrecisionLoss": "true"',
        (f"{SUMS}test_a_sum_of_decimals_keeps_all_their_digits",),
    ),
    Mutant(
        "a fold that has something for a table is passed over",
        "acker/operations/publish.py",
        "        passed_over = 0 if each.fold in full else passed_over + 1\n",
        "        passed_over += 1\n",
        (f"{NOTHING}test_a_fold_without_a_tuple_for_a_target_is_published_as_it_is",),
    ),
    Mutant(
        "an audit passes however long messages are unpublished",
        "acker/core/snapshot/verdict.py",
        " or self.overdue)",
        ")",
        (f"{OVERDUE}test_what_nobody_publishes_for_a_week_fails_the_audit_with_since_when",),
    ),
    Mutant(
        "what a publisher raises is not noted",
        "acker/operations/publish.py",
        "            with noted_if_it_raises(run, publishes, acked.fold):\n",
        "            if acked.fold:\n",
        (f"{STUCK}test_a_table_that_cannot_be_written_to_is_told_with_its_reason_and_overdue_in_a_day",),
    ),
    Mutant(
        "what one table refuses stays in the others",
        "acker/operations/publish.py",
        "refused = {fold for fold, (first, last) in read.items() if first < last}",
        "refused = set()",
        (f"{REFUSED}test_what_a_table_refuses_after_the_ack_leaves_all_tables_as_dead_letters",),
    ),
    Mutant(
        "what another publisher has brought in of refused rows stays",
        "acker/operations/publish.py",
        "    never_in = own.clear() if is_by_root else own\n",
        "    never_in = own\n",
        (f"{REFUSED}test_rows_that_another_publisher_has_brought_in_after_all_leave_with_their_refusal",),
    ),
    Mutant(
        "what leaves a table does so a second time with its refusal",
        "acker/core/snapshot/refusals.py",
        '    return found.join(replaced, on="root_id", how="anti").drop("fold")\n',
        '    return found.drop("fold")\n',
        (f"{REFUSALS}test_what_a_later_attempt_has_replaced_leaves_no_table_again",),
    ),
    Mutant(
        "a refused message is given up although it was emitted again",
        "acker/core/fold/refused.py",
        'failed.join(goes_on, on="root_id", how="anti")',
        'failed.join(goes_on.clear(), on="root_id", how="anti")',
        (f"{REFUSALS}test_a_message_that_is_emitted_again_is_not_given_up",),
    ),
    Mutant(
        "refusals that are gone are taken for none",
        "acker/core/snapshot/refusals.py",
        "    if there < read:\n",
        "    if False:\n",
        (f"{REFUSALS}test_refusals_that_are_gone_stop_an_audit",),
    ),
    Mutant(
        "a replay adds to an aggregate without taking back",
        "acker/operations/publish.py",
        "replaced = _of_roots(run, journal, name, caused(journal, name, emissions), old)",
        "replaced = None",
        (f"{PUBLISH}test_a_replay_after_a_mended_bug_replaces_rows_and_corrects_counts_and_sums",),
    ),
    Mutant(
        "of two trimmings that make a table both keep what they take",
        "acker/core/snapshot/kept.py",
        "            make_table(path, added, once)\n",
        '            write_deltalake(path, added, mode="append", commit_properties=once)\n',
        (f"{MADE}test_what_a_trimming_takes_is_kept_once",),
    ),
    Mutant(
        "a topic is told what its table refuses",
        "acker/targets/aggregate.py",
        "            self._check_taken(spark, changes)\n",
        "",
        (f"{KAFKA_TARGET}test_what_a_table_refuses_after_the_ack_is_not_sent_to_its_topic_either",),
    ),
    Mutant(
        "a retry policy is asked once for failures with different reasons",
        "acker/core/retry.py",
        '_ALL = ("attempt", "spout", "component", "reason", "state")',
        '_ALL = ("attempt", "spout", "component", "state")',
        scenario("a policy that looks at the reason gives one message up and tries another again"),
    ),
    Mutant(
        "a fold that a topic has is sent again",
        "acker/targets/kafka.py",
        "        if marker.upto >= fold:\n            return\n",
        "",
        (f"{KAFKA_TARGET}test_a_client_that_a_later_fold_overtook_sends_nothing",),
    ),
    Mutant(
        "an audit takes a topic that was made anew for the one that it was",
        "acker/targets/positions.py",
        "return self.ids.get(place.at.topic) == place.topic_id",
        "return place.at.topic in self.ids",
        (f"{KAFKA_AUDIT}test_a_topic_by_name_that_is_gone_or_made_anew_has_lost_what_was_sent",),
    ),
    Mutant(
        "an audit counts the records of topics and does not look at what they say",
        "acker/targets/by_record.py",
        "        if sent == found:\n            return\n",
        "        if sent[0] == found[0]:\n            return\n",
        (f"{KAFKA_AUDIT}test_deleted_records_fail_no_audit_and_forged_ones_among_the_rest_do",),
    ),
    Mutant(
        "a fold that was cut short begins anew",
        "acker/targets/kafka.py",
        "        if marker.fold != fold:\n",
        "        if True:\n",
        (f"{KAFKA_TARGET}test_a_fold_of_many_parts_goes_on_where_it_was_cut_short",),
    ),
    Mutant(
        "a backup opens the journal before the streams",
        "acker/operations/maintenance/backup.py",
        """    yield from map(stream, Journal(store, topology.roles).components())
    yield from (HOLDS, BATCHES, REPLAY_STEPS, REPLAY_REQUESTS, REPLAYS, REFUSALS, TRIMS)
""",
        """    yield from (HOLDS, BATCHES, REPLAY_STEPS, REPLAY_REQUESTS, REPLAYS, REFUSALS, TRIMS)
    yield from map(stream, Journal(store, topology.roles).components())
""",
        (f"{BACKUP}test_what_is_written_in_a_backup_is_planned_in_it",),
    ),
    Mutant(
        "a backup does not look whether a batch was logged meanwhile",
        "acker/operations/maintenance/backup.py",
        "newest_trim(store) == before and _stands_still(store, own)",
        "newest_trim(store) == before",
        (f"{BACKUP}test_a_backup_begins_anew_when_a_batch_was_logged_meanwhile",),
    ),
    Mutant(
        "a backup does not look whether a trimming came between",
        "acker/operations/maintenance/backup.py",
        "newest_trim(store) == before and _stands_still(store, own)",
        "_stands_still(store, own)",
        ("tests/spark/test_backup.py::test_a_backup_begins_anew_when_a_trimming_came_between",),
    ),
    Mutant(
        "a copy publishes under its original's id",
        "acker/operations/maintenance/restore.py",
        "        become_another(ledger, copied, fold.number if fold else 0)\n",
        "",
        (
            "tests/spark/test_backup.py::test_a_copy_that_publishes_to_the_originals_table_does_not_take_its_folds_for_its_own",
        ),
    ),
    Mutant(
        "a copy counts all that its original published later",
        "acker/targets/base.py",
        "former = (min(target.position(each.app), fold) for each, fold in publisher.former)",
        "former = (target.position(each.app) for each, fold in publisher.former)",
        (
            "tests/spark/test_backup.py::test_a_copy_that_publishes_to_the_originals_table_does_not_take_its_folds_for_its_own",
        ),
    ),
    Mutant(
        "a store publishes beside another",
        "acker/targets/standing.py",
        "    elif stranger is not None or not (",
        "    elif False and not (",
        ("tests/spark/test_standing.py::test_two_stores_publish_to_one_table_only_where_that_is_said",),
    ),
    Mutant(
        "a target that holds less than it did is gone on with",
        "acker/targets/standing.py",
        "    elif held < known.fold:",
        "    elif held < 0:",
        ("tests/spark/test_standing.py::test_what_a_target_has_lost_is_told_and_published_again_when_asked",),
    ),
    Mutant(
        "a target that was made anew is gone on with",
        "acker/targets/standing.py",
        "    elif known.fold and not known.there:",
        "    elif known.fold and known.there < 0:",
        ("tests/spark/test_standing.py::test_what_a_target_has_lost_is_told_and_published_again_when_asked",),
    ),
    Mutant(
        "what a restore took away counts as published",
        "acker/targets/history.py",
        'if commit.get("operation") == "RESTORE":',
        "if False:",
        ("tests/spark/test_standing.py::test_what_a_target_has_lost_is_told_and_published_again_when_asked",),
    ),
    Mutant(
        "what the store does not know to be published is trimmed",
        "acker/operations/publish.py",
        "    position = min(standing.fold, standing.known.fold)\n",
        "    position = standing.fold\n",
        (
            "tests/spark/test_standing.py::test_what_is_published_and_not_recorded_is_known_at_the_next_publish",
        ),
    ),
    Mutant(
        "what is trimmed is not kept by key",
        "acker/operations/maintenance/trim.py",
        "                keep(run.store, name, by, rows, before.number, counted)\n",
        "                pass\n",
        (f"{BY_KEY}test_what_was_trimmed_is_kept_by_key_and_compared",),
    ),
    Mutant(
        "an audit counts untracked tuples that a trimming has counted",
        "acker/targets/base.py",
        "_batch > {self.counted.upto.get(component_of(stream), 0)} AND ",
        "",
        (f"{BY_KEY}test_tuples_of_no_message_count_once_also_between_the_counting_and_the_deletion",),
    ),
    Mutant(
        "an audit counts published rows and does not look at what they say",
        "acker/targets/by_content.py",
        """pl.col("digest") != pl.col(f"digest{_FOUND}")""",
        "pl.lit(False)",
        (f"{BY_CONTENT}test_rows_that_do_not_say_what_was_acked_are_found",),
    ),
    Mutant(
        "what trimmed rows say is not kept",
        "acker/operations/maintenance/trimmed_rows.py",
        "        keep_rows(journal.store, name, rows, number)\n",
        "        pass\n",
        (f"{BY_CONTENT}test_what_was_trimmed_is_compared_fold_by_fold",),
    ),
    Mutant(
        "what a replay takes back of trimmed rows is still expected",
        "acker/core/snapshot/kept.py",
        """-pl.col(name) for name in""",
        """0 * pl.col(name) for name in""",
        (f"{BY_CONTENT}test_what_a_replay_takes_back_of_trimmed_rows_is_not_expected_any_more",),
    ),
    Mutant(
        "rows of no message may be put into a published table",
        "acker/targets/by_content.py",
        "        if not self._judge_others(kept, wanted, found):\n",
        "        if False:\n",
        (f"{BY_CONTENT}test_rows_of_no_message_are_compared_altogether",),
    ),
    Mutant(
        "what a renamed bolt had published is not counted when it goes",
        "acker/operations/maintenance/trim.py",
        "(former | counting).items()",
        "counting.items()",
        (f"{BY_KEY}test_what_a_renamed_bolt_had_published_is_counted_when_it_is_trimmed",),
    ),
    Mutant(
        "what forgets reasons passes over a compaction",
        "acker/core/store/rewriting.py",
        "custom_metadata=dict(note), max_commit_retries=0)",
        "custom_metadata=dict(note))",
        (f"{FORGET}test_commits_that_come_between_are_no_loss",),
    ),
    Mutant(
        "a message in flight is forgotten",
        "acker/operations/maintenance/forget.py",
        "    for row in moving.head(1).rows(named=True):\n",
        "    for row in moving.head(0).rows(named=True):\n",
        (f"{FORGET}test_messages_in_flight_are_refused_and_nothing_is_forgotten",),
    ),
    Mutant(
        "a secret that a quotation cuts is kept",
        "acker/core/reasons.py",
        """f"{text[:characters]}{_REST}{rest}{_END}" if rest else text""",
        "text[:characters]",
        (f"{REASONS}test_a_secret_that_the_end_of_a_quotation_cuts_is_replaced",),
    ),
    Mutant(
        "a moved store sends a fold from its beginning of which a topic has a part",
        "acker/targets/kafka.py",
        "markers[-1] if markers else self._begun(changes)",
        "markers[-1] if markers else Marker(0, 1, 1, 0, 0)",
        (f"{KAFKA_BACKUP}test_a_moved_store_goes_on_within_the_fold_that_was_cut_short",),
    ),
    Mutant(
        "messages in flight start a fold at each look",
        "acker/reports/waiting.py",
        " and topology.timeouts.turn(newest.turn, now) != newest.turn:",
        ":",
        (
            f"{WAITING}test_messages_in_flight_wait_for_the_acker_each_time_the_window_turns",
            f"{WAITING}test_messages_that_never_time_out_do_not_wait_for_the_acker",
        ),
    ),
    Mutant(
        "what cannot be looked at counts as over",
        "acker/reports/news.py",
        "if _is_hidden(each.finding, hidden)]",
        "if False]",
        (f"{NEWS}test_what_cannot_be_looked_at_is_not_over",),
    ),
    Mutant(
        "a finding that has become graver is not told again",
        "acker/reports/news.py",
        "last.finding.grade != finding.grade[:LONGEST]",
        "False",
        (f"{NEWS}test_it_is_told_again_when_its_cause_or_extent_is_another",),
    ),
    Mutant(
        "a look that raises hides the looks after it",
        "acker/reports/health.py",
        "    except Exception as error:",
        "    except ZeroDivisionError as error:",
        (f"{HEALTH}test_a_look_that_raises_is_told_and_hides_no_other[caller]",),
    ),
    Mutant(
        "a backlog that came at once is told as one that grows",
        "acker/reports/late.py",
        "before < between < now <= allowed",
        "before < now <= allowed",
        (f"{HEALTH}test_a_backlog_that_grows_is_told_before_it_is_too_long[caller-7-7-8-False]",),
    ),
    Mutant(
        "a backlog that grows is told when it is too long",
        "acker/reports/late.py",
        "(now - before) * (ahead / _TREND)",
        "0",
        (f"{HEALTH}test_a_backlog_that_grows_is_told_before_it_is_too_long[caller-1-2-3-True]",),
    ),
    # Values and names of Python's bolts.
    Mutant(
        "Arrow takes Python's values as it likes",
        "acker/components/values.py",
        "if self.values.are_plain(values):",
        "if True:",
        (VALUES + "test_a_value_that_does_not_fit_fails_its_tuple_alone_among_many",),
    ),
    Mutant(
        "a bolt changes what it has emitted",
        "acker/components/emitted.py",
        "for column in self.mutable:",
        "for column in ():",
        (VALUES + "test_a_value_is_as_it_was_when_it_was_yielded",),
    ),
    Mutant(
        "a method of a Row hides the column of its name",
        "acker/components/emitted.py",
        "(Row,), {**at,",
        "(Row,), {",
        (VALUES + "test_a_column_goes_before_a_method_of_its_name",),
    ),
    Mutant(
        "the end of a Python worker is nobody's row",
        "acker/components/raising.py",
        "if ends_worker(error):\n        return ENDED",
        "if ends_worker(error):\n        return None",
        ("tests/spark/test_bad_rows.py::test_a_message_that_ends_the_python_worker_fails_alone[basic]",),
    ),
    # Approvals, and conditions that people write.
    Mutant(
        "a large replay is emitted without an approval",
        "acker/operations/approvals.py",
        "    if not standing.must_be_approved(limit):\n        return\n",
        "    return\n",
        (f"{APPROVALS}test_only_an_answer_that_the_operator_has_recorded_lets_a_large_request_out[caller]",),
    ),
    Mutant(
        "an answer to one request is one to all",
        "acker/operations/approvals.py",
        "f\"SELECT step FROM steps WHERE plan = '{request.plan}' \"",
        '"SELECT step FROM steps WHERE true "',
        (f"{APPROVALS}test_the_newest_answer_counts_and_one_of_another_request_does_not[caller]",),
    ),
    Mutant(
        "each request of a person counts by itself",
        "acker/operations/approvals.py",
        "return self.request.matched + self.messages > limit",
        "return self.request.matched > limit",
        (f"{APPROVALS}test_what_one_person_asks_for_in_pieces_counts_together[caller]",),
    ),
    Mutant(
        "a condition calls any function",
        "acker/operations/selection/terms.py",
        "if _is_name(before) and before not in _BEFORE_BRACKET:",
        "if False:",
        (f"{CONDITIONS}test_a_function_that_may_make_more_than_it_is_given_is_refused",),
    ),
    Mutant(
        "a replay has settled where its messages were acked before",
        "acker/reports/replayed.py",
        '.filter(pl.col("attempt") >= pl.col("first"))',
        "",
        (f"{REPLAYED}test_an_earlier_ack_does_not_count_and_a_later_attempt_does[caller]",),
    ),
    # Mistakes of authors.
    Mutant(
        "an argument of a wrong type is taken",
        "acker/core/arguments.py",
        "bound.arguments[name] = _checked(whose, parameters[name], value)",
        "pass",
        ("tests/unit/test_arguments.py::test_what_does_not_fit_is_told_with_its_place",),
    ),
    Mutant(
        "a held batch says the first line of a worker's trace",
        "acker/core/error_messages.py",
        "if _TRACE in text else",
        "if not text else",
        ("tests/store/test_held.py::test_a_held_batch_says_the_last_line_of_the_workers_own_trace",),
    ),
    Mutant(
        "a column of texts that is NOT NULL is null",
        "acker/spouts/parsed/workers.py",
        "if not field.is_required or not column.null_count:",
        "if column.null_count >= 0:",
        ("tests/unit/test_parsed_texts.py::test_a_text_without_a_value_for_a_required_column_is_bad",),
    ),
)
