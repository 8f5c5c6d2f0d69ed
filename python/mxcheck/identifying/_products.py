"""Black boxes that multiply: which contract explains every output of designed operands, or which order of summation."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from .._arrays import Values
from .._errors import UsageError
from .._product import contracts, matmul
from ._report import Candidate, Identified, best, compare
from ._trees import Box, summation_tree
from ._words import cancelling, matrix, normal, notations

# What is done on top of a sum: every number of products after which libraries are known to add to an FP32 accumulator, and the last of k
# first.
_INTERVALS = (16, 32, 64, 128, 256, 512)
_ON_TOP = [""] + [f"+promote{n}" for n in _INTERVALS] + ["+descending"] + [f"+promote{n}+descending" for n in _INTERVALS]


def _problems(m: int, n: int, k: int, format_a: str, format_b: str) -> List[Tuple[str, Values, Values]]:
    """Operands: plain data; exponents that vary, so that terms are cut; sums that cancel, so that what was cut is seen; terms near the
    smallest numbers; a single product in every place of k."""
    out = []
    for name, numbers in (("normal", normal), ("wide", lambda count, seed: normal(count, seed, 16)), ("cancelling", cancelling),
                          ("small", lambda count, seed: [x * 2.0**-70 for x in normal(count, seed, 6)])):
        for seed in (1, 2):
            if name == "small" and format_a not in ("bf16", "fp32"):
                continue
            out.append((name, matrix(numbers(m * k, seed), (m, k), format_a), matrix(numbers(n * k, seed + 10), (n, k), format_b)))
    ones = [float(j % k == i % k) for i in range(m) for j in range(k)]
    out.append(("one-hot", matrix(ones, (m, k), format_a), matrix(normal(n * k, 5, 8), (n, k), format_b)))
    return out


def identify_matmul(f: Callable[[Any, Any], Any], formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int, int] = (8, 8, 512),
                    arrays: str = "values", names: Optional[Sequence[str]] = None, tree: bool = True) -> Identified:
    """Which contract does f follow? f(a, b): a is m x k and b n x k, of `formats`, without scales; D = A B^T, m x n in FP32, comes back.

    arrays: what f is given: "values" (mxcheck.Values), "numpy" (bf16 of ml_dtypes) or "torch". names: contracts to try in place of all.
    Without one that explains every output, the order of summation is looked for (tree=False: not).
    """
    m, n, k = shape
    if min(shape) < 1:
        raise UsageError(f"shape is {shape}: m, n and k of 1 or more are needed")
    box = Box(f, arrays, (m, n), "fp32")
    problems = _problems(m, n, k, *formats)
    observed = [box.call(a, b) for _, a, b in problems]
    tried: List[Candidate] = []
    for name in names if names is not None else [one + top for one in contracts() for top in _ON_TOP]:
        try:
            candidate = _try(name, problems, observed, n)
        except UsageError:  # of other formats, or of blocks
            if names is not None:
                raise
            continue
        tried.append(candidate)
    compared = m * n * len(problems)
    found = [one.name for one in tried if one.equal == compared]
    if names is None:  # a promotion interval of all of k or more, which changes nothing, is no name of its own
        found = [name for name in found if not any(other != name and name.startswith(other + "+") for other in found)]
    answer = Identified(found, compared, [] if found else best(tried))
    if not found and tree:
        answer.tree = summation_tree(f, k, formats, (m, n), arrays)
    return answer


def _try(name: str, problems: List[Tuple[str, Values, Values]], observed: List[bytes], n: int) -> Candidate:
    total = Candidate(name, 0)
    for (kind, a, b), given in zip(problems, observed):
        expected = matmul(a, b, name).tobytes()

        def tell(at: int, is_expected: bytes, is_observed: bytes, kind: str = kind) -> str:
            return (f"first in {kind} operands at ({at // n}, {at % n}): {name} gives {notations(is_expected, 'fp32')}, the box "
                    f"{notations(is_observed, 'fp32')}")

        one = compare(name, expected, given, 4, tell)
        total.equal += one.equal
        total.first = total.first or one.first
    return total
