"""The process of a Python candidate: python -m mxcheck._worker LIBRARY SPEC SOCKET SHARED GPU_MODEL, started by the gate.

LIBRARY is libmxcheck_worker.so, SPEC "MODULE:NAME". With --configurations SPEC: prints the texts of its configurations as JSON.
"""

import json
import os
import sys
from typing import List


def _configurations(spec: str) -> int:
    from ._errors import Error
    from .candidates import tuning
    from .candidates.resolve import resolve, split

    try:
        module, name, _ = split(spec)
        texts = [one.text for each in resolve(module, name) for one in tuning.configurations(each.function)]
    except Error as error:
        print(json.dumps({"error": f"candidate python:{spec} {error}"}))
        return 2
    print(json.dumps({"configurations": texts}))
    return 0


def main(arguments: List[str]) -> int:
    if arguments[:1] == ["--configurations"] and len(arguments) == 2:
        return _configurations(arguments[1])
    if len(arguments) != 5:
        sys.stderr.write("mxcheck._worker is started by the gate: mxcheck gate --candidate python:MODULE:NAME\n")
        return 2
    from .candidates.serving import Served, open_library

    library = open_library(arguments[0])
    library.mxcheck_worker_begin(os.getppid())
    sys.stdout = sys.stderr
    return Served(library, arguments[1]).serve(int(arguments[2]), int(arguments[3]), arguments[4])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
