"""The rules of the protocol, by name. Each can be left out, to see what it is for."""

RULES = {
    # a batch
    "logged batches": "a bolt takes only batches that are logged",
    "edges": "a bolt takes only batches whose plan names it among the edges",
    "journal's row": "whoever plans a number follows the journal's row and not its own memory",
    "one batch": "a component plans a batch when all that it planned is logged",
    "append once": "a write goes into the stream once per batch, by the stream's txn",
    "log once": "a log goes into events once per batch, by the events' txn",
    "committed rows": "a log reads committed rows and computes nothing again",
    "one commit": "what a batch consumed and what it emitted become visible in one commit",
    "positions": "a bolt's plan carries its positions in all streams that it ever read",
    "given up": "a batch that is given up fails all its inputs",
    "given up held": "a batch that is given up fails also what the bolt held back",
    # held tuples
    "held": "a tuple is consumed by the batch that no longer holds it back",
    "held mark": "a plan says how far back the tuples lie that are held",
    # a fold
    "one version": "a fold takes new events and waiting tuples as of one version of events",
    "waiting": "a root whose tuples wait for a bolt is not too old",
    "fold once": "a fold goes into the ledger once per number",
    "fold's position": "a fold's rows and its position are one commit",
    "fail first": "a fail wins over a zero",
    "for good": "an attempt that was failed for good has no successor but by hand",
    "one init": "two inits fail a root",
    "count": "a root is acked when the count is zero as well",
    "superseded": "an attempt whose successor has an init fails",
    "retrying apart": "retrying rows take no part in the grouping",
    "together": "joined roots settle together",
    "settled partner": "a partner that is no longer live counts as failed",
    "replaced together": "attempts that replace what was acked together settle together",
    "spout gone": "a retrying row of a spout that is gone becomes lost",
    "retire": "what waits on an edge that is gone is failed",
    # replays
    "one journal": "a replay fixes its number and what was replayed before it by one look at the journal",
    "seen": "a replay leaves out what replays above the fold have emitted",
    "won": "a replay that another plan forestalls leaves, or starts over",
    "in flight alone": "a replay by hand leaves messages in flight alone",
    "partners": "a replay by hand takes joined partners along",
    "root's batch": "the batch is part of a root's id",
    "all or none": "a replay by hand plans the batches of all spouts in one commit",
    "hand looks": "a replay by hand fixes its numbers when nothing is unfinished",
    "pinned": "the rows of a fold are read as of a version that holds them",
    # publishing
    "target's txn": "a publisher's position is the target's own txn",
    "replace": "a publish removes what an earlier attempt published, in the same commit",
    # trimming
    "trim settled": "only batches whose roots have settled are trimmed",
    "trim published": "only what all publishers have passed is trimmed",
    "trim taken": "only what every bolt among the edges has taken in is trimmed",
    "trim replaced": "what a planned replay is to replace is not trimmed",
    "trim looks again": "a trim that has said how far it goes looks for replays before it deletes",
    "late replay": "a replay fails those of its messages that were trimmed before it is written",
    "trim untracked": "untracked tuples that are held back are not trimmed",
    # copies
    "backup order": "a backup opens a table before those that it refers to",
    "backup looks again": "a backup during which a trimming was announced is opened anew",
    "backup of a moment": "a backup is opened anew where a batch was logged after it opened events",
    "own id": "a copy publishes under an id of its own, and counts of its original what its ledger knows",
    "closed": "a store is closed before it is moved, and nobody works on it then",
    # spouts
    "max_pending": "max_pending counts each spout by itself",
}
