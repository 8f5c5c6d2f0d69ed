#!/usr/bin/env bash
# run_test.sh SOURCE WORK: `run` in a copy of the tree's top whose path has a space, on a machine made of stubs that
# write down what they are called with.
set -euo pipefail
source=$1
work=$2
rm -rf -- "$work"
tree="$work/a tree"
stubs="$work/stubs"
calls="$work/calls"
mkdir -p -- "$tree" "$stubs"
cp -R -- "$source/run" "$source/.ci" "$source/packages.txt" "$source/CMakePresets.json" "$tree/"

# Tools that a machine with coreutils has, and nothing else.
for tool in bash sed grep cat rm mkdir dirname env sort tail xargs head tr touch chmod printf awk find wc cp; do
  ln -s -- "$(type -P "$tool")" "$stubs/$tool"
done

# stub NAME BODY
stub() {
  printf '#!/usr/bin/env bash\nprintf "%%s\n" "%s $*" >>"$CALLS"\n%s\n' "$1" "$2" >"$stubs/$1"
  chmod +x "$stubs/$1"
}

# Every package is there unless MISSING names it; a stub cmake makes what the real one would.
stub dpkg-query 'for last; do :; done; [[ " ${MISSING:-} " != *" $last "* ]] || exit 1; printf installed'
stub apt-get 'exit "${APT_STATUS:-0}"'
stub sudo '[[ $1 != -n ]] || exit "${SUDO_STATUS:-0}"; exec "$@"'
stub cmake 'case "$*" in
  *--preset*) printf "CMAKE_HOME_DIRECTORY:INTERNAL=%s\n" "$PWD" >build/release/CMakeCache.txt
              touch build/release/build.ninja
              exit "${CONFIGURE_STATUS:-0}" ;;
  *--build*) [[ -z ${NINJA_LOG:-} ]] || printf "%b" "$NINJA_LOG" >"$2/.ninja_log"
             exit "${BUILD_STATUS:-0}" ;;
esac'
stub ctest '[[ -z ${CTEST_XML:-} ]] || { mkdir -p "$2/tests/results"; printf "%b" "$CTEST_XML" >"$2/ctest.xml"; }
[[ -z ${CASES_XML:-} ]] || printf "%b" "$CASES_XML" >"$2/tests/results/a.Of-Many.xml"
exit "${TEST_STATUS:-0}"'
mkdir -p -- "$tree/build/release/bin"
for program in mxcheck mxcheck-gate mxcheck_bench; do
  stub "$program" 'exit "${PROGRAM_STATUS:-0}"'
  mv -- "$stubs/$program" "$tree/build/release/bin/"
done

failures=0
# expect STATUS TEXT [NAME=VALUE...] -- ARGUMENTS: run's exit status, and a text among its calls, output and messages
expect() {
  local status=$1 text=$2 settings=() got=0
  shift 2
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  : >"$calls"
  (cd / && env -i PATH="$stubs" CALLS="$calls" "${settings[@]}" "$tree/run" "$@") >"$work/output" 2>&1 </dev/null || got=$?
  if [[ $got != "$status" ]] || ! grep -qF -- "$text" "$work/output" "$calls"; then
    failures=$((failures + 1))
    printf 'FAILED: run %s (%s)\n  exit %s, not %s, or no "%s" in:\n' "$*" "${settings[*]-}" "$got" "$status" "$text"
    cat -- "$work/output" "$calls"
  fi
}

# refuse TEXT: the last run neither said nor called it
refuse() {
  if grep -qF -- "$1" "$work/output" "$calls"; then
    failures=$((failures + 1))
    printf 'FAILED: "%s" was not to be in:\n' "$1"
    cat -- "$work/output" "$calls"
  fi
}

# The gate: defaults, and a user who knows better.
expect 0 'cmake --preset release' -- gate
refuse 'apt-get'
expect 0 'mxcheck-gate gate --candidate cpu --suite quick' -- gate
refuse '--preset'
expect 0 'mxcheck-gate gate --suite quick --candidate x.so' -- gate --candidate x.so
expect 0 'mxcheck-gate gate --candidate cpu --suite=full --only a*b' -- gate --suite=full --only 'a*b'
expect 1 'mxcheck-gate gate' PROGRAM_STATUS=1 -- gate
expect 70 'mxcheck-gate gate' PROGRAM_STATUS=70 -- gate
expect 1 'the build failed' BUILD_STATUS=1 -- gate
expect 0 '--target mxcheck-gate mxcheck_cpu' -- gate

# The tool: built and run, every argument as it is, in the folder that the user is in.
expect 0 '--target mxcheck' -- mxcheck --version
expect 0 'mxcheck --version' -- mxcheck --version
expect 0 'mxcheck quantize a b.npy -o *.h5' -- mxcheck quantize 'a b.npy' -o '*.h5'
refuse '--preset'
expect 5 'mxcheck golden show' PROGRAM_STATUS=5 -- mxcheck golden show
expect 1 'the build failed' BUILD_STATUS=1 -- mxcheck --version
expect 0 'mxcheck ARGUMENTS...' -- help
# Where only the gate's program was built, it is enough for its three subcommands.
expect 0 '--target mxcheck' -- mxcheck replay a.h5
mv -- "$tree/build/release/bin/mxcheck" "$work/"
expect 0 '--target mxcheck-gate' -- mxcheck replay a.h5
expect 0 'mxcheck-gate merge 1.json' -- mxcheck merge 1.json
mv -- "$work/mxcheck" "$tree/build/release/bin/"
# Its standard output is the tool's alone: what the build says goes elsewhere.
output=$(cd / && env -i PATH="$stubs" CALLS="$calls" "$tree/run" mxcheck --version 2>/dev/null)
[[ -z $output ]] || { failures=$((failures + 1)); printf 'FAILED: run mxcheck printed "%s"\n' "$output"; }

# Tests: labels, the rest to ctest, no success without tests.
expect 0 '-L ^(quick)$ --output-on-failure --no-tests=error -j 2' -- test
expect 0 '-L ^(quick|exhaustive)$' -- test exhaustive
expect 0 '-R Codec' -- test -R Codec
expect 0 'ctest --test-dir' -- test all
refuse '-L ^'
expect 8 'ctest' TEST_STATUS=8 -- test
# Cases are counted: those of a file of results, and one for each process without one.
processes='<testcase name="a.Of/Many" status="run">\n<testcase name="python.x" status="run">\n<testcase name="b" status="fail">\n'
cases='<testsuites tests="1200" failures="0" errors="0">\n<testcase name="x" result="skipped">\n'
expect 0 'run: 1,202 cases in 3 processes: 1 failed, 1 skipped' CTEST_XML="$processes" CASES_XML="$cases" -- test
expect 8 'run: 3 cases in 3 processes: 1 failed, 0 skipped' CTEST_XML="$processes" TEST_STATUS=8 -- test
for phase in packages configure compile test; do
  expect 0 "run:   $phase" -- test
done
expect 0 'clang-format 14 is not installed' -- test
# A browser for the pages, where it can be had; the gate needs none.
if ((EUID == 0)) && grep -qsx 'ID=debian' /etc/os-release; then
  expect 0 'apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends chromium' MISSING=chromium -- test
  expect 0 'going on without chromium' MISSING=chromium APT_STATUS=100 -- test
  expect 0 'ctest' MISSING=chromium MXCHECK_PACKAGES=skip -- test
  refuse 'apt-get'
  expect 0 'cmake' MISSING=chromium -- gate
  refuse 'apt-get'
fi
expect 0 'mxcheck_bench --benchmark_filter=x' -- bench --benchmark_filter=x

# Set-up: what is missing is installed, as root or by sudo, or named.
sudo_name=''
((EUID == 0)) || sudo_name='sudo '
expect 0 "apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends cmake g++" MISSING='g++ cmake' -- build
expect 0 "apt-get -qq -o Dpkg::Use-Pty=0 update" MISSING='cmake' -- build
((EUID == 0)) || expect 0 "${sudo_name}env DEBIAN_FRONTEND=noninteractive" MISSING='cmake' -- build
expect 3 'apt-get install --no-install-recommends cmake g++' MISSING='g++ cmake' APT_STATUS=100 -- build
((EUID == 0)) || expect 3 'only root can install them' MISSING='g++' SUDO_STATUS=1 -- build
expect 0 '--build' MISSING='g++' MXCHECK_PACKAGES=skip -- build
refuse 'apt-get'
mv -- "$stubs/dpkg-query" "$work/"
expect 3 'this is no Debian or Ubuntu' -- test
mv -- "$work/dpkg-query" "$stubs/"

# Configuring: again when the presets are newer or the tree was moved; a failure is shown and not remembered.
touch -d 'next hour' -- "$tree/CMakePresets.json"
expect 0 '--preset release' -- build
touch -d 'last year' -- "$tree/CMakePresets.json"
expect 0 '--build' -- build
refuse '--preset'
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n' >"$tree/build/release/CMakeCache.txt"
expect 0 '--preset release' -- build
rm -- "$tree/build/release/build.ninja"
expect 1 'cmake --preset release failed' CONFIGURE_STATUS=1 -- build
expect 0 '--preset release' -- build

# A build's timings: the steps since its start, once each, however many outputs they have.
log='# ninja log v5\n0\t9000\t1\told/a/b.o\tf\n'
log+='0\t3000\t9000000000000000000\tkernels/CMakeFiles/x.dir/sm90/a/b.cu.o\ta\n'
log+='0\t1000\t9000000000000000000\tlib/one.so\tb\n0\t1000\t9000000000000000000\tlib/two.so\tb\n'
expect 0 'run: 2 steps, 4.0 seconds of steps' NINJA_LOG="$log" -- build --timings mxcheck
expect 0 '--target mxcheck' -- build --timings mxcheck
grep -qE '^run: +1 +3\.0 +[0-9.]+  kernels/sm90$' "$work/output" ||
  { failures=$((failures + 1)); printf 'FAILED: no line of kernels/sm90 in:\n'; cat -- "$work/output"; }
expect 1 'the build failed' BUILD_STATUS=1 -- build --timings

# clang-tidy of what changed: also if the oldest change is a header that no .cc includes.
stub git 'case "$*" in
  *rev-parse*) printf "0123456789abcdef\n" ;;
  *ls-files*) printf "a.cc\0b.cc\0" ;;
  *log*) printf "a.cc\nkernel.h\n" ;;
  *grep*) exit 1 ;;
esac'
stub clang-tidy-14 'exit "${TIDY_STATUS:-0}"'
mkdir -p -- "$tree/build/release_tidy"
printf '"file": "%s/a.cc"\n"file": "%s/b.cc"\n' "$tree" "$tree" >"$tree/build/release_tidy/compile_commands.json"
touch -- "$tree/a.cc" "$tree/b.cc"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$tree" >"$tree/build/release_tidy/CMakeCache.txt"
touch -- "$tree/build/release_tidy/build.ninja"
expect 0 '--warnings-as-errors=* a.cc' -- tidy --since HEAD~1
refuse '--warnings-as-errors=* b.cc'
expect 1 'clang-tidy has findings' TIDY_STATUS=1 -- tidy --since HEAD~1
rm -- "$stubs/git" "$stubs/clang-tidy-14"

# Requests that mean nothing.
expect 2 '--budget takes seconds' -- tidy --budget soon
expect 2 "tidy takes --since and --budget, not '--all'" -- tidy --all
expect 0 'usage: ./run' -- help
expect 0 'usage: ./run' --
expect 2 "no command 'tests'" -- tests
expect 2 "format takes --check or nothing, not '--chek'" -- format --chek
expect 2 "no preset '../x'" MXCHECK_PRESET=../x -- build

printf '%s failures\n' "$failures"
((failures == 0))
