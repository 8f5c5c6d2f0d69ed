"""mxcheck.gate: the gate of the command line, on a callable."""

import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .._errors import OF_EXIT_CODE, EnvironmentError_, Error, InternalError, UsageError
from .._names import number as checked_number
from .._names import one_of, told, whole, word
from .._tool import tool_path
from ._terminal import communicate
from .declare import Candidate
from .resolve import importing, split

EXIT_CODES = {0: "every statement that ran held", 1: "there is a counterexample", 4: "inconclusive", 6: "the candidate crashed or hung"}


@dataclass(frozen=True)
class Statement:
    """One statement of a run. verdict: "held", "failed", "inconclusive", "not offered"."""

    name: str
    verdict: str
    cases: int
    seconds: float
    reason: str
    counterexample: Optional[Dict[str, Any]]  # as `mxcheck gate --json` has it
    text: str  # the counterexample as the command line prints it; "" where there is none


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a gate. True as a truth value where every statement that ran held, for every configuration."""

    candidate: str
    exit_code: int
    seed: int
    suite: str
    seconds: float
    statements: Tuple[Statement, ...]
    version: str = ""  # of what the kernel is made with
    configuration: str = ""  # of an autotuned kernel
    first_calls: Dict[str, Any] = field(default_factory=dict)  # count and time of those that may have compiled
    configurations: Tuple["Report", ...] = ()  # each by itself, where there are several
    document: Dict[str, Any] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return self.exit_code == 0

    @property
    def failures(self) -> Tuple[Statement, ...]:
        return tuple(one for one in self.statements if one.counterexample is not None)

    def text(self) -> str:
        """The verdict, a line a statement, and every counterexample."""
        if self.configurations:
            return "\n".join(one.text() for one in self.configurations)
        lines = [f"mxcheck gate: {self.candidate}{' ' + self.configuration if self.configuration else ''}; seed {self.seed}, suite {self.suite}; {self.version}"]
        for one in self.statements:
            if one.verdict == "not offered":
                continue
            lines.append(f"{one.verdict if one.verdict == 'held' else one.verdict.upper():<13} {one.name:<64} {one.cases:>6} cases {one.seconds:>7.2f} s")
            if one.reason:
                lines.append(f"{'':<14}{one.reason}")
        if self.first_calls:
            lines.append("first calls of a kind, compiling included: {calls} took {seconds:.2f} s together, the longest {longest:.2f} s ({longest_kind})".format(**self.first_calls))
        lines += [f"after all statements: {end}" for end in self.document.get("ends", ())]
        lines += ["\n" + one.text + "\n" for one in self.failures]
        lines.append(f"exit code {self.exit_code}: {EXIT_CODES.get(self.exit_code, 'unknown')}")
        return "\n".join(lines)

    __str__ = text

    def __repr__(self) -> str:
        """In a line: the verdict, what ran, and the cause of the first counterexample."""
        ran = [one for one in self.statements if one.verdict != "not offered"]
        verdict = {0: "held", 1: "FAILED", 4: "INCONCLUSIVE", 6: "CRASHED OR HUNG"}.get(self.exit_code, f"exit code {self.exit_code}")
        failed = f"{len(self.failures)} of {len(ran)} statements failed" if self.failures else f"{len(ran)} statements"
        line = f"{verdict}: {failed}, {sum(one.cases for one in ran):,} cases, {self.seconds:.1f} s"
        for one in self.failures[:1]:
            rows = [row.split(None, 1) for row in one.text.splitlines() if row.startswith(("  cause ", "  found "))]
            line += f"; {one.name}: {rows[0][1] if rows and len(rows[0]) == 2 else 'see text()'}"
        return f"<mxcheck.Report of {self.candidate}: {line}>"


def list_statements(only: str = "*") -> List[str]:
    """Names of the gate's statements that the glob takes, in their order."""
    done = subprocess.run([tool_path(), "gate", "--list", "--json"], stdout=subprocess.PIPE, check=True)
    names = [one["name"] for one in json.loads(done.stdout.decode())]
    return [name for name in names if fnmatch.fnmatchcase(name, only)]


def _is_module(name: str) -> bool:
    """True if `import name` finds a file. A folder without __init__.py is no module here."""
    if name in sys.modules:
        return True
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def library_of(candidate: Any) -> str:
    """The path or name of a kernel library, as --candidate of the command line takes it; "" where the candidate is one in Python.

    A path has a slash or ends with .so, as "./libmine.so". A name is a word that is no module, as "cpu".
    """
    if isinstance(candidate, os.PathLike):
        candidate = os.fspath(candidate)
    if not isinstance(candidate, str) or not candidate:
        return ""
    if candidate.endswith(".so"):
        return candidate
    if ":" in candidate or "@" in candidate or candidate.endswith(".py"):
        return ""
    if os.sep in candidate:
        return candidate
    is_library = not _is_module(candidate) if re.fullmatch(r"\w+", candidate) else os.path.exists(candidate)
    return candidate if is_library else ""


def spec_of(candidate: Any) -> str:
    """MODULE:NAME of a candidate in Python, as a fresh process can find it. UsageError where it cannot."""
    if isinstance(candidate, str):
        spec = candidate[len("python:"):] if candidate.startswith("python:") else candidate
        split(spec)
        return spec
    if not isinstance(candidate, Candidate):
        raise UsageError(f"{told(candidate)} is no candidate: declare it with @mxcheck.candidate(op=...), or give 'MODULE:NAME', or a library, as './libmine.so'")
    module_name = getattr(candidate.function, "__module__", None)
    module = sys.modules.get(module_name or "")
    for name, value in vars(module).items() if module is not None else ():
        if value is candidate:
            break
    else:
        raise UsageError(f"{candidate.name} is no name of its module {module_name}: the gate's process imports it by name; give 'MODULE:NAME'")
    if module_name != "__main__":
        return f"{module_name}:{name}"
    path = getattr(module, "__file__", None)
    if path is None:
        raise UsageError(f"{candidate.name} is of a session without a file, which the gate's process cannot import: write it to a file, "
                         "and give 'FILE.py:NAME'")
    return f"{os.path.abspath(path)}:{name}"


def _environment() -> Dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("MXCHECK_PYTHON", sys.executable)
    package = str(Path(__file__).resolve().parents[2])
    # The process that is started can import what this one imports.
    paths = [package, *[path for path in sys.path if path and path != package and os.path.isdir(path)]]
    environment["PYTHONPATH"] = os.pathsep.join([*environment.get("PYTHONPATH", "").split(os.pathsep), *paths]).strip(os.pathsep)
    return environment


def configurations_of(spec: str, timeout: Optional[float] = None) -> List[str]:
    """Texts of the configurations of a candidate's autotuners, from a process of its own."""
    command = [os.environ.get("MXCHECK_PYTHON", sys.executable), "-m", "mxcheck._worker", "--configurations", spec]
    try:
        done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise UsageError(f"candidate python:{spec} was not imported within {timeout} s") from None
    try:
        answer = json.loads(done.stdout.decode().strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise UsageError(f"candidate python:{spec} ended its process with status {done.returncode} while it was imported") from None
    if "error" in answer:
        raise UsageError(answer["error"])
    return list(answer["configurations"])


def gate(candidate: Union[Candidate, str, "os.PathLike[str]"], suite: str = "quick", seed: Optional[int] = None, only: str = "*",
         configs: Union[str, Sequence[int], None] = "all", cases: Optional[int] = None, jobs: Optional[int] = None, time_limit: float = 20,
         first_call_limit: float = 300, save: str = "", fail_fast: bool = False, timeout: Optional[float] = None,
         memory_limit: float = 0) -> Report:
    """Compares a candidate with the reference, byte for byte: `mxcheck gate --candidate ...`.

    candidate: what @mxcheck.candidate made, at module level, or "MODULE:NAME" or "FILE.py:NAME". The gate runs it in a process of this
    interpreter. Or a kernel library: the path of a shared library, as "./libmine.so", or the name of one beside mxcheck, as "cpu". configs: which configurations of its autotuners, "all" or their numbers; None: it has none, and is not asked. time_limit, first_call_limit: seconds of a
    call, of one that may compile; timeout: of the whole run. memory_limit: GB of host memory that the candidate's process may take; 0: three
    quarters of the machine's. UsageError for a candidate that cannot be imported, for a call of this while a module is imported as a
    candidate (it would gate itself without end), and the like.
    """
    if importing:
        raise UsageError(f"calls mxcheck.gate while {importing[-1]} is imported, as the gate's own process imports it: put that call under "
                         'if __name__ == "__main__":')
    library = library_of(candidate)
    spec = library or spec_of(candidate)
    one_of(suite, "suite", ("quick", "full", "exhaustive"))
    word(only, "only")
    for name, value, least, most in (("seed", seed, 0, 2**64 - 1), ("cases", cases, 1, 10_000_000), ("jobs", jobs, 0, 256)):
        if value is not None:
            whole(value, name, least, most)
    for name, limit in (("time_limit", time_limit), ("first_call_limit", first_call_limit), ("memory_limit", memory_limit)):
        checked_number(limit, name)
    if configs is not None and configs != "all" and (isinstance(configs, str) or not hasattr(configs, "__iter__")):
        raise UsageError(f"configs is {told(configs)}: 'all', a list of numbers, or None is needed")
    numbers: List[Optional[int]] = [None]
    texts: List[str] = []
    if library and configs is not None and configs != "all":
        raise UsageError(f"configs is {told(configs)}: configurations are of candidates in Python, and {library} is a library")
    if not library and split(spec)[2] is None and configs is not None:
        texts = configurations_of(spec, first_call_limit)
        numbers = list(range(len(texts))) if configs == "all" else [whole(number, "configs", 0) for number in configs]
        if len(texts) == 0:
            numbers = [None]
    reports: List[Report] = []
    for number in numbers:
        arguments = ["--suite", suite, "--only", only, "--time-limit", str(time_limit), "--first-call-limit", str(first_call_limit),
                     "--memory-limit", str(memory_limit), "--save", save]
        for name, value in (("--seed", seed if seed is not None else reports[0].seed if reports else None), ("--cases", cases), ("--jobs", jobs)):
            if value is not None:
                arguments += [name, str(value)]
        if fail_fast:
            arguments.append("--fail-fast")
        chosen = library or "python:" + (spec if number is None else f"{spec}@{number}")
        reports.append(_run(chosen, arguments, texts[number] if number is not None and number < len(texts) else "", timeout))
    return reports[0] if len(reports) == 1 else _together(spec, reports)


def _run(candidate: str, arguments: List[str], configuration: str, timeout: Optional[float]) -> Report:
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
        junit = os.path.join(folder, "gate.xml")
        command = [tool_path(), "gate", "--candidate", candidate, "--json", "--junit", junit, *arguments]
        try:
            code, out, said, shown = communicate(command, _environment(), timeout)
        except subprocess.TimeoutExpired:
            raise EnvironmentError_(f"mxcheck gate took over {timeout} s and did not end when it was told to") from None
        if code not in EXIT_CODES:
            lines = [line for line in said.splitlines() if line.startswith("mxcheck: error: ")]
            text = lines[-1][len("mxcheck: error: "):] if lines else f"mxcheck gate ended with status {code}: {said.strip()[-500:]}"
            raise OF_EXIT_CODE.get(code, InternalError)(text)
        if not shown:
            sys.stderr.write(said)
        return _report(json.loads(out.decode()), _texts(junit), configuration)


def _texts(junit: str) -> Dict[str, str]:
    if not os.path.exists(junit):
        return {}
    return {case.get("name", ""): (failure.text or "").strip("\n") for case in ElementTree.parse(junit).iter("testcase") for failure in case.iter("failure")}


def _report(document: Dict[str, Any], texts: Dict[str, str], configuration: str) -> Report:
    statements = []
    for one in document["statements"]:
        counterexample = one.get("counterexample")
        statements.append(Statement(one["name"], one["verdict"].lower().replace("_", " "), one.get("cases", 0), one.get("seconds", 0.0), one.get("reason", ""),
                                    counterexample, texts.get(one["name"], "") if counterexample is not None else ""))
    of = document["candidate"]
    return Report(of["name"], document["exit_code"], document["seed"], document["suite"], document["seconds"], tuple(statements),
                  of["version"], configuration, document.get("first_calls", {}), (), document)


def _together(spec: str, reports: List[Report]) -> Report:
    code = max((one.exit_code for one in reports), key=lambda one: {0: 0, 4: 1, 1: 2, 6: 3}[one])
    statements = tuple(one for report in reports for one in report.statements)
    return Report(spec, code, reports[0].seed, reports[0].suite, sum(one.seconds for one in reports), statements, reports[0].version,
                  configurations=tuple(reports))


__all__ = ["Error", "Report", "Statement", "configurations_of", "gate", "library_of", "list_statements", "spec_of", "tool_path"]
