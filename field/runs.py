"""One claim of one kernel: a gate with a time limit, and what it found in a few words."""

import importlib
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List

import mxcheck
from mxcheck import Candidate

MODULES = ("casts", "mx_recipes", "torchao_groups", "triton_tiles", "matmuls", "triton_dot", "routers", "layers", "adapters")
EQUAL = {"cast": "*cast*", "quantize": "quantize_equals_the_reference", "matmul": "matmul_equals_its_contract", "route": "route_equals_the_reference"}
WITHOUT_CONTRACT = {"any_order": {"matmul": "matmul_is_a_sum_of_its_products", "route": "route_is_within_its_intervals",  # by the beginning of the claim
                                  "swiglu": "swiglu_is_within_its_interval"},
                    "as_accurate_as": {"matmul": "matmul_is_*", "route": "route_is_*", "swiglu": "swiglu_is_*"}}


@dataclass
class Claim:
    """A kernel and what it is gated as."""

    module: str
    name: str
    kernel: str
    claim: str
    op: str


@dataclass
class Result:
    claim: Claim
    word: str  # holds, FAILS, crashes, inconclusive, not run, cannot run
    cases: int = 0
    detail: str = ""
    versions: str = ""
    seconds: float = 0.0
    document: Dict[str, Any] = field(default_factory=dict)


def claims(problems: List[str]) -> List[Claim]:
    """Every claim of the modules that can be imported here; why others cannot goes to problems."""
    found = []
    for module in MODULES:
        try:
            loaded = importlib.import_module(f"field.{module}")
        except Exception as error:
            problems.append(f"field.{module}: {type(error).__name__}: {error}")
            continue
        for name, value in vars(loaded).items():
            if isinstance(value, Candidate):
                kernel, _, claim = name.partition("__")
                found.append(Claim(module, name, f"{module}.{kernel}", claim, value.op))
    return found


def _short(counterexample: Dict[str, Any]) -> str:
    parts = [counterexample.get("summary", "")]
    wanted = ("input ", "expected", "observed", "expert ")
    parts += [" ".join(line.split()) for line in counterexample.get("element", ()) if line.startswith(wanted)][:4]
    if "differing" in counterexample:
        parts.append(f"{counterexample['differing']} of {counterexample['total']} of {counterexample['tensor']}")
    if counterexample.get("pattern"):
        parts.append(counterexample["pattern"])
    parts += [f"as {match}" for match in counterexample.get("matches", ())[:2]]
    parts.append(f"`{counterexample.get('case', '')}`")
    return "; ".join(part for part in parts if part).replace("|", "/").replace("\n", " ")


def _statements(claim: Claim) -> str:
    return next((only[claim.op] for start, only in WITHOUT_CONTRACT.items() if claim.claim.startswith(start)), EQUAL.get(claim.op, "*"))


def run(claim: Claim, deadline: float, timeout: float, seed: int) -> Result:
    """Never raises: what goes wrong is the line's text."""
    begin = time.monotonic()
    left = min(timeout, deadline - begin)
    if left < 3:
        return Result(claim, "not run", detail="the table's time was up")
    try:
        report = mxcheck.gate(f"field.{claim.module}:{claim.name}", seed=seed, only=_statements(claim), jobs=1, time_limit=20, first_call_limit=left,
                              timeout=left, save="", configs=None)
    except Exception as error:
        return Result(claim, "cannot run", detail=" ".join(str(error).replace("|", "/").split())[:300], seconds=time.monotonic() - begin)
    seconds = time.monotonic() - begin
    cases = sum(one.cases for one in report.statements)
    result = Result(claim, "", cases, "", report.version, seconds, report.document)
    if report.failures:
        result.word = "crashes" if report.exit_code == 6 else "FAILS"
        result.detail = _short(report.failures[0].counterexample or {})
    elif report.exit_code == 0:
        result.word = "holds"
    else:
        result.word = "inconclusive"
        reasons = [one.reason for one in report.statements if one.reason]
        result.detail = "; ".join(["interrupted by its time limit"] * bool(report.document.get("interrupted")) + reasons)[:300].replace("|", "/")
    return result
