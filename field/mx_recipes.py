"""torchao's MX quantization, blocks of 32: its own function where torchao is installed, otherwise the same steps written from the recipes'
definitions (docs/numerics.md), as the names then say. Names: MODE_HOW__RECIPE; "but for the sign of NaN codes": these are made 0x7F first."""

import importlib.util

import torch

import mxcheck

from . import ON

RECIPES = {"floor": ("torchao_0_18_floor", "torchao_floor", "torchao_floor_cuda", "ocp"),
           "rceil": ("torchao_0_18", "torchao_old", "torchao", "te", "te_ftz", "rceil"),
           "ceil": ("torchao_0_18_ceil", "torchao_ceil"),
           "even": ("torchao_0_18_even", "torchao_even")}
HAS_TORCHAO = importlib.util.find_spec("torchao") is not None
torch._dynamo.config.recompile_limit = 1000  # beyond it what runs is the eager function


def _own(x, mode):
    """The steps of docs/numerics.md in torch: log2 of the FP32 quotient rounded up (rceil), or amax's own exponent (floor)."""
    blocks = x.float().unflatten(-1, (-1, 32))
    amax = blocks.abs().amax(-1, keepdim=True)
    if mode == "rceil":
        byte = torch.ceil(torch.log2(amax * (1.0 / 448.0))).clamp(-127, 127) + 127
        byte = torch.where(amax.isnan(), 255, byte.nan_to_num(0)).int()
    else:
        byte = (((amax.view(torch.int32) >> 23) & 0xFF) - 8).clamp(0, 254)
        byte = torch.where(amax.isnan(), 255, byte)
    scale = (byte << 23).view(torch.float32)
    scale = torch.where(byte == 0, 1.0, scale) if mode == "rceil" else scale.clamp(min=2.0**-126)
    codes = (blocks / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return byte.to(torch.uint8)[..., 0], codes.flatten(-2)


if HAS_TORCHAO:
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    def _function(mode):
        chosen = ScaleCalculationMode(mode)
        return lambda x: to_mx(x.contiguous(), torch.float8_e4m3fn, 32, chosen)

    MODES = tuple(RECIPES)
else:

    def _function(mode):
        return lambda x: _own(x, mode)

    MODES = ("floor", "rceil")


def _declare(mode, recipe, function, how, any_nan):
    def quantize(x, codes, scales, policy):
        made_scales, made = function(x)
        made = made.view(torch.uint8).contiguous()
        if any_nan:
            made = torch.where((made & 0x7F) == 0x7F, 0x7F, made).to(torch.uint8)
        return made, made_scales.view(torch.uint8).view(scales.shape)

    return mxcheck.candidate("quantize", recipes=[recipe], formats=["e4m3"], blocks=["1x32"], types=["fp32", "bf16"], cols_multiple=32,
                             name=f"{mode} {how}", **ON)(quantize)


for _mode in MODES:
    _eager = _function(_mode)
    _compiled = torch.compile(_eager, dynamic=True)
    for _how, _callable in (("eager", _eager), ("compiled", _compiled)):
        _first = RECIPES[_mode][0]
        _name = f"{_mode}_{_how}" if HAS_TORCHAO else f"{_mode}_{_how}_by_definition"
        globals()[f"{_name}__{_first}"] = _declare(_mode, _first, _callable, _how, False)
        for _recipe in RECIPES[_mode]:
            globals()[f"{_name}__{_recipe}, but for the sign of NaN codes"] = _declare(_mode, _recipe, _callable, _how, True)
