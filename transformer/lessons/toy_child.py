"""The process in which the app trains the toy: ``python -m transformer`` that does not outlive its server.

Started as ``python -m transformer.lessons.toy_child FOLDER ARGUMENTS``, with standard input a pipe from the server. The
server writes nothing into it, but the system closes it when the server ends, by whatever death: then this process
removes FOLDER and ends at once. (A signal at the parent's death, as Linux has, would come too early: it comes when the
thread ends that started the process, and a visitor's thread in the app is short-lived.)
"""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import sys
import threading
from pathlib import Path

NICENESS = 10
"""How far this process stands back behind others that want the processor; 19 is the most."""


def main() -> None:
    """Run the command in the arguments, and watch the server meanwhile."""
    folder, *arguments = sys.argv[1:]
    threading.Thread(target=_end_with_server, args=(Path(folder),), daemon=True).start()
    if sys.platform != "win32":
        os.nice(NICENESS)
    sys.argv = ["transformer", *arguments]
    runpy.run_module("transformer", run_name="__main__", alter_sys=True)


def _end_with_server(folder: Path) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    for _ in range(3):  # the training may be writing into it
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
