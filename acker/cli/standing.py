"""The commands `adopt` and `republish`: publish to another store's target, and publish lost rows again."""

from dataclasses import asdict

import click

from acker.cli.context import Context, command


@command
@click.argument("stream")
@click.option("--dry-run", is_flag=True, help="Only tell who publishes there.")
def adopt(context: Context, stream: str, dry_run: bool) -> None:
    """Publish STREAM to a table or topic to which another store publishes, from now on.

    From then on the table or topic has rows of both stores. It has a message twice that both stores have
    read.
    """
    from acker.operations.standing import adopt as adopt_target
    from acker.operations.standing import strangers

    publication = context.topology.publication(stream)
    others = strangers(publication, context.store)
    if not dry_run:
        with context.running("beside others") as running:
            adopt_target(running, stream)

    def rendered() -> None:
        for note in others:
            who = note.store or f"a store with the id {note.app.partition('/')[0]}"
            click.echo(f"{who} has published {note.app.partition('/')[2]} there up to fold {note.fold}.")
        where = context.store.path("").rstrip("/")
        does = "would publish" if dry_run else "publishes"
        click.echo(
            f"{where} {does} {stream} to {publication.to} beside what is there. A message that two stores "
            "have read is there twice."
        )

    found = [{"store": note.store, "publisher": note.app, "fold": note.fold} for note in others]
    context.print({"to": publication.to, "dry_run": dry_run, "others": found}, rendered)


@command
@click.argument("stream")
@click.option("--dry-run", is_flag=True, help="Publish nothing; say how much could be.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="FOLD",
    help="What was published up to FOLD is there, as you know; by default as the table or topic says.",
)
def republish(context: Context, stream: str, dry_run: bool, after: int | None) -> None:
    """Publish again the rows that the target of STREAM has lost: it was dropped, made anew or restored.

    Messages whose tuples were trimmed cannot be published again; replay those messages. Records that were
    sent to a topic stay there, and are sent once more.
    """
    from acker.operations.standing import look
    from acker.operations.standing import republish as publish_again

    found, commits = look(context.topology, context.store, stream, after), 0
    would = "would be" if dry_run else "are"

    def tell() -> None:
        if found.why is None:
            click.echo(f"{stream}: store and target agree, and nothing is to be published again.")
            return
        click.echo(f"{found.messages:,} messages after fold {found.after} {would} published again.")
        if found.gone:
            click.echo(f"{found.gone:,} cannot be, since their tuples were trimmed: replay them.")
        if found.is_sent_twice and found.messages:
            click.echo(
                "What was sent before stays in the topic, and cannot be taken back: readers see it twice. "
                "Where it is there still, say --after FOLD."
            )

    if not context.as_json:
        tell()
    if not dry_run:
        with context.running() as running:
            found, commits = publish_again(running, stream, after)
    result = {**asdict(found), "dry_run": dry_run, "commits": commits}
    context.print(result, lambda: None if dry_run else click.echo(f"commits  {commits}"))
