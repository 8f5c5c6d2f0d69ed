"""identify names orders of scales, promotion and split-k of products with scales, from calls alone."""

import array
import unittest

import mxcheck

K = 384
SHAPE = (8, 8, K)


def scaled(contract, type_, blocks, first=0, end=K):
    """A box that follows a contract on the columns from first to end."""
    recipe = {"e8m0": "rceil", "fp32": "fp32"}[type_]

    def columns(x, start, stop):
        rows, cols = x.shape
        data = x.tobytes()
        each = len(data) // (rows * cols)
        return mxcheck.Values(b"".join(data[(r * cols + start) * each : (r * cols + stop) * each] for r in range(rows)), (rows, stop - start), x.dtype)

    def f(a, b, scale_a, scale_b):
        operands = []
        for x, scale, block in ((a, scale_a, blocks[0]), (b, scale_b, blocks[1])):
            wide = int(block.split("x")[1])
            operands.append(mxcheck.Quantized(columns(x, first, end), columns(scale, first // wide, end // wide), x.dtype, recipe, block, "compact"))
        return mxcheck.matmul(*operands, contract)

    return f


def identify(f, type_, blocks, **options):
    return mxcheck.identify(f, formats=("e4m3", "e4m3"), shape=SHAPE, scales=type_, blocks=blocks, tree=False, arrays="values", **options)


class Scales(unittest.TestCase):
    def test_the_order_of_fp32_scales_and_the_interval(self):
        for blocks in (("1x128", "128x128"), ("1x128", "1x128")):
            for contract in ("sm90_fp8+promote128", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first", "sm90_fp8+promote64",
                             "sm90_fp8+promote128+descending"):
                with self.subTest(contract=contract, blocks=blocks):
                    self.assertEqual(identify(scaled(contract, "fp32", blocks), "fp32", blocks).names, [contract])

    def test_e8m0_scales(self):
        blocks = ("1x32", "1x32")
        for contract in ("sm90_fp8+promote32", "sm100_mxf8f6f4", "sm90_bf16+decode"):
            with self.subTest(contract=contract):
                found = identify(scaled(contract, "e8m0", blocks), "e8m0", blocks)
                self.assertIn(contract, found.names)
                self.assertLess(len(found.names), 4, found)

    def test_split_k(self):
        blocks = ("1x128", "128x128")

        def in_parts(contract, ends):
            def f(a, b, scale_a, scale_b):
                total = None
                for first, end in ends:
                    part = array.array("f", scaled(contract, "fp32", blocks, first, end)(a, b, scale_a, scale_b).tobytes())
                    total = part if total is None else array.array("f", [x + y for x, y in zip(total, part)])
                return mxcheck.Values(total, SHAPE[:2], "fp32")

            return f

        found = identify(in_parts("sm90_fp8+promote128+a_first", [(0, 256), (256, 384)]), "fp32", blocks)
        self.assertEqual(found.names, ["sm90_fp8+promote128+a_first, split-k of 2 in parts of 256"])
        found = identify(in_parts("sm90_fp8+promote64", [(0, 128), (128, 256), (256, 384)]), "fp32", blocks)
        self.assertEqual(found.names, ["sm90_fp8+promote64, split-k of 3 in parts of 128"])
        found = identify(in_parts("sm90_fp8+promote64", [(256, 384), (128, 256), (0, 128)]), "fp32", blocks)
        self.assertEqual(found.names, ["sm90_fp8+promote64, split-k of 3 in parts of 128, added descending"])

    def test_split_k_without_scales_and_of_bf16_outputs(self):
        def f(a, b):
            data = [mxcheck.Values(b"".join(x.tobytes()[(r * K + p * 96) * 2 : (r * K + p * 96 + 96) * 2] for r in range(8)), (8, 96), "bf16")
                    for p in range(4) for x in (a, b)]
            parts = [array.array("f", mxcheck.matmul(data[2 * p], data[2 * p + 1], "ieee_fp32").tobytes()) for p in range(4)]
            add = lambda x, y: array.array("f", [u + v for u, v in zip(x, y)])  # noqa: E731
            total = mxcheck.Values(add(add(parts[0], parts[1]), add(parts[2], parts[3])), (8, 8), "fp32")
            return mxcheck.Values(mxcheck.cast(total, "bf16", overflow="non_saturate").tobytes(), (8, 8), "bf16")

        found = mxcheck.identify(f, shape=SHAPE, output="bf16", tree=False)
        self.assertIn("ieee_fp32, split-k of 4 in parts of 96, added pairwise", found.names)
        self.assertEqual({name.split(",")[0] for name in found.names}, {"ieee_fp32"}, found)
        found = mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "sm90_bf16+promote128"), shape=SHAPE)
        self.assertEqual(found.notes, ["that is also split-k of 3 in parts of 128, no promotion within them"])

    def test_the_tree_with_scales(self):
        def reversed_pairs(a, b, scale_a, scale_b):
            return mxcheck.matmul(*[mxcheck.Quantized(x, s, "e4m3", "fp32", "1x32", "compact") for x, s in ((a, scale_a), (b, scale_b))],
                                  "sm90_fp8+promote32+descending")

        found = mxcheck.identify(reversed_pairs, formats=("e4m3", "e4m3"), shape=(8, 8, 96), scales="fp32", names=["exact"], arrays="values")
        self.assertFalse(found)
        self.assertEqual(found.tree.text(), "((0..31) ((32..63) (64..95)))")

    def test_wrong_requests(self):
        for options in ({"scales": "e9"}, {"output": "fp64"}, {"scales": "fp32", "blocks": ("1x32", "2x2")}):
            with self.assertRaises(mxcheck.UsageError):
                mxcheck.identify(lambda a, b: a, formats=("e4m3", "e4m3"), **options)


if __name__ == "__main__":
    unittest.main()
