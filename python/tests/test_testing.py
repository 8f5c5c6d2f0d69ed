"""Assertions hold for equal bits and for nothing else, and say where and what."""

import array
import unittest

import command_line
import mxcheck
from mxcheck.testing import assert_bits_equal, assert_quantized


def codes(data, dtype="e4m3"):
    return mxcheck.Values(bytearray(data), (2, len(data) // 2), dtype)


class BitsEqual(unittest.TestCase):
    def test_holds_for_equal_bits_whatever_they_mean(self):
        assert_bits_equal(codes(b"\x7f\xff\x00\x80"), codes(b"\x7f\xff\x00\x80", "uint8"))
        assert_bits_equal(mxcheck.Values(b"", (0, 3), "fp32"), mxcheck.Values(b"", (0, 3), "fp32"))

    def test_says_place_words_and_extent(self):
        with self.assertRaises(AssertionError) as raised:
            assert_bits_equal(codes(b"\x00\x30\x31\x80"), codes(b"\x00\x30\x30\x00"))
        self.assertEqual(str(raised.exception), "actual differs in 2 of 4 elements; first at (1, 0): 0x31 = 0.5625, expected 0x30 = 0.5; last at (1, 1)")

    def test_signs_of_zero_and_nans_differ(self):
        for a, b in ((0x80, 0x00), (0x7F, 0xFF)):
            with self.assertRaisesRegex(AssertionError, r"1 of 2 elements; first at \(0, 0\)"):
                assert_bits_equal(codes(bytes([a, 1])), codes(bytes([b, 1])))

    def test_shapes_and_widths(self):
        with self.assertRaisesRegex(AssertionError, "shape"):
            assert_bits_equal(codes(b"1234"), mxcheck.Values(b"1234", (4, 1), "e4m3"))
        with self.assertRaisesRegex(AssertionError, "width"):
            assert_bits_equal(codes(b"1234"), mxcheck.Values(bytes(16), (2, 2), "fp32"))


class Quantized(unittest.TestCase):
    x = command_line.words(5, 70, "bf16")

    def test_holds_for_what_quantize_gives(self):
        for recipe in mxcheck.recipes():
            q = mxcheck.quantize(self.x, recipe=recipe)
            assert_quantized(self.x, q.codes, q.scales, recipe=recipe)

    def test_names_what_differs(self):
        q = mxcheck.quantize(self.x)
        q.codes.data[71] ^= 1
        with self.assertRaisesRegex(AssertionError, r"codes \(by recipe rceil, blocks 1x32\) differs in 1 of 350 elements; first at \(1, 1\)"):
            assert_quantized(self.x, q.codes, q.scales)
        q.scales.data[0] += 1
        with self.assertRaisesRegex(AssertionError, r"scales \(by recipe rceil.* first at \(0, 0\): 0x"):
            assert_quantized(self.x, q.codes, q.scales)
        q = mxcheck.quantize(self.x, recipe="fp32")
        scales = array.array("f", q.scales.tobytes())
        scales[3] *= 2
        with self.assertRaisesRegex(AssertionError, "scales .*1 of 15 elements"):
            assert_quantized(self.x, q.codes, mxcheck.Values(scales, q.scales.shape, "fp32"), recipe="fp32")


if __name__ == "__main__":
    unittest.main()
