"""Black boxes: which contract, rounding, recipe or variant do they follow?"""

from typing import Any, Callable

from ._errors import UsageError

_OPERATIONS = ("matmul", "cast", "quantize", "route")


def identify(f: Callable[..., Any], op: str = "matmul", **options: Any) -> Any:
    """What f computes, from calls alone: an Identified, true where a known name explains every output that was compared.

    op: "matmul": f(a, b), options formats, shape, arrays, names, tree, output, scales, blocks; "cast": f(x), options format, arrays; "quantize": f(x), options
    format, block, dtype, arrays, names; "route": f(logits), options experts, top_k, dtype, arrays. mxcheck.identifying has each as a
    function of its own. UsageError for answers of another shape or type; what f raises is not caught. The program mxcheck asks and compares:
    EnvironmentError without it.
    """
    if op not in _OPERATIONS:
        raise UsageError(f"op is {op!r}: {', '.join(_OPERATIONS)} are offered")
    from . import identifying  # not at import: nobody else needs it

    return getattr(identifying, f"identify_{op}")(f, **options)


def identify_dump(a: Any = None, b: Any = None, d: Any = None, scale_a: Any = None, scale_b: Any = None, **tensors: Any) -> Any:
    """What tensors of a run follow, by the names of `mxcheck identify`'s options: an Identified, as of identify.

    a, b, d, and scale_a, scale_b where there are scales: a product (a and b may be what quantize returned). x=, codes=, and scales=: a
    cast, a quantization. logits=, experts=, weights=: a router. mxcheck.identifying.identify_dump has all of the options. UsageError and
    InputError for what does not fit together; EnvironmentError without the program mxcheck.
    """
    from . import identifying

    return identifying.identify_dump(a, b, d, scale_a, scale_b, **tensors)
