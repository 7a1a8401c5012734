"""How a command of this package ends."""

import sys
from collections.abc import Callable
from typing import NoReturn

from acker.core.errors import AckerError


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exit with what `main` returns; 2 where its input or surroundings are at fault, 130 after Ctrl-C."""
    try:
        sys.exit(main())
    except AckerError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
