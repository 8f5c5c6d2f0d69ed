"""MXFP8 by torch.compile: mxcheck gate --candidate python:examples/python/compiled_quantize.py:quantize on a machine with a GPU; :on_the_host
without one, and :eager of torch as it is."""

import torch

import mxcheck


def mxfp8(x):
    rows, cols = x.shape
    blocks = torch.nn.functional.pad(x.float(), (0, -cols % 32)).view(rows, -1, 32)
    amax = (blocks.view(torch.int32) & 0x7FFFFFFF).amax(-1, keepdim=True)  # its bits; NaN is above infinity
    byte = ((amax >> 23) - 8 + ((amax & 0x7FFFFF) > 0x600000).int()).clamp(min=0)  # 448 is 1.75 * 2^8
    special = amax >= 0x7F800000
    scaled = blocks * ((254 - byte.clamp(max=253)) << 23).view(torch.float32)  # 2^(127 - byte)
    codes = torch.where(special, 0x7F, scaled.to(torch.float8_e4m3fn).view(torch.uint8))
    return codes.view(rows, -1)[:, :cols].contiguous(), torch.where(special, 255, byte).to(torch.uint8)[..., 0]


torch._dynamo.config.recompile_limit = 1000  # beyond it what runs is the eager function
compiled = torch.compile(mxfp8, dynamic=True)
OFFERS = dict(recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32", "bf16"], tensors="torch")


@mxcheck.candidate("quantize", device="cuda", captures=False, **OFFERS)
def quantize(x, codes, scales, policy):
    return compiled(x)


@mxcheck.candidate("quantize", **OFFERS)
def on_the_host(x, codes, scales, policy):
    return compiled(x)


@mxcheck.candidate("quantize", **OFFERS)
def eager(x, codes, scales, policy):
    return mxfp8(x)
