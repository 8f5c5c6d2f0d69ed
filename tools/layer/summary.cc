#include "tools/layer/summary.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "goldens/io/sha256.h"
#include "numerics/format/codec.h"
#include "tools/common/json.h"

namespace mxcheck {
namespace {

constexpr std::size_t kPrefix = 12;

// The element as a number, whatever it is stored as.
double element(const LayerTensor& t, const std::optional<Format>& format, std::size_t i) {
  std::uint64_t bits = 0;
  const std::size_t width = size_of(t.dtype);
  std::memcpy(&bits, t.data.data() + i * width, width);
  if (t.dtype == Dtype::i32) return static_cast<std::int32_t>(bits);
  if (t.dtype == Dtype::i64) return static_cast<double>(static_cast<std::int64_t>(bits));
  return format ? decode(*format, static_cast<std::uint32_t>(bits)) : static_cast<double>(bits);
}

}  // namespace

TensorSummary summary_of(const LayerTensor& t) {
  TensorSummary s;
  const std::optional<Format> format = find_format(t.format);
  double least = std::numeric_limits<double>::infinity();
  const std::size_t count = t.data.size() / size_of(t.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = element(t, format, i);
    if (std::isnan(value)) {
      ++s.nans;
      continue;
    }
    least = std::min(least, std::abs(value));
    s.max_abs = std::max(s.max_abs, std::abs(value));
  }
  if (s.nans < static_cast<std::int64_t>(count)) s.min_abs = least;
  s.sha256 = sha256(t.data);
  return s;
}

std::string summary_text(const std::vector<LayerTensor>& tensors) {
  constexpr const char* kRow = "{:<16} {:<16} {:<15} {:<14} {:>11} {:>11} {:>6}  {}\n";
  std::string text = fmt::format(kRow, "step", "tensor", "shape", "format", "min |x|", "max |x|", "NaN", "SHA-256");
  for (const LayerTensor& t : tensors) {
    const TensorSummary s = summary_of(t);
    text += fmt::format(kRow, t.step, t.name, shape_to_text(t.shape), t.format, fmt::format("{:.5g}", s.min_abs),
                        fmt::format("{:.5g}", s.max_abs), s.nans, s.sha256.substr(0, kPrefix));
  }
  return text;
}

Json summary_json(const std::vector<LayerTensor>& tensors) {
  Json rows = Json::array();
  for (const LayerTensor& t : tensors) {
    const TensorSummary s = summary_of(t);
    rows.push_back({{"step", t.step},
                    {"tensor", t.name},
                    {"shape", t.shape},
                    {"format", t.format},
                    {"min_abs", json_number(s.min_abs)},
                    {"max_abs", json_number(s.max_abs)},
                    {"nan", s.nans},
                    {"sha256", s.sha256}});
  }
  return rows;
}

}  // namespace mxcheck
