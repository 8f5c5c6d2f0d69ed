"""The bit-exact reference of mxcheck, from Python.

    import mxcheck
    q = mxcheck.quantize(x, format="e4m3", recipe="te", block="1x32")   # x: numpy, torch (CPU) or mxcheck.Values
    q.codes, q.scales                                                   # of x's kind
    y = mxcheck.dequantize(q)

Results are those of the command line, byte for byte. Nothing but the standard library is needed; numpy, torch and
ml_dtypes are used where the caller's tensors are theirs. docs/python.md is the page.
"""

from ._arrays import Values
from ._errors import EnvironmentError_ as EnvironmentError
from ._errors import Error, InputError, InternalError, UsageError
from ._formats import FormatInfo, cast, decode, formats, recipe, recipes, scale
from ._library import version
from ._identify import identify, identify_dump
from ._product import contracts, explain, matmul
from ._quantize import Quantized, dequantize, quantize
from ._router import RoundedTokens, Routes, round_tokens, rounding_rules, route, routers
from .candidates import Candidate, Policy, Refused, candidate
from .candidates.gating import Report, gate

__version__ = version()

__all__ = [
    "Candidate",
    "EnvironmentError",
    "Error",
    "FormatInfo",
    "InputError",
    "InternalError",
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
    "contracts",
    "decode",
    "dequantize",
    "explain",
    "formats",
    "gate",
    "identify",
    "identify_dump",
    "matmul",
    "quantize",
    "recipe",
    "recipes",
    "round_tokens",
    "rounding_rules",
    "route",
    "routers",
    "scale",
]
