"""Assertions about bits, for the tests of kernels.

    import mxcheck.testing
    mxcheck.testing.assert_bits_equal(codes, expected)
    mxcheck.testing.assert_quantized(x, codes, scales, "e4m3", recipe="te", block=(1, 32))

torch.testing.assert_close takes +0 for -0 and one NaN for another; here a bit that differs is a difference."""

import array
import ctypes
from typing import Any, List, Optional, Sequence, Tuple

from ._arrays import Values, count_of, view_of
from ._errors import UsageError
from ._formats import _refuse_gaps, decode, formats
from ._names import told
from ._packed import is_packed_type, unpack
from ._quantize import Quantized, quantize, scale_format_of

__all__ = ["assert_bits_equal", "assert_quantized"]
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _bytes_of(x: Any, what: str) -> Tuple[bytes, Tuple[int, ...], str]:
    """A tensor's bytes, shape and type."""
    view = view_of(x, what, codes=True)
    _refuse_gaps(view)
    return ctypes.string_at(view.pointer, view.size) if view.size else b"", tuple(view.shape), view.format


def _value(word: int, bits: int, format: Optional[str]) -> str:
    text = f"0x{word:0{bits // 4}x}"
    if format is None:
        return text
    value = array.array("d", decode(Values(word.to_bytes(bits // 8, "little"), (1,), format), format).tobytes())[0]
    return f"{text} = {value:.17g}"


def _place(index: int, shape: Sequence[int]) -> Tuple[int, ...]:
    place: List[int] = []
    for extent in reversed(shape):
        place.insert(0, index % extent)
        index //= extent
    return tuple(place)


def _format_of(name: str) -> Optional[str]:
    try:
        return formats(name).name
    except UsageError:
        return None


def assert_bits_equal(actual: Any, expected: Any, what: str = "actual", format: Any = None) -> None:
    """AssertionError unless both tensors have the same shape and the same bits: -0 is not +0, and NaNs are equal by their bits alone.

    The tensors may be of different kinds (torch and numpy), and of different types of one width. format: what the bits mean, for the text;
    else as expected's type says. The text has the first place, both words there, and how many differ.
    """
    left, shape, _ = _bytes_of(actual, what)
    right, wanted, type_ = _bytes_of(expected, "expected")
    if shape != wanted:
        raise AssertionError(f"{what} is of shape {shape}, expected {wanted}")
    if len(left) != len(right):
        raise AssertionError(f"{what} has {len(left)} bytes, expected {len(right)}: elements of another width")
    if left == right:
        return
    each = len(right) // count_of(wanted)
    words = [array.array(_UNSIGNED[each], side) for side in (left, right)]
    places = [i for i, (a, b) in enumerate(zip(*words)) if a != b]
    known, first = formats(format).name if format is not None else _format_of(type_), places[0]
    show = [_value(side[first], each * 8, known) for side in words]
    raise AssertionError(f"{what} differs in {len(places)} of {len(words[0])} elements; first at {_place(first, wanted)}: {show[0]}, expected "
                         f"{show[1]}; last at {_place(places[-1], wanted)}")


def assert_quantized(x: Any, codes: Any, scales: Any = None, format: Any = None, recipe: str = "rceil", block: Any = None, layout: str = "compact",
                     offsets: Optional[Sequence[int]] = None, pad: int = 0, tensor_scale: Any = None) -> None:
    """AssertionError unless codes and scales are what the reference makes of x, bit for bit. Scales first: of a wrong one all codes differ.

    Arguments are those of mxcheck.quantize, in its order; codes and scales of x's shape and of the layout's. E2M1 codes may be two a byte,
    the even column in the low nibble. tensor_scale: what the kernel was given, or gave; None: that of x's amax. codes may be a
    mxcheck.Quantized, whose scales, tensor's scale and policy are its own.
    """
    if isinstance(codes, Quantized):
        _refuse_beside(codes, scales=scales, format=format, block=block, offsets=offsets, tensor_scale=tensor_scale)
        scales, format, recipe, block, layout = codes.scales, codes.format, codes.recipe, codes.block, codes.layout
        offsets, tensor_scale, codes = codes.offsets, codes.tensor_scale, codes.unpacked().codes
    if scales is None:
        raise UsageError("scales is missing: those that lie beside the codes are needed, or codes as a mxcheck.Quantized")
    q = quantize(x, format, recipe, block, layout, offsets, pad, engine="reference", tensor_scale=tensor_scale, packed=False)
    how = f"by recipe {recipe}, blocks {q.block}" + ("" if q.tensor_scale is None else f", tensor_scale {told(q.tensor_scale)}")
    assert_bits_equal(scales, q.scales, f"scales ({how})", scale_format_of(recipe))
    assert_bits_equal(_one_a_byte(codes, q), q.codes, f"codes ({how})", q.format)


def _refuse_beside(q: Quantized, **others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise UsageError(f"{name} is given, and codes is a mxcheck.Quantized, which has its own: leave {name} out")


def _one_a_byte(codes: Any, q: Quantized) -> Any:
    """Codes that are two a byte, by their type or by half of the columns, unpacked."""
    if q.format != "e2m1":
        return codes
    view, wanted = view_of(codes, "codes", codes=True, packed=True), tuple(view_of(q.codes, codes=True).shape)
    halves = wanted[-1] % 2 == 0 and wanted[-1] > 0 and tuple(view.shape) == (*wanted[:-1], wanted[-1] // 2)
    return unpack(codes) if is_packed_type(codes) or (halves and view.format == "uint8") else codes
