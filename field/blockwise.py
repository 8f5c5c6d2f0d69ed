"""FP8 with FP32 scales of 1 x 128 and 128 x 128, torchao's blockwise recipe and the division that DeepSeek's has, compared directly with
mxcheck.quantize under each recipe of FP32 scales (the gate's `quantize` has E8M0 scales alone). python -m field.blockwise prints JSON."""

import json
import sys

import torch

import mxcheck

from . import DEVICE

RECIPES = ("fp32", "deepgemm_fp32", "dsv3_fp32", "tilekernels_fp32")


def by_reciprocal(blocks):
    """As torchao's blockwise_fp8_training: s = 448 / amax in FP64, elements times s, the scale 1 / s."""
    amax = blocks.abs().amax((1, 3), keepdim=True).double().clamp(min=1e-12)
    s = (448.0 / amax).float()
    return (blocks * s).clamp(-448, 448).to(torch.float8_e4m3fn), 1.0 / s


def by_division(blocks):
    """As DeepSeek-V3's act_quant: s = max(amax, 1e-4) / 448, elements divided by s."""
    s = blocks.abs().amax((1, 3), keepdim=True).clamp(min=1e-4) / 448.0
    return (blocks / s).to(torch.float8_e4m3fn), s


KERNELS = {"torch eager, 448 / amax": by_reciprocal, "torch eager, amax / 448": by_division,
           "torch.compile, 448 / amax": torch.compile(by_reciprocal), "torch.compile, amax / 448": torch.compile(by_division)}


def data():
    torch.manual_seed(1)
    x = torch.randn(256, 512, dtype=torch.float64) * torch.exp2(torch.randint(-20, 20, (256, 1)).double())
    x[3], x[7, :128] = 0, 1e-6  # a block of zeros, one below the least amax
    return x.float()


def compare(function, rows):
    x = data()
    blocks = x.to(DEVICE).view(256 // rows, rows, 4, 128)
    made, s = function(blocks)
    codes, scales = made.view(torch.uint8).cpu().view(256, 512), s.cpu().view(256 // rows, 4)
    found = {}
    for recipe in RECIPES:
        q = mxcheck.quantize(x, "e4m3", recipe, f"{rows}x128")
        wrong_scales = q.scales.view(torch.int32) != scales.view(torch.int32)
        wrong = q.codes.view(torch.uint8) != codes
        first = wrong.nonzero()[:1].tolist()
        found[recipe] = {"scales": int(wrong_scales.sum()), "codes": int(wrong.sum()), "of": codes.numel(), "of_scales": scales.numel(), "first": first}
    return found


def main():
    out = {}
    for name, function in KERNELS.items():
        for rows in (1, 128):
            try:
                out[f"{name}, {rows} x 128"] = compare(function, rows)
            except Exception as error:
                out[f"{name}, {rows} x 128"] = {"error": f"{type(error).__name__}: {error}"[:200]}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
