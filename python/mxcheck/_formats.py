"""Formats, recipes, and what is done element by element."""

import array
import ctypes
import functools
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union, overload

from ._arrays import Values, count_of, new_buffer, result, view_of
from ._errors import UsageError
from ._library import call, text
from ._names import encoded, format_name, number, told, whole


@functools.lru_cache(maxsize=256)
def _described(what: str, name: bytes) -> Dict[str, str]:
    return dict(row.split("=", 1) for row in text("mxcheck_c_describe", what.encode(), name).splitlines())


def _lines(what: str, name: Any) -> Dict[str, str]:
    return _described(what, encoded(name, what))


@dataclass(frozen=True)
class FormatInfo:
    """A number format: `mxcheck formats` in the command line."""

    name: str
    dtype: str  # in PyTorch and ml_dtypes
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max: float
    max_code: int
    nan_code: Optional[int]  # none: the format has no NaN
    inf_code: Optional[int]

    @property
    def code_bytes(self) -> int:
        """Bytes of a code in memory; codes are not packed."""
        return 1 if self.bits <= 8 else 2 if self.bits <= 16 else 4


@functools.lru_cache(maxsize=64)
def _info(name: str) -> FormatInfo:
    row = _lines("format", name)
    nan, inf = (int(row[key]) if key in row else None for key in ("nan_code", "inf_code"))
    return FormatInfo(row["name"], row["dtype"], int(row["bits"]), int(row["exponent_bits"]), int(row["mantissa_bits"]), int(row["bias"]),
                      float.fromhex(row["max"]), int(row["max_code"]), nan, inf)


@overload
def formats(name: Any) -> FormatInfo: ...
@overload
def formats(name: None = None) -> List[FormatInfo]: ...
def formats(name: Any = None) -> Union[FormatInfo, List[FormatInfo]]:
    """One format, by its own name, PyTorch's ("float8_e4m3fn", "e4m3fn") or a type of torch, numpy or ml_dtypes; or all of them."""
    if name is not None:
        return _info(format_name(name))
    return [_info(one) for one in text("mxcheck_c_names", b"formats").splitlines()]


def recipes(levels: int = 1) -> List[str]:
    """Names of the recipes: what decides the bytes of a quantized block (docs/numerics.md). levels: 2 for those with a tensor's scale above
    the blocks' (docs/nvfp4.md)."""
    if levels not in (1, 2):
        raise UsageError(f"levels is {told(levels)}: 1 or 2 is needed, the levels of scales")
    return text("mxcheck_c_names", b"recipes" if levels == 1 else b"two_level_recipes").splitlines()


def recipe(name: str) -> Dict[str, str]:
    """A recipe's policies, every field that decides bytes, as words and hexfloats."""
    return dict(_lines("recipe", name))


def word_orders() -> List[str]:
    """Names of the word orders of published kernels that round stochastically (docs/nvfp4.md)."""
    return text("mxcheck_c_names", b"word_orders").splitlines()


def ordered_words(order: str, shape: Sequence[int], key: int, first_call: int = 0, word_bytes: str = "0213", threads: int = 0) -> Any:
    """The words of a published kernel for a matrix of this shape that it rounds stochastically, as mxcheck.Values of uint32: `words` of
    mxcheck.quantize. The eight random bits of an element are the top ones of its word.

    order: "te_tuned" or one of mxcheck.word_orders(), and the output that the matrix is, of a call that has it alone or beside another one:
    "te_tuned:rows", "te_tuned:rows_of_both", "te_tuned:columns_of_both", "te_transpose:columns"; of columns the matrix is the transposed one.
    key, first_call: rng_state[0] and rng_state[1] of Transformer Engine. word_bytes: the bytes of a word that four elements have, "0213" as
    Blackwell's instruction has them, or "0123". UsageError for other names, and for shapes that the kernel does not take.
    """
    if len(shape) != 2:
        raise UsageError(f"shape is {told(shape)}: rows and columns are needed")
    rows, cols = (whole(extent, "shape") for extent in shape)
    whole(key, "key", 0, 2**64 - 1)
    whole(first_call, "first_call", 0, 2**64 - 1)
    buffer, pointer = new_buffer(4 * rows * cols)
    call("mxcheck_c_ordered_words", encoded(order, "order"), rows, cols, key, first_call, encoded(word_bytes, "word_bytes"),
         whole(threads, "threads", 0, 2**31 - 1), pointer)
    return result(buffer, (rows, cols), "uint32", 4, "values")


def words_pointer(words: Any, count: int, what: str = "words") -> int:
    """Where so many random words of 32 bits lie."""
    random = Values(words, (count,), "uint32") if isinstance(words, (bytes, bytearray, memoryview, array.array)) else words
    bits = view_of(random, what, codes=True)
    if bits.format not in ("uint32", "int32"):
        raise UsageError(f"{what} are of {bits.format}: uint32 or int32 is needed")
    _refuse_gaps(bits)
    check_bytes(bits, 4 * count, what)
    return bits.pointer


def cast(x: Any, format: Any, rounding: str = "nearest_even", overflow: str = "saturate", words: Any = None) -> Any:
    """Codes of x's elements, without scales.

    x: FP32, BF16 or FP16 of any shape, without gaps. rounding: nearest_even, nearest_away, toward_zero, upward (toward +Inf), or
    stochastic with `words`: 32 random bits an element (uint32 of numpy, int32 of torch, bytes), which are added to the first 32 bits of
    the fraction that is lost; a carry rounds away from zero. overflow: saturate, or non_saturate (Inf, or NaN where the format has no
    Inf). Returns codes of x's shape and kind. UsageError for other names, and for words of another size.
    """
    view = view_of(x)
    _refuse_gaps(view)
    info = formats(format)
    count = count_of(view.shape)
    buffer, pointer = new_buffer(count * info.code_bytes)
    if (rounding == "stochastic") != (words is not None):
        raise UsageError("words go with the rounding stochastic, and it needs them: 32 random bits for each element of x")
    if words is not None:
        call("mxcheck_c_cast_stochastic", view.format.encode(), view.pointer, count, info.name.encode(), encoded(overflow, "overflow"),
             words_pointer(words, count), pointer)
        return result(buffer, view.shape, info.name, info.code_bytes, view.kind)
    call("mxcheck_c_cast", view.format.encode(), view.pointer, count, info.name.encode(), encoded(rounding, "rounding"),
         encoded(overflow, "overflow"), pointer)
    return result(buffer, view.shape, info.name, info.code_bytes, view.kind)


def decode(codes: Any, format: Any) -> Any:
    """The exact values of codes, as FP64, of the codes' shape and kind. InputError for a code wider than the format."""
    view = view_of(codes, "codes", codes=True)
    _refuse_gaps(view)
    info = formats(format)
    count = count_of(view.shape)
    check_bytes(view, count * info.code_bytes, "codes")
    buffer, pointer = new_buffer(count * 8)
    call("mxcheck_c_decode", info.name.encode(), view.pointer, count, pointer)
    return result(buffer, view.shape, "fp64", 8, view.kind)


def scale(amax: float, rule: str = "rceil", format: Any = "e4m3") -> Tuple[Optional[int], float]:
    """The scale of a block whose largest magnitude is amax (NaN and infinity are taken), rounded once to FP32.

    rule: a recipe's name. Returns the E8M0 byte, or None for recipes of FP32 scales, and the scale's value.
    """
    given = ctypes.c_float(number(amax, "amax"))
    byte = ctypes.c_uint8()
    value = ctypes.c_float()
    call("mxcheck_c_scale", encoded(rule, "rule"), format_name(format).encode(), ctypes.byref(given), 1, ctypes.byref(byte), ctypes.byref(value))
    return (None if recipe(rule)["rule"] == "fp32" else byte.value), value.value


def check_bytes(view: Any, needed: int, what: str) -> None:
    """UsageError where a tensor has another number of bytes than a call will read."""
    if view.size != needed:
        raise UsageError(f"{what} has {view.size} bytes: {needed} are needed")


def _refuse_gaps(view: Any) -> None:
    if len(view.shape) >= 2 and view.shape[0] > 1 and view.row_stride != view.shape[-1]:
        raise UsageError("the tensor has gaps between rows: make it contiguous")
