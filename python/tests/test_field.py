"""The table of field/: its lines, and what a claim gives that holds, fails, cannot run, or whose time is up."""

import importlib.util
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import mxcheck  # noqa: E402
from field import __main__ as table  # noqa: E402
from field.runs import Claim, run  # noqa: E402


def claim(name="right", of="te"):
    return Claim("gated", name, "gated." + name, of, "quantize")


class Runs(unittest.TestCase):
    def run_claim(self, name, timeout=60, minutes=1):
        """As a claim of a module of the tests."""
        gate = mxcheck.gate
        with mock.patch("mxcheck.gate", lambda spec, **options: gate(spec.replace("field.", "", 1), **options)):
            return run(claim(name), time.monotonic() + 60 * minutes, timeout, 1)

    def test_what_holds(self):
        result = self.run_claim("right")
        self.assertEqual(result.word, "holds", result.detail)
        self.assertGreater(result.cases, 1000)

    def test_what_fails_is_told_in_short(self):
        result = self.run_claim("wrong_in_the_last_code")
        self.assertEqual(result.word, "FAILS")
        for text in ("codes differ from the reference", "expected 0x00", "1 of 41 of codes", "`op=quantize"):
            self.assertIn(text, result.detail)
        self.assertNotIn("|", result.detail)

    def test_what_cannot_run(self):
        result = self.run_claim("nothing")
        self.assertEqual(result.word, "cannot run")
        self.assertIn("has no nothing", result.detail)

    def test_a_hang_does_not_take_the_tables_time(self):
        begin = time.monotonic()
        result = self.run_claim("sleeps", timeout=4)
        self.assertIn(result.word, ("crashes", "inconclusive", "cannot run"), result)
        self.assertLess(time.monotonic() - begin, 20)

    def test_nothing_is_begun_when_the_time_is_up(self):
        self.assertEqual(self.run_claim("right", minutes=0).word, "not run")


class Lines(unittest.TestCase):
    def row(self, *words):
        results = [table.Result(claim(of=f"recipe{i}"), word, 10, f"detail {i}", "torch 2") for i, word in enumerate(words)]
        return table._row("a.kernel", results)

    def test_of_what_holds(self):
        row = self.row("FAILS", "holds")
        self.assertEqual(row[:4], ["a.kernel", "torch 2", "recipe0; recipe1", "**holds** as recipe1 (10 cases)"])
        self.assertEqual(row[4], "recipe0: detail 0")

    def test_of_what_does_not(self):
        self.assertEqual(self.row("FAILS", "FAILS")[3], "no known one")
        self.assertEqual(self.row("FAILS")[3], "does not hold")
        self.assertEqual(self.row("FAILS", "not run")[3], "not known: recipe0 FAILS, recipe1 not run")
        self.assertEqual(self.row("cannot run")[3], "cannot run")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_kernels_are_listed(self):
        done = subprocess.run([sys.executable, "-m", "field", "--list", "--only", "[cr]*"], cwd=ROOT, capture_output=True, text=True, check=False,
                              env=dict(os.environ, FIELD_DEVICE="cpu", PYTHONPATH=str(ROOT / "python")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"casts.eager_e4m3 +nearest even, saturating\n")
        self.assertRegex(done.stdout, r"routers.topk_then_softmax +topk-softmax\n")


if __name__ == "__main__":
    unittest.main()
