"""The bit-exact reference of mxcheck, from Python.

    import mxcheck
    q = mxcheck.quantize(x, format="e4m3", recipe="te", block="1x32")   # x: numpy, torch (CPU) or mxcheck.Values
    q.codes, q.scales                                                   # of x's kind
    y = mxcheck.dequantize(q)
    d = mxcheck.matmul(q, w, "sm90_fp8+promote128")
    run = mxcheck.layer({"X": x, "W1": w1, "W2": w2}, "mxfp8", logits, top_k=8)
    verdict = mxcheck.golden.verify({"codes": q.codes}, "golden.h5")

Results are those of the command line, byte for byte. Nothing but the standard library is needed; numpy, torch and
ml_dtypes are used where the caller's tensors are theirs. docs/python.md is the page.
"""

from ._arrays import Values
from ._errors import EnvironmentError_ as EnvironmentError
from ._errors import Error, GoldenError, InputError, InternalError, UsageError
from ._formats import FormatInfo, cast, decode, formats, ordered_words, recipe, recipes, scale, word_orders
from ._library import version
from ._identify import identify, identify_dump
from ._layer import LayerRun, LayerTensorVerdict, LayerVerdict, layer, layer_recipe, layer_recipes, verify_layer
from ._operands import scale_layout
from ._product import contract, contracts, explain, matmul, mma
from ._quantize import Quantized, dequantize, quantize
from ._router import RoundedTokens, Routes, round_tokens, rounding_rules, route, routers
from .candidates import Candidate, Policy, Refused, candidate
from .candidates.gating import Report, gate
from . import golden

from typing import TYPE_CHECKING, Any, List

__version__ = version()

_LATER = ("pytest_plugin", "testing")  # modules that are loaded when they are first asked for


if TYPE_CHECKING:
    from . import pytest_plugin as pytest_plugin  # not of __all__: it needs pytest
    from . import testing
else:

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            import importlib

            return importlib.import_module(f"{__name__}.{name}")
        from ._names import near

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near(name, [*__all__, *_LATER])}")


def __dir__() -> List[str]:
    return sorted([*globals(), *_LATER])


__all__ = [
    "Candidate",
    "EnvironmentError",
    "Error",
    "FormatInfo",
    "GoldenError",
    "InputError",
    "InternalError",
    "LayerRun",
    "LayerTensorVerdict",
    "LayerVerdict",
    "Policy",
    "Quantized",
    "Refused",
    "Report",
    "RoundedTokens",
    "Routes",
    "UsageError",
    "Values",
    "candidate",
    "cast",
    "contract",
    "contracts",
    "decode",
    "dequantize",
    "explain",
    "formats",
    "gate",
    "golden",
    "identify",
    "identify_dump",
    "layer",
    "layer_recipe",
    "layer_recipes",
    "matmul",
    "mma",
    "ordered_words",
    "quantize",
    "recipe",
    "recipes",
    "round_tokens",
    "rounding_rules",
    "route",
    "routers",
    "scale",
    "scale_layout",
    "testing",
    "verify_layer",
    "word_orders",
]
