"""mma gives the command line's bytes and steps with scales, C, formats and stacks; scales in any layout, block and group are matmul's."""

import array
import random
import unittest

import command_line
import mxcheck


def codes_of(rows, cols, format, seed, stack=()):
    """Codes of all kinds but few NaN, one a byte, or two bytes."""
    info = mxcheck.formats(format)
    draw = random.Random(seed)
    count = rows * cols * (stack[0] if stack else 1)
    mask = (1 << info.bits) - 1
    codes = array.array("B" if info.code_bytes == 1 else "H" if info.code_bytes == 2 else "I", (draw.getrandbits(32) & mask & ~(mask >> 2 & 8) for _ in range(count)))
    return mxcheck.Values(codes, (*stack, rows, cols), format)


def scales_of(rows, cols, seed, low=100, high=150, stack=()):
    draw = random.Random(seed)
    return mxcheck.Values(bytes(draw.randrange(low, high) for _ in range(rows * cols * (stack[0] if stack else 1))), (*stack, rows, cols), "e8m0")


def floats(shape, seed, dtype="fp32"):
    draw = random.Random(seed)
    count = 1
    for extent in shape:
        count *= extent
    x = mxcheck.Values(array.array("f", (draw.uniform(-4, 4) for _ in range(count))), (count,), "fp32")
    return mxcheck.Values(x.data if dtype == "fp32" else mxcheck.cast(x, dtype).data, shape, dtype)


class Case(command_line.InFolder):
    def flags(self, **tensors):
        """--NAME FILE:tensor of each."""
        from mxcheck import _safetensors

        told = []
        for name, tensor in tensors.items():
            if tensor is None:
                continue
            file = self.folder / f"{name}.safetensors"
            _safetensors.write(file, {"x": tensor})
            told += ["--" + name.replace("_", "-"), f"{file}:x"]
        return told

    def check(self, contract, a, b, c=None, formats=(None, None), scale_a=None, scale_b=None):
        """mma and explain against the command line."""
        flags = ["--contract", contract, *self.flags(a=a, b=b, c=c, scale_a=scale_a, scale_b=scale_b)]
        for side, format in zip("ab", formats):
            flags += [f"--format-{side}", format] if format else []
        target = self.folder / "d.safetensors"
        command_line.run("mma", *flags, "-o", str(target))
        options = dict(scale_a=scale_a, scale_b=scale_b, format_a=formats[0], format_b=formats[1])
        with self.subTest(contract=contract, formats=formats, c=c is not None, scaled=scale_a is not None):
            d = mxcheck.mma(a, b, contract, c, **options)
            self.assertEqual(d.tobytes(), command_line.read_safetensors(target)["d"])
            self.assertEqual(d.dtype, mxcheck.contract(contract)["output"])
            promotes = mxcheck.contract(contract)["promotion"] != "0"
            whole = contract if c is None or promotes else contract + "+from_c"
            told = command_line.run("mma", *flags, "--explain", "1,2")
            self.assertEqual(mxcheck.explain(a, b, (1, 2), whole, None, c=c, **options), told.splitlines())
        return d


class SameAsCommandLine(Case):
    def test_every_contract_format_and_c(self):
        taken = set()
        for contract in mxcheck.contracts():
            row = mxcheck.contract(contract)
            for format in row["operands"].split():
                a, b = codes_of(3, 72, format, 1), codes_of(5, 72, format, 2)
                terms = int(row["scale_terms"])
                scales = (None, None)
                if terms:
                    low, high = (0, 127) if row["scales"].split()[0] == "e4m3" else (100, 150)
                    scales = [scales_of(rows, -(-72 // terms), seed, low, high) for rows, seed in ((3, 3), (5, 4))]
                for c in (None, floats((3, 5), 9, row["output"])):
                    self.check(contract, a, b, c, (format, format), *scales)
                    taken.add(contract)
        self.assertEqual(taken, set(mxcheck.contracts()))

    def test_mixed_formats_and_those_of_integers(self):
        a, b = codes_of(4, 40, "e5m2", 1), codes_of(3, 40, "e4m3", 2)
        self.check("sm90_fp8", a, b, None, ("e5m2", "e4m3"))
        plain = mxcheck.Values(b.data, b.shape, "uint8")
        self.assertEqual(self.check("sm90_fp8", plain, plain).tobytes(), mxcheck.mma(b, b, "sm90_fp8").tobytes())
        words = mxcheck.Values(codes_of(4, 40, "bf16", 5).data, (4, 40), "uint16")
        self.check("sm90_bf16", words, words)

    def test_promotion_with_fp32_and_e8m0_scales(self):
        a, b = codes_of(4, 300, "e4m3", 1), codes_of(6, 300, "e4m3", 2)
        for contract in ("sm90_fp8+promote128", "sm90_fp8+promote64+a_first", "sm90_fp8+promote128+descending"):
            blocks = -(-300 // int(mxcheck.contract(contract)["promotion"]))
            for scales in ((floats((4, blocks), 3), floats((6, blocks), 4)), (scales_of(4, blocks, 3), scales_of(6, blocks, 4)), (None, None)):
                for c in (None, floats((4, 6), 5)):
                    self.check(contract, a, b, c, (None, None), *scales)

    def test_stacks(self):
        a, b = codes_of(3, 64, "e4m3", 1, (4,)), codes_of(5, 64, "e4m3", 2, (4,))
        self.check("sm90_fp8", a, b, floats((4, 3, 5), 3))
        scales = scales_of(3, 2, 3, stack=(4,)), scales_of(5, 2, 4, stack=(4,))
        d = self.check("sm100_mxf8f6f4", a, b, None, (None, None), *scales)
        self.assertEqual(d.shape, (4, 3, 5))
        third = [mxcheck.Values(memoryview(x.data).cast("B")[2 * rows * width : 3 * rows * width], (rows, width), x.dtype)
                 for x, rows, width in ((a, 3, 64), (b, 5, 64), (scales[0], 3, 2), (scales[1], 5, 2))]
        self.assertEqual(mxcheck.mma(third[0], third[1], "sm100_mxf8f6f4", scale_a=third[2], scale_b=third[3]).tobytes(), d.tobytes()[2 * 60 : 3 * 60])

    def test_c_by_its_bits(self):
        a, b, c = codes_of(3, 32, "e4m3", 1), codes_of(5, 32, "e4m3", 2), floats((3, 5), 3)
        bits = mxcheck.Values(c.data.tobytes(), (3, 5), "uint32")
        self.assertEqual(self.check("sm90_fp8", a, b, bits).tobytes(), mxcheck.mma(a, b, "sm90_fp8", c).tobytes())


class Scales(Case):
    """Codes and scales apart, in every layout, are the product of what quantize returned; that is the command line's (test_product)."""

    def both(self, x, w, contract, blocks, layouts=("compact", "tcgen05", "deepgemm"), recipe="rceil", offsets=(None, None), **options):
        whole = [mxcheck.quantize(values, recipe=recipe, block=block, offsets=at) for values, block, at in zip((x, w), blocks, offsets)]
        wanted = mxcheck.matmul(*whole, contract, **options)
        for layout in layouts:
            sides = [mxcheck.quantize(values, recipe=recipe, block=block, layout=layout, offsets=at, pad=255)
                     for values, block, at in zip((x, w), blocks, offsets)]
            with self.subTest(contract=contract, blocks=blocks, layout=layout, options=str(options)):
                self.assertEqual(mxcheck.matmul(*sides, contract, **options).tobytes(), wanted.tobytes())
                if offsets[1] is None or options.get("groups") == "depth":
                    if offsets[0] is not None:
                        options["offsets"] = offsets[0]
                    apart = mxcheck.matmul(sides[0].codes, sides[1].codes, contract, scale_a=sides[0].scales, scale_b=sides[1].scales,
                                           block_a=blocks[0], block_b=blocks[1], layout=layout, **options)
                    self.assertEqual(apart.tobytes(), wanted.tobytes())
        return wanted

    def test_every_block(self):
        x, w = command_line.words(70, 256, "bf16"), command_line.words(130, 256, "bf16", 2)
        for blocks in (("1x32", "1x32"), ("1x128", "1x128"), ("32x1", "32x1")):
            contract = "exact" if blocks[0] == "32x1" else "sm90_bf16+decode"
            self.both(x, w, contract, blocks)
        self.both(x, w, "sm100_mxf8f6f4", ("1x32", "1x32"))
        for recipe in ("rceil", "fp32"):
            for blocks in (("1x128", "128x128"), ("128x128", "128x128"), ("1x128", "1x128")):
                self.both(x, w, "sm90_fp8+promote128", blocks, ("compact",), recipe)
        self.both(x, w, "exact", ("row", "row"), ("compact",))

    def test_transposed(self):
        x, w = command_line.words(128, 5, "bf16"), command_line.words(128, 7, "bf16", 2)
        self.both(x, w, "sm90_bf16+decode", ("32x1", "32x1"), transpose_a=True, transpose_b=True)
        q = [mxcheck.quantize(values, block="32x1") for values in (x, w)]
        wanted = mxcheck.matmul(*q, "sm100_mxf8f6f4", transpose_a=True, transpose_b=True)
        natural = mxcheck.mma(q[0].codes, q[1].codes, "sm100_mxf8f6f4", scale_a=q[0].scales, scale_b=q[1].scales, transpose_a=True, transpose_b=True)
        self.assertEqual(natural.tobytes(), wanted.tobytes())

    def test_groups(self):
        offsets = [0, 33, 33, 100]
        x, w = command_line.words(100, 128, "bf16"), command_line.words(3 * 40, 128, "bf16", 2)
        for layout in (("compact", "tcgen05", "deepgemm"),):
            self.both(x, w, "sm90_bf16+decode", ("1x32", "1x32"), layout, offsets=(offsets, None), groups="rows")
        # Experts of 40 rows, blocks of 32 or 128: they restart.
        for blocks in (("1x32", "32x32"), ("32x32", "32x1")):
            self.both(x, w, "exact", blocks, ("compact",), offsets=(offsets, [0, 40, 80, 120]), groups="rows")
        self.both(x, w, "sm90_fp8+promote128", ("1x128", "128x128"), ("compact",), offsets=(offsets, [0, 40, 80, 120]), groups="rows")
        y = command_line.words(100, 6, "bf16", 3)
        self.both(y, x, "exact", ("32x1", "32x1"), offsets=(offsets, offsets), groups="depth", transpose_a=True, transpose_b=True)
        self.both(y, x, "sm90_fp8+promote128", ("128x128", "128x1"), ("compact",), offsets=(offsets, offsets), groups="depth", transpose_a=True,
                  transpose_b=True)

    def test_types_of_d(self):
        a, b = codes_of(3, 64, "e4m3", 1), codes_of(5, 64, "e4m3", 2)
        wide = mxcheck.mma(a, b, "sm90_fp8")
        for dtype in ("bf16", "fp16"):
            d = mxcheck.mma(a, b, "sm90_fp8", dtype=dtype)
            self.assertEqual((d.dtype, len(d.tobytes())), (dtype, 30))
            self.assertEqual(d.tobytes(), mxcheck.matmul(a, b, "sm90_fp8", dtype).tobytes())
            self.assertEqual(d.tobytes(), mxcheck.cast(wide, dtype, overflow="non_saturate").tobytes())


class Layouts(Case):
    def test_are_those_of_quantize(self):
        x = command_line.words(133, 290, "bf16")
        for block in ("1x32", "32x1", "1x128", "128x1", "row"):
            for offsets in (None, [0, 40, 40, 133]):
                of = {layout: mxcheck.quantize(x, block=block, layout=layout, offsets=offsets, pad=9).scales for layout in ("compact", "tcgen05", "deepgemm")}
                for layout, scales in of.items():
                    for to, wanted in of.items():
                        found = mxcheck.scale_layout(scales, x.shape, block, layout, to, offsets, 9)
                        self.assertEqual((found.tobytes(), found.shape), (wanted.tobytes(), wanted.shape))

    def test_refusals(self):
        x = command_line.words(64, 64, "bf16")
        q = mxcheck.quantize(x, layout="tcgen05")
        self.refused(("512", "64 bytes"), mxcheck.scale_layout, mxcheck.Values(bytes(64), (64,), "e8m0"), (64, 64))
        self.refused(("7y7", "1x16"), mxcheck.scale_layout, q.scales, (64, 64), "7y7")
        self.refused(("32x32", "tcgen05"), mxcheck.scale_layout, q.scales, (64, 64), "32x32")
        self.refused(("swizzled", "tcgen05"), mxcheck.scale_layout, q.scales, (64, 64), layout="swizzled")
        self.refused(("shape",), mxcheck.scale_layout, q.scales, 64)
        self.refused(("pad",), mxcheck.scale_layout, q.scales, (64, 64), pad=300)
        self.refused(("from 0 to",), mxcheck.scale_layout, q.scales, (-64, 64))
        sixteen = mxcheck.scale_layout(mxcheck.Values(bytes(range(128)), (32, 4), "uint8"), (32, 64), "1x16", "compact", "tcgen05")
        self.assertEqual(mxcheck.scale_layout(sixteen, (32, 64), "1x16").tobytes(), bytes(range(128)))


class Refusals(Case):
    def test_scales_that_do_not_fit(self):
        a, s = codes_of(3, 64, "e4m3", 1), scales_of(3, 2, 1)
        mx = "sm100_mxf8f6f4"
        self.refused(("scales",), mxcheck.mma, a, a, mx)
        self.refused(("scale_a", "(3, 1)", "(3, 2)"), mxcheck.mma, a, a, mx, scale_a=scales_of(3, 1, 1), scale_b=s)
        self.refused(("scale_b", "no scales", "promoteN"), mxcheck.mma, a, a, "sm90_fp8", scale_b=s)
        self.refused(("block_a", "scale_a"), mxcheck.mma, a, a, "sm90_fp8", block_a="1x32")
        self.refused(("FP32", "compact"), mxcheck.mma, a, a, "sm90_fp8+promote32", scale_a=floats((3, 2), 1), layout="tcgen05")
        self.refused(("1x16",), mxcheck.mma, a, a, mx, scale_a=scales_of(3, 4, 1), scale_b=scales_of(3, 4, 1), block_a="1x16", block_b="1x16")
        self.refused(("7*7",), mxcheck.mma, a, a, mx, scale_a=s, scale_b=s, block_a="7*7")
        q = mxcheck.quantize(command_line.words(3, 64, "bf16"))
        self.refused(("scale_a is given", "quantize"), mxcheck.mma, q, q, mx, scale_a=s)
        self.refused(("format_b is given",), mxcheck.matmul, q, q, "exact", format_b="e4m3")
        stack = codes_of(3, 64, "e4m3", 1, (2,))
        self.refused(("stack", "compact"), mxcheck.mma, stack, stack, mx, scale_a=mxcheck.Values(bytes(1024), (2, 512), "e8m0"), layout="tcgen05")
        self.refused(("2 matrices", "no"), mxcheck.mma, stack, a, "sm90_fp8")
        self.refused(("groups", "stacks"), mxcheck.matmul, stack, stack, "exact", groups="rows", offsets=[0, 3])
        self.refused(("c is", "(3, 3)"), mxcheck.mma, a, a, "sm90_fp8", floats((3, 4), 1))
        self.refused(("c is", "fp16"), mxcheck.mma, a, a, "sm90_fp8", floats((3, 3), 1, "fp16"))
        self.refused(("contract is missing",), mxcheck.mma, a, a, None)
        self.refused(("contract is []",), mxcheck.mma, a, a, [])
        self.refused(("sm80", "sm90_fp8"), mxcheck.mma, a, a, "sm80")
        self.refused(("float4", "e4m3"), mxcheck.mma, a, a, "sm90_fp8", format_a="float4")

    def test_codes_wider_than_their_format(self):
        a = mxcheck.Values(b"\x01\x02\x1f\x03", (2, 2), "uint8")
        self.refused(("a: code 31 at place 2", "e2m1", "0 to 15"), mxcheck.matmul, a, a, "exact", kind=mxcheck.InputError, format_a="e2m1", format_b="e2m1")

    def test_blocks_that_run_across_experts(self):
        offsets = [0, 3, 8]
        x = mxcheck.quantize(command_line.words(8, 128, "bf16"), block="1x128", recipe="fp32", offsets=offsets)
        w = command_line.words(80, 128, "bf16", 3)
        across = mxcheck.quantize(w, block="128x128", recipe="fp32")
        self.refused(("128 rows", "experts of 40", "range(0, 81, 40)"), mxcheck.matmul, x, across, "sm90_fp8+promote128", groups="rows")
        self.refused(("run across experts of 40",), mxcheck.matmul, x, across.codes, "sm90_fp8+promote128", groups="rows", scale_b=across.scales,
                     block_b="128x128")
        right = mxcheck.quantize(w, block="128x128", recipe="fp32", offsets=range(0, 81, 40))
        self.assertEqual(mxcheck.matmul(x, right, "sm90_fp8+promote128", groups="rows").shape, (8, 40))
        self.refused(("restart at experts", "groups"), mxcheck.matmul, x, right, "sm90_fp8+promote128")
        elsewhere = mxcheck.quantize(w, block="128x128", recipe="fp32", offsets=[0, 30, 80])
        self.refused(("restart elsewhere",), mxcheck.matmul, x, elsewhere, "sm90_fp8+promote128", groups="rows")
        tall = mxcheck.quantize(command_line.words(8, 128, "bf16"), block="32x32")
        self.refused(("a has blocks of several rows", "offsets=[0, 3, 8]"), mxcheck.matmul, tall, mxcheck.quantize(w), "exact", groups="rows",
                     offsets=offsets)

    def test_torch_and_numpy(self):
        try:
            import numpy
            import torch
        except ImportError:
            self.skipTest("numpy and torch are not installed")
        a, s = codes_of(3, 64, "e4m3", 1), scales_of(3, 2, 1)
        wanted = mxcheck.mma(a, a, "sm100_mxf8f6f4", scale_a=s, scale_b=s).tobytes()
        codes, scales = (numpy.frombuffer(x.tobytes(), numpy.uint8).reshape(x.shape) for x in (a, s))
        found = mxcheck.mma(codes, codes, "sm100_mxf8f6f4", scale_a=scales, scale_b=scales)
        self.assertEqual((found.dtype, found.tobytes()), (numpy.float32, wanted))
        t, u = torch.from_numpy(codes.copy()).view(torch.float8_e4m3fn), torch.from_numpy(scales.copy()).view(torch.float8_e8m0fnu)
        found = mxcheck.mma(t, t, "sm100_mxf8f6f4", scale_a=u, scale_b=u)
        self.assertEqual(found.numpy().tobytes(), wanted)
        self.refused(("a requires a gradient", "detach"), mxcheck.mma, torch.zeros(2, 2, requires_grad=True), t, "exact")
        self.refused(("gaps", "contiguous"), mxcheck.mma, codes[:, ::2], codes[:, ::2], "sm90_fp8")
        self.refused(("gaps", "contiguous"), mxcheck.mma, codes[:, :32], codes[:, :32], "sm90_fp8")
        if hasattr(torch, "float4_e2m1fn_x2"):
            packed = torch.zeros(4, 16, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
            self.refused(("two codes in a byte", "one code a byte"), mxcheck.mma, packed, packed, "sm100_mxf4")


if __name__ == "__main__":
    unittest.main()
