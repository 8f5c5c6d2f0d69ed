"""Output of mxcheck on a terminal, through a pseudo-terminal: progress that is cleared, and colours that NO_COLOR ends.

terminal_test.py MXCHECK
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest

MXCHECK = sys.argv.pop(1)
GATE = ("gate", "--candidate", "cpu", "--only", "dequantize_e*", "--seed", "1", "--cases", "20000", "--save", "")


def on_a_terminal(*arguments, columns=100, **variables):
    """The exit code, and all that both streams wrote to one terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")} | {"TERM": "xterm"} | variables
    with subprocess.Popen((MXCHECK, *arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    return process.returncode, text.decode()


def on_screen(text):
    """The lines that are left: a carriage return goes back, and letters replace what is there."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = []
        at = 0
        for c in line:
            if c == "\r":
                at = 0
                continue
            shown[at:at + 1] = [c]
            at += 1
        lines.append("".join(shown).rstrip())
    return lines


class Terminal(unittest.TestCase):
    def test_the_gate_shows_how_far_it_is_and_leaves_nothing_of_it(self):
        code, text = on_a_terminal(*GATE, columns=140)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"mxcheck: 0 of 1 statements, dequantize_equals_the_reference: \d+ %, \d+ s, \d+ cases a second, \d+ s left")
        left = on_screen(text)
        self.assertEqual([line for line in left if "statements, deq" in line], [], left)
        self.assertIn("exit code 0: every statement that ran held", left)

    def test_a_narrow_terminal_has_a_shorter_line(self):
        _, text = on_a_terminal(*GATE, columns=30)
        shown = [part for part in text.replace("\n", "\r").split("\r") if re.match(r"mxcheck: .*\d+ %, \d+ s", part)]
        self.assertTrue(shown, text)
        self.assertLessEqual(max(map(len, shown)), 29)
        _, text = on_a_terminal(*GATE, columns=70)
        self.assertRegex(text, r"mxcheck: 0 of 1 .*\.\.\.: \d+ %, \d+ s, \d+ cases a second, \d+ s left")

    def test_verdicts_have_colours_on_a_terminal_alone_and_not_with_no_color(self):
        gate = ("gate", "--candidate", "cpu", "--only", "cast_e*", "--seed", "1", "--cases", "200")
        self.assertIn("\x1b[32mheld\x1b[0m          cast_equals", on_a_terminal(*gate)[1])
        self.assertNotIn("\x1b", on_a_terminal(*gate, NO_COLOR="1")[1])
        self.assertNotIn("\x1b", on_a_terminal(*gate, TERM="dumb")[1])
        self.assertIn("\x1b", on_a_terminal(*gate, NO_COLOR="")[1], "empty is not set")
        answer = subprocess.run((MXCHECK, *gate), capture_output=True, text=True, check=False)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertNotIn("\x1b", answer.stdout)

    def test_json_stays_whole(self):
        code, text = on_a_terminal("gate", "--candidate", "cpu", "--only", "cast_e*", "--seed", "1", "--cases", "200", "--json")
        self.assertEqual(code, 0)
        self.assertEqual(on_screen(text)[0], "{")

    def test_errors_are_one_line(self):
        self.assertEqual(on_a_terminal("gaet"), (2, "mxcheck: error: unknown subcommand 'gaet'; did you mean 'gate'?\r\n"))


if __name__ == "__main__":
    unittest.main()
