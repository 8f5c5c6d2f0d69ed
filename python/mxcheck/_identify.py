"""Black boxes: which contract, rounding, recipe or variant do they follow?"""

import inspect
from typing import Any, Callable

from . import identifying
from ._errors import UsageError
from ._names import one_of, require_options, told
from .identifying import Identified

_OPERATIONS = ("matmul", "cast", "quantize", "route")


def identify(f: Callable[..., Any], op: str = "matmul", **options: Any) -> Identified:
    """Identifies what f computes, from calls alone: an Identified, true where a known name explains every output that was compared.

    op: "matmul": f(a, b), options formats, shape, arrays, names, tree, output, scales, blocks; "cast": f(x), options format, arrays; "quantize": f(x), options
    format, block, dtype, arrays, names, levels (2: NVFP4); "route": f(logits), options experts, top_k, dtype, arrays. mxcheck.identifying has each as a
    function of its own. arrays: what f is called with, "numpy", "torch" or "values" (mxcheck.Values); without it numpy where that is installed.
    UsageError for answers of another shape or type; what f raises is not caught. The program mxcheck asks and compares:
    EnvironmentError without it.
    """
    one_of(op, "op", _OPERATIONS)
    if not callable(f):
        raise UsageError(f"f is {told(f)}: a function is needed, as lambda a, b: ...; mxcheck.identify_dump takes tensors")
    function = getattr(identifying, f"identify_{op}")
    require_options(options, list(inspect.signature(function).parameters)[1:], f"identify of {op}")
    found: Identified = function(f, **options)
    return found


def identify_dump(a: Any = None, b: Any = None, d: Any = None, scale_a: Any = None, scale_b: Any = None, **tensors: Any) -> Identified:
    """Identifies what tensors of a run follow, by the names of `mxcheck identify`'s options: an Identified, as of identify.

    a, b, d, and scale_a, scale_b where there are scales: a product (a and b may be what quantize returned). x=, codes=, and scales=: a
    cast, a quantization (codes= may be what quantize returned). logits=, experts=, weights=: a router (experts= may be what route returned). mxcheck.identifying.identify_dump has all of the options. UsageError and
    InputError for what does not fit together; EnvironmentError without the program mxcheck.
    """
    require_options(tensors, list(inspect.signature(identifying.identify_dump).parameters)[5:], "identify_dump")
    return identifying.identify_dump(a, b, d, scale_a, scale_b, **tensors)
