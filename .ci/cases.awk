# awk -v seconds=N -f cases.awk ctest.xml tests/results/*.xml
#
# One line of how many cases ran in how many processes. A process of GoogleTest has a file of its name with its cases; any
# other test of CTest, and a process that ended before it wrote the file, counts as one case.

function attribute(line, name,    at) {
  at = index(line, " " name "=\"")
  if (!at) return ""
  line = substr(line, at + length(name) + 3)
  return substr(line, 1, index(line, "\"") - 1)
}

function thousands(n,    text) {
  for (text = ""; n >= 1000; n = int(n / 1000)) text = sprintf(",%03d", n % 1000) text
  return n text
}

FNR == 1 { files++ }

files == 1 && /<testcase / {
  name = attribute($0, "name")
  gsub("/", "-", name)
  status[name] = attribute($0, "status")
  processes++
}

files > 1 && FNR == 1 {
  name = FILENAME
  sub(/^.*\//, "", name)
  sub(/\.xml$/, "", name)
  has_cases[name] = 1
}
files > 1 && /<testsuites / {
  cases += attribute($0, "tests")
  failed_here[name] = attribute($0, "failures") + attribute($0, "errors")
  failed += failed_here[name]
}
files > 1 && /<testcase / && attribute($0, "result") == "skipped" { skipped++ }

END {
  for (name in status) {
    if (!(name in has_cases)) {
      cases++
      if (status[name] == "fail") failed++
      else if (status[name] != "run") skipped++
    } else if (status[name] == "fail" && !failed_here[name]) {
      failed++  # at the end, when the cases had passed
    }
  }
  printf "run: %s cases in %s processes: %s failed, %s skipped; %d s\n", thousands(cases + 0), thousands(processes + 0),
         thousands(failed + 0), thousands(skipped + 0), seconds
}
