"""matmul, mma and explain give the command line's bytes and lines under every contract, and refuse what does not fit."""

import array
import unittest

import command_line
import mxcheck


class SameAsCommandLine(command_line.InFolder):
    def quantized(self, name, x, **options):
        """What Python quantizes, and the file of the command line of the same."""
        source, target = self.folder / f"{name}_x.safetensors", self.folder / f"{name}.safetensors"
        command_line.write_safetensors(source, x)
        flags = []
        for option, value in options.items():
            flag = {"recipe": "rule"}.get(option, option)
            flags += [f"--{flag}", ",".join(map(str, value)) if option == "offsets" else str(value)]
        command_line.run("quantize", f"{source}:x", "-o", str(target), *flags)
        return mxcheck.quantize(x, **options), target

    def check(self, a, b, contract, dtype="fp32", flags=(), **options):
        d = self.folder / "d.npy"
        arguments = (str(a[1]), str(b[1]), "--contract", contract, "--dtype", {"fp32": "f32"}.get(dtype, dtype), *flags)
        with self.subTest(contract=contract, dtype=dtype, **{name: str(value) for name, value in options.items()}):
            command_line.run("matmul", *arguments, "-o", str(d if dtype == "fp32" else d.with_suffix(".safetensors")))
            expected = command_line.npy(d) if dtype == "fp32" else command_line.read_safetensors(d.with_suffix(".safetensors"))["d"]
            self.assertEqual(mxcheck.matmul(a[0], b[0], contract, dtype, **options).tobytes(), expected)
            told = command_line.run("matmul", *arguments, "--explain", "1,2")
            self.assertEqual(mxcheck.explain(a[0], b[0], (1, 2), contract, dtype, **options), told.splitlines())

    def test_every_contract(self):
        x, w = command_line.words(5, 256, "bf16"), command_line.words(7, 256, "bf16", 2)
        blocks = {block: (self.quantized(f"a{block}", x, block=block), self.quantized(f"b{block}", w, block=block)) for block in ("1x32", "1x128")}
        taken = set()
        for name in mxcheck.contracts():
            for on_top in ("", "+promote128", "+promote128+a_first", "+promote64+descending", "+decode"):
                for a, b in blocks.values():
                    try:
                        mxcheck.matmul(a[0], b[0], name + on_top)
                    except mxcheck.UsageError:
                        continue
                    taken.add(name)
                    self.check(a, b, name + on_top)
        # The contracts that take E4M3 with E8M0 scales somehow; the instructions of blocks of 16, FP4 and INT8 do not.
        self.assertEqual(taken, {"exact", "ieee_fp32", "sm90_fp8", "sm90_bf16", "sm100_f16", "sm100_f8f6f4", "sm100_mxf8f6f4"})

    def test_every_sum_of_operands_without_scales_is_that_of_mma(self):
        taken = set()
        values = {dtype: [command_line.words(rows, 40, dtype, rows) for rows in (3, 4)] for dtype in ("bf16", "fp16", "fp32")}
        for format in ("e4m3", "e2m1"):
            values[format] = [mxcheck.Values(mxcheck.cast(x, format).tobytes(), x.shape, format) for x in values["bf16"]]
        for name in mxcheck.contracts():
            for dtype, (a, b) in values.items():
                output = "fp16" if name.endswith("_fp16") and name != "sm90_fp16" else "fp32"
                try:
                    d = mxcheck.matmul(a, b, name, output)
                except mxcheck.UsageError:
                    continue
                taken.add(name)
                files = [self.folder / "a.safetensors", self.folder / "b.safetensors", self.folder / "d.npy"]
                command_line.write_safetensors(files[0], a)
                command_line.write_safetensors(files[1], b)
                formats = ("--format-a", dtype, "--format-b", dtype)
                command_line.run("mma", "--contract", name, "--a", f"{files[0]}:x", "--b", f"{files[1]}:x", *formats, "-o", str(files[2]))
                with self.subTest(contract=name, dtype=dtype):
                    self.assertEqual(d.tobytes(), command_line.npy(files[2]))
        self.assertEqual(taken, set(mxcheck.contracts()) - {"sm100_mxf8f6f4", "sm100_mxf4", "sm100_nvf4"})  # which have scales

    def test_types_alpha_and_transposed_operands(self):
        a = self.quantized("a", command_line.words(64, 5, "bf16"), block="32x1")
        b = self.quantized("b", command_line.words(64, 6, "fp32", 2), block="32x1", format="e5m2")
        flags = ("--transpose-a", "--transpose-b", "--alpha", "-0.37")
        for dtype in ("fp32", "bf16"):
            self.check(a, b, "exact", dtype, flags, alpha=-0.37, transpose_a=True, transpose_b=True)

    def test_c_is_added_at_the_end(self):
        a, b = (self.quantized(name, command_line.words(rows, 64, "bf16", rows)) for name, rows in (("a", 4), ("b", 5)))
        for dtype in ("fp32", "bf16"):
            c = command_line.words(4, 5, dtype, 9)
            command_line.write_safetensors(self.folder / "c.safetensors", c)
            self.check(a, b, "exact", dtype, ("--c", f"{self.folder / 'c.safetensors'}:x", "--alpha", "0.5"), alpha=0.5, c=c)

    def test_groups(self):
        offsets = [0, 3, 3, 8]
        x = self.quantized("x", command_line.words(8, 128, "bf16"), block="1x128", recipe="fp32", offsets=offsets)
        w = self.quantized("w", command_line.words(12, 128, "bf16", 3), block="1x128", recipe="fp32")
        self.check(x, w, "sm90_fp8+promote128", flags=("--groups", "rows"), groups="rows")
        x = self.quantized("dx", command_line.words(8, 5, "bf16"), block="32x1", offsets=offsets)
        y = self.quantized("dy", command_line.words(8, 4, "bf16", 3), block="32x1", offsets=offsets)
        flags = ("--groups", "depth", "--transpose-a", "--transpose-b")
        self.check(x, y, "exact", flags=flags, groups="depth", transpose_a=True, transpose_b=True)


class Values(unittest.TestCase):
    def test_values_and_c(self):
        a = mxcheck.Values(array.array("f", [1, 2, 3, 4]), (2, 2), "fp32")
        b = mxcheck.Values(array.array("f", [10, 20, 30, 40, 50, 60]), (3, 2), "fp32")
        c = mxcheck.Values(array.array("f", [1] * 6), (2, 3), "fp32")
        d = mxcheck.matmul(a, b, "exact", c=c, alpha=2)
        self.assertEqual(array.array("f", d.tobytes()).tolist(), [101, 221, 341, 221, 501, 781])
        codes = mxcheck.cast(a, "e4m3")
        self.assertEqual(array.array("f", mxcheck.matmul(codes, mxcheck.cast(b, "e4m3"), "sm90_fp8").tobytes()).tolist(),
                         [50, 110, 168, 110, 250, 384])  # 50 is 48 in E4M3

    def test_nothing(self):
        empty = mxcheck.matmul(mxcheck.Values(b"", (0, 4), "fp32"), mxcheck.Values(bytes(16), (1, 4), "fp32"), "exact")
        self.assertEqual((empty.shape, empty.tobytes()), ((0, 1), b""))
        zeros = mxcheck.matmul(mxcheck.Values(b"", (2, 0), "fp32"), mxcheck.Values(b"", (1, 0), "fp32"), "exact")
        self.assertEqual((zeros.shape, zeros.tobytes()), ((2, 1), bytes(8)))


class Refusals(command_line.Refusing):
    a = mxcheck.Values(array.array("f", range(8)), (2, 4), "fp32")

    def test_what_does_not_fit(self):
        a = self.a
        self.refused(("sm80_fp8", "sm90_fp8"), mxcheck.matmul, a, a, "sm80_fp8")
        self.refused(("promote",), mxcheck.matmul, a, a, "exact+promote")
        self.refused(("fp64", "bf16"), mxcheck.matmul, a, a, "exact", dtype="fp64")
        self.refused(("shape",), mxcheck.matmul, a, a, "exact", c=self.a)
        self.refused(("alpha",), mxcheck.matmul, a, a, "exact", alpha=1e60)
        self.refused(("alpha",), mxcheck.matmul, a, a, "exact", alpha="two")
        self.refused(("offsets",), mxcheck.matmul, a, a, "exact", groups="rows")
        self.refused(("columns", "depth"), mxcheck.matmul, a, a, "exact", groups="columns", offsets=[0, 2])
        self.refused(("transposed",), mxcheck.matmul, a, a, "exact", groups="depth", offsets=[0, 2])
        self.refused(("experts",), mxcheck.matmul, a, a, "exact", groups="rows", offsets=[0, 1, 1, 2])
        self.refused(("1", "4"), mxcheck.matmul, [[1.0]], a, "exact")
        self.refused(("32 bytes", "64"), mxcheck.matmul, mxcheck.Values(bytes(32), (4, 4), "fp32"), a, "exact")
        self.refused(("place",), mxcheck.explain, a, a, 3, "exact")
        self.refused(("7",), mxcheck.explain, a, a, (7, 0), "exact")
        deeper = mxcheck.Values(array.array("f", range(6)), (2, 3), "fp32")
        self.refused(("4", "3"), mxcheck.matmul, a, deeper, "exact")


if __name__ == "__main__":
    unittest.main()
