"""torchao's Triton kernels that quantize by groups of rows or columns, with groups of 32: blocks of 1x32 and of 32x1, whose scales are powers of
two. Names: KERNEL__RECIPE."""

import importlib.util

import torch

import mxcheck

from . import ON

RECIPES = ("rceil", "torchao_0_18", "floor")


def _ends(count):
    """The end of each group of 32, the last one perhaps shorter."""
    return torch.arange(32, count + 32, 32, dtype=torch.int32, device=ON["device"]).clamp(max=count)


def _bytes(scales, groups, count):
    """torchao multiplies by its scales, 2^k: the byte of the E8M0 scale that divides."""
    return (127 - torch.log2(scales.double()).round()).clamp(0, 254).to(torch.uint8).view(groups, count)


def _rowwise(x, codes, scales, policy):
    ends = _ends(x.shape[1])
    made, by = _kernels.triton_fp8_per_group_rowwise_scales(x.contiguous(), ends, torch.float8_e4m3fn, True)
    return made.view(torch.uint8), _bytes(by, len(ends), x.shape[0]).T.contiguous()


def _colwise(x, codes, scales, policy):
    ends = _ends(x.shape[0])
    made, by = _kernels.triton_fp8_per_group_colwise_scales(x.contiguous(), ends, torch.float8_e4m3fn, True)
    return made.view(torch.uint8).contiguous(), _bytes(by, len(ends), x.shape[1])


if importlib.util.find_spec("torchao"):
    import torchao.prototype.moe_training.kernels.jagged_float8_scales as _kernels

    for _function, _block in ((_rowwise, "1x32"), (_colwise, "32x1")):
        for _recipe in RECIPES:
            globals()[f"per_group{_function.__name__}__{_recipe}"] = mxcheck.candidate(
                "quantize", recipes=[_recipe], formats=["e4m3"], blocks=[_block], types=["bf16"], cols_multiple=32,
                name=f"per_group{_function.__name__}", **ON)(_function)
