"""Options that choose messages, as `acker.operations.selection.selection.Selection` reads them."""

from collections.abc import Callable
from functools import reduce

import click

from acker.core.events import SELECTABLE

_STATES = click.Choice([state.value for state in SELECTABLE])
_NARROWER = (
    click.option("--spout", help="Only this spout's."),
    click.option(
        "--message",
        "messages",
        multiple=True,
        help="Only this one, SPOUT:PARTITION:OFFSET; may be given several times.",
    ),
    click.option("--partition", metavar="GLOB", help="Only partitions of this pattern, such as '2026-01-*'."),
    click.option("--component", metavar="BOLT", help="Only those whose failure was in this component."),
    click.option("--since", type=click.DateTime(), help="Only those emitted at this time (UTC) or later."),
    click.option("--until", type=click.DateTime(), help="Only those emitted at this time (UTC) or earlier."),
    click.option("--reason", help="Only those whose reason contains this text."),
)


def selecting(states: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that gives a command the options that choose messages.

    Args:
        states: the help of the option `--state`.
    """
    options = click.option("--state", "states", multiple=True, type=_STATES, help=states), *_NARROWER

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        return reduce(lambda so_far, option: option(so_far), reversed(options), command)

    return with_options
