"""Answers of mxcheck.identify about products and casts on a GPU, from calls alone: python3 -m field.identified prints the table of docs/identify.md."""

import time

import torch

import mxcheck

from . import DEVICE

BF16, FP8, FP32, FP16 = ("bf16", "bf16"), ("e4m3", "e4m3"), ("fp32", "fp32"), ("fp16", "fp16")
SQUARE, FEW = (128, 128, 256), (16, 16, 256)


def _here(f):
    """f of tensors on the device, as a function of tensors on the host."""
    return lambda *x: f(*(one.to(DEVICE) for one in x)).cpu()


def _mm(tf32=False):
    def f(a, b):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return torch.mm(a, b.t())

    return f


def _mm_fp32_out(a, b):
    return torch.mm(a, b.t(), out_dtype=torch.float32)


def _scaled(fast):
    def f(a, b):
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast)

    return f


def _dot(step, imprecise):
    def f(a, b):
        from . import triton_dot  # Triton is not everywhere

        d = torch.empty(a.shape[0], b.shape[0], dtype=torch.float32, device=a.device)
        triton_dot._run(a, b, d, step, imprecise)
        return d

    return f


BOXES = (
    ("torch.mm BF16, D in FP32", _mm_fp32_out, BF16, SQUARE),
    ("torch.mm BF16, D in FP32", _mm_fp32_out, BF16, FEW),
    ("torch.mm FP16, D in FP32", _mm_fp32_out, FP16, SQUARE),
    ("torch.mm FP32", _mm(), FP32, SQUARE),
    ("torch.mm FP32", _mm(), FP32, FEW),
    ("torch.mm FP32, TF32 allowed", _mm(True), FP32, SQUARE),
    ("torch.sum(a * b) over k, FP32", lambda a, b: (a[:, None] * b[None]).sum(-1), FP32, FEW),
    ("torch._scaled_mm E4M3", _scaled(False), FP8, SQUARE),
    ("torch._scaled_mm E4M3", _scaled(False), FP8, FEW),
    ("torch._scaled_mm E4M3, fast accumulation", _scaled(True), FP8, SQUARE),
    ("torch._scaled_mm E4M3, fast accumulation", _scaled(True), FP8, FEW),
    ("Triton tl.dot BF16", _dot(64, None), BF16, SQUARE),
    ("Triton tl.dot E4M3", _dot(128, None), FP8, SQUARE),
    ("Triton tl.dot E4M3, max_num_imprecise_acc=32", _dot(128, 32), FP8, SQUARE),
)


def _answer(f, formats, shape):
    try:
        found = mxcheck.identify(_here(f), "matmul", formats=formats, shape=shape, arrays="torch")
        lines = str(found).splitlines()
        if found.tree is not None and found.tree.root is not None:
            lines.insert(1, found.tree.shape)  # before what it is not, which is long
        return "; ".join(lines)
    except Exception as error:  # a line of the table, whatever another library raises
        return f"cannot run: {type(error).__name__}: {error}".splitlines()[0]


def main():
    print(f"| {torch.cuda.get_device_name() if DEVICE == 'cuda' else DEVICE}, torch {torch.__version__} | m x n x k | answer | seconds |\n|---|---|---|---|")
    for name, f, formats, shape in BOXES:
        begin = time.monotonic()
        answer = _answer(f, formats, shape)
        print(f"| {name} | {' x '.join(map(str, shape))} | {answer[:400]} | {time.monotonic() - begin:.1f} |", flush=True)


if __name__ == "__main__":
    main()
