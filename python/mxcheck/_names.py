"""Arguments as callers write them: names, types of torch and numpy, blocks, numbers; and how a message shows a value, in one line.

Whatever is wrong with one is a UsageError that says what it is, and what would be right.
"""

import dataclasses
import difflib
import functools
import operator
import struct
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ._errors import UsageError
from ._library import text

_MOST_TEXT = 80  # of a value in a message


@functools.lru_cache(maxsize=16)
def known(what: str) -> Tuple[str, ...]:
    """The library's names of "formats", "recipes", "blocks", "layouts" and the like."""
    return tuple(text("mxcheck_c_names", what.encode()).split())


def first_values(x: Any) -> str:
    """ "[1.5, 0, -3, ...]" of a tensor; "" where it cannot be said."""
    try:
        flat = x.reshape(-1)
        values, count = flat[:4].tolist(), len(flat)
    except Exception:  # of any library: a tensor on a device, or of a type without values
        return ""
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values[:3])
    return f" [{shown}{', ...' if count > 3 else ''}]"


def told(x: Any) -> str:
    """A value in a message, in one line: a tensor by type, shape and first values, anything else by its repr, cut where it is long."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None and not isinstance(x, type):
        if hasattr(x, "tobytes") and not hasattr(x, "reshape"):
            return repr(x)  # mxcheck.Values
        kind = type(x).__module__.split(".")[0]
        extents = " x ".join(map(str, shape)) if shape else "scalar"
        return f"{kind} {str(dtype).rsplit('.', 1)[-1]} {extents}{first_values(x)}"
    words = " ".join(repr(x).split())
    return words if len(words) <= _MOST_TEXT else words[: _MOST_TEXT - 3] + "..."


def near(name: Any, names: Iterable[str]) -> str:
    """ "; did you mean 'rceil'?" where one of the names is like it."""
    by_small_letters = {one.lower(): one for one in reversed(list(names))}
    found = difflib.get_close_matches(str(name).lower(), list(by_small_letters), 1)
    return f"; did you mean {by_small_letters[found[0]]!r}?" if found else ""


def listed(names: Iterable[Any], most: int = 20) -> str:
    """Names in a message, the first of them where there are many."""
    all_names = [str(name) for name in names]
    return ", ".join(all_names[:most]) + (f" and {len(all_names) - most} more" if len(all_names) > most else "")


def word(value: Any, what: str) -> str:
    """A name, not yet looked up."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what} is {told(value)}: a name is needed, as text")
    if "\0" in value:
        raise UsageError(f"{what} is {value!r}: no name has a zero byte")
    return value


def encoded(value: Any, what: str) -> bytes:
    return word(value, what).encode()


def one_of(value: Any, what: str, names: Iterable[str]) -> str:
    """One of the names."""
    names = tuple(names)
    if word(value, what) not in names:
        raise UsageError(f"unknown {what} {value!r}; known are {', '.join(names)}{near(value, names)}")
    return str(value)


def _type_name(value: Any) -> Optional[str]:
    """The name of a type of torch, numpy, ml_dtypes or jax."""
    module = (value if isinstance(value, type) else type(value)).__module__.split(".")[0]
    if module == "torch":
        return str(value).rsplit(".", 1)[-1]
    if isinstance(value, type) and module in ("numpy", "ml_dtypes", "jaxlib"):
        return value.__name__
    if hasattr(value, "itemsize") and isinstance(getattr(value, "name", None), str):  # numpy.dtype
        return str(value.name)
    return _type_name(value.dtype) if hasattr(value, "dtype") and not hasattr(value, "shape") else None  # jax.numpy.bfloat16


@functools.lru_cache(maxsize=1)
def _aliases() -> Dict[str, str]:
    """Formats by the names that they have elsewhere: float8_e4m3fn, e4m3fn, float32, half ..."""
    found = {"half": "fp16", "f32": "fp32", "f16": "fp16", "e4m3fn": "e4m3", "fp8_e4m3": "e4m3", "fp8_e5m2": "e5m2", "fp4": "e2m1",
             "float4_e2m1fn_x2": "e2m1"}
    for name in known("formats"):
        rows = dict(row.split("=", 1) for row in text("mxcheck_c_describe", b"format", name.encode()).splitlines())
        found[rows["dtype"]] = name
        found[rows["dtype"].split("_", 1)[-1]] = name
        found[name] = name
    return found


def format_name(value: Any, what: str = "format", offered: Iterable[str] = ()) -> str:
    """A format's own name. value: that, PyTorch's ("float8_e4m3fn", "e4m3fn"), or a type of torch, numpy or ml_dtypes. offered: those that
    are taken here, where not all are."""
    name = value if isinstance(value, str) else _type_name(value)
    if name is None:
        raise UsageError(f"{what} is {told(value)}: the name of a format is needed, as 'e4m3', or a type, as torch.float8_e4m3fn")
    found = _aliases().get(word(name, what))
    names = tuple(offered) or known("formats")
    if found in names:
        return str(found)
    if name in known("recipes"):
        raise UsageError(f"{what} is {name!r}, which is a recipe: write recipe={name!r}")
    raise UsageError(f"unknown {what} {name!r}; known are {', '.join(names)}{near(name, [alias for alias, own in _aliases().items() if own in names])}")


def block_name(value: Any, what: str = "block") -> str:
    """A block's name. value: that, "ROWSxCOLS", or (rows, columns)."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        try:
            rows, cols = (operator.index(extent) for extent in value)
        except TypeError:
            raise UsageError(f"{what} is {told(value)}: rows and columns are whole numbers, as (1, 32)") from None
        return f"{rows}x{cols}"
    if not isinstance(value, str):
        raise UsageError(f"{what} is {told(value)}: rows and columns are needed, as '1x32' or (1, 32); known are {', '.join(known('blocks'))}")
    return word(value, what)


def whole(value: Any, name: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """An integer, numpy's too."""
    try:
        found = operator.index(value)
    except TypeError:
        found = None
    if isinstance(value, bool) or found is None or not least <= found <= most:
        limits = "of 64 bits" if (least, most) == (-(2**63), 2**63 - 1) else f"from {least} to {most}"
        raise UsageError(f"{name} is {told(value)}: a whole number {limits} is needed")
    return found


def number(value: Any, name: str) -> float:
    """A number as FP32 has it."""
    try:
        if isinstance(value, str):
            raise TypeError
        return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    except (struct.error, OverflowError, TypeError, ValueError):
        raise UsageError(f"{name} is {told(value)}: a number in the range of FP32 is needed") from None


def require_options(given: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    """UsageError for a keyword that a function of these does not have."""
    names = tuple(names)
    for name in given:
        if name not in names:
            raise UsageError(f"{what} has no argument {name!r}; it has {', '.join(names)}{near(name, names)}")


class InALine:
    """A dataclass whose repr is one line, without the fields that have their default: its tensors by type, shape and first values."""

    def __repr__(self) -> str:
        defaults = {one.name: one.default for one in dataclasses.fields(self)}  # type: ignore[arg-type]
        fields: List[str] = [f"{name}={told(value)}" for name, value in vars(self).items() if value is not defaults.get(name)]
        return f"{type(self).__name__}({', '.join(fields)})"
