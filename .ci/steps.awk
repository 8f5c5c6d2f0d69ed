# awk -v since=SECONDS -v cpu=SECONDS -f steps.awk .ninja_log
#
# The steps of builds since that time (of the epoch): seconds by folder, and the 20 that took longest. Ninja writes down
# how long a step ran. The CPU seconds of all steps, which the caller measured, are divided in the same proportion.

function folder_of(path,    parts, n) {
  gsub(/CMakeFiles\/[^\/]*\.dir\//, "", path)
  n = split(path, parts, "/")
  return n > 2 ? parts[1] "/" parts[2] : n == 2 ? parts[1] : "."
}

# Sorts the keys of an array by falling value into `order`.
function by_value(values, order,    key, n, i) {
  n = 0
  for (key in values) {
    for (i = ++n; i > 1 && values[order[i - 1]] < values[key]; i--) order[i] = order[i - 1]
    order[i] = key
  }
  return n
}

# start, end (ms), time of the output (ns), output, hash of the command. A step with several outputs has several lines.
/^#/ || NF < 4 || $3 / 1e9 < since { next }
($1, $2, $NF) in seen { next }
{
  seen[$1, $2, $NF] = 1
  took = ($2 - $1) / 1000
  step[$4] = took
  seconds[folder_of($4)] += took
  steps[folder_of($4)]++
  total += took
  count++
}

END {
  if (!count) {
    print "run: no step was to be done"
    exit
  }
  printf "run: %d steps, %.1f seconds of steps, %.1f of CPU\n", count, total, cpu
  share = total > 0 ? cpu / total : 0
  printf "run: %6s %9s %9s  folder\n", "steps", "seconds", "CPU, est."
  n = by_value(seconds, order)
  for (i = 1; i <= n; i++)
    printf "run: %6d %9.1f %9.1f  %s\n", steps[order[i]], seconds[order[i]], seconds[order[i]] * share, order[i]
  print "run: the dearest steps"
  n = by_value(step, dearest)
  for (i = 1; i <= n && i <= 20; i++) printf "run: %9.1f  %s\n", step[dearest[i]], dearest[i]
}
