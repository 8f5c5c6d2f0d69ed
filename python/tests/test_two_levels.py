"""Two levels of scales (NVFP4): the command line's bytes, the tensor's scale in each of its forms, packed codes of every kind of tensor."""

import array
import struct
import unittest

import command_line
import fake_torch
import mxcheck
from mxcheck.testing import assert_quantized

torch = fake_torch.real_or_fake()
X = command_line.words(33, 72, "fp32")  # the last block of a row is cut to 8 columns
INF = float("inf")


def finite(rows, cols):
    """Without infinities, which would be the tensor's amax."""
    state, numbers = 5, []
    for _ in range(rows * cols):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append((state >> 40) / 2.0**23 - 1)
    return mxcheck.Values(array.array("f", numbers), (rows, cols), "fp32")


F = finite(33, 72)


def words_of(tensor_scale):
    return struct.pack("<f", tensor_scale) if isinstance(tensor_scale, float) else tensor_scale.tobytes()


def tensor_of(values, dtype):
    return torch.frombuffer(bytearray(values.tobytes()), dtype=dtype).reshape(values.shape)


class SameAsCommandLine(unittest.TestCase):
    def check(self, x, recipe, tensor_scale=None, **options):
        flags = {name: value for name, value in options.items() if value is not None}
        if tensor_scale is not None:
            flags["tensor_scale"] = tensor_scale
        if "offsets" in flags:
            flags["offsets"] = ",".join(map(str, flags["offsets"]))
        tensors, values = command_line.quantized(x, preset=recipe, **flags)
        with self.subTest(recipe=recipe, tensor_scale=tensor_scale, dtype=x.dtype, **options):
            q = mxcheck.quantize(x, recipe=recipe, tensor_scale=tensor_scale, **options)
            self.assertEqual(q.format, options.get("format", "e2m1"))
            self.assertEqual((q.codes.tobytes(), q.scales.tobytes()), (tensors["codes"], tensors["scales"]))
            self.assertEqual(words_of(q.tensor_scale), tensors["tensor_scale"])
            self.assertEqual(q.dequantize().tobytes(), values)

    def test_every_recipe(self):
        for recipe in mxcheck.recipes(2):
            self.check(X, recipe)
            self.check(F, recipe, "row")
            self.check(F, recipe, 0.375)

    def test_every_block_layout_and_type_of_values(self):
        for dtype in ("fp32", "bf16", "fp16"):
            x = command_line.words(33, 72, dtype)
            for block in ("1x16", "16x1", "16x16", "1x32"):
                self.check(x, "nvfp4", block=block)
        self.check(X, "nvfp4_te", layout="tcgen05")
        self.check(X, "nvfp4_te", block="16x1", offsets=[0, 20, 20, 33])
        self.check(X, "nvfp4_te", format="e4m3")

    def test_nothing(self):
        for shape in ((0, 32), (4, 0)):
            for tensor_scale in (None, "row", 2.0):
                q = mxcheck.quantize(mxcheck.Values(b"", shape, "fp32"), recipe="nvfp4", tensor_scale=tensor_scale)
                self.assertEqual(q.codes.shape, shape)
                self.assertEqual(q.dequantize().tobytes(), b"")

    def test_recipes_are_listed_and_described(self):
        self.assertIn("nvfp4_te", mxcheck.recipes(2))
        self.assertNotIn("nvfp4_te", mxcheck.recipes())
        self.assertEqual(mxcheck.recipe("nvfp4_te")["stored_scale"], "amax")
        with self.assertRaisesRegex(mxcheck.UsageError, "levels is 3: 1 or 2"):
            mxcheck.recipes(3)


class TensorScale(command_line.Refusing):
    def test_is_a_float_or_one_for_each_row(self):
        whole = mxcheck.quantize(F, recipe="nvfp4_te")
        self.assertIsInstance(whole.tensor_scale, float)
        self.assertEqual(whole.tensor_scale, max(map(abs, array.array("f", F.tobytes()))))
        rows = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale="row")
        self.assertEqual((rows.tensor_scale.shape, rows.tensor_scale.dtype), ((33,), "fp32"))
        self.assertEqual(rows.tensor_scale.tolist(), [max(map(abs, row)) for row in F.tolist()])

    def test_that_is_given_is_used_and_returned(self):
        given = [0.5 + row for row in range(33)]
        of_rows = mxcheck.quantize(F, recipe="nvfp4", tensor_scale=given)
        self.assertEqual(of_rows.tensor_scale.tolist(), given)
        for row in (0, 7, 32):
            alone = mxcheck.quantize(mxcheck.Values(F.tobytes()[row * 288 : row * 288 + 288], (1, 72), "fp32"), recipe="nvfp4", tensor_scale=given[row])
            self.assertEqual(alone.tensor_scale, given[row])
            self.assertEqual((alone.codes.tobytes(), alone.scales.tobytes()), (of_rows.codes.tobytes()[row * 72 : row * 72 + 72],
                                                                              of_rows.scales.tobytes()[row * 5 : row * 5 + 5]))
        self.assertEqual(mxcheck.quantize(F, recipe="nvfp4", tensor_scale=mxcheck.Values(array.array("f", [2.0]), (1, 1), "fp32")).tensor_scale, 2.0)

    def test_that_is_none_is_refused_in_a_line(self):
        for recipe, least in (("nvfp4", "greater than 0"), ("nvfp4_cutlass", "greater than 0"), ("nvfp4_te", "0 or more, the largest magnitude")):
            for bad, shown in ((0.0, "0"), (-0.0, "-0"), (float("nan"), "nan"), (INF, "inf"), (-INF, "-inf"), (-3, "-3")):
                if recipe == "nvfp4_te" and shown == "0":
                    continue  # the amax of a tensor of zeros
                said = self.refused((f"recipe {recipe}: a tensor_scale of {shown} given: it must be finite and {least}",), mxcheck.quantize, F,
                                    recipe=recipe, tensor_scale=bad)
                self.assertNotIn("\n", said)
                self.refused((f"tensor_scale of {shown} given",), mxcheck.quantize, F, recipe=recipe, tensor_scale=[1.0] * 32 + [bad])
        for bad, words in (("rows", ("'rows'", "'row'")), ([1.0, 2.0], ("2 numbers", "33 rows")), (1e300, ("range of FP32",)), (None.__class__, ("tensor_scale is",)),
                           (mxcheck.Values(bytes(66), (33,), "bf16"), ("tensor_scale is of bf16", "FP32"))):
            self.refused(words, mxcheck.quantize, F, recipe="nvfp4", tensor_scale=bad)
        self.refused(("recipe te has one level", "nvfp4_te"), mxcheck.quantize, F, recipe="te", tensor_scale=1.0)
        self.refused(("16x16", "each row", "one row"), mxcheck.quantize, F, recipe="nvfp4", block="16x16", tensor_scale="row")

    def test_of_a_result_is_needed_to_dequantize(self):
        q = mxcheck.quantize(F, recipe="nvfp4")
        for bad, words in ((None, ("tensor_scale is None", "two levels")), ("row", ("tensor_scale is 'row'", "number")), ([1.0, 2.0], ("2 numbers",))):
            q.tensor_scale = bad
            self.refused(words, mxcheck.dequantize, q)
        q = mxcheck.quantize(F)
        q.tensor_scale = 1.0
        self.refused(("recipe rceil has one level",), mxcheck.dequantize, q)

    def test_may_be_what_a_tensor_without_finite_amax_has(self):
        x = mxcheck.Values(array.array("f", [float("nan")] + [1.0] * 15), (1, 16), "fp32")
        q = mxcheck.quantize(x, recipe="nvfp4_modelopt")
        self.assertNotEqual(q.tensor_scale, q.tensor_scale)
        self.assertTrue(all(value != value for value in array.array("f", q.dequantize().tobytes())))


class Words(command_line.Refusing):
    x = mxcheck.Values(array.array("f", [((7919 * i) % 4001 - 2000) / 977 for i in range(64 * 96)]), (64, 96), "fp32")

    def test_of_a_kernel_are_the_command_s(self):
        for order in ("te_tuned:rows_of_both", "te_blockwise", "te_transpose:columns"):
            words = mxcheck.ordered_words(order, self.x.shape, 2**63 + 5, 2**64 - 2)
            self.assertEqual((words.dtype, words.shape), ("uint32", (64, 96)))
            self.assertTrue(all(word & 0xFFFFFF == 0 for row in words.tolist() for word in row))
            q = mxcheck.quantize(self.x, recipe="nvfp4_te", words=words)
            tensors, _ = command_line.quantized(self.x, preset="nvfp4_te", rounding="stochastic_bytes", seed=2**63 + 5, first_call=2**64 - 2,
                                                words=order)
            self.assertEqual(q.codes.tobytes(), tensors["codes"])
            self.assertNotEqual(q.codes.tobytes(), mxcheck.quantize(self.x, recipe="nvfp4_te").codes.tobytes())
        self.assertEqual(mxcheck.word_orders()[0], "te_blockwise")

    def test_are_named_under_their_seed(self):
        words = mxcheck.ordered_words("te_blockwise:columns_of_both", self.x.shape, 7, 12, word_bytes="0123")
        q = mxcheck.quantize(self.x, recipe="nvfp4_te", words=words)
        found = mxcheck.identify_dump(x=self.x, codes=q, seed=7, first_call=12)
        self.assertEqual(found.names[0], "nvfp4_te, words te_blockwise:columns_of_both, bytes 0123")
        self.assertFalse(mxcheck.identify_dump(x=self.x, codes=q, seed=8, first_call=12))

    def test_that_no_kernel_has_are_refused(self):
        self.refused(("unknown word order 'te'", "te_tuned"), mxcheck.ordered_words, "te", (64, 96), 1)
        self.refused(("multiples of 32", "33 x 96"), mxcheck.ordered_words, "te_tuned", (33, 96), 1)
        self.refused(("unknown order of bytes '1'",), mxcheck.ordered_words, "te_tuned", (64, 96), 1, word_bytes="1")
        self.refused(("shape", "rows and columns"), mxcheck.ordered_words, "te_tuned", (64,), 1)
        self.refused(("key",), mxcheck.ordered_words, "te_tuned", (64, 96), -1)
        self.refused(("words are given", "rceil", "nvfp4"), lambda: mxcheck.quantize(self.x, words=bytes(4 * 64 * 96)))
        self.refused(("words",), lambda: mxcheck.quantize(self.x, recipe="nvfp4", words=bytes(4)))
        self.refused(("first_call is of seed",), mxcheck.identify_dump, x=self.x, codes=self.x, first_call=3)


class Packed(command_line.Refusing):
    plain = mxcheck.quantize(F, recipe="nvfp4_te")
    pairs = bytes(low | high << 4 for low, high in zip(plain.codes.tobytes()[::2], plain.codes.tobytes()[1::2]))

    def test_values_hold_two_codes_a_byte_the_even_column_low(self):
        for packed in (True, "uint8"):
            q = mxcheck.quantize(F, recipe="nvfp4_te", packed=packed)
            self.assertTrue(q.packed)
            self.assertEqual((q.codes.dtype, q.codes.shape, q.codes.tobytes()), ("uint8", (33, 36), self.pairs))
            self.assertEqual(q.dequantize().tobytes(), self.plain.dequantize().tobytes())
            self.assertEqual(q.dequantize().shape, (33, 72))
            self.assertEqual(q.unpacked(), self.plain)
        self.assertIn("packed=True", repr(q))
        self.assertNotIn("packed", repr(self.plain))
        of_one_level = mxcheck.quantize(F, "e2m1", packed=True)
        self.assertEqual(of_one_level.unpacked(), mxcheck.quantize(F, "e2m1"))
        self.assertEqual(of_one_level.dequantize().tobytes(), mxcheck.quantize(F, "e2m1").dequantize().tobytes())

    def test_torch_holds_them_in_its_own_type(self):
        with fake_torch.in_place(torch):
            x = tensor_of(F, torch.float32)
            for options in ({}, {"packed": True}, {"format": torch.float4_e2m1fn_x2}, {"format": "float4_e2m1fn_x2"}):
                q = mxcheck.quantize(x, recipe="nvfp4_te", **options)
                self.assertEqual((q.format, q.codes.dtype, tuple(q.codes.shape), q.packed), ("e2m1", torch.float4_e2m1fn_x2, (33, 36), True))
                self.assertEqual(bytes(q.codes.view(torch.uint8).flatten().tolist()), self.pairs)
                self.assertEqual((q.scales.dtype, tuple(q.scales.shape)), (torch.float8_e4m3fn, (33, 5)))
                self.assertEqual(q.tensor_scale, self.plain.tensor_scale)
                y = mxcheck.dequantize(q)
                self.assertEqual((y.dtype, tuple(y.shape)), (torch.float32, (33, 72)))
                self.assertEqual(y.flatten().tolist(), array.array("f", self.plain.dequantize().tobytes()).tolist())
                assert_quantized(x, q)
                assert_quantized(x, q.codes, q.scales, recipe="nvfp4_te")
                self.assertIn("nvfp4_te", mxcheck.identify_dump(x=x, codes=q).names)
                self.assertIn("nvfp4_te", mxcheck.identify_dump(x=x, codes=q.codes, scales=q.scales, tensor_scale=q.tensor_scale).names)
            made = mxcheck.Quantized(q.codes, q.scales, torch.float4_e2m1fn_x2, "nvfp4_te", "1x16", "compact", tensor_scale=q.tensor_scale)
            self.assertTrue(made.packed)
            self.assertEqual(mxcheck.dequantize(made).flatten().tolist(), y.flatten().tolist())
            for packed, dtype, wide in (("uint8", torch.uint8, 36), (False, torch.uint8, 72)):
                q = mxcheck.quantize(x, recipe="nvfp4_te", packed=packed)
                self.assertEqual((q.codes.dtype, tuple(q.codes.shape)), (dtype, (33, wide)))
                assert_quantized(x, q)
            rows = mxcheck.quantize(x, recipe="nvfp4_te", tensor_scale="row")
            self.assertEqual((rows.tensor_scale.dtype, tuple(rows.tensor_scale.shape)), (torch.float32, (33,)))
            # Of one level of scales the default stays one code a byte.
            self.assertEqual(tuple(mxcheck.quantize(x, "e2m1").codes.shape), (33, 72))
            self.refused(("two codes in a byte", "one code a byte"), mxcheck.decode, made.codes, "e2m1")
            self.refused(("codes is packed", "e4m3 has one code a byte"), mxcheck.dequantize, mxcheck.Quantized(made.codes, q.scales, "e4m3", "rceil",
                                                                                                            "1x32", "compact"))

    def test_torch_without_the_type(self):
        class Older:
            Tensor, strided = torch.Tensor, torch.strided

            def __getattr__(self, name):
                if name == "float4_e2m1fn_x2":
                    raise AttributeError(name)
                return getattr(torch, name)

        with fake_torch.in_place(Older()):
            x = tensor_of(F, torch.float32)
            self.assertEqual(tuple(mxcheck.quantize(x, recipe="nvfp4_te").codes.shape), (33, 72))
            packed = mxcheck.quantize(x, recipe="nvfp4_te", packed=True).codes
            self.assertEqual((packed.dtype, tuple(packed.shape)), (torch.uint8, (33, 36)))

    def test_odd_columns_and_other_formats_are_refused(self):
        odd = finite(2, 17)
        self.refused(("17 columns", "even", "packed=False"), mxcheck.quantize, odd, recipe="nvfp4", packed=True)
        with fake_torch.in_place(torch):
            self.refused(("17 columns", "packed=False"), mxcheck.quantize, tensor_of(odd, torch.float32), recipe="nvfp4")
            self.assertEqual(tuple(mxcheck.quantize(tensor_of(odd, torch.float32), recipe="nvfp4", packed=False).codes.shape), (2, 17))
        self.refused(("codes of e4m3 are one a byte", "e2m1"), mxcheck.quantize, F, "e4m3", packed=True)
        self.refused(("packed is 'yes'", "'uint8'"), mxcheck.quantize, F, recipe="nvfp4", packed="yes")
        self.refused(("packed is", "True"), mxcheck.quantize, F, recipe="nvfp4", packed=[1])
        q = mxcheck.quantize(F, recipe="nvfp4", packed=True)
        q.codes = mxcheck.Values(q.codes.tobytes(), (33, 36), "e4m3")
        self.refused(("codes is of e4m3", "uint8"), mxcheck.dequantize, q)
        self.refused(("out is given", "tensor's scale"), mxcheck.quantize, F, recipe="nvfp4", out=self.plain)
        self.refused(("out is given", "packed"), mxcheck.quantize, F, "e2m1", packed=True, out=mxcheck.quantize(F, "e2m1"))

    def test_a_code_wider_than_its_format_is_refused(self):
        q = mxcheck.quantize(F, recipe="nvfp4")
        q.codes.data[5] = 0x1F
        self.refused(("code",), mxcheck.dequantize, q, kind=mxcheck.InputError)


class TakenByOthers(command_line.Refusing):
    q = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale=0.7)

    def test_identify_dump(self):
        packed = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale=0.7, packed=True)
        tiled = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale=0.7, layout="tcgen05")
        found = mxcheck.identify_dump(x=F, codes=self.q)
        self.assertEqual(found.names[0], "nvfp4_te")
        self.assertNotIn("nvfp4, tensor_scale as amax", found.names[:1])
        self.assertEqual(mxcheck.identify_dump(x=F, codes=packed).names, found.names)
        self.assertEqual(mxcheck.identify_dump(x=F, codes=tiled).names, found.names)
        raw = dict(x=F, codes=packed.codes, scales=packed.scales)
        self.assertEqual(mxcheck.identify_dump(**raw, tensor_scale=0.7).names, found.names)
        self.assertFalse(mxcheck.identify_dump(**raw, tensor_scale=0.07))
        self.refused(("tensor_scale is given", "leave tensor_scale out"), mxcheck.identify_dump, x=F, codes=self.q, tensor_scale=1.0)
        for bad, words in (("row", ("each row",)), (0, ("tensor_scale is 0", "positive")), (float("nan"), ("nan", "positive")), (-1.0, ("-1",))):
            self.refused(words, mxcheck.identify_dump, **raw, tensor_scale=bad)
        rows = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale="row")
        self.refused(("one of the whole tensor", "Values(fp32 33"), mxcheck.identify_dump, x=F, codes=rows)

    def test_a_box_is_named_by_what_it_gives(self):
        def identify(f, **options):
            return mxcheck.identify(f, "quantize", levels=2, arrays="values", **options)

        for recipe in mxcheck.recipes(2):
            found = identify(lambda x: mxcheck.quantize(x, recipe=recipe))
            self.assertEqual(found.names, [recipe])
            self.assertEqual(found.compared, 4 * (8192 + 512))
        for block in ("16x16", "16x1"):
            found = identify(lambda x: mxcheck.quantize(x, recipe="nvfp4_te", block=block), block=block)
            self.assertEqual(found.names, ["nvfp4_te"])
        self.assertIn("nvfp4_te", identify(lambda x: mxcheck.quantize(x, recipe="nvfp4_te"), dtype="bf16").names)

        def packed(x):
            q = mxcheck.quantize(x, recipe="nvfp4_mslk", packed=True)
            return q.codes, q.scales, q.tensor_scale

        self.assertEqual(identify(packed).names, ["nvfp4_mslk"])
        self.assertEqual(identify(packed, names=["nvfp4_mslk", "nvfp4"]).names, ["nvfp4_mslk"])
        self.assertFalse(identify(packed, names=["nvfp4_te"]))

        def ties_away(x):
            q = mxcheck.quantize(x, recipe="nvfp4_te")
            q.codes.data[1000] ^= 1
            return q

        found = identify(ties_away)
        self.assertFalse(found)
        self.assertTrue(found.closest)

        def of_two_kinds(x):
            return mxcheck.quantize(x, recipe="nvfp4_te" if x.tolist()[0][0] > 2 else "nvfp4_torchao")

        found = identify(of_two_kinds)
        self.assertFalse(found)
        self.assertIn("all of them by none: nvfp4_te; nvfp4_torchao; nvfp4_te; nvfp4_torchao", str(found))

    def test_boxes_that_fit_no_question(self):
        of_two = lambda x: mxcheck.quantize(x, recipe="nvfp4")  # noqa: E731
        self.refused(("two levels", "levels=2"), mxcheck.identify, of_two, "quantize", format="e2m1", block="1x16", arrays="values")
        for options, words in ((dict(format="e4m3"), ("format is 'e4m3'", "e2m1")), (dict(block="1x32"), ("1x32", "1x16")),
                               (dict(dtype="e4m3"), ("dtype", "fp32")), (dict(names=[]), ("names is empty",))):
            self.refused(words, mxcheck.identify, of_two, "quantize", levels=2, arrays="values", **options)
        self.refused(("levels is 3",), mxcheck.identify, of_two, "quantize", levels=3)
        self.refused(("one level of scales", "levels=1"), mxcheck.identify, lambda x: mxcheck.quantize(x), "quantize", levels=2, arrays="values")
        self.refused(("codes, scales and the tensor's scale",), mxcheck.identify, lambda x: (x, x), "quantize", levels=2, arrays="values")

    def test_assert_quantized(self):
        q = self.q
        for recipe in mxcheck.recipes(2):
            made = mxcheck.quantize(F, recipe=recipe)
            assert_quantized(F, made.codes, made.scales, recipe=recipe)
            assert_quantized(F, made)
        assert_quantized(F, q.codes, q.scales, "e2m1", "nvfp4_te", tensor_scale=0.7)
        rows = mxcheck.quantize(F, recipe="nvfp4_te", tensor_scale="row", packed=True)
        assert_quantized(F, rows)
        assert_quantized(F, rows.codes, rows.scales, recipe="nvfp4_te", tensor_scale="row")
        with self.assertRaisesRegex(AssertionError, r"scales \(by recipe nvfp4_te, blocks 1x16, tensor_scale 0.99.*\) differs in 95 of 165"):
            assert_quantized(F, q.codes, q.scales, recipe="nvfp4_te")
        wrong = bytearray(rows.codes.tobytes())
        wrong[40] ^= 0x10
        with self.assertRaisesRegex(AssertionError, r"codes .* differs in 1 of 2376 elements; first at \(1, 9\)"):
            assert_quantized(F, mxcheck.Values(wrong, (33, 36), "uint8"), rows.scales, recipe="nvfp4_te", tensor_scale="row")
        self.refused(("scales is missing",), assert_quantized, F, q.codes)
        self.refused(("tensor_scale is given", "leave tensor_scale out"), assert_quantized, F, q, tensor_scale=1.0)

    def test_products_take_the_blocks_scales_alone(self):
        self.refused(("a has two levels", "scale_a=a.scales", "alpha"), mxcheck.matmul, self.q, self.q, "sm100_nvf4")
        of_one, packed = mxcheck.quantize(F, "e2m1", block="1x16"), mxcheck.quantize(F, "e2m1", block="1x16", packed=True)
        self.assertEqual(mxcheck.matmul(packed, of_one, "exact").tobytes(), mxcheck.matmul(of_one, of_one, "exact").tobytes())
        a = mxcheck.quantize(finite(4, 64), recipe="nvfp4")
        d = mxcheck.mma(a.codes, a.codes, "sm100_nvf4", scale_a=a.scales, scale_b=a.scales, format_a="e2m1", format_b="e2m1")
        values = a.dequantize().tolist()
        want = sum(x * x for x in values[0])
        self.assertAlmostEqual(d.tolist()[0][0] * a.tensor_scale**2 / want, 1, places=5)


if __name__ == "__main__":
    unittest.main()
