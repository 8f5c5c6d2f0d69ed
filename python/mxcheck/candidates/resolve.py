"""Looks up "MODULE:NAME" and "FILE.py:NAME" in the process that will call the candidate."""

import importlib
import importlib.util
import os
import sys
import traceback
from types import ModuleType
from typing import Any, List, Optional, Tuple

from .._errors import UsageError
from .._names import near, told
from .declare import Candidate, as_list


importing: List[str] = []  # modules that are being imported as candidates, in a process of the gate


def split(spec: str) -> Tuple[str, str, Optional[int]]:
    """Module or file, name ("" for all candidates of the module), and the number of a configuration: "MODULE:NAME@2"."""
    if not isinstance(spec, str):
        raise UsageError(f"candidate is {told(spec)}: what @mxcheck.candidate made, or 'MODULE:NAME', is needed")
    body, at, number = spec.rpartition("@")
    configuration = None
    if at and number.isdigit():
        spec, configuration = body, int(number)
    module, _, name = spec.partition(":")
    if not module:
        raise UsageError(f"{spec!r} names no module: MODULE:NAME or FILE.py:NAME is needed")
    return module, name, configuration


def where(error: BaseException, most: int = 480) -> str:
    """An exception and the places that it came through, the last one first, in one line: what a report has room for."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    parts = [" ".join(text.split())[:240]]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.sep + "mxcheck" + os.sep + "candidates" + os.sep in frame.filename or frame.filename.startswith("<frozen") \
                or frame.filename == importlib.__file__:
            continue
        parts.append(f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()[:80]}")
    line = parts[0]
    for part in parts[1:]:
        if len(line) + len(part) + 3 > most:
            break
        line += " | " + part
    return line.encode("ascii", "replace").decode()[:most]


def interpreter(error: BaseException) -> str:
    """The end of a message about a missing module: which Python looked for it, and how another is chosen."""
    if not isinstance(error, ImportError):
        return ""
    return f" (interpreter {sys.executable}; MXCHECK_PYTHON=/path/to/python chooses another)"


def _declared_at(error: BaseException) -> str:
    """ "kernels.py:12: " of the line outside of this package that an error of a declaration came from."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((package, "<frozen")) and frame.filename != importlib.__file__:
            return f"{os.path.basename(frame.filename)}:{frame.lineno}: "
    return ""


def load_module(module: str) -> ModuleType:
    """The module, or a file's; UsageError where it cannot be imported, with the exception and its place."""
    importing.append(module)
    try:
        if not module.endswith(".py"):
            if os.path.isfile(module):
                raise UsageError(f"{module} is a file, and not one of Python: FILE.py:NAME is needed")
            return importlib.import_module(module)
        name = os.path.splitext(os.path.basename(module))[0]
        spec = importlib.util.spec_from_file_location(name, module)
        if not os.path.isfile(module) or spec is None or spec.loader is None:
            raise FileNotFoundError(f"file {module} does not exist")
        sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        spec.loader.exec_module(made)
        return made
    except UsageError as error:
        raise UsageError(f"has a wrong declaration: {_declared_at(error)}{error}") from None
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a module are no reason to end without a word
        raise UsageError(f"cannot be imported: {where(error)}{interpreter(error)}") from None
    finally:
        importing.pop()


def resolve(module: str, name: str) -> List[Candidate]:
    """The candidates of that name; UsageError where there are none."""
    loaded = load_module(module)
    if not name:
        of_module = [one for one in vars(loaded).values() if isinstance(one, Candidate)]
        if not of_module:
            raise UsageError(f"has no candidates: none of its names is declared with @mxcheck.candidate (module {loaded.__name__})")
        return of_module
    found: Any = loaded
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"has no {name}: {loaded.__name__} has {_names(loaded)}{near(name, _candidates(loaded))}")
        found = getattr(found, part)
    candidates = as_list(found)
    if candidates is None:
        raise UsageError(f"is no candidate: {name} is a {type(found).__name__}; declare it with @mxcheck.candidate(op=...)")
    devices = sorted({one.device for one in candidates})
    if len(devices) > 1:
        raise UsageError(f"has candidates of {' and '.join(devices)}: those of one device can be gated together")
    return candidates


def _candidates(module: ModuleType) -> List[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Candidate)]


def _names(module: ModuleType) -> str:
    names = _candidates(module)
    return "the candidates " + ", ".join(names) if names else "no candidates"
