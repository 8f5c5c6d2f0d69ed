#include "benchmarks/sm90/moe/report/comparison.h"

#include <fmt/format.h>

namespace mxcheck::bench {
namespace {

std::string difference(const ModelComparison& c) {
  const MxcheckGpuModelReport& r = c.report;
  const auto rows = static_cast<std::uint64_t>(c.m);
  const auto columns = static_cast<std::uint64_t>(c.n);
  const std::uint64_t row = r.first / columns;
  const std::string matrix = c.outputs == rows * columns ? "" : fmt::format("expert {} ", row / rows);
  return fmt::format("first at {}row {} column {}: expected {:08x}, observed {:08x}", matrix, row % rows,
                     r.first % columns, r.expected, r.observed);
}

}  // namespace

bool ModelComparison::equal() const {
  return report.compared == outputs && report.differing == 0 && report.bad_offsets == 0 && report.bad_rows == 0;
}

std::string comparison_head() {
  return fmt::format("{:<9} {:<10} {:>13} {:>13} {:>11} {:>9} {:>9}\n", "pass", "step", "outputs", "compared",
                     "differing", "seconds", "GMAC/s");
}

std::string comparison_line(const ModelComparison& c) {
  std::string line =
      fmt::format("{:<9} {:<10} {:>13} {:>13} {:>11} {:>9.4f} {:>9.1f}", to_text(c.direction), c.step, c.outputs,
                  c.report.compared, c.report.differing, c.seconds, static_cast<double>(c.products) / c.seconds / 1e9);
  if (c.report.bad_offsets != 0) line += "  BAD OFFSETS";
  if (c.report.bad_rows != 0) line += "  BAD ROWS";
  if (c.report.compared != c.outputs) line += "  NOT ALL COMPARED";
  if (c.report.differing != 0) line += "  DIFFERS, " + difference(c);
  return line + '\n';
}

}  // namespace mxcheck::bench
