"""The gate on functions in Python: what holds, what fails, and what cannot be gated."""

import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

import gated
import mxcheck
from mxcheck.candidates import calls, tuning
from mxcheck.candidates.gating import library_of, spec_of, tool_path

HERE = Path(__file__).resolve().parent
EQUAL = "quantize_equals_the_reference"
PERMUTED = "permuting_blocks_permutes_results"  # fewer cases


def mxcheck_cpu():
    return str(Path(tool_path()).resolve().parent.parent / "lib" / "libmxcheck_cpu.so")


def run(name, only=EQUAL, **options):
    return mxcheck.gate(f"gated:{name}", seed=1, only=only, jobs=1, **options)


class Holds(unittest.TestCase):
    def test_a_right_candidate_holds_in_every_statement(self):
        report = mxcheck.gate(gated.right, seed=5)
        self.assertTrue(report, report.text())
        self.assertEqual((report.exit_code, report.seed, report.failures), (0, 5, ()))
        verdicts = {one.name: one.verdict for one in report.statements}
        for name in (EQUAL, "nothing_is_accessed_outside_the_tensors", "the_same_call_gives_the_same_bytes", "ten_thousand_calls_keep_no_memory",
                     "the_process_ends_in_order"):
            self.assertEqual(verdicts[name], "held", name)
        # These call what breaks the C interface, which the adapter speaks and not the candidate.
        self.assertNotIn("bad_arguments_are_refused_and_nothing_is_written", verdicts)

    def test_several_are_gated_together(self):
        report = run("both", only="*equals_the_reference")
        held = [one.name for one in report.statements if one.verdict == "held"]
        self.assertEqual(held, [EQUAL, "dequantize_equals_the_reference"])

    def test_losses_of_routers(self):
        report = run("losses", only="*loss*")
        self.assertTrue(report, report.text())
        held = [one.name for one in report.statements if one.verdict == "held"]
        self.assertEqual(held, ["route_balance_loss_equals_the_reference", "route_z_loss_equals_the_reference",
                                "permuting_tokens_permutes_a_loss_gradient_and_not_the_loss",
                                "a_constant_added_to_a_tokens_logits_leaves_the_balance_loss"])
        refused = run("losses", only="a_nan_logit_is_refused_and_nothing_is_written")
        self.assertTrue(refused, refused.text())

    def test_options_that_are_not_taken_are_no_failure(self):
        report = run("right", only="experts_do_not_see_each_other")
        self.assertEqual(report.statements[0].verdict, "not offered")
        self.assertIn("expert offsets", report.statements[0].reason)

    def test_an_x_may_have_any_strides(self):
        report = run("right_of_any_strides")
        self.assertTrue(report, report.text())
        report = run("takes_all_for_contiguous")
        self.assertEqual(report.exit_code, 1, report.text())
        self.assertIn("stride=", report.text())
        self.assertNotIn("stride", run("right").text())  # who does not offer it has no such case

    def test_a_cast_may_be_from_fp64(self):
        report = run("casts_fp64", "cast_equals_the_reference", cases=40)
        self.assertTrue(report, report.text())
        report = run("casts_fp64_by_way_of_fp32", "cast_equals_the_reference", cases=40)
        self.assertIn("an input rounded to FP32 before the cast (rounded twice)", report.text())
        self.assertIn(" x=fp64 ", report.text())
        self.assertNotIn("fp64", run("casts_any_type", "cast_equals_the_reference", cases=40).text())  # it is to be named

    def test_an_option_can_be_refused_by_the_function(self):
        report = run("says_so_later", only="experts_do_not_see_each_other")
        self.assertTrue(report, report.text())

    def test_the_versions_are_told(self):
        self.assertIn("python " + sys.version.split()[0], run("right", PERMUTED).version)

    def test_first_calls_are_counted_apart(self):
        report = run("sleeps_when_it_compiles", PERMUTED, time_limit=1, first_call_limit=60)
        self.assertTrue(report, report.text())
        self.assertGreater(report.first_calls["longest"], 1.4)
        self.assertIn("first calls of a kind", report.text())


    def test_a_claim_of_no_bits_holds(self):
        report = run("adds_backwards", "aggregate*", cases=20)
        self.assertTrue(report, report.text())
        self.assertEqual([one.name for one in report.statements if one.verdict == "held"], ["aggregate_is_a_sum_of_its_products"])

    def test_rows_are_moved_between_ranks(self):
        report = run("moves_rows", "*dispatch*", cases=30)
        self.assertTrue(report, report.text())
        held = [one.name for one in report.statements if one.verdict == "held"]
        self.assertEqual(held, ["dispatch_equals_the_reference", "dispatch_gives_every_kept_slot_a_row_of_its_own"])


class Fails(unittest.TestCase):
    def fails(self, name, code, *texts, only=EQUAL, **options):
        report = run(name, only, **options)
        self.assertEqual(report.exit_code, code, report.text())
        for text in texts:
            self.assertIn(text, report.text())
        self.assertFalse(report)
        return report

    def test_a_wrong_code_is_found_and_shrunk(self):
        report = self.fails("wrong_in_the_last_code", 1, "codes differ from the reference", "1 of 41 elements of codes (1 x 41) differ")
        self.assertEqual(report.failures[0].counterexample["cols"], 41)
        self.assertIn("--candidate python:gated:wrong_in_the_last_code --reproduce", report.text())

    def test_what_is_no_order_of_sums_is_found(self):
        self.fails("writes_twos", 1, "o is outside of what any order of its sums can give", only="aggregate_is*", cases=20)

    def test_scales_that_do_not_travel_with_their_rows_are_found(self):
        self.fails("moves_rows_with_other_scales", 1, "scales of the rows", only="rows_and_their_scales*", cases=30)

    def test_an_exception_is_told_with_its_places(self):
        self.fails("raises", 1, "raised ValueError: no kernel for this", "in helper: raise ValueError", "in raises: helper(x)")

    def test_an_exit_is_an_exception(self):
        self.fails("exits", 1, "raised SystemExit: 3")

    def test_a_crash_is_a_fault(self):
        self.fails("dies", 6, "process died (signal 11", "again in a fresh process")

    def test_a_hang_is_a_fault(self):
        self.fails("sleeps", 6, "time limit of a first call, in which it may compile", time_limit=0.2, first_call_limit=1.2, cases=1)

    def test_a_first_call_has_no_more_than_its_limit(self):
        self.fails("sleeps_when_it_compiles", 6, "time limit of a first call", time_limit=0.2, first_call_limit=1.2, cases=1)

    def test_inputs_are_not_to_be_changed(self):
        self.fails("changes_its_input", 1, "into input 0")

    def test_a_cache_by_pointer_is_found(self):
        # Which calls before it the failure needs ("after") is found where the machine has the time for it.
        self.fails("caches_by_pointer", 1, "differ from the reference", "state of earlier calls")

    def test_memory_is_not_to_be_kept(self):
        self.fails("writes_after_it_has_returned", 1, "wrote")

    def test_outputs_have_an_end(self):
        self.fails("writes_past_its_output", 1, "past")

    def test_bytes_are_written_and_not_returned(self):
        self.fails("returns_something", 1, "returned a Raw: a function of these tensors writes into its outputs")

    def test_memory_has_a_limit(self):
        with self.assertRaisesRegex(mxcheck.UsageError, "--memory-limit must be 0 or from 0.1"):
            mxcheck.gate(gated.right, seed=1, only=EQUAL, memory_limit=-1)
        self.assertTrue(mxcheck.gate(gated.right, seed=1, only=EQUAL, cases=5, memory_limit=8))

    def test_memory_does_not_grow(self):
        self.fails("keeps_memory", 1, "memory", only="ten_thousand_calls_keep_no_memory")

    def test_a_claim_that_raises_is_no_claim(self):
        self.assertEqual(run("cannot_say", only="cast_equals_the_reference").exit_code, 4)


class Libraries(unittest.TestCase):
    def test_a_name_or_a_path_is_gated_as_on_the_command_line(self):
        for name in ("cpu", mxcheck_cpu(), Path(mxcheck_cpu())):
            report = mxcheck.gate(name, seed=1, only="cast_equals*", cases=20)
            self.assertTrue(report, report.text())
            self.assertEqual([one.name for one in report.statements], ["cast_equals_the_reference"])

    def test_which_texts_are_libraries(self):
        for text in ("./libmine.so", "libmine.so", "/lib/a.so", "cpu", "sm90_gemm", ".", "kernels/mine"):
            self.assertEqual(library_of(text), text)
        for text in ("gated:right", "gated", "python:gated:right", "gated.py", "kernels/gated.py", "/k/gated.py:right", "json", "gated@1",
                     "package.module", gated.right, None):
            self.assertEqual(library_of(text), "")

    def test_what_is_no_library(self):
        for text, said in ((".", "candidate . is a folder: name the library itself"), ("./none.so", "candidate ./none.so does not exist"),
                           ("cpuu", "no candidate named 'cpuu'.*did you mean 'cpu'")):
            with self.assertRaisesRegex(mxcheck.UsageError, said):
                mxcheck.gate(text)
        with self.assertRaisesRegex(mxcheck.UsageError, "configs is .0.: configurations are of candidates in Python, and cpu is a library"):
            mxcheck.gate("cpu", configs=[0])


class Configurations(unittest.TestCase):
    def test_each_is_gated_by_its_name(self):
        report = run("tuned", PERMUTED)
        self.assertEqual([one.configuration for one in report.configurations],
                         ["kernel [BLOCK: 32]", "kernel [BLOCK: 64]", "kernel [BLOCK: 128]"])
        self.assertEqual([one.exit_code for one in report.configurations], [0, 1, 0])
        self.assertEqual(report.exit_code, 1)
        self.assertIn("kernel [BLOCK: 64]", report.text())

    def test_what_was_chosen_before_is_forgotten(self):
        tuner = gated.Autotuner(gated.kernel, [gated.Config(32), gated.Config(64)])
        other = gated.Autotuner(gated.kernel, [gated.Config(1), gated.Config(2)])
        tuner.cache["shape"], other.cache["shape"] = tuner.configs[0], other.configs[1]

        def function():
            return tuner, other

        self.assertEqual(tuning.choose(function, 3), "kernel [BLOCK: 64]")
        self.assertEqual([str(one) for one in tuner.configs + other.configs], ["BLOCK: 64", "BLOCK: 1"])
        self.assertEqual((tuner.cache, other.cache), ({}, {}))

    def test_one_can_be_chosen(self):
        self.assertTrue(run("tuned@2", PERMUTED))
        self.assertTrue(run("tuned", PERMUTED, configs=[0]))
        self.assertFalse(run("tuned@1", PERMUTED))

    def test_the_command_line_does_not_leave_it_to_time(self):
        done = subprocess.run([tool_path(), "gate", "--candidate", "python:gated:tuned"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, MXCHECK_PYTHON=sys.executable, PYTHONPATH=f"{HERE}:{HERE.parent}"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("has 3 configurations, and which one runs is a matter of timing", done.stderr)

    def test_there_are_no_others(self):
        with self.assertRaisesRegex(mxcheck.UsageError, "has no configuration 3: there are 3"):
            run("tuned@3")


DECLARED = "@mxcheck.candidate('quantize', recipes=['te'], formats=['e4m3'], blocks=['1x32'], types=['fp32'], tensors='bytes')\n"
# Modules that cannot be gated, or not soon.
BROKEN = {
    "crashes_at_import": "import os\n\nos.kill(os.getpid(), 11)\n",
    "declares_no_blocks": "import mxcheck\n\n\n@mxcheck.candidate('quantize', recipes=['te'], formats=['e4m3'])\ndef x(x, codes, scales, policy):\n    pass\n",
    "dies_at_import": "import os\n\nos._exit(9)\n",
    "exits_at_import": "import sys\n\nsys.exit('a module that ends its process')\n",
    "gates_at_import": f"import mxcheck\n\n\n{DECLARED}def q(x, codes, scales, policy):\n    pass\n\n\nprint(mxcheck.gate(q))\n",
    "hangs_at_import": "import time\n\ntime.sleep(600)\n",
    "raises_at_import": "raise RuntimeError('no driver for this')\n",
    # Its process takes a second to start, and its calls do not end.
    "slow_to_import": f"import time\n\nimport mxcheck\n\ntime.sleep(1)\n\n\n{DECLARED}def x(x, codes, scales, policy):\n    time.sleep(600)\n",
}


class CannotBeGated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.broken = Path(folder.name)
        for name, text in BROKEN.items():
            (cls.broken / f"{name}.py").write_text(text, encoding="utf-8")

    def refused(self, spec, text, **options):
        with self.assertRaisesRegex(mxcheck.UsageError, text):
            mxcheck.gate(spec, seed=1, only=EQUAL, **options)

    def test_a_module_that_is_not_there(self):
        self.refused("no_such_module:x", "python:no_such_module:x cannot be imported: ModuleNotFoundError: No module named")

    def test_a_file_that_is_not_there(self):
        self.refused("/no/such/file.py:x", "file /no/such/file.py does not exist")

    def test_a_name_that_is_not_there(self):
        self.refused("gated:nothing", "has no nothing: gated has the candidates right, right_of_any_strides,")

    def test_a_wrong_declaration_has_its_place(self):
        self.refused(f"{self.broken}/declares_no_blocks.py:x",
                     "declares_no_blocks.py:x has a wrong declaration: declares_no_blocks.py:4: a candidate of quantize needs blocks=")

    def test_a_file_that_is_not_one_of_python(self):
        self.refused(f"{HERE}/../../README.md:x", "README.md is a file, and not one of Python: FILE.py:NAME is needed")

    def test_what_is_no_candidate(self):
        self.refused("gated:not_declared", "is no candidate: not_declared is a function; declare it with")
        self.refused("gated:HERE", "has no HERE")
        with self.assertRaisesRegex(mxcheck.UsageError, "is no candidate: declare it with"):
            mxcheck.gate(gated.not_declared)

    def test_a_module_that_raises(self):
        self.refused(f"{self.broken}/raises_at_import.py:x", "RuntimeError: no driver for this . raises_at_import.py:1 in")

    def test_a_module_that_ends_its_process(self):
        self.refused(f"{self.broken}/exits_at_import.py:x", "SystemExit: a module that ends its process")
        self.refused(f"{self.broken}/dies_at_import.py:x", "ended its process with status 9 while it was imported")
        self.refused(f"{self.broken}/dies_at_import.py:x@0", "ended its process with status 9 while it was imported")
        self.refused(f"{self.broken}/crashes_at_import.py:x@0", "crashed while it was loaded .signal 11")

    def test_a_module_that_gates_itself_while_it_is_imported(self):
        path = f"{self.broken}/gates_at_import.py"
        done = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, 1, said)
        self.assertEqual(said.count("calls mxcheck.gate while"), 1, said)
        self.assertIn('put that call under if __name__ == "__main__":', said.splitlines()[-1])
        self.refused(f"{path}:q@0", "calls mxcheck.gate while")

    def test_a_module_that_hangs(self):
        self.refused(f"{self.broken}/hangs_at_import.py:x", "was not imported within 0.5 s", first_call_limit=0.5)

    def test_a_gate_that_is_ended_tells_what_had_run(self):
        command = [tool_path(), "gate", "--candidate", f"python:{self.broken}/slow_to_import.py:x", "--json", "--save", "", "--jobs", "1"]
        # A process that starts slowly is still starting again when the gate ends: no crash of the gate.
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gate:
            time.sleep(3)
            gate.terminate()
            out, _ = gate.communicate(timeout=30)
        self.assertEqual(gate.returncode, 4)
        self.assertTrue(json.loads(out.decode())["interrupted"])

    def test_an_interpreter_that_is_not_there(self):
        done = subprocess.run([tool_path(), "gate", "--candidate", "python:gated:right"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, MXCHECK_PYTHON="/no/python"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("needs a Python interpreter: /no/python cannot be started", done.stderr)

    def test_a_function_that_has_no_name_in_its_module(self):
        with self.assertRaisesRegex(mxcheck.UsageError, "is no name of its module"):
            spec_of(gated.quantizer(lambda x, codes, scales, policy: None))

    def test_options_of_the_gate_are_its_own(self):
        with self.assertRaisesRegex(mxcheck.UsageError, "unknown suite 'fast'"):
            run("right", suite="fast")


class Declarations(unittest.TestCase):
    def refused(self, text, *arguments, **declared):
        with self.assertRaisesRegex(mxcheck.UsageError, text):
            mxcheck.candidate(*arguments, **declared)

    def test_names_are_known_ones(self):
        self.refused("unknown operation 'quantise'; known are quantize", "quantise")
        self.refused("unknown recipe 'tee'; known are", "quantize", recipes=["tee"], formats=["e4m3"], blocks=["1x32"])
        self.refused("unknown format 'e4m4'", "cast", formats=["e4m4"])
        self.refused("unknown option 'index'; known are offsets", "cast", options=["index"])
        self.refused("a dequantize has no col_stride: quantize,", "dequantize", options=["col_stride"])
        self.refused("unknown type 'float'", "cast", types=["float"])
        self.refused("unknown device 'gpu'; known are cpu, cuda", "cast", device="gpu")
        self.refused("tensors is 'numpy'", "cast", device="cuda", tensors="numpy")

    def test_claims_are_needed(self):
        self.refused("needs blocks=", "quantize", recipes=["te"], formats=["e4m3"])
        self.refused("needs contract=", "matmul")
        self.refused("only a matmul has one, and claims are made about aggregate", "cast", contract="sm90_fp8")

    def test_masked_groups_have_counts_in_place_of_offsets(self):
        integers = [0, 0, 64, 1, 3, 1, 1, 1]  # a vector of three int64
        for grouping, name in (("masked", "counts"), ("rows", "offsets"), ("depth", "offsets")):
            own = {"scale_type": "none", "accumulate": 0, "grouping": grouping, "alpha": 1.0, "depth": 128}
            keywords = {}
            words = [0] * (2 * calls._WIDTH) + (integers + [0] * calls._WIDTH)[: calls._WIDTH]
            self.assertEqual(calls._matmul_inputs(words, 3, types.SimpleNamespace(own=own), (), keywords), "")
            self.assertEqual(keywords, {name: 2})

    def test_a_candidate_can_be_called(self):
        self.assertEqual(mxcheck.candidate("cast")(lambda a, b: a + b)(1, 2), 3)
        with self.assertRaisesRegex(mxcheck.UsageError, "is no function"):
            mxcheck.candidate("cast")(7)


if __name__ == "__main__":
    unittest.main()
