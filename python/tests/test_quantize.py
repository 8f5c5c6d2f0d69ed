"""quantize and dequantize give the command line's bytes, and refuse what does not fit."""

import array
import unittest

import command_line
import mxcheck


def bytes_of(x):
    return x.tobytes()


class SameAsCommandLine(unittest.TestCase):
    def check(self, x, format="e4m3", recipe="rceil", block="1x32", layout="compact", offsets=None, pad=0):
        options = dict(format=format, rule=recipe, block=block, layout=layout, pad_byte=pad)
        if offsets:
            options["offsets"] = ",".join(map(str, offsets))
        codes, scales, values = command_line.quantize(x, **options)
        with self.subTest(format=format, recipe=recipe, block=block, layout=layout, dtype=x.dtype):
            q = mxcheck.quantize(x, format, recipe, block, layout, offsets, pad)
            self.assertEqual(bytes_of(q.codes), codes)
            self.assertEqual(bytes_of(q.scales), scales)
            self.assertEqual(bytes_of(q.dequantize()), values)

    def test_every_recipe(self):
        x = command_line.words(5, 70, "bf16")
        for recipe in mxcheck.recipes():
            self.check(x, recipe=recipe)

    def test_every_format_and_type_of_values(self):
        for format in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "mxint8", "e5m6"):
            for dtype in ("fp32", "bf16", "fp16"):
                self.check(command_line.words(3, 67, dtype), format=format)

    def test_every_block_and_layout(self):
        x = command_line.words(133, 37, "fp32")
        for block in ("1x32", "32x1", "32x32", "1x128", "128x1", "128x128", "row"):
            for layout in ("compact", "tcgen05", "deepgemm"):
                if layout == "compact" or block.startswith("1x") or block.endswith("x1") or block == "row":
                    self.check(x, block=block, layout=layout, offsets=[0, 40, 40, 133], pad=7)

    def test_nothing(self):
        for shape in ((0, 32), (4, 0)):
            q = mxcheck.quantize(mxcheck.Values(b"", shape, "fp32"))
            self.assertEqual(bytes_of(q.codes), b"")
            self.assertEqual(q.codes.shape, shape)
            self.assertEqual(bytes_of(q.dequantize()), b"")

    def test_a_vector_is_one_row(self):
        x = mxcheck.Values(array.array("f", range(40)), (40,), "fp32")
        q = mxcheck.quantize(x)
        self.assertEqual((q.codes.shape, q.scales.shape), ((40,), (1, 2)))
        self.assertEqual(q.dequantize("bf16").shape, (40,))


class Refusals(command_line.Refusing):
    x = mxcheck.Values(array.array("f", range(64)), (2, 32), "fp32")

    def test_names(self):
        self.refused(("e9m9", "e4m3"), mxcheck.quantize, self.x, format="e9m9")
        self.refused(("nearest", "rceil"), mxcheck.quantize, self.x, recipe="nearest")
        self.refused(("3x3", "1x32"), mxcheck.quantize, self.x, block="3x3")
        self.refused(("swizzled", "tcgen05"), mxcheck.quantize, self.x, layout="swizzled")
        self.refused(("zero byte",), mxcheck.quantize, self.x, recipe="te\0")
        self.refused(("recipe",), mxcheck.quantize, self.x, recipe=None)

    def test_what_does_not_fit(self):
        self.refused(("32x32", "tcgen05"), mxcheck.quantize, self.x, block="32x32", layout="tcgen05")
        self.refused(("FP32", "compact"), mxcheck.quantize, self.x, recipe="fp32", layout="tcgen05")
        self.refused(("3", "2"), mxcheck.quantize, self.x, offsets=[0, 3])
        self.refused(("whole number",), mxcheck.quantize, self.x, offsets="ab")
        self.refused(("pad",), mxcheck.quantize, self.x, pad=256)
        self.refused(("threads",), mxcheck.quantize, self.x, threads=-1)
        self.refused(("3 dimensions",), mxcheck.quantize, mxcheck.Values(bytes(32), (2, 2, 2), "fp32"))
        self.refused(("128 bytes", "256"), mxcheck.quantize, mxcheck.Values(bytes(128), (2, 32), "fp32"))
        self.refused(("e4m3", "float32"), mxcheck.quantize, mxcheck.Values(bytes(64), (2, 32), "e4m3"))
        self.refused(("list of builtins.str",), mxcheck.quantize, [["a"]])
        self.refused(("-1",), mxcheck.Values, b"", (-1, 3), "fp32")

    def test_codes_that_are_none(self):
        q = mxcheck.quantize(self.x, format="e2m1")
        q.codes.data[5] = 0x1F
        self.refused(("code",), mxcheck.dequantize, q, kind=mxcheck.InputError)
        q = mxcheck.quantize(self.x)
        q.scales = mxcheck.Values(bytes(3), (3, 1), "e8m0")
        self.refused(("scales", "3 bytes", "2"), mxcheck.dequantize, q)
        self.refused(("fp64", "bf16"), mxcheck.dequantize, mxcheck.quantize(self.x), "fp64")
        self.refused(("Values",), mxcheck.dequantize, self.x)

    def test_a_failed_call_changes_nothing_after_it(self):
        before = mxcheck.quantize(self.x).codes.tobytes()
        for _ in range(3):
            self.refused(("e9m9",), mxcheck.quantize, self.x, format="e9m9")
            self.assertEqual(mxcheck.quantize(self.x).codes.tobytes(), before)


if __name__ == "__main__":
    unittest.main()
