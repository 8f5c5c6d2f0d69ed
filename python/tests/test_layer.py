"""layer gives the command line's tensors under every recipe, router and layout of weights; verify_layer its verdicts."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import command_line
import mxcheck
from mxcheck import _safetensors

ROOT = Path(__file__).resolve().parents[2]
T, D, N, E = 24, 64, 32, 3


def cut(x, rows, cols, shape, first=0):
    """A piece of a BF16 matrix, as another shape."""
    width = x.shape[1]
    raw = memoryview(x.data).cast("B")
    data = b"".join(bytes(raw[2 * ((first + i) * width) : 2 * ((first + i) * width + cols)]) for i in range(rows))
    return mxcheck.Values(bytearray(data), shape, "bf16")


class Case(command_line.Refusing):
    @classmethod
    def setUpClass(cls):
        real, _ = _safetensors.read(ROOT / "goldens" / "data" / "real_moe.safetensors")
        router, _ = _safetensors.read(ROOT / "goldens" / "data" / "real_router.safetensors")
        cls.tensors = {"X": cut(real["layer0.x"], T, D, (T, D)), "dO": cut(real["layer0.dO"], T, D, (T, D)),
                       "W1": cut(real["layer0.w1"], E * D, 2 * N, (E, D, 2 * N)), "W2": cut(real["layer0.w2"], E * N, D, (E, N, D)),
                       "logits": cut(router["layer0.router_logits"], T, E, (T, E))}
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        cls.file = cls.folder / "layer.safetensors"
        _safetensors.write(cls.file, cls.tensors)

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def told(self, *flags, file=None):
        target = self.folder / "out.safetensors"
        command_line.run("layer", str(file or self.file), *flags, "-o", str(target))
        return command_line.read_safetensors(target), json.loads(target.read_bytes()[8 : 8 + int.from_bytes(target.read_bytes()[:8], "little")])["__metadata__"]

    def refused(self, *arguments, **options):
        self.assertNotIn("/tmp/mxcheck-", super().refused(*arguments, **options))

    def same(self, run, *flags, file=None):
        wanted, metadata = self.told(*flags, file=file)
        self.assertEqual(set(run), set(wanted))
        for name, tensor in run.items():
            self.assertEqual(tensor.tobytes(), wanted[name], name)
        self.assertEqual(run.metadata, metadata)


WHOLE = ("--logits", "logits", "--top-k", "2", "--backward", "--d-o", "dO")


class SameAsCommandLine(Case):
    def test_every_recipe(self):
        names = mxcheck.layer_recipes()
        self.assertEqual(names, [row["name"] for row in json.loads(command_line.run("layer", "--list", "--json"))])
        for recipe in names:
            with self.subTest(recipe=recipe):
                run = mxcheck.layer(self.tensors, recipe, top_k=2)
                self.same(run, "--recipe", recipe, *WHOLE)
                self.assertEqual((run.steps["H"], run.steps["dX"], run.formats["H"]), ("up", "d_aggregate", "bfloat16"))
                self.assertEqual((run["H"].shape, run["H"].dtype, run["dW1"].shape, run["dW1"].dtype), ((48, 64), "bf16", (3, 64, 64), "fp32"))
        self.assertEqual(run["d_up_a_codes"].dtype, "e2m1")

    def test_random_words(self):
        run = mxcheck.layer(self.tensors, "nvfp4", top_k=2, random=(5, 6, 7))
        self.same(run, "--recipe", "nvfp4", *WHOLE, "--random-seed", "5", "--random-step", "6", "--random-layer", "7")
        other = mxcheck.layer(self.tensors, "nvfp4", top_k=2)
        self.assertNotEqual(run["d_up_a_codes"].tobytes(), other["d_up_a_codes"].tobytes())
        self.assertEqual(run["up_a_codes"].tobytes(), other["up_a_codes"].tobytes())
        self.refused(("stochastically", "mxfp8"), mxcheck.layer, self.tensors, "mxfp8", top_k=2, random=(5, 6, 7))
        self.refused(("(seed, step, layer)",), mxcheck.layer, self.tensors, "nvfp4", top_k=2, random=5)
        self.refused(("random's step",), mxcheck.layer, self.tensors, "nvfp4", top_k=2, random=(5, -1, 7))
        self.refused(("65536",), mxcheck.layer, self.tensors, "nvfp4", top_k=2, random=(5, 1, 65536))

    def test_recipes_that_are_data(self):
        mine = {"base": "mxfp8", "name": "mine", "meaning": "of a test", "gemms": [{"name": "d_w1", "b": {"format": "e5m2", "scales": "floor"}}],
                "kept_h": {"format": "e4m3", "block": "1x32", "scales": "rceil"}}
        file = self.folder / "mine.json"
        file.write_text(json.dumps(mine))
        for recipe in (mine, file, str(file), mxcheck.layer_recipe(mine)):
            self.same(mxcheck.layer(self.tensors, recipe, top_k=2), "--recipe", str(file), *WHOLE)
        for name in mxcheck.layer_recipes():
            whole = mxcheck.layer_recipe(name)
            self.assertEqual(whole, json.loads(command_line.run("layer", "--recipe", name, "--show", "--json")))
            self.assertEqual(mxcheck.layer_recipe(whole), whole)

    def test_forward_alone_and_a_few_tensors(self):
        forward = {name: tensor for name, tensor in self.tensors.items() if name != "dO"}
        self.same(mxcheck.layer(forward, "mxfp8", top_k=1), "--recipe", "mxfp8", "--logits", "logits", "--top-k", "1")
        self.same(mxcheck.layer(self.tensors, "mxfp8", top_k=1, backward=False), "--recipe", "mxfp8", "--logits", "logits", "--top-k", "1")
        run = mxcheck.layer(self.tensors, "dsv3", top_k=2, only=["O", "dX"])
        self.assertEqual(list(run), ["O", "dX"])
        self.same(run, "--recipe", "dsv3", *WHOLE, "--only", "O,dX")

    def test_routers_and_rules(self):
        bias = mxcheck.Values(b"\0\0\0\x3f" * E, (E,), "fp32")
        _safetensors.write(self.folder / "bias.safetensors", {"bias": bias})
        self.same(mxcheck.layer(self.tensors, "bf16", top_k=2, variant="sigmoid", bias=bias, scale=0.5, nan="last"), "--recipe", "bf16", *WHOLE,
                  "--variant", "sigmoid", "--bias", f"{self.folder}/bias.safetensors:bias", "--scale", "0.5", "--nan", "last")
        self.same(mxcheck.layer(self.tensors, "bf16", top_k=2, rule="nr-f", tile=8, renormalize=False), "--recipe", "bf16", *WHOLE, "--round", "nr-f",
                  "--tile", "8", "--weights", "raw")
        self.same(mxcheck.layer(self.tensors, "bf16", top_k=2, rule="sr-f", tile=8, seed=3, step=4, layer=5), "--recipe", "bf16", *WHOLE, "--round",
                  "sr-f", "--tile", "8", "--seed", "3", "--step", "4", "--layer", "5")
        self.same(mxcheck.layer(self.tensors, "bf16", top_k=2, rule="capacity-score", capacity=10), "--recipe", "bf16", *WHOLE, "--round",
                  "capacity-score", "--capacity", "10")
        self.same(mxcheck.layer(self.tensors, "bf16", self.tensors["logits"], 2, groups=3, groups_kept=2, threads=2), "--recipe", "bf16", *WHOLE,
                  "--groups", "3", "--groups-kept", "2")

    def test_routes_from_elsewhere(self):
        without = {name: tensor for name, tensor in self.tensors.items() if name != "logits"}
        for rule in ("none", "nr-f", "down"):
            wanted = mxcheck.layer(self.tensors, "mxfp8", top_k=2, rule=rule, tile=8)
            routes = [mxcheck.round_tokens(self.tensors["logits"], 2, rule, tile=8), {name: wanted[name] for name in
                      ("offsets", "row_token", "row_weight", "token_offsets", "token_rows")}]
            if rule == "none":  # slots best first, as logits have them
                routes = [routes[1], mxcheck.route(self.tensors["logits"], 2)]
            for given in routes:
                run = mxcheck.layer(without, "mxfp8", routes=given)
                for name in run:
                    self.assertEqual(run[name].tobytes(), wanted[name].tobytes(), (rule, name))
                self.assertNotIn("d_logits", run)

    def test_layouts_and_names_of_weights(self):
        def transposed(x, rows, cols):  # of each expert
            raw = memoryview(x.data).cast("B").cast("H")
            return mxcheck.Values(bytearray(b"".join(raw[e * rows * cols + i * cols + j].to_bytes(2, "little") for e in range(E) for j in range(cols)
                                                     for i in range(rows))), (E, cols, rows), "bf16")

        wanted = mxcheck.layer(self.tensors, "mxfp8", top_k=2)
        w1, w2 = transposed(self.tensors["W1"], D, 2 * N), transposed(self.tensors["W2"], N, D)
        run = mxcheck.layer({"acts:x": self.tensors["X"], "g": self.tensors["dO"], "up down": w1, "w2": w2, "l": self.tensors["logits"]}, "mxfp8",
                            self.tensors["logits"], 2, x="acts:x", d_o="g", w1="up down", w2="w2", w1_layout="2n-d", w2_layout="d-n")
        for name in wanted:
            self.assertEqual(run[name].tobytes(), wanted[name].tobytes(), name)
        named = {"X": self.tensors["X"], "dO": self.tensors["dO"], "another": self.tensors["X"]}
        for e in range(E):
            part = memoryview(w1.data)[e * 4 * N * D : (e + 1) * 4 * N * D]
            named[f"m.{e}.gate_proj.weight"] = mxcheck.Values(part[: 2 * N * D], (N, D), "bf16")
            named[f"m.{e}.up_proj.weight"] = mxcheck.Values(part[2 * N * D :], (N, D), "bf16")
            named[f"down{e}"] = mxcheck.Values(memoryview(w2.data)[e * 2 * N * D : (e + 1) * 2 * N * D], (D, N), "bf16")
        run = mxcheck.layer(named, "mxfp8", self.tensors["logits"], 2, experts="m.{}", down_proj="down{}")
        for name in wanted:
            self.assertEqual(run[name].tobytes(), wanted[name].tobytes(), name)
        self.same(mxcheck.layer(self.tensors, "mxfp8", top_k=2, gate_up="interleaved"), "--recipe", "mxfp8", *WHOLE, "--gate-up", "interleaved")

    def test_nothing(self):
        empty = dict(self.tensors, X=mxcheck.Values(b"", (0, D), "bf16"), dO=mxcheck.Values(b"", (0, D), "bf16"), logits=mxcheck.Values(b"", (0, E), "bf16"))
        run = mxcheck.layer(empty, "mxfp8", top_k=2)
        self.assertEqual((run["O"].shape, run["dW1"].tobytes()), ((0, D), bytes(4 * E * D * 2 * N)))

    def test_numpy_and_torch(self):
        try:
            import numpy
            import torch
        except ImportError:
            self.skipTest("numpy and torch are not installed")
        wanted = mxcheck.layer(self.tensors, "mxfp8", top_k=2)
        bits = {name: numpy.frombuffer(x.tobytes(), numpy.uint16).reshape(x.shape) for name, x in self.tensors.items()}
        self.refused(("X", "BF16"), mxcheck.layer, bits, "mxfp8", top_k=2, kind=mxcheck.InputError)
        run = mxcheck.layer(bits, "mxfp8", top_k=2, dtype="bf16")
        for name in wanted:
            self.assertEqual(run[name].tobytes(), wanted[name].tobytes(), name)
        self.assertEqual(run["up_a_codes"].dtype, numpy.uint8)
        tensors = {name: torch.from_numpy(x.copy().view(numpy.int16)).view(torch.bfloat16) for name, x in bits.items()}
        run = mxcheck.layer(tensors, "mxfp8", top_k=2)
        self.assertEqual((run["H"].dtype, run["up_a_codes"].dtype, run["up_a_scales"].dtype, run["dW1"].dtype, run["row_token"].dtype),
                         (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float32, torch.int32))
        for name in wanted:
            self.assertEqual(run[name].view(torch.uint8).numpy().tobytes(), wanted[name].tobytes(), name)
        self.refused(("X requires a gradient", "detach"), mxcheck.layer, dict(tensors, X=tensors["X"].clone().requires_grad_()), "mxfp8", top_k=2)
        self.refused(("W1", "contiguous"), mxcheck.layer, dict(tensors, W1=tensors["W1"].transpose(1, 2)), "mxfp8", top_k=2)
        routed = mxcheck.route(tensors["logits"], 2)
        self.assertTrue(torch.equal(mxcheck.layer(tensors, "mxfp8", routes=routed)["O"], run["O"]))
        sliced = dict(tensors, X=torch.cat([tensors["X"]] * 2, 1)[:, D:])  # rows apart
        self.assertTrue(torch.equal(mxcheck.layer(sliced, "mxfp8", top_k=2)["O"], run["O"]))


class Verify(Case):
    def test_its_own_tensors_are_equal(self):
        run = mxcheck.layer(self.tensors, "mxfp8", top_k=2)
        verdict = mxcheck.verify_layer(self.tensors, run, "mxfp8", top_k=2)
        self.assertTrue(verdict)
        self.assertIsNone(verdict.first)
        self.assertEqual({one.verdict for one in verdict.tensors}, {"equal"})

    def test_verdicts_are_the_command_lines(self):
        run = mxcheck.layer(self.tensors, "mxfp8", top_k=2)
        dump = {"H": run["H"], "A": mxcheck.Values(bytearray(run["A"].tobytes()), run["A"].shape, "bf16"), "Y": run["Y"], "mine": run["X"]}
        dump["A"].data[100] ^= 1
        floor = mxcheck.layer(self.tensors, "mxfp8_floor", top_k=2)
        for given, recipe in ((dump, "mxfp8"), ({name: floor[name] for name in ("up_a_scales", "H", "O")}, "mxfp8")):
            verdict = mxcheck.verify_layer(self.tensors, given, recipe, top_k=2)
            _safetensors.write(self.folder / "dump.safetensors", given)
            done = subprocess.run([command_line.TOOL, "layer", str(self.file), "--recipe", recipe, *WHOLE, "--json", "--against",
                                   str(self.folder / "dump.safetensors")], stdout=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            told = json.loads(done.stdout)
            self.assertFalse(verdict)
            self.assertEqual(verdict.first.name, told["first"])
            for one, row in zip(verdict.tensors, told["tensors"]):
                self.assertEqual((one.name, one.step, one.verdict, one.format, list(one.shape), list(one.causes), one.made_of, one.differing, one.first),
                                 (row["tensor"], row["step"], row["verdict"], row["format"], row["shape"], row["causes"], row["made_of"],
                                  row.get("differing", 0), row.get("first", {})))
            self.assertEqual(list(verdict.others), told["not_of_the_layer"])
            self.assertIn("differs", verdict.text())
        self.assertTrue(verdict["up_a_scales"].causes)
        with self.assertRaises(KeyError):
            verdict["Q"]


class Refusals(Case):
    def test_arguments(self):
        layer, t = mxcheck.layer, self.tensors
        self.refused(("mxfp9", "mxfp8"), layer, t, "mxfp9", top_k=2)
        self.refused(("mxfp9", "mxfp8"), mxcheck.layer_recipe, "mxfp9")
        self.refused(("recipe.json: $.gemms[0].b.block", "7*33"), mxcheck.layer_recipe,
                     {"base": "mxfp8", "name": "m", "gemms": [{"name": "up", "b": {"block": "7*33"}}]})
        self.refused(("no JSON",), mxcheck.layer_recipe, {"base": {1}})
        self.refused(("recipe is 3",), layer, t, 3, top_k=2)
        self.refused(("recipe is '--list'",), layer, t, "--list", top_k=2)
        self.refused(("top-k",), layer, t, "mxfp8")
        self.refused(("top_k", "64 bits"), layer, t, "mxfp8", top_k=2.5)
        self.refused(("x: there is no tensor 'x'", "there are X"), layer, t, "mxfp8", top_k=2, x="x")
        self.refused(("w1: there is no tensor 'W1'",), layer, {"X": t["X"]}, "mxfp8", t["logits"], 2)
        self.refused(("d_o: there is no tensor",), layer, {k: v for k, v in t.items() if k != "dO"}, "mxfp8", top_k=2, backward=True)
        self.refused(("tensors is []",), layer, [], "mxfp8")
        self.refused(("experts", "{}"), layer, t, "mxfp8", top_k=2, experts="m.0")
        self.refused(("m.0.gate_proj.weight",), layer, t, "mxfp8", top_k=2, experts="m.{}")
        self.refused(("one of logits",), layer, {k: v for k, v in t.items() if k != "logits"}, "mxfp8")
        self.refused(("one of logits",), layer, t, "mxfp8", t["logits"], 2, routes={})
        self.refused(("top_k and bias are of logits",), layer, t, "mxfp8", top_k=2, routes=mxcheck.route(t["logits"], 2))
        self.refused(("routes is 3",), layer, t, "mxfp8", routes=3)
        self.refused(("routes has 'rows'",), layer, t, "mxfp8", routes={"rows": t["X"]})
        self.refused(("offsets",), layer, t, "mxfp8", routes={"row_token": t["X"]}, kind=mxcheck.InputError)
        self.refused(("no argument 'topk'",), layer, t, "mxfp8", topk=2)
        self.refused(("only",), layer, t, "mxfp8", top_k=2, only="a,b")
        self.refused(("'Q'", "H"), layer, t, "mxfp8", top_k=2, only="Q", kind=mxcheck.InputError)
        self.refused(("variant is ''",), layer, t, "mxfp8", top_k=2, variant="")
        self.refused(("topk-max", "topk-softmax"), layer, t, "mxfp8", top_k=2, variant="topk-max")
        self.refused(("w1_layout",), layer, t, "mxfp8", top_k=2, w1_layout=3)
        self.refused(("scale",), layer, t, "mxfp8", top_k=2, scale="one")
        self.refused(("threads",), layer, t, "mxfp8", top_k=2, threads=-1)

    def test_tensors(self):
        layer, t = mxcheck.layer, self.tensors
        floats = mxcheck.Values(bytes(4 * T * D), (T, D), "fp32")
        self.refused(("X", "F32", "BF16"), layer, dict(t, X=floats), "mxfp8", top_k=2, kind=mxcheck.InputError)
        self.refused(("dO", "[12, 64]", "[24, 64]"), layer, dict(t, dO=mxcheck.Values(t["dO"].data[: T * D], (12, D), "bf16")), "mxfp8", top_k=2,
                     kind=mxcheck.InputError)
        self.refused(("W2",), layer, dict(t, W2=t["X"]), "mxfp8", top_k=2, kind=mxcheck.InputError)
        self.refused(("X is a list of whole numbers",), layer, dict(t, X=[1]), "mxfp8", top_k=2)
        self.refused(("X has 3 bytes",), layer, dict(t, X=mxcheck.Values(b"abc", (T, D), "bf16")), "mxfp8", top_k=2)
        nan = mxcheck.Values(b"\xc0\x7f" * (T * E), (T, E), "bf16")
        self.refused(("logits", "NaN"), layer, dict(t, logits=nan), "mxfp8", top_k=2, kind=mxcheck.InputError)
        self.refused(("no tensors",), mxcheck.verify_layer, t, {}, "mxfp8", top_k=2)
        self.refused(("none of the layer's tensors",), mxcheck.verify_layer, t, {"h": t["X"]}, "mxfp8", top_k=2, kind=mxcheck.InputError)


if __name__ == "__main__":
    unittest.main()
