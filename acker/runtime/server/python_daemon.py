"""Spark's daemon of Python workers, for `spark.python.daemon.module`: a worker forgets the user's modules.

The sessions of a server share its daemon and workers (see `sessions`), since a worker's first task takes
seconds to import pandas and pyarrow. A module from outside of Python's own folders, such as a topology's, may
have been edited by the time of the worker's next task. So each task imports such modules anew.
"""

import site
import socket
import sys
import sysconfig
from types import ModuleType

from pyspark import daemon

_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
)
_work = daemon.worker


def _is_users(name: str, module: ModuleType) -> bool:
    """Whether a module, or a package without a file, comes from outside of Python's folders."""
    origins = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return name != "__main__" and any(origin and not origin.startswith(_LIBRARIES) for origin in origins)


def _work_and_forget(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _work(sock, authenticated)
    finally:
        # All are found before the first goes, since a package without a file asks for those around it.
        users = [name for name, module in list(sys.modules.items()) if _is_users(name, module)]
        for name in users:
            del sys.modules[name]


if __name__ == "__main__":
    daemon.worker = _work_and_forget
    daemon.manager()
