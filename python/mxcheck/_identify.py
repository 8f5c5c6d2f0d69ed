"""Black boxes: which contract, rounding, recipe or variant do they follow?"""

from typing import Any, Callable

from ._errors import UsageError

_OPERATIONS = ("matmul", "cast", "quantize", "route")


def identify(f: Callable[..., Any], op: str = "matmul", **options: Any) -> Any:
    """What f computes, from calls alone: an Identified, true where a known name explains every output that was compared.

    op: "matmul": f(a, b), options formats, shape, arrays, names, tree; "cast": f(x), options format, arrays; "quantize": f(x), options
    format, block, dtype, arrays, names; "route": f(logits), options experts, top_k, dtype, arrays. mxcheck.identifying has each as a
    function of its own. UsageError for answers of another shape or type; what f raises is not caught.
    """
    if op not in _OPERATIONS:
        raise UsageError(f"op is {op!r}: {', '.join(_OPERATIONS)} are offered")
    from . import identifying  # not at import: nobody else needs it

    return getattr(identifying, f"identify_{op}")(f, **options)
