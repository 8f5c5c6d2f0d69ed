"""golden.make and golden.verify do what the command line does: the same files, the same verdicts, an exception for what is no golden."""

import array
import json
import os
import shutil
import unittest
from pathlib import Path

import command_line
import mxcheck

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "goldens" / "data"


class Golden(command_line.InFolder):
    def quantized(self):
        """A golden of real data, and what mxcheck.quantize makes of its input."""
        x = command_line.words(40, 70, "bf16")
        made = mxcheck.golden.make({"suite": "mine", "goldens": [{"name": "w", "kind": "quantize", "input": x, "format": "e4m3", "block": "1x32",
                                                                  "recipe": "rceil", "layouts": ["tcgen05"]}]}, self.folder / "goldens")
        self.assertEqual([one.name for one in made.goldens], ["w.h5"])
        q, tiled = mxcheck.quantize(x), mxcheck.quantize(x, layout="tcgen05")
        return self.folder / "goldens" / "w.h5", x, {"codes": q.codes, "scales": q.scales, "scales_tcgen05": tiled.scales}


class Make(Golden):
    def test_gives_the_committed_bytes(self):
        for suite in ("formats", "layouts", "recipes"):
            made = mxcheck.golden.make(suite, self.folder / suite)
            manifest = {name: (digest, int(size)) for digest, size, name in
                        (line.split("  ") for line in (DATA / suite / "manifest.txt").read_text().splitlines()[1:])}
            self.assertEqual({one.name: (one.sha256, one.size) for one in made.goldens}, manifest)
            self.assertEqual((made.suite, made.folder), (suite, str(self.folder / suite)))
            self.assertEqual(made.bytes, sum(file.stat().st_size for file in (self.folder / suite).glob("*.h5")))

    def test_of_a_dict_is_that_of_its_file(self):
        spec = {"suite": "mine", "goldens": [{"name": "f", "kind": "formats", "formats": ["e2m1"]},
                                             {"name": "q", "kind": "quantize", "input": {"real": "layer0.x"}, "format": "e5m2", "block": "32x1",
                                              "recipe": "te", "offsets": [0, 3, 192], "pad_byte": 3, "layouts": ["tcgen05"], "values": True}]}
        file = self.folder / "spec.json"
        file.write_text(json.dumps(spec))
        for place, suite in (("a", spec), ("b", file), ("c", str(file))):
            mxcheck.golden.make(suite, self.folder / place, threads=1)
        command_line.run("golden", "make", "--suite", str(file), "-o", str(self.folder / "d"))
        for name in ("f.h5", "q.h5", "manifest.txt"):
            self.assertEqual({(self.folder / place / name).read_bytes() for place in "abc"}, {(self.folder / "d" / name).read_bytes()})
        mxcheck.golden.make(spec, self.folder / "e", compression=9)
        self.assertLess((self.folder / "e" / "q.h5").stat().st_size, (self.folder / "d" / "q.h5").stat().st_size)

    def test_takes_tensors_and_files_of_the_current_folder(self):
        golden, x, _ = self.quantized()
        command_line.write_safetensors(self.folder / "w.input.safetensors", x)
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            mxcheck.golden.make({"suite": "mine", "goldens": [{"name": "w", "kind": "quantize", "input": {"file": "w.input.safetensors"},
                                                               "format": "e4m3", "block": "1x32", "recipe": "rceil", "layouts": ["tcgen05"]}]}, "b")
        finally:
            os.chdir(before)
        self.assertEqual((self.folder / "b" / "w.h5").read_bytes(), golden.read_bytes())

    def test_refuses_in_words_and_leaves_nothing(self):
        make = mxcheck.golden.make
        self.refused(("nothing", "formats"), make, "nothing", self.folder / "a")
        self.refused(("goldens[0]", "kind"), make, {"suite": "s", "goldens": [{"name": "x", "kind": "quant"}]}, self.folder / "a")
        self.refused(("none.npy",), make,
                     {"suite": "s", "goldens": [{"name": "x", "kind": "quantize", "input": {"file": "none.npy"}, "format": "e4m3", "block": "1x32",
                                                 "recipe": "rceil"}]}, self.folder / "a")
        self.refused(("no JSON",), make, {"suite": {1, 2}, "goldens": []}, self.folder / "a")
        self.refused(("compression", "9"), make, "formats", self.folder / "a", compression=10)
        self.refused(("threads",), make, "formats", self.folder / "a", threads=True)
        self.refused(("suite is 3",), make, 3, self.folder / "a")
        self.refused(("folder is None",), make, "formats", None)
        self.assertFalse((self.folder / "a").exists() and any((self.folder / "a").iterdir()))
        (self.folder / "file").write_text("")
        with self.assertRaises(mxcheck.Error):
            make("formats", self.folder / "file")

    def test_suites_are_the_command_lines(self):
        rows = json.loads(command_line.run("golden", "suites", "--json"))["suites"]
        self.assertEqual([(one.name, one.description, len(one.goldens)) for one in mxcheck.golden.suites()],
                         [(row["name"], row["description"], len(row["goldens"])) for row in rows])


class Verify(Golden):
    def test_what_the_reference_gives_is_equal(self):
        golden, _, tensors = self.quantized()
        verdict = mxcheck.golden.verify(tensors, golden)
        self.assertTrue(verdict)
        self.assertTrue(verdict.equal)
        self.assertEqual([(one.name, one.verdict, one.shape) for one in verdict.datasets],
                         [("codes", "equal", (40, 70)), ("scales", "equal", (40, 3)), ("scales_tcgen05", "equal", (512,))])
        q = mxcheck.Quantized(tensors["codes"], tensors["scales"], "e4m3", "rceil", "1x32", "compact")
        self.assertTrue(mxcheck.golden.verify(q, golden, only=["codes", "scales"]))
        self.assertIsNone(verdict.first_difference)
        self.assertIn("3 of 3 datasets are equal", verdict.text())

    def test_verdicts_are_the_command_lines(self):
        golden, x, tensors = self.quantized()
        q = mxcheck.quantize(x, recipe="floor")
        command_line.run("quantize", f"{self.write(x)}:x", "-o", str(self.folder / "mine.h5"), "--rule", "floor")
        for candidate in ({"codes": q.codes, "scales": q.scales}, self.folder / "mine.h5"):
            verdict = mxcheck.golden.verify(candidate, golden)
            self.assertFalse(verdict)
            self.assertEqual([one.verdict for one in verdict.datasets], ["different", "different", "missing"])
            self.assertTrue(any(cause.startswith("every scale is that of recipe floor") for cause in verdict["scales"].causes))
            self.assertEqual(verdict.first_difference.name, "codes")
            told = json.loads(self.told(self.folder / "mine.h5", golden))["datasets"]
            for one, row in zip(verdict.datasets, told):
                self.assertEqual((one.name, list(one.causes), list(one.element), one.differing, one.elements, one.pattern),
                                 (row["name"], row["causes"], row["element"], row.get("differing", 0), row.get("elements", 0), row.get("pattern", "")))
                self.assertEqual(one.first, row.get("first", {}))
                self.assertEqual(sum(count for _, count in one.steps), one.differing)
            for part in ("DIFFERENT     codes", "MISSING       scales_tcgen05", "cause     every scale", "elements differ; first at ("):
                self.assertIn(part, verdict.text())
        self.assertTrue(mxcheck.golden.verify({"codes": tensors["codes"]}, golden, only="codes"))
        self.assertTrue(mxcheck.golden.verify({"codes": tensors["codes"], "scales": tensors["scales"]}, golden, only=["codes", "scales"]))
        with self.assertRaises(KeyError):
            verdict["values"]

    def write(self, x):
        command_line.write_safetensors(self.folder / "x.safetensors", x)
        return self.folder / "x.safetensors"

    def told(self, candidate, golden):
        import subprocess

        return subprocess.run([command_line.TOOL, "golden", "verify", str(candidate), "--against", str(golden), "--json"], capture_output=True,
                              check=False).stdout

    def test_type_and_shape_are_told_apart_from_bits(self):
        golden, x, tensors = self.quantized()
        verdict = mxcheck.golden.verify({**tensors, "codes": mxcheck.quantize(x).dequantize(), "scales": tensors["scales_tcgen05"]}, golden)
        self.assertEqual([one.verdict for one in verdict.datasets], ["wrong dtype", "wrong shape", "equal"])
        self.assertTrue(verdict["codes"].form)

    def test_a_layers_first_wrong_step(self):
        golden = DATA / "layer" / "layer_small.h5"
        self.assertTrue(mxcheck.golden.verify(golden, golden, only=["H", "A"]))
        verdict = mxcheck.golden.verify({"H": mxcheck.Values(bytes(2), (1, 1), "bf16")}, golden, only="H")
        self.assertEqual((verdict.first_difference.step, verdict["H"].verdict), ("up", "wrong shape"))

    def test_numpy_and_torch(self):
        golden, x, tensors = self.quantized()
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        arrays = {name: numpy.frombuffer(t.tobytes(), numpy.uint8).reshape(t.shape) for name, t in tensors.items()}
        self.assertTrue(mxcheck.golden.verify(arrays, golden))
        wide = numpy.zeros((40, 99), numpy.uint8)
        wide[:, 5:75] = arrays["codes"]
        self.assertTrue(mxcheck.golden.verify({"codes": wide[:, 5:75]}, golden, only="codes"))
        self.refused(("codes", "contiguous"), mxcheck.golden.verify, {"codes": wide[:, 5:75:2]}, golden)
        try:
            import torch
        except ImportError:
            return
        q = mxcheck.quantize(torch.frombuffer(bytearray(x.tobytes()), dtype=torch.bfloat16).reshape(40, 70))
        self.assertTrue(mxcheck.golden.verify({"codes": q.codes, "scales": q.scales}, golden, only=["codes", "scales"]))
        self.refused(("codes requires a gradient", "detach"), mxcheck.golden.verify,
                     {"codes": torch.zeros(2, requires_grad=True)}, golden)

    def test_goldens_that_are_none_are_golden_errors(self):
        golden, _, tensors = self.quantized()
        verify = mxcheck.golden.verify
        self.assertTrue(issubclass(mxcheck.GoldenError, mxcheck.InputError))
        self.refused(("none.h5",), verify, tensors, self.folder / "none.h5", kind=mxcheck.GoldenError)
        alone = self.folder / "alone" / "w.h5"
        alone.parent.mkdir()
        shutil.copy(golden, alone)
        self.refused(("manifest.txt",), verify, tensors, alone, kind=mxcheck.GoldenError)
        digest = next(line.split("  ")[0] for line in (golden.parent / "manifest.txt").read_text().splitlines()[1:])
        self.assertTrue(verify(tensors, alone, sha256=digest))
        self.assertTrue(verify(tensors, alone, manifest=golden.parent / "manifest.txt"))
        self.refused(("SHA-256",), verify, tensors, alone, sha256="0" * 64, kind=mxcheck.GoldenError)
        raw = bytearray(golden.read_bytes())
        raw[len(raw) // 2] ^= 1
        golden.write_bytes(raw)
        self.refused(("w.h5", "SHA-256"), verify, tensors, golden, kind=mxcheck.GoldenError)
        golden.write_bytes(raw[:100])
        self.refused(("w.h5",), verify, tensors, golden, kind=mxcheck.GoldenError)
        (golden.parent / "manifest.txt").write_text("no manifest")
        self.refused(("manifest",), verify, tensors, golden, kind=mxcheck.GoldenError)

    def test_candidates_and_arguments_that_are_none(self):
        golden, _, tensors = self.quantized()
        verify = mxcheck.golden.verify
        (self.folder / "noise.h5").write_bytes(b"no HDF5")
        (self.folder / "noise.safetensors").write_bytes(b"\xff" * 20)
        self.refused(("noise.h5: not an HDF5 file",), verify, self.folder / "noise.h5", golden, kind=mxcheck.InputError)
        self.refused(("noise.safetensors",), verify, self.folder / "noise.safetensors", golden, kind=mxcheck.InputError)
        self.refused(("there is no such file",), verify, self.folder / "none.h5", golden, kind=mxcheck.InputError)
        self.refused(("a candidate is an HDF5 or safetensors file",), verify, self.folder, golden, kind=mxcheck.InputError)
        self.refused(("other",), verify, tensors, golden, only="other", kind=mxcheck.InputError)
        self.refused(("no tensors",), verify, {}, golden)
        self.refused(("called 3",), verify, {3: tensors["codes"]}, golden)
        self.refused(("codes is a list of whole numbers",), verify, {"codes": [1]}, golden)
        self.refused(("codes has 3 bytes: 4",), verify, {"codes": mxcheck.Values(b"abc", (4,), "e4m3")}, golden)
        self.refused(("unknown dtype .float7.".replace(".", chr(39)), "float32"), lambda: mxcheck.Values(b"abc", (3,), "float7"))
        self.refused(("candidate is None",), verify, None, golden)
        self.refused(("golden is 3",), verify, tensors, 3)
        self.refused(("sha256", "64"), verify, tensors, golden, sha256="ab")
        self.refused(("manifest and sha256",), verify, tensors, golden, sha256="0" * 64, manifest=golden)
        self.refused(("only",), verify, tensors, golden, only=[])
        self.refused(("only",), verify, tensors, golden, only=["a,b"])
        odd = dict(tensors, codes=mxcheck.Values(array.array("f", [1, 2]), (2,), "fp32"))
        self.assertFalse(verify(odd, golden))


if __name__ == "__main__":
    unittest.main()
