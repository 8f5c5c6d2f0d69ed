"""Black boxes that multiply: which contract explains every output of designed operands, or which order of summation."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from .._arrays import Values
from .._errors import UsageError
from ._definitions import Problem, answer_of, blocks_of, contract_texts, other_words, scale_values, split_texts
from ._report import Candidate, Identified, best, compare
from ._trees import Box, summation_tree
from ._words import cancelling, matrix, normal, notations, words

_SIZES = {"fp32": 4, "bf16": 2, "fp16": 2}


def _problems(m: int, n: int, k: int, formats: Sequence[str], scales: Optional[str], blocks: Tuple[str, str]) -> List[Problem]:
    """Operands: plain data; exponents that vary, so that terms are cut; sums that cancel, so that what was cut is seen; terms near the
    smallest numbers; a single product in every place of k."""
    out = []
    for name, numbers in (("normal", normal), ("wide", lambda count, seed: normal(count, seed, 16)), ("cancelling", cancelling),
                          ("small", lambda count, seed: [x * 2.0**-70 for x in normal(count, seed, 6)])):
        for seed in (1, 2):
            if name == "small" and (formats[0] not in ("bf16", "fp32") or scales):
                continue
            out.append(Problem(name, matrix(numbers(m * k, seed), (m, k), formats[0]), matrix(numbers(n * k, seed + 10), (n, k), formats[1])))
    for seed in (1, 2):
        out.append(_halves_that_cancel(m, n, k, formats, seed))
    ones = [float(j % k == i % k) for i in range(m) for j in range(k)]
    out.append(Problem("one-hot", matrix(ones, (m, k), formats[0]), matrix(normal(n * k, 5, 8), (n, k), formats[1])))
    if scales:
        for i, problem in enumerate(out):
            # Halves cancel only under one scale.
            spread = 0 if problem.name == "halves" else 10
            problem.scales = tuple(_scales(blocks_of(x.shape, block), scales, 50 + 2 * i + side, spread)
                                   for side, (x, block) in enumerate(zip((problem.a, problem.b), blocks)))
            problem.blocks = blocks
    return out


def _halves_that_cancel(m: int, n: int, k: int, formats: Sequence[str], seed: int) -> Problem:
    """The second half of k takes back the first but for one product in two hundred: what is left is what sums rounded, which a narrow D shows."""
    half = k // 2
    source = words(seed + 30)
    x, y = normal(m * half, seed + 20, 8), normal(n * half, seed + 22, 8)
    a: List[float] = []
    b: List[float] = []
    for row in range(m):
        first = x[row * half : (row + 1) * half]
        a += first + [0.0] * (k % 2) + [value if next(source) % 200 == 0 else -value for value in first]
    for row in range(n):
        first = y[row * half : (row + 1) * half]
        b += first + [0.0] * (k % 2) + first
    return Problem("halves", matrix(a, (m, k), formats[0]), matrix(b, (n, k), formats[1]))


def _scales(shape: Tuple[int, int], type_: str, seed: int, spread: int) -> Values:
    """All 23 bits of an FP32 scale: products of shorter ones are exact, and every order of them is one. spread: of exponents; 0: one scale."""
    source = words(seed)
    numbers = [(1 + (next(source) >> 41) / 2.0**23) * 2.0 ** (next(source) % (spread or 1) - 6) for _ in range(shape[0] * shape[1])]
    return scale_values(shape, type_, numbers if spread else [numbers[0]] * len(numbers))


def identify_matmul(f: Callable[..., Any], formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int, int] = (8, 8, 512),
                    arrays: str = "values", names: Optional[Sequence[str]] = None, tree: bool = True, output: str = "fp32",
                    scales: Optional[str] = None, blocks: Tuple[str, str] = ("1x32", "1x32")) -> Identified:
    """Which contract does f follow? f(a, b): a is m x k and b n x k, of `formats`; D = A B^T, m x n in `output`, comes back.

    arrays: what f is given: "values" (mxcheck.Values), "numpy" (bf16 of ml_dtypes) or "torch". names: contracts to try in place of all.
    scales: "e8m0" or "fp32": f(a, b, scale_a, scale_b), compact, of `blocks` of a and b. Split-k of 2, 3 and 4 is tried where no contract
    explains every output; then the order of summation is looked for (tree=False: not).
    """
    m, n, k = shape
    if min(shape) < 1:
        raise UsageError(f"shape is {shape}: m, n and k of 1 or more are needed")
    if output not in _SIZES or scales not in (None, "e8m0", "fp32"):
        raise UsageError(f"output is {output!r} and scales {scales!r}: fp32, bf16, fp16, and None, e8m0, fp32 are there")
    if scales and any(block not in ("1x32", "1x128", "128x128") for block in blocks):
        raise UsageError(f"blocks is {blocks}: 1x32, 1x128 and 128x128 are there")
    box = Box(f, arrays, (m, n), output)
    problems = _problems(m, n, k, formats, scales, blocks)
    observed = [box.call(*problem.operands()) for problem in problems]
    compared = m * n * len(problems)
    tried = _all_tried(list(names) if names is not None else contract_texts(k, bool(scales)), problems, observed, output, names is not None)
    if names is None and all(one.first for one in tried):
        block = max((int(block.split("x")[1]) for block in blocks), default=0) if scales else 0
        tried += _all_tried(split_texts([one.name for one in tried], k, block), problems, observed, output, False)
    found = [one.name for one in tried if one.equal == compared]
    if names is None:  # what changes nothing is no name of its own
        found = [name for name in found if not any(other != name and name.startswith(other + "+") for other in found)]
    answer = Identified(found, compared, [] if found else best(tried))
    also = other_words(found[0], k, bool(scales)) if found else None
    answer.notes += [also] if also else []
    if not found and tree:
        ones = [scale_values(scale.shape, scale.dtype, [1.0] * (scale.shape[0] * scale.shape[1])) for scale in problems[0].scales]
        answer.tree = summation_tree(f, k, formats, (m, n), arrays, output=output, extra=ones)
    return answer


def _all_tried(names: List[str], problems: List[Problem], observed: List[bytes], output: str, must_fit: bool) -> List[Candidate]:
    tried = []
    for name in names:
        try:
            tried.append(_try(name, problems, observed, output))
        except UsageError:  # of other formats, or of blocks
            if must_fit:
                raise
    return tried


def _try(name: str, problems: List[Problem], observed: List[bytes], output: str) -> Candidate:
    total = Candidate(name, 0)
    for problem, given in zip(problems, observed):
        n = problem.b.shape[0]

        def tell(at: int, is_expected: bytes, is_observed: bytes, kind: str = problem.name, n: int = n) -> str:
            return (f"first in {kind} operands at ({at // n}, {at % n}): {name} gives {notations(is_expected, output)}, the box "
                    f"{notations(is_observed, output)}")

        one = compare(name, answer_of(name, problem, output), given, _SIZES[output], tell)
        total.equal += one.equal
        total.first = total.first or one.first
    return total
