#!/usr/bin/env python3
"""How right is the time left that the program shows? Runs commands on a terminal and compares each estimate with the time that was left.

  progress.py [--tool build/release/bin/mxcheck] COMMAND...      each COMMAND is one argument: 'gate --candidate cpu --seed 1'

For each command it prints the estimates that were shown nearest to a quarter, half and three quarters of the run, and their errors as shares of
what was really left. Run it on an idle machine.
"""

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import termios
import time

LEFT = re.compile(r"mxcheck: .*?(?:, |: )(?:(\d+) h (\d+) min|(\d+) min (\d+) s|(\d+) s) left")


def seconds(match):
    hours, minutes_of_hours, minutes, seconds_of_minutes, alone = (int(part) if part else 0 for part in match.groups())
    return hours * 3600 + minutes_of_hours * 60 + minutes * 60 + seconds_of_minutes + alone


def watched(command):
    """The seconds that a command took, and (seconds since its start, seconds left) as it showed them."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    begun, shown, text = time.monotonic(), [], ""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the program has ended
                break
            if not data:
                break
            text = data.decode(errors="replace")
            found = list(LEFT.finditer(text))
            if found:
                shown.append((time.monotonic() - begun, seconds(found[-1]), text.strip()))
    os.close(ours)
    return time.monotonic() - begun, shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    parser.add_argument("--tool", default="build/release/bin/mxcheck")
    parser.add_argument("--lines", action="store_true", help="print every line that was shown")
    options = parser.parse_args()
    for command in options.commands:
        took, shown = watched([options.tool, *shlex.split(command)])
        print(f"{command}: {took:.1f} s, {len(shown)} estimates", flush=True)
        for share in (0.25, 0.5, 0.75):
            if not shown:
                break
            at, left, _ = min(shown, key=lambda one: abs(one[0] - share * took))
            really = took - at
            print(f"  at {100 * at / took:3.0f} %: {left:4d} s left, really {really:6.1f} s: {100 * (left - really) / really:+.0f} %", flush=True)
        if options.lines:
            for at, left, text in shown:
                print(f"    {at:6.1f} s  left {left:4d}  really {took - at:6.1f}  {text}")


if __name__ == "__main__":
    main()
