"""mxcheck.pytest_plugin, by pytest itself on small files; skipped without pytest."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

RIGHT = "import gated, mxcheck.pytest_plugin\ntest_right = mxcheck.pytest_plugin.gate_test(gated.right, only='permuting_blocks*')\n"
WRONG = "import gated, mxcheck.pytest_plugin\ntest_wrong = mxcheck.pytest_plugin.gate_test(gated.wrong_in_the_last_code, only='quantize_eq*')\n"


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed")
class Plugin(unittest.TestCase):
    def pytest(self, text, *arguments):
        """Exit code and output of pytest on a file of this text."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "test_it.py").write_text(text)
            done = subprocess.run([sys.executable, "-m", "pytest", "-p", "mxcheck.pytest_plugin", "-p", "no:cacheprovider", *arguments, "test_it.py"],
                                  cwd=folder, capture_output=True, text=True, check=False,
                                  env=dict(os.environ, PYTHONPATH=f"{HERE}:{HERE.parent}", PYTHONDONTWRITEBYTECODE="1"))
        return done.returncode, done.stdout + done.stderr

    def test_there_is_a_test_for_each_statement(self):
        code, out = self.pytest(RIGHT, "-v", "--strict-markers", "-W", "error")
        self.assertEqual(code, 0, out)
        self.assertIn("test_right[permuting_blocks_permutes_results] PASSED", out)
        self.assertIn("test_right[something_is_checked_and_the_process_ends_in_order] PASSED", out)

    def test_a_failure_is_the_counterexample(self):
        code, out = self.pytest(WRONG)
        self.assertEqual(code, 1, out)
        for text in ("found     codes differ from the reference", "expected  0x00", "shrunk    from", "again     mxcheck gate --candidate"):
            self.assertIn(text, out)
        self.assertNotIn("pytest_plugin.py:", out.split("FAILURES")[1].split("short test summary")[0])

    def test_a_seed_is_printed_and_replayed(self):
        _, out = self.pytest(WRONG)
        seed = re.search(r"mxcheck: seed (\d+) ", out).group(1)
        _, again = self.pytest(WRONG, "--mxcheck-seed", seed)
        case = re.compile(r"original +(.*)")
        self.assertEqual(case.search(again).group(1), case.search(out).group(1))
        self.assertIn(f"mxcheck: seed {seed} ", again)
        self.assertNotEqual(re.search(r"mxcheck: seed (\d+) ", self.pytest(RIGHT)[1]).group(1), seed)

    def test_the_suite_is_chosen(self):
        self.assertIn("suite full", self.pytest(RIGHT, "--mxcheck-suite", "full", "--collect-only")[1])
        self.assertEqual(self.pytest(RIGHT, "--mxcheck-suite", "fast")[0], 4)

    def test_a_candidate_of_the_command_line(self):
        code, out = self.pytest("", "-v", "--mxcheck-candidate", "gated:right", "--mxcheck-only", "permuting_blocks*")
        self.assertEqual(code, 0, out)
        self.assertIn("gated:right[permuting_blocks_permutes_results] PASSED", out)

    def test_a_candidate_for_which_nothing_ran_fails(self):
        code, out = self.pytest("", "--mxcheck-candidate", "gated:right", "--mxcheck-only", "route_*")
        self.assertEqual(code, 1, out)
        self.assertIn("nothing was checked: gated:right offers nothing that a statement is about", out)
        self.assertIn("skipped", out)

    def test_a_candidate_that_there_is_not_is_an_error_at_collection(self):
        code, out = self.pytest("", "--mxcheck-candidate", "no_such_module:x", "--mxcheck-only", "permuting_blocks*")
        self.assertEqual(code, 4, out)
        self.assertIn("--mxcheck-candidate no_such_module:x: candidate python:no_such_module:x cannot be imported: ModuleNotFoundError", out)
        self.assertIn("MXCHECK_PYTHON", out)
        code, out = self.pytest("", "--mxcheck-candidate", "gated:rihgt", "--collect-only")
        self.assertEqual(code, 4, out)
        self.assertIn("did you mean 'right'?", out)
        code, out = self.pytest("import mxcheck\ntest_it = mxcheck.pytest_plugin.gate_test('gated:rihgt')\n")
        self.assertEqual(code, 2, out)
        self.assertIn("did you mean 'right'?", out)

    @unittest.skipUnless(importlib.util.find_spec("xdist"), "pytest-xdist is not installed")
    def test_workers_of_xdist_have_one_seed(self):
        code, out = self.pytest(RIGHT + WRONG, "-n", "2", "--dist", "loadgroup")
        self.assertEqual(code, 1, out)
        self.assertRegex(out, "1 failed, 3 passed")
        self.assertEqual(self.pytest(RIGHT, "-n", "2", "--mxcheck-seed", "7")[0], 0)
        _, out = self.pytest(WRONG, "-n", "2")
        head, of_worker = re.search(r"mxcheck: seed (\d+) \(", out), re.search(r"^mxcheck: seed (\d+)$", out, re.MULTILINE)
        self.assertEqual(head.group(1), of_worker.group(1), out)


if __name__ == "__main__":
    unittest.main()
