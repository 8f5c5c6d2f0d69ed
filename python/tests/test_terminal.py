"""mxcheck.gate on a terminal: progress while it runs, a line at the end; off a terminal, nothing but what the program says."""

import os
import pty
import subprocess
import sys
import threading
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
GATE = "import gated, mxcheck\nprint(repr(mxcheck.gate(gated.{}, seed=1, only={!r}, first_call_limit=60)))\n"


def run(text, on_a_terminal):
    """Exit code, standard output and standard error of Python on a text."""
    environment = dict(os.environ, PYTHONPATH=f"{HERE}:{HERE.parent}", PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1")
    command = [sys.executable, "-c", text]
    if not on_a_terminal:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    shown = []

    def read():
        try:
            while True:
                shown.append(os.read(ours, 4096))
        except OSError:  # the program has ended
            pass

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        out = process.communicate(timeout=120)[0].decode()
        reader.join(10)
    os.close(ours)
    return process.returncode, out, b"".join(shown).decode()


class Terminal(unittest.TestCase):
    def test_progress_is_seen_there(self):
        code, out, shown = run(GATE.format("sleeps_when_it_compiles", "permuting_blocks*"), True)
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, r"mxcheck: .*, \d+ s")
        self.assertRegex(out, r"^<mxcheck.Report of \w+: held: 1 statements, [\d,]+ cases, [\d.]+ s>\n$")

    def test_nothing_elsewhere(self):
        code, out, shown = run(GATE.format("sleeps_when_it_compiles", "permuting_blocks*"), False)
        self.assertEqual((code, shown), (0, ""), out)

    def test_a_failure_ends_with_its_cause(self):
        code, out, _ = run(GATE.format("wrong_in_the_last_code", "quantize_eq*"), True)
        self.assertEqual(code, 0)
        self.assertRegex(out, r": FAILED: 1 of 1 statements failed, .*; quantize_equals_the_reference: codes differ from the reference>\n$")

    def test_errors_are_the_same(self):
        for on_a_terminal in (False, True):
            code, _, shown = run("import mxcheck\nmxcheck.gate('gated:dies@0', seed=1, only='quantize_eq*', configs=None)\n", on_a_terminal)
            self.assertEqual(code, 1)
            self.assertIn("UsageError: candidate python:gated:dies@0 has no configuration 0", shown.replace("\r\n", "\n"))


if __name__ == "__main__":
    unittest.main()
