"""The SIMD library's bits, which large tensors get, are the reference's: over recipes, formats, blocks, layouts, shapes, tails, NaN."""

import array
import gc
import random
import subprocess
import sys
import unittest

import mxcheck

OFFERED = ("rceil", "floor", "ocp", "torchao", "te")
BLOCKS = ("1x32", "32x1", "32x32", "1x128", "128x1", "128x128", "row")


def bits_of(rows, cols, dtype, seed):
    """Words of all kinds, NaN, infinities and subnormals among them; every other row near 1, so that not every block is one of NaN."""
    each = 4 if dtype == "fp32" else 2
    words = bytearray(random.Random(seed).randbytes(rows * cols * each))
    for i in range(0, rows, 2):
        for at in range(i * cols * each + each - 1, (i + 1) * cols * each, each):
            words[at] = words[at] & 0x80 | 0x3F
    return mxcheck.Values(words, (rows, cols), dtype)


class Engines(unittest.TestCase):
    def same(self, x, **options):
        """quantize by both, and back."""
        with self.subTest(shape=x.shape, dtype=x.dtype, **options):
            found, wanted = (mxcheck.quantize(x, engine=engine, **options) for engine in ("simd", "reference"))
            self.assertEqual(found.scales.tobytes(), wanted.scales.tobytes())
            self.assertEqual(found.codes.tobytes(), wanted.codes.tobytes())
            for dtype in ("fp32", "bf16"):
                self.assertEqual(mxcheck.dequantize(found, dtype, engine="simd").tobytes(),
                                 mxcheck.dequantize(wanted, dtype, engine="reference").tobytes())

    def test_every_recipe_format_and_type_that_is_offered(self):
        for dtype in ("fp32", "bf16"):
            x = bits_of(64, 96, dtype, 1)
            for recipe in OFFERED:
                for format in ("e4m3", "e5m2"):
                    self.same(x, recipe=recipe, format=format)

    def test_every_block_and_shape(self):
        for rows, cols in ((1, 1), (3, 67), (37, 129), (130, 300), (257, 31), (0, 5), (5, 0)):
            x = bits_of(rows, cols, "bf16", rows)
            for block in BLOCKS:
                self.same(x, block=block)

    def test_every_layout_with_experts(self):
        x = bits_of(300, 130, "fp32", 5)
        for block in BLOCKS:
            for layout in ("compact", "tcgen05", "deepgemm"):
                if layout == "compact" or block not in ("32x32", "128x128"):
                    self.same(x, block=block, layout=layout, offsets=[0, 0, 33, 160, 160, 300], pad=7)

    def test_many_threads_and_outputs_past_the_caches(self):
        x = bits_of(1100, 4160, "bf16", 6)  # 4.4 MiB of codes
        for block in ("1x32", "32x1", "128x128"):
            self.same(x, block=block, threads=3)

    def test_every_code_under_every_scale(self):
        for format in ("e4m3", "e5m2"):
            codes = bytes(code for _ in range(256) for code in range(256))
            q = mxcheck.Quantized(mxcheck.Values(codes, (256, 256), format), mxcheck.Values(bytes(range(256)), (256, 1), "e8m0"), format, "rceil",
                                  "row", "compact")
            for dtype in ("fp32", "bf16"):
                self.assertEqual(q.dequantize(dtype).tobytes(), mxcheck.dequantize(q, dtype, engine="reference").tobytes())
                self.assertEqual(q.dequantize(dtype).tobytes(), mxcheck.dequantize(q, dtype, engine="simd").tobytes())

    def test_what_is_not_offered_is_the_references_or_refused(self):
        x = bits_of(32, 64, "bf16", 2)
        half = mxcheck.cast(mxcheck.Values(bytes(4 * 64), (2, 32), "fp32"), "fp16")
        for values, options in ((x, dict(recipe="even")), (x, dict(format="e2m1")), (x, dict(recipe="fp32")), (half, {})):
            auto, reference = (mxcheck.quantize(values, engine=engine, **options) for engine in ("auto", "reference"))
            self.assertEqual((auto.codes.tobytes(), auto.scales.tobytes()), (reference.codes.tobytes(), reference.scales.tobytes()))
            with self.assertRaisesRegex(mxcheck.UsageError, "does not offer.*'auto'"):
                mxcheck.quantize(values, engine="simd", **options)
        for options in (dict(format="e2m1"), dict(recipe="fp32")):
            with self.assertRaisesRegex(mxcheck.UsageError, "does not offer"):
                mxcheck.dequantize(mxcheck.quantize(x, **options), engine="simd")
        with self.assertRaisesRegex(mxcheck.UsageError, "unknown engine 'gpu'; known are auto, simd, reference"):
            mxcheck.quantize(x, engine="gpu")
        with self.assertRaisesRegex(mxcheck.UsageError, "engine is None"):
            mxcheck.dequantize(mxcheck.quantize(x), engine=None)

    def test_every_recipe_is_the_references_by_default(self):
        x = bits_of(40, 70, "fp32", 9)
        for recipe in mxcheck.recipes():
            try:
                wanted = mxcheck.quantize(x, recipe=recipe, engine="reference")
            except mxcheck.InputError:  # NaN
                continue
            found = mxcheck.quantize(x, recipe=recipe)
            self.assertEqual((found.codes.tobytes(), found.scales.tobytes()), (wanted.codes.tobytes(), wanted.scales.tobytes()), recipe)


GROWTH = """
import sys, mxcheck
def high():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
x = mxcheck.Values(bytes(64 << 20), (8192, 4096), "bf16")
q = mxcheck.quantize(mxcheck.Values(x.data[:8192], (1, 4096), "bf16"))
before = high()
q = mxcheck.quantize(x, engine=sys.argv[1])
middle = high()
y = mxcheck.dequantize(q, "bf16", engine=sys.argv[1])
print(middle - before, high() - middle)
"""


class Memory(unittest.TestCase):
    def test_nothing_is_copied_but_into_the_results(self):
        """MiB that a process grows by, of a read-only input of 64: 33 of codes and scales, then 64 of values."""
        grown = {}
        for engine in ("auto", "reference"):
            done = subprocess.run([sys.executable, "-c", GROWTH, engine], stdout=subprocess.PIPE, check=True)
            grown[engine] = [float(one) for one in done.stdout.split()]
        self.assertLess(grown["auto"][0], 33 + 6)
        self.assertLess(grown["auto"][1], 64 + 6)
        self.assertGreater(grown["reference"][0], 33 + 6)  # whose vectors are copied: what a copy looks like
        self.assertGreater(grown["reference"][1], 64 + 6)

    def test_results_over_4_mib_are_as_those_under(self):
        x = bits_of(1100, 4160, "bf16", 3)
        q = mxcheck.quantize(x)
        part = mxcheck.quantize(mxcheck.Values(x.data[: 2 * 4160 * 2], (2, 4160), "bf16"))
        self.assertEqual(q.codes.tobytes()[: 2 * 4160], part.codes.tobytes())
        q.codes.data[0] = 1
        self.assertEqual(q.codes.tobytes()[0], 1)

    def test_large_results_of_numpy_and_torch_keep_their_memory(self):
        try:
            import numpy
            import torch
        except ImportError:
            self.skipTest("numpy and torch are not installed")
        x = bits_of(1100, 4160, "fp32", 3)
        wanted = mxcheck.quantize(x)
        array = numpy.frombuffer(x.data, numpy.float32).reshape(1100, 4160)
        codes = mxcheck.quantize(array).codes
        values = mxcheck.quantize(torch.from_numpy(array.copy())).dequantize("bf16")
        gc.collect()
        self.assertEqual((codes.shape, codes.flags.writeable, codes.tobytes()), ((1100, 4160), True, wanted.codes.tobytes()))
        self.assertEqual(values.view(torch.int16).numpy().tobytes(), wanted.dequantize("bf16").tobytes())
        values.zero_()

    def test_read_only_memory_is_read_where_it_lies(self):
        x = bits_of(3, 40, "fp32", 3)
        for data in (bytes(x.data), memoryview(bytes(x.data)), memoryview(bytes(x.data)).cast("f")):
            self.assertEqual(mxcheck.quantize(mxcheck.Values(data, (3, 40), "fp32")).codes.tobytes(), mxcheck.quantize(x).codes.tobytes())

    def test_out_is_written_again(self):
        x, other = bits_of(5, 40, "fp32", 3), bits_of(5, 40, "fp32", 4)
        q = mxcheck.quantize(x, layout="tcgen05")
        codes, scales = q.codes, q.scales
        wanted = mxcheck.quantize(other, recipe="fp32", layout="compact", format="e5m2")
        again = mxcheck.quantize(other, layout="tcgen05", out=q)
        self.assertIs(again.codes, codes)
        self.assertIs(again.scales, scales)
        self.assertEqual(again.codes.tobytes(), mxcheck.quantize(other).codes.tobytes())
        y = again.dequantize("bf16")
        self.assertIs(mxcheck.dequantize(again, "bf16", out=y), y)
        self.assertEqual(mxcheck.dequantize(wanted).tobytes(), mxcheck.dequantize(wanted, out=mxcheck.Values(bytearray(800), (5, 40), "fp32")).tobytes())

    def test_out_that_does_not_fit_is_refused_and_left_alone(self):
        x = bits_of(4, 64, "fp32", 3)
        q = mxcheck.quantize(x)

        def refused(words, **changed):
            out = mxcheck.Quantized(changed.get("codes", q.codes), changed.get("scales", q.scales), "e4m3", "rceil", "1x32", "compact")
            with self.assertRaisesRegex(mxcheck.UsageError, words):
                mxcheck.quantize(x, out=out)

        refused("out.codes has 3 bytes: 256", codes=mxcheck.Values(bytearray(3), (3,), "e4m3"))
        refused("out.scales has 9 bytes: 8", scales=mxcheck.Values(bytearray(9), (9,), "e8m0"))
        refused("out.codes cannot be written", codes=mxcheck.Values(bytes(256), (4, 64), "e4m3"))
        refused("out.codes lies in the memory", codes=mxcheck.Values(memoryview(x.data)[512:768], (4, 64), "e4m3"))
        refused("out.scales lies in the memory", scales=mxcheck.Values(memoryview(q.codes.data)[:8], (4, 2), "e8m0"))
        refused("out.codes is a builtins.bytearray", codes=bytearray(256))
        with self.assertRaisesRegex(mxcheck.UsageError, "out is a Values: what mxcheck.quantize"):
            mxcheck.quantize(x, out=q.codes)
        with self.assertRaisesRegex(mxcheck.UsageError, "out has 256 bytes: 1024"):
            mxcheck.dequantize(q, out=q.codes)
        self.assertEqual(q.codes.tobytes(), mxcheck.quantize(x).codes.tobytes())

    def test_out_of_numpy_and_torch(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        x = numpy.arange(64, dtype=numpy.float32).reshape(2, 32)
        q = mxcheck.quantize(x)
        self.assertIs(mxcheck.quantize(-x, out=q).codes, q.codes)
        self.assertEqual(q.codes.tobytes(), mxcheck.quantize(-x).codes.tobytes())
        for kind, count in (("O", 8), ("i4", 16), ("S4", 16), ("f4", 16), ("?", 64)):
            codes = mxcheck.Quantized(numpy.zeros(count, kind).reshape(2, -1), q.scales, "e4m3", "rceil", "1x32", "compact")
            with self.assertRaisesRegex(mxcheck.UsageError, "out.codes is of"):
                mxcheck.quantize(x, out=codes)
        for kind, count in (("O", 32), ("i4", 64), ("S4", 64), ("u4", 64), ("f8", 32)):
            with self.assertRaisesRegex(mxcheck.UsageError, "out is of"):
                mxcheck.dequantize(q, out=numpy.zeros((2, count // 2), kind))
        mxcheck.dequantize(q, "bf16", out=numpy.zeros((2, 32), "u2"))
        q.scales.flags.writeable = False
        with self.assertRaisesRegex(mxcheck.UsageError, "out.scales cannot be written"):
            mxcheck.quantize(x, out=q)
        try:
            import torch
        except ImportError:
            return
        t = torch.arange(64, dtype=torch.float32).reshape(2, 32)
        q = mxcheck.quantize(t)
        codes = q.codes.view(torch.uint8).clone()
        mxcheck.quantize(t + 1, out=q)
        self.assertFalse(torch.equal(q.codes.view(torch.uint8), codes))
        wide = torch.zeros(2, 64, dtype=torch.uint8)[:, :32]
        with self.assertRaisesRegex(mxcheck.UsageError, "out.codes has gaps"):
            mxcheck.quantize(t, out=mxcheck.Quantized(wide, q.scales, "e4m3", "rceil", "1x32", "compact"))

    def test_memory_beside_its_elements_size_is_copied_or_refused(self):
        floats = array.array("f", range(-32, 32))
        wanted = mxcheck.quantize(mxcheck.Values(floats, (2, 32), "fp32")).codes.tobytes()
        odd = memoryview(bytearray(1 + 256))[1:]
        odd[:] = floats.tobytes()
        for engine in ("auto", "reference", "simd"):
            self.assertEqual(mxcheck.quantize(mxcheck.Values(odd, (2, 32), "fp32"), engine=engine).codes.tobytes(), wanted)
        q = mxcheck.quantize(mxcheck.Values(floats, (2, 32), "fp32"))
        with self.assertRaisesRegex(mxcheck.UsageError, "out begins at an address that is no multiple of 4"):
            mxcheck.dequantize(q, out=mxcheck.Values(odd, (2, 32), "fp32"))
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        x = numpy.frombuffer(odd, numpy.float32).reshape(2, 32)
        self.assertEqual(mxcheck.quantize(x, engine="simd").codes.tobytes(), wanted)
        with self.assertRaisesRegex(mxcheck.UsageError, "out begins at"):
            mxcheck.dequantize(mxcheck.quantize(x), out=x)

    def test_rows_that_lie_apart(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        x = numpy.frombuffer(bits_of(600, 2200, "fp32", 8).data, dtype=numpy.float32).reshape(600, 2200)
        for part in (x[:, 3:2111], x[::3, 1:70], x[5:, :]):
            whole = numpy.ascontiguousarray(part)
            for engine in ("simd", "reference"):
                q, wanted = mxcheck.quantize(part, engine=engine), mxcheck.quantize(whole, engine="reference")
                self.assertEqual(q.codes.tobytes(), wanted.codes.tobytes())
                self.assertEqual(q.scales.tobytes(), wanted.scales.tobytes())


if __name__ == "__main__":
    unittest.main()
