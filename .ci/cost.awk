# awk -f cost.awk cost.tsv CCACHE_LOG phases.tsv
#
# A table of the phases of a CI run: wall and CPU seconds, and the CPU seconds that cost.tsv has for a cold or a warm
# compiler cache. Warns where a phase took more than 1.25 times that. With hits and misses both above a tenth, the run was
# neither cold nor warm, and nothing is compared.

function seconds(text) { return text == "-" || text == "" ? "-" : sprintf("%.0f", text) }

BEGIN { FS = "\t" }
FILENAME == ARGV[1] && !/^#/ && NF >= 3 {
  cold[$1] = $2
  warm[$1] = $3
}
FILENAME == ARGV[2] && ($1 == "direct_cache_hit" || $1 == "preprocessed_cache_hit") { hits++ }
FILENAME == ARGV[2] && $1 == "cache_miss" { misses++ }
FILENAME == ARGV[3] {
  if (!($1 in cpu)) order[++phases] = $1
  wall[$1] += $2
  cpu[$1] += $3
}

END {
  calls = hits + misses
  state = calls == 0 ? "unknown" : hits * 10 <= calls ? "cold" : misses * 10 <= calls ? "warm" : "mixed"
  printf "ci: compiler cache: %s, %d hits, %d misses\n", state, hits, misses
  printf "ci: %-10s %9s %9s %9s\n", "seconds", "wall", "CPU", "before"
  for (i = 1; i <= phases; i++) {
    name = order[i]
    before = state == "cold" ? cold[name] : state == "warm" ? warm[name] : "-"
    printf "ci: %-10s %9.0f %9.0f %9s\n", name, wall[name], cpu[name], seconds(before)
    all_wall += wall[name]
    all_cpu += cpu[name]
    if (before + 0 > 0 && cpu[name] > 1.25 * before)
      warnings = warnings sprintf("ci: WARNING: %s took %.0f CPU seconds, %.0f before\n", name, cpu[name], before)
  }
  printf "ci: %-10s %9.0f %9.0f\n%s", "all", all_wall, all_cpu, warnings
}
