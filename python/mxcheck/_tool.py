"""The program mxcheck: as the wheel installs it, and for what Python asks it to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from ._errors import OF_EXIT_CODE, EnvironmentError_, Error, InputError, InternalError, UsageError


def tool_path() -> str:
    """The program mxcheck: MXCHECK_TOOL, the package's own, the checkout's, or PATH's."""
    given = os.environ.get("MXCHECK_TOOL")
    package = Path(__file__).resolve().parent
    places = [Path(given)] if given else [package / "bin" / "mxcheck", package.parents[1] / "build" / "release" / "bin" / "mxcheck"]
    for place in places:
        if place.is_file():
            return str(place)
    found = None if given else shutil.which("mxcheck")
    if found:
        return found
    raise EnvironmentError_(f"there is no program mxcheck at {' or '.join(map(str, places))}{'' if given else ' or in PATH'}: build it with "
                            "'./run build mxcheck' in a checkout, or say where it is with MXCHECK_TOOL")


def main() -> None:
    os.environ.setdefault("MXCHECK_PYTHON", sys.executable)  # candidates in Python are those of this environment
    path = tool_path()
    os.execv(path, [path, *sys.argv[1:]])


def run_tool(arguments: Sequence[str], answers: Tuple[int, ...] = (0,), refused: Optional[Type[Error]] = None,
             timeout: Optional[float] = None, hide: str = "") -> Tuple[int, str]:
    """Exit code, one of `answers`, and standard output; any other code is an exception with the program's own line.

    refused: the exception of exit code 2, which is of arguments and of input files alike, but where the line begins with what is unknown or
    with an option's name: then it is a UsageError. The program ends with this process, and when it
    takes longer than timeout seconds. hide: a temporary folder, which says nothing in a message.
    """
    command: List[str] = [tool_path(), *arguments]
    if any("\0" in one for one in command):
        raise InputError("a name has a zero byte")
    try:
        done: Any = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentError_(f"mxcheck {' '.join(arguments[:2])} took over {timeout} s") from None
    if done.returncode in answers:
        return done.returncode, done.stdout.decode()
    raise error_of(done.returncode, done.stderr, arguments[0], refused, hide)


def error_of(code: int, stderr: bytes, subcommand: str, refused: Optional[Type[Error]] = None, hide: str = "") -> Error:
    """The exception of a program that ended with this code; refused and hide as of run_tool."""
    said = stderr.decode(errors="replace")
    lines = [line for line in said.splitlines() if line.startswith("mxcheck: error: ")]
    text = lines[-1][len("mxcheck: error: "):] if lines else f"mxcheck {subcommand} ended with status {code}: {said.strip()[-500:]}"
    if hide:
        text = text.replace(hide + "/", "")
    kind: Type[Error] = OF_EXIT_CODE.get(code, InternalError)
    if kind is UsageError and not text.startswith(("unknown ", "-")):
        kind = refused or InputError
    return kind(text)
