#!/bin/sh
# gate.sh LIBRARY [OPTIONS OF mxcheck gate]: a Bazel test with the exit code of the gate, by the installed tool that
# MXCHECK names or that is on the PATH. Test logs get JUnit's file, outputs.zip the page and the cases that failed.
set -eu
library=$1
shift
outputs=${TEST_UNDECLARED_OUTPUTS_DIR:-.}
PATH=$(dirname "${MXCHECK:-/usr/bin/mxcheck}"):$PATH
mxcheck gate --candidate "$library" --seed 1 --shard bazel --junit "${XML_OUTPUT_FILE:-gate.xml}" --html "$outputs/gate.html" --report "$outputs/gate.json" --save "$outputs/mxcheck-cases" "$@"
