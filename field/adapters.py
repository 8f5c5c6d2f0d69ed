"""DeepGEMM and FlashInfer, where they are installed. Names: KERNEL__CLAIM."""

import importlib.util

import torch

import mxcheck

from . import ON


def _deepgemm(a, b, sa, sb, d, policy):
    import deep_gemm

    if a.shape[1] == 0:
        d.zero_()
        return
    function = getattr(deep_gemm, "fp8_gemm_nt", None) or deep_gemm.gemm_fp8_fp8_bf16_nt
    function((a.view(torch.float8_e4m3fn), sa.clone()), (b.view(torch.float8_e4m3fn), sb.clone()), d)


def _flashinfer(x, codes, scales, policy):
    import flashinfer

    made, made_scales = flashinfer.mxfp8_quantize(x, is_sf_swizzled_layout=False)
    return made.view(torch.uint8), made_scales.view(torch.uint8).view(scales.shape)


if importlib.util.find_spec("deep_gemm"):
    for _contract in ("sm90_fp8+promote128", "sm90_fp8+promote128+a_first"):
        globals()[f"deepgemm__{_contract}"] = mxcheck.candidate(
            "matmul", contract=_contract, formats=["e4m3"], scale_types=["fp32"], blocks=["1x128"], blocks_b=["128x128"], types=["bf16"],
            cols_multiple=64, name="deep_gemm.fp8_gemm_nt", **ON)(_deepgemm)
if importlib.util.find_spec("flashinfer"):
    for _recipe in ("te", "te_ftz", "rceil"):
        globals()[f"mxfp8_quantize__{_recipe}"] = mxcheck.candidate(
            "quantize", recipes=[_recipe], formats=["e4m3"], blocks=["1x32"], types=["bf16"], cols_multiple=32, name="flashinfer.mxfp8_quantize",
            **ON)(_flashinfer)
