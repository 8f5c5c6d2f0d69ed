"""The program mxcheck, as the wheel installs it."""

import os
import sys

from .candidates.gating import tool_path


def main() -> None:
    os.environ.setdefault("MXCHECK_PYTHON", sys.executable)  # candidates in Python are those of this environment
    path = tool_path()
    os.execv(path, [path, *sys.argv[1:]])
