"""Black boxes that cast, quantize or route: which rounding, recipe or variant explains every output."""

import array
import math
from typing import Any, Callable, List, Optional, Sequence

from .._arrays import Values
from .._errors import Error, UsageError
from .._formats import cast, decode, formats as format_info, recipes
from .._quantize import quantize
from .._router import route, routers
from ._report import Candidate, Identified, best, compare
from ._trees import Box, _bytes_of
from ._words import normal

_ROUNDINGS = ("nearest_even", "nearest_away", "toward_zero")
_OVERFLOWS = ("saturate", "non_saturate")


def _answer(tried: List[Candidate], compared: int) -> Identified:
    names = [one.name for one in tried if not one.first]
    return Identified(names, compared, [] if names else best(tried))


def identify_cast(f: Callable[[Any], Any], format: str = "e4m3", arrays: str = "values") -> Identified:
    """Which rounding and which treatment of overflow does f follow? f(x): all 65,536 BF16 words as one row; codes of `format` come back,
    one a byte (e5m6, bf16, fp16: two)."""
    words = Values(array.array("H", range(65536)), (1, 65536), "bf16")
    box = Box(f, arrays, (), "")
    observed = _bytes_of(f(box.given(words)))
    info = format_info(format)
    each = info.code_bytes
    if len(observed) != 65536 * each:
        raise UsageError(f"the box's answer has {len(observed)} bytes: {65536 * each} codes of {format} are needed")
    tried = []
    for rounding in _ROUNDINGS:
        for overflow in _OVERFLOWS:
            expected = cast(words, format, rounding, overflow).tobytes()

            def tell(at: int, is_expected: bytes, is_observed: bytes, name: str = f"{rounding}, {overflow}") -> str:
                return f"first for the BF16 word {at:04x}: {name} gives {is_expected[::-1].hex()}, the box {is_observed[::-1].hex()}"

            tried.append(compare(f"{rounding}, {overflow}", expected, observed, each, tell))
    answer = _answer(tried, 65536)
    if not answer and each == 1:
        # A NaN may be any of the format's codes for it; which one is a choice of its own.
        nans = [code for code in range(1 << info.bits) if math.isnan(array.array("d", decode(_code_alone(code), format).tobytes())[0])]
        one_nan = bytes(nans[0] if code in nans else code for code in range(256)) if nans else bytes(range(256))
        for candidate in tried:
            rounding, overflow = candidate.name.split(", ")
            expected = cast(words, format, rounding, overflow).tobytes()
            if expected.translate(one_nan) == observed.translate(one_nan):
                answer.notes.append(f"{candidate.name} but for which code of NaN: {65536 - candidate.equal} words")
    return answer


def _code_alone(code: int) -> Values:
    return Values(bytes([code]), (1,), "uint8")


def _blocks(block: str, dtype: str) -> Values:
    """Rows that meet rules of scales: every significand of an amax, ties, subnormals, zeros, infinities and NaN, in blocks of their own."""
    tall, wide = (int(part) for part in block.split("x"))
    columns = 8 * wide
    rows: List[List[float]] = []
    for i in range(256):
        row = normal(columns, 100 + i, 4)
        for b in range(8):
            largest = (1 + i / 256) * 2.0 ** (b * 7 - 28)
            row[b * wide : (b + 1) * wide] = [max(-largest, min(largest, x * largest / 3)) for x in row[b * wide : (b + 1) * wide]]
            row[b * wide + i % wide] = largest
        rows.append(row)
    special = [0.0, -0.0, 2.0**-140, 2.0**-127, 3.0e38, float("inf"), float("nan"), -1.0]
    rows.append([special[b] if t == 0 else special[b] / 2 if b in (2, 3) else 0.0 for b in range(8) for t in range(wide)])
    numbers = [x for row in rows for _ in range(tall) for x in row]
    fp32 = Values(array.array("f", numbers), (len(rows) * tall, columns), "fp32")
    return fp32 if dtype == "fp32" else Values(cast(fp32, dtype, overflow="non_saturate").tobytes(), fp32.shape, dtype)


def identify_quantize(f: Callable[[Any], Any], format: str = "e4m3", block: str = "1x32", dtype: str = "bf16", arrays: str = "values",
                      names: Optional[Sequence[str]] = None) -> Identified:
    """Which recipe does f follow? f(x): codes and compact scales (E8M0 bytes, or FP32) come back. Recipes that refuse a NaN are compared
    on the rows without one."""
    x = _blocks(block, dtype)
    box = Box(f, arrays, (), "")
    given = f(box.given(x))
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise UsageError("the box's answer must be two tensors: codes and scales")
    observed = [_bytes_of(part) for part in given]
    tried = []
    for name in names if names is not None else recipes():
        try:
            q = quantize(x, format, name, block)
        except Error:
            continue
        expected = [q.codes.tobytes(), q.scales.tobytes()]
        if [len(part) for part in expected] != [len(part) for part in observed]:
            continue  # scales of another type

        def tell_in(what: str, cols: int, name: str = name) -> Callable[[int, bytes, bytes], str]:
            return lambda at, is_expected, is_observed: (f"first in {what} ({at // cols}, {at % cols}): {name} gives "
                                                         f"{is_expected[::-1].hex()}, the box {is_observed[::-1].hex()}")

        each = 4 if q.scales.dtype == "fp32" else 1
        codes = compare(name, expected[0], observed[0], 1, tell_in("codes", x.shape[1]))
        scales = compare(name, expected[1], observed[1], each, tell_in("scales", q.scales.shape[1]))
        tried.append(Candidate(name, codes.equal + scales.equal, scales.first or codes.first))
    if not tried:
        raise UsageError(f"no recipe gives {len(observed[0])} bytes of codes and {len(observed[1])} of scales for {x.shape} in blocks {block}")
    return _answer(tried, max(one.equal for one in tried) if any(not one.first for one in tried) else x.shape[0] * x.shape[1])


def identify_route(f: Callable[[Any], Any], experts: int = 64, top_k: int = 8, dtype: str = "fp32", arrays: str = "values") -> Identified:
    """Which variant does f follow? f(logits): tokens x experts; experts (int32) and weights (FP32), tokens x top_k, come back."""
    tokens = 128
    # Some rows lie so low that a sum of their sigmoids is about 1e-20 and less.
    numbers = [x * (1 + t % 5) - (0, 0, 46, 60)[t % 4] for t in range(tokens) for x in normal(experts, t)]
    for t in range(0, tokens, 3):  # ties
        for e in range(0, experts, 4):
            numbers[t * experts + e] = round(numbers[t * experts + e] * 2) / 2
    fp32 = Values(array.array("f", numbers), (tokens, experts), "fp32")
    logits = fp32 if dtype == "fp32" else Values(cast(fp32, dtype).tobytes(), fp32.shape, dtype)
    box = Box(f, arrays, (), "")
    given = f(box.given(logits))
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise UsageError("the box's answer must be two tensors: experts and weights")
    chosen, weights = (_bytes_of(part) for part in given)
    if len(chosen) == 8 * tokens * top_k:  # int64, as torch.topk has it
        chosen = array.array("i", array.array("q", chosen)).tobytes()
    for part, what in ((chosen, "experts"), (weights, "weights")):
        if len(part) != 4 * tokens * top_k:
            raise UsageError(f"the box's {what} have {len(part)} bytes: {tokens} x {top_k} of 4 are needed")
    tried = []
    for name in routers():
        routes = route(logits, top_k, name)

        def tell(at: int, is_expected: bytes, is_observed: bytes, name: str = name) -> str:
            return f"first at ({at // top_k}, {at % top_k}): {name} gives {is_expected[::-1].hex()}, the box {is_observed[::-1].hex()}"

        first = compare(name, routes.experts.tobytes(), chosen, 4, tell)
        second = compare(name, routes.weights.tobytes(), weights, 4, tell)
        told = f"experts, {first.first}" if first.first else f"weights, {second.first}" if second.first else ""
        tried.append(Candidate(name, first.equal + second.equal, told))
    return _answer(tried, 2 * tokens * top_k)
