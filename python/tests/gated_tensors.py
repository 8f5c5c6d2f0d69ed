"""Candidates on numpy arrays and torch tensors for test_gate_tensors.py; which of them there are depends on what is installed."""

import importlib.util
import threading
import time

import mxcheck

OFFERS = dict(recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32"])


def there_is(name):
    return importlib.util.find_spec(name) is not None


def on(kind, **more):
    return mxcheck.candidate("quantize", tensors=kind, **{**OFFERS, **more})


def by_reference(x):
    q = mxcheck.quantize(x, "e4m3", "rceil", "1x32", threads=1)
    return q.codes, q.scales


@on("numpy")
def numpy_writes(x, codes, scales, policy):
    codes[...], scales[...] = by_reference(x)


@on("numpy", types=["fp32", "bf16", "fp16"], options=["row_stride"])
def numpy_of_every_type(x, codes, scales, policy):
    x = x if policy.format != "" else None
    if x.dtype.name == "uint16":  # the bits of BF16, without ml_dtypes
        x = mxcheck.Values(x.tobytes(), x.shape, "bf16")
        q = mxcheck.quantize(x, "e4m3", "rceil", "1x32", threads=1)
        codes.ravel()[:], scales.ravel()[:] = list(q.codes.tobytes()), list(q.scales.tobytes())
        return
    codes[...], scales[...] = by_reference(x)


@mxcheck.candidate("cast", tensors="numpy", formats=["e4m3"], types=["fp64"], options=["row_stride", "col_stride"])
def numpy_casts_fp64(x, codes, policy):
    import numpy

    assert x.dtype == numpy.float64
    magnitude = numpy.minimum(numpy.nan_to_num(numpy.abs(x), nan=0.0), 448.0)  # an infinity saturates
    exponent = numpy.maximum(numpy.frexp(numpy.maximum(magnitude, 2.0**-7))[1] - 1, -6)
    found = (exponent + 6) * 8 + numpy.rint(numpy.ldexp(magnitude, 3 - exponent)).astype(int)  # ties to even
    codes[...] = numpy.where(numpy.isnan(x), 0x7F, numpy.signbit(x) * 0x80 + found)


@on("numpy")
def numpy_returns(x, codes, scales, policy):
    return by_reference(x)


@on("numpy")
def numpy_returns_one(x, codes, scales, policy):
    return by_reference(x)[0]


@on("numpy")
def numpy_returns_another_shape(x, codes, scales, policy):
    codes, scales = by_reference(x)
    return codes, scales.ravel()


@on("numpy")
def numpy_returns_floats(x, codes, scales, policy):
    codes, scales = by_reference(x)
    return codes, scales.astype("float32")


@on("numpy")
def numpy_returns_strides(x, codes, scales, policy):
    import numpy

    codes, scales = by_reference(x)
    return numpy.asfortranarray(codes), scales


@on("numpy")
def numpy_returns_a_list(x, codes, scales, policy):
    codes, scales = by_reference(x)
    return codes.tolist(), scales


_kept = {}


@on("numpy")
def numpy_returns_the_same_memory_again(x, codes, scales, policy):
    import numpy

    found = _kept.setdefault(codes.shape, numpy.empty_like(codes))
    made, scales = by_reference(x)
    found[...] = made
    return found, scales


@on("numpy")
def numpy_changes_its_input(x, codes, scales, policy):
    codes[...], scales[...] = by_reference(x)
    numpy_x = x
    numpy_x *= 0.5


@on("torch")
def torch_writes(x, codes, scales, policy):
    made, of_scales = by_reference(x)
    codes.copy_(made.view(codes.dtype))
    scales.copy_(of_scales.view(scales.dtype))


@on("torch")
def torch_returns_fp8(x, codes, scales, policy):
    return by_reference(x)


@on("torch")
def torch_leaves_its_tail(x, codes, scales, policy):
    import torch

    made, of_scales = by_reference(x)
    out = torch.empty_like(codes)
    out[:, : out.shape[1] // 32 * 32] = made.view(torch.uint8)[:, : out.shape[1] // 32 * 32]
    return out, of_scales


@on("torch")
def torch_requires_grad(x, codes, scales, policy):
    return codes.float().requires_grad_(), scales


@on("torch")
def torch_returns_a_subclass(x, codes, scales, policy):
    import torch

    class Lazy(torch.Tensor):
        pass

    return by_reference(x)[0].view(torch.uint8).as_subclass(Lazy), scales


@on("torch")
def torch_returns_a_transpose(x, codes, scales, policy):
    import torch

    made, of_scales = by_reference(x)
    return made.view(torch.uint8).t().contiguous().t(), of_scales


@on("torch")
def torch_returns_its_input(x, codes, scales, policy):
    import torch

    return x.view(torch.uint8)[:, : x.shape[1]].as_strided(codes.shape, (codes.shape[1], 1)), scales


@on("torch")
def torch_writes_later(x, codes, scales, policy):
    torch_writes.function(x, codes, scales, policy)

    def later():
        time.sleep(0.001)
        codes.fill_(1)

    threading.Thread(target=later).start()


@mxcheck.candidate("quantize", device="cuda", **OFFERS)
def cuda_right(x, codes, scales, policy):
    import torch

    bits = x.view(torch.int32) & 0x7FFFFFFF
    rows, cols = x.shape
    blocks = torch.nn.functional.pad(bits, (0, -cols % 32)).view(rows, -1, 32).amax(-1)
    byte = ((blocks >> 23) - 8 + ((blocks & 0x7FFFFF) > 0x600000).int()).clamp(min=0)
    special = blocks >= 0x7F800000
    each = byte.repeat_interleave(32, 1)[:, :cols]
    made = torch.ldexp(x.double(), 127 - each).float().to(torch.float8_e4m3fn).view(torch.uint8)
    codes.copy_(torch.where(special.repeat_interleave(32, 1)[:, :cols], 0x7F, made))
    scales.copy_(torch.where(special, 255, byte).to(torch.uint8))


@mxcheck.candidate("quantize", device="cuda", captures=False, **OFFERS)
def cuda_right_without_graphs(x, codes, scales, policy):
    cuda_right.function(x, codes, scales, policy)


@mxcheck.candidate("quantize", device="cuda", captures=False, **OFFERS)
def cuda_in_another_stream(x, codes, scales, policy):
    import torch

    stream = _kept.setdefault("stream", torch.cuda.Stream())
    with torch.cuda.stream(stream):
        cuda_right.function(x, codes, scales, policy)


@mxcheck.candidate("quantize", device="cuda", captures=False, **OFFERS)
def cuda_waits(x, codes, scales, policy):
    import torch

    cuda_right.function(x, codes, scales, policy)
    torch.cuda.synchronize()


@mxcheck.candidate("quantize", device="cuda", captures=False, waits=True, **OFFERS)
def cuda_says_that_it_waits(x, codes, scales, policy):
    cuda_waits.function(x, codes, scales, policy)


@mxcheck.candidate("quantize", device="cuda", captures=False, **OFFERS)
def cuda_leaves_the_host(x, codes, scales, policy):
    return codes.cpu(), scales.cpu()
