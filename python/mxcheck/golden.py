"""Golden tensors in files, made and verified: `mxcheck golden` of the command line (docs/goldens.md).

    made = mxcheck.golden.make("formats", "goldens")
    verdict = mxcheck.golden.verify({"codes": codes, "scales": scales}, "goldens/data/real/layer0_x_1x32.h5")
    assert verdict, verdict.text()
"""

import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _safetensors
from ._arrays import Values
from ._errors import GoldenError, InputError, UsageError
from ._names import listed, near, told, whole
from ._quantize import Quantized
from ._tool import run_tool

__all__ = ["DatasetVerdict", "Entry", "GoldenError", "Made", "Suite", "Verdict", "make", "suites", "verify"]
_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Suite:
    """A suite that comes with mxcheck. goldens: (name, kind, description)."""

    name: str
    description: str
    goldens: Tuple[Tuple[str, str, str], ...]


@dataclass(frozen=True)
class Entry:
    """A golden that was made: a row of its folder's manifest."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Made:
    """The goldens that make wrote to a folder, beside their manifest."""

    suite: str
    folder: str
    goldens: Tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.goldens)


@dataclass(frozen=True)
class DatasetVerdict:
    """One output of a golden.

    verdict: "equal", "different", "missing", "wrong shape", "wrong dtype" or "unreadable". causes: what would give the candidate's
    elements; form: what shape and type look like; element: the first that differs, in lines; first: its row, col, expected and observed.
    differing of so many elements; steps: how many are off by how much, as text.
    """

    name: str
    verdict: str
    format: str
    shape: Tuple[int, ...]
    step: str = ""
    causes: Tuple[str, ...] = ()
    form: Tuple[str, ...] = ()
    element: Tuple[str, ...] = ()
    differing: int = 0
    elements: int = 0
    first: Dict[str, Any] = field(default_factory=dict)
    steps: Tuple[Tuple[str, int], ...] = ()
    pattern: str = ""

    def __bool__(self) -> bool:
        return self.verdict == "equal"


@dataclass(frozen=True, repr=False)
class Verdict:
    """The result of verify. True as a truth value where every dataset is equal, bit for bit."""

    equal: bool
    candidate: str
    golden: str
    datasets: Tuple[DatasetVerdict, ...]

    def __bool__(self) -> bool:
        return self.equal

    def __getitem__(self, name: str) -> DatasetVerdict:
        for one in self.datasets:
            if one.name == name:
                return one
        raise KeyError(f"{name}{near(name, [one.name for one in self.datasets])}")

    def __repr__(self) -> str:
        wrong = [f"{one.name} {one.verdict}: {listed(one.causes) or 'no cause known'}" for one in self.datasets if not one]
        return f"Verdict({'; '.join(wrong[:3]) or 'equal'}{'; ...' if len(wrong) > 3 else ''})"

    @property
    def first_difference(self) -> Optional[DatasetVerdict]:
        """The first wrong step, of goldens whose datasets come step after step; None where nothing differs."""
        return next((one for one in self.datasets if not one and one.verdict != "missing"), None)

    def text(self) -> str:
        """A line a dataset; of what is not equal causes, form and the first element."""
        lines = [f"candidate {self.candidate}", f"golden    {self.golden}"]
        for one in self.datasets:
            lines.append(f"{one.verdict if one else one.verdict.upper():<13} {one.name:<28}{one.format:<16}{' x '.join(map(str, one.shape))}")
            if one:
                continue
            lines += [f"  form      {text}" for text in one.form] + [f"  cause     {text}" for text in one.causes]
            lines += [f"  {text}" for text in one.element]
            if one.differing:
                lines.append(f"  extent    {one.differing} of {one.elements} elements differ; first at ({one.first['row']}, {one.first['col']})")
            if one.pattern:
                lines.append(f"  pattern   {one.pattern}")
        lines.append(f"{sum(map(bool, self.datasets))} of {len(self.datasets)} datasets are equal, bit for bit")
        return "\n".join(lines)

    __str__ = text


def _path(given: Any, what: str) -> str:
    try:
        path = os.fspath(given)
    except TypeError:
        raise UsageError(f"{what} is {told(given)}: a path is needed") from None
    if not isinstance(path, str) or not path or "\0" in path:
        raise UsageError(f"{what} is {told(path)}: a path is needed")
    return os.path.join(".", path) if path.startswith("-") else path  # no option


def suites() -> List[Suite]:
    """The suites that come with mxcheck: `mxcheck golden suites`."""
    _, out = run_tool(["golden", "suites", "--json"])
    return [Suite(one["name"], one["description"], tuple((g["name"], g["kind"], g["description"]) for g in one["goldens"]))
            for one in json.loads(out)["suites"]]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Values) or hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__")


def _spec_on_disk(value: Any, place: str, folder: Path) -> Any:
    """A spec with files in place of tensors, and files by whole paths."""
    if _is_tensor(value):
        name = re.sub(r"[^A-Za-z0-9_-]+", ".", place).strip(".") + ".safetensors"
        _safetensors.write(folder / name, {"tensor": value})
        return {"file": str(folder / name)}
    if isinstance(value, Mapping):
        if isinstance(value.get("file"), (str, os.PathLike)):
            return {**value, "file": os.path.abspath(value["file"])}
        return {key: _spec_on_disk(one, f"{place}.{key}", folder) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spec_on_disk(one, f"{place}.{one['name'] if isinstance(one, Mapping) and 'name' in one else i}", folder)
                for i, one in enumerate(value)]
    return value


def make(suite: Union[str, _Path, Mapping[str, Any]], folder: _Path, compression: int = 0, threads: int = 0) -> Made:
    """Computes a suite's goldens and writes them and manifest.txt to a folder, all or none: `mxcheck golden make`.

    suite: the name of one that comes with mxcheck (suites()), the path of a SPEC.json, or such a spec as a dict, in which tensors may stand
    where an input does ({"name": "w1", "kind": "quantize", "input": x, ...}) and files are of the current folder. Goldens of the same names
    are replaced. UsageError for a spec that is wrong, with the place, and for inputs that cannot be read; EnvironmentError for a full disk.
    """
    for value, name, most in ((compression, "compression", 9), (threads, "threads", 4096)):
        whole(value, name, 0, most)
    options = ["-o", _path(folder, "folder"), "--compression", str(compression), "--threads", str(threads), "--json"]
    if not isinstance(suite, Mapping):
        given = _path(suite, "suite")
        if os.path.exists(given) and "/" not in given and not any(one.name == given for one in suites()):
            given = os.path.join(".", given)  # a file, whatever it is called
        _, out = run_tool(["golden", "make", "--suite", given, *options], refused=UsageError)
        return _made(out)
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as temporary:
        spec = Path(temporary) / "spec.json"
        try:
            goldens = _spec_on_disk(list(suite.get("goldens", ())), "", Path(temporary))
            text = json.dumps({**suite, "goldens": goldens}, allow_nan=False)
        except (TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"suite is no JSON: {error}") from None
        spec.write_text(text)
        _, out = run_tool(["golden", "make", "--suite", str(spec), *options], refused=UsageError)
    return _made(out)


def _made(out: str) -> Made:
    document = json.loads(out)
    return Made(document["suite"], document["output"], tuple(Entry(one["name"], one["size"], one["sha256"]) for one in document["goldens"]))


def _dataset(one: Dict[str, Any]) -> DatasetVerdict:
    return DatasetVerdict(one["name"], one["verdict"].lower(), one["format"], tuple(one["shape"]), one["step"], tuple(one["causes"]),
                          tuple(one["form"]), tuple(one["element"]), one.get("differing", 0), one.get("elements", 0), one.get("first", {}),
                          tuple((str(step), count) for step, count in _pairs(one.get("steps"))), one.get("pattern", ""))


def _pairs(steps: Any) -> List[Tuple[Any, int]]:
    if not steps:
        return []
    return list(steps.items()) if isinstance(steps, dict) else [(one[0], one[1]) for one in steps]


def verify(candidate: Union[_Path, Mapping[str, Any], Quantized], golden: _Path, only: Optional[Sequence[str]] = None, manifest: Optional[_Path] = None,
           sha256: Optional[str] = None, timeout: Optional[float] = None) -> Verdict:
    """Compares tensors with a golden's outputs of the same names, bit for bit, and names likely causes: `mxcheck golden verify`.

    candidate: tensors by name, what mxcheck.quantize returned, or the path of an .h5 or .safetensors file. only: outputs to compare; all without it, and what is missing is
    not equal. The golden is believed by its manifest (manifest.txt beside it where none is given) or by sha256. UsageError for arguments
    that are none, InputError for a candidate that cannot be read, GoldenError for a golden that is missing, changed, damaged or vouched for by
    nothing. A difference is no error.
    """
    arguments = ["--against", _path(golden, "golden"), "--json"]
    if manifest is not None and sha256 is not None:
        raise UsageError("manifest and sha256 are both given: one vouches for the golden")
    if manifest is not None:
        arguments += ["--manifest", _path(manifest, "manifest")]
    if sha256 is not None:
        if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
            raise UsageError(f"sha256 is {told(sha256)}: 64 lower-case hexadecimal digits are needed")
        arguments += ["--sha256", sha256]
    if only is not None:
        names = [only] if isinstance(only, str) else list(only) if isinstance(only, (list, tuple)) else []
        if not names or any(not isinstance(name, str) or not re.fullmatch(r"\w+", name) for name in names):
            raise UsageError(f"only is {told(only)}: names of the golden's outputs are needed")
        arguments += ["--only", ",".join(names)]
    if isinstance(candidate, Quantized):
        candidate = {"codes": candidate.unpacked().codes, "scales": candidate.scales}
    if not isinstance(candidate, (str, os.PathLike, Mapping)):
        raise UsageError(f"candidate is {told(candidate)}: a path is needed, or tensors by name, as {{'codes': q.codes, 'scales': q.scales}}")
    if not isinstance(candidate, Mapping):
        return _verdict(_path(candidate, "candidate"), arguments, timeout)
    if not candidate:
        raise UsageError("candidate has no tensors: those of the golden's outputs are needed, by name")
    with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
        path = Path(folder) / "candidate.safetensors"
        _safetensors.write(path, candidate)
        return _verdict(str(path), arguments, timeout)


def _verdict(candidate: str, arguments: List[str], timeout: Optional[float]) -> Verdict:
    _, out = run_tool(["golden", "verify", candidate, *arguments], (0, 1), InputError, timeout)
    document = json.loads(out)
    return Verdict(document["equal"], document["candidate"], document["golden"], tuple(_dataset(one) for one in document["datasets"]))
