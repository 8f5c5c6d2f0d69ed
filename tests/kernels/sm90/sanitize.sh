#!/usr/bin/env bash
# usage: sanitize.sh BIN LIBRARY OUT: the four tools of compute-sanitizer on a machine with a Hopper GPU. Every kernel runs on
# reduced shapes, checked against the reference (mxcheck_sm90_bench --quick); memcheck also on a gate of few cases. The GEMMs and
# the routers, the steps of a layer and whole layers, libmxcheck_sm90_gemm.so, _route.so, _layer.so and _moe.so beside LIBRARY, run under
# gates of few cases, all four tools; so do steps of training, by their tests.
set -euo pipefail
bin=$1
library=$2
out=$3
command -v compute-sanitizer >/dev/null || { echo "sanitize.sh: no compute-sanitizer (CUDA Toolkit) in PATH" >&2; exit 3; }

status=0
for tool in memcheck racecheck initcheck synccheck; do
  log="$out/sanitize_$tool.txt"
  if compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/mxcheck_sm90_bench" --library "$library" --quick --samples 1 \
    >"$log" 2>&1; then
    verdict=clean
  else
    verdict=FAILED status=1
  fi
  printf '%-9s %-6s kernels of %s cases; %s\n' "$tool" "$verdict" "$(grep -cE '^(quantize|dequantize)' "$log")" \
    "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')"
done
log="$out/sanitize_gate.txt"
if compute-sanitizer --tool memcheck --target-processes all --error-exitcode 9 "$bin/mxcheck" gate --candidate "$library" \
  --only '*_equals_the_reference' --cases 60 --seed 1 --time-limit 600 --save '' >"$log" 2>&1; then
  verdict=clean
else
  verdict=FAILED status=1
fi
printf 'memcheck  %-6s the gate: %s\n' "$verdict" "$(grep -E '^[0-9]+ statements' "$log")"
gate() { # NAME OF THE LIBRARY, STATEMENTS, CASES
  local tool log verdict
  for tool in memcheck racecheck initcheck synccheck; do
    log="$out/sanitize_$1_$tool.txt"
    if compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$bin/mxcheck" gate \
      --candidate "$(dirname -- "$library")/libmxcheck_sm90_$1.so" --only "$2" --cases "$3" --seed 1 --time-limit 600 --save '' \
      >"$log" 2>&1; then
      verdict=clean
    else
      verdict=FAILED status=1
    fi
    printf '%-9s %-6s %s: %s; %s\n' "$tool" "$verdict" "$1" "$(grep -E '^[0-9]+ statements' "$log")" \
      "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')"
  done
}
gate gemm 'matmul_of_small*' 60
gate route 'route_*_equals_the_reference' 40
gate layer '*_equals_the_reference' 200
gate moe 'moe_*_equals_the_reference' 60
for tool in memcheck racecheck initcheck synccheck; do
  log="$out/sanitize_train_$tool.txt"
  if compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/sm90_train_test" \
    --gtest_filter='*few_tokens*:*sizes_between*:*not_finite*' >"$log" 2>&1; then
    verdict=clean
  else
    verdict=FAILED status=1
  fi
  printf '%-9s %-6s training steps; %s\n' "$tool" "$verdict" \
    "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')"
done
exit "$status"
