"""`python -m acker`, as the command `acker`."""

from acker.cli.commands import main

main()
