"""Formats, casts and scales are the command line's."""

import array
import ctypes
import json
import math
import unittest

import command_line
import mxcheck


class Formats(unittest.TestCase):
    def test_are_the_command_lines(self):
        rows = json.loads(command_line.run("formats", "--json"))
        self.assertEqual([row["name"] for row in rows], [f.name for f in mxcheck.formats()])
        for row in rows:
            f = mxcheck.formats(row["name"])
            self.assertEqual((f.dtype, f.bits, f.bias), (row["dtype"], row["bits"], row["bias"]))
            self.assertEqual(f, mxcheck.formats(row["dtype"]))
            for code, text in ((f.nan_code, row["nan"]), (f.inf_code, row["inf"])):
                self.assertEqual(code, None if text is None else int(text, 16))

    def test_every_code_is_its_value(self):
        for f in mxcheck.formats():
            if f.bits > 16:
                continue
            codes = array.array("B" if f.code_bytes == 1 else "H", range(2**f.bits))
            values = array.array("d", mxcheck.decode(mxcheck.Values(codes, (len(codes),), f.name), f.name).tobytes())
            self.assertEqual(values[f.max_code], f.max)
            if f.nan_code is not None:
                self.assertTrue(math.isnan(values[f.nan_code]))
            # -2 of mxint8 is a code that no encoder gives: its largest magnitude is 127 / 64 on both sides.
            finite = [i for i, v in enumerate(values) if math.isfinite(v) and abs(v) < 3e38 and (f.name, v) != ("mxint8", -2)]
            back = mxcheck.cast(mxcheck.Values(array.array("f", [values[i] for i in finite]), (len(finite),), "fp32"), f.name).tobytes()
            again = array.array("B" if f.code_bytes == 1 else "H", back)
            wrong = [i for i, code in zip(finite, again) if values[code] != values[i]]
            self.assertEqual(wrong, [], f.name)

    def test_casts_round_and_overflow_as_asked(self):
        x = mxcheck.Values(array.array("f", [0.546875, 480.0, -1e30, math.inf, math.nan, -0.0, 465.0]), (7,), "fp32")
        self.assertEqual(mxcheck.cast(x, "e4m3").tobytes().hex(), "317efe7e7f807e")
        self.assertEqual(mxcheck.cast(x, "e4m3", overflow="non_saturate").tobytes().hex(), "317f7f7f7f807f")  # its NaN is 0x7f
        ties = mxcheck.Values(array.array("f", [1.0625, 1.1875, -1.0625]), (3,), "fp32")
        self.assertEqual(mxcheck.cast(ties, "e4m3").tobytes().hex(), "383ab8")
        self.assertEqual(mxcheck.cast(ties, "e4m3", "nearest_away").tobytes().hex(), "393ab9")
        self.assertEqual(mxcheck.cast(ties, "e4m3", "toward_zero").tobytes().hex(), "3839b8")
        self.assertEqual(mxcheck.cast(ties, "e4m3", "upward").tobytes().hex(), "393ab8")
        # Half of a step and a word: a carry rounds away from zero.
        for words, codes in ((b"\0\0\0\0" * 3, "3839b8"), (b"\xff\xff\xff\x7f" * 3, "3839b8"), (b"\0\0\0\x80" * 3, "393ab9")):
            self.assertEqual(mxcheck.cast(ties, "e4m3", "stochastic", words=words).tobytes().hex(), codes)
            self.assertEqual(mxcheck.cast(ties, "e4m3", "stochastic", words=mxcheck.Values(words, (3,), "uint32")).tobytes().hex(), codes)
        for refused, text in (({"rounding": "stochastic"}, "needs them: 32 random bits"), ({"words": bytes(12)}, "go with the rounding stochastic"),
                              ({"rounding": "stochastic", "words": bytes(8)}, "words has 8 bytes: 12 are needed"),
                              ({"rounding": "stochastic", "words": mxcheck.Values(bytes(12), (3,), "fp32")}, "words are of fp32"),
                              ({"rounding": "stochastic", "words": 3}, "words is a builtins.int"), ({"rounding": "down"}, "upward")):
            with self.assertRaisesRegex(mxcheck.UsageError, text):
                mxcheck.cast(ties, "e4m3", **refused)
        with self.assertRaisesRegex(mxcheck.InputError, r"codes\[1\] is 64: e2m3 has 6 bits"):
            mxcheck.decode(mxcheck.Values(b"\x3f\x40", (2,), "e2m3"), "e2m3")


class Scales(unittest.TestCase):
    def test_are_the_command_lines(self):
        texts = ["0", "0x1p-149", "1", "447.9", "448", "448.0001", "0x43e00001", "3e38", "inf", "nan"]
        for format in ("e4m3", "e5m2"):
            rows = json.loads(command_line.run("scale", "--json", "--format", format, *texts))["rows"]
            self.assertGreater(len(rows), 100)
            for row in rows:
                amax = ctypes.c_float.from_buffer(ctypes.c_uint32(int(row["bits"], 16))).value
                byte, value = mxcheck.scale(amax, row["rule"], format)
                bits = ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
                self.assertEqual((byte, bits), (row.get("byte"), int(row["scale_bits"], 16)), row)

    def test_refuse_what_is_no_magnitude(self):
        with self.assertRaisesRegex(mxcheck.UsageError, "negative"):
            mxcheck.scale(-1.0)


if __name__ == "__main__":
    unittest.main()
