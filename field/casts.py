"""torch's casts to FP8. What the gate's `cast` asks: to nearest, ties to even, saturating, NaN 0x7F; then the same of what is left when the
caller clamps values and makes NaN codes 0x7F. Names: KERNEL__CLAIM."""

import torch

import mxcheck

from . import ON

_TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def _cast(x, format_):
    return x.to(_TYPES[format_]).view(torch.uint8)


def _of_clamped(x, format_):
    most = torch.finfo(_TYPES[format_]).max
    made = _cast(x.clamp(-most, most), format_)
    return torch.where(x.isnan(), 0x7F, made).to(torch.uint8)


def _compiled(x, format_):
    return _graph(x, format_)


_graph = torch.compile(_cast, dynamic=True)


def _of_compiled_clamped(x, format_):
    most = torch.finfo(_TYPES[format_]).max
    return torch.where(x.isnan(), 0x7F, _graph(x.clamp(-most, most), format_)).to(torch.uint8)


def _declare(function, format_):
    def cast(x, codes, policy):
        return function(x, format_)

    return mxcheck.candidate("cast", formats=[format_], types=["fp32", "bf16"], name=function.__name__, **ON)(cast)


_CLAIM = "nearest even, saturating"
_BUT = _CLAIM + ", but for values beyond the largest and NaN"
for _format in _TYPES:
    globals()[f"eager_{_format}__{_CLAIM}"] = _declare(_cast, _format)
    globals()[f"eager_{_format}__{_BUT}"] = _declare(_of_clamped, _format)
    globals()[f"compiled_{_format}__{_CLAIM}"] = _declare(_compiled, _format)
    globals()[f"compiled_{_format}__{_BUT}"] = _declare(_of_compiled_clamped, _format)
