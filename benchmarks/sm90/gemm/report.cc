#include "benchmarks/sm90/gemm/report.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "goldens/json/json.h"

namespace mxcheck::bench {
namespace {

std::string quoted(const std::string& text) { return to_text(Json(text), {-1}); }

std::string json_of(const GemmCheck& check) {
  if (!check.offered) return fmt::format("{{\"offered\": false, \"message\": {}}}", quoted(check.message));
  return fmt::format("{{\"offered\": true, \"equal\": {}, \"compared\": {}, \"message\": {}}}", check.equal,
                     check.compared, quoted(check.message));
}

std::string json_of(const GemmResult& r, const GemmTime& t) {
  std::string out = fmt::format(
      "{}: {{\"us\": {:.3f}, \"us_least\": {:.3f}, \"us_most\": {:.3f}, \"tflops\": {:.2f}, \"ratio\": {:.4f}",
      quoted(t.name), t.median, t.least, t.most, r.tflops(t), r.ratio(t));
  for (const auto& [name, algorithm] : r.algorithms) {
    if (name == t.name) out += fmt::format(", \"algorithm\": {}", quoted(algorithm));
  }
  return out + "}";
}

// Names of the peers that have a column, of our rate over theirs.
std::vector<std::string> columns_of(const GemmRun& run) {
  std::vector<std::string> columns{"fp8", "fp8 fast", "fp8 blocks", "bf16", "dense"};
  if (!run.beside.empty()) columns.insert(columns.end(), {kBesideName, kBesideWholeName});
  return columns;
}

}  // namespace

bool GemmResult::wrong() const {
  if (!check.offered) return false;
  const bool dense_wrong = has_dense() && dense.offered && !dense.equal;
  return !check.equal || dense_wrong || (beside && beside->offered && !beside->equal);
}

std::string json_head(const GemmRun& run) {
  return fmt::format(
      "{{\"card\": {}, \"library\": {}, \"cublaslt\": {{\"path\": {}, \"version\": {}, \"message\": {}}}, \"beside\": "
      "{}, \"samples\": {}, \"cases\": [",
      to_line(run.card), quoted(run.library), quoted(run.cublaslt), run.cublaslt_version, quoted(run.cublaslt_message),
      quoted(run.beside), run.samples);
}

std::string json_of(const GemmResult& r) {
  std::string out = fmt::format("{{\"case\": {}, \"m\": {}, \"n\": {}, \"k\": {}, \"check\": {}",
                                quoted(r.request.text()), r.request.m, r.request.n, r.request.k, json_of(r.check));
  if (r.has_dense() && r.check.offered) out += ", \"dense_check\": " + json_of(r.dense);
  if (r.beside) out += ", \"beside_check\": " + json_of(*r.beside);
  if (r.check.offered) out += fmt::format(", \"model_gmacs\": {:.1f}", r.model_gmacs());
  if (std::isfinite(r.distance)) out += fmt::format(", \"cublaslt_blocks_distance\": {:.4e}", r.distance);
  if (!r.times.empty()) {
    out += ", \"times\": {";
    for (const GemmTime& t : r.times) out += (&t == &r.times.front() ? "" : ", ") + json_of(r, t);
    out += "}";
  }
  out += ", \"notes\": [";
  for (std::size_t i = 0; i < r.notes.size(); ++i) out += (i == 0 ? "" : ", ") + quoted(r.notes[i]);
  return out + "]}";
}

std::string json_tail() { return "\n]}\n"; }

std::string text_head(const GemmRun& run) {
  std::string out = to_text(run.card) + "\n";
  out += fmt::format(
      "library {}\ncuBLASLt {}\n", run.library,
      run.cublaslt.empty() ? run.cublaslt_message : fmt::format("{}, {}", run.cublaslt_version, run.cublaslt));
  if (!run.beside.empty()) {
    out += fmt::format(
        "beside it {}: its kernel alone, and the whole call with its change of layouts; its outputs are compared with "
        "ours\n",
        run.beside);
  }
  out += fmt::format(
      "Times of one call, medians of {}; then our rate over that of cuBLASLt, of our own dense GEMM{}, and theirs in "
      "TFLOPS. The model: billions of products a second in the check of all outputs.\n",
      run.samples, run.beside.empty() ? "" : " and of the library beside ours");
  out += fmt::format("{:<62} {:>9} {:>19} {:>7}", "case, m x n x k", "us", "least-most", "TFLOPS");
  for (const std::string& column : columns_of(run)) out += fmt::format(" {:>13}", column);
  return out + fmt::format(" {:>11}\n", "model GMAC/s");
}

std::string text_of(const GemmRun& run, const GemmResult& r) {
  std::string out = fmt::format("{:<62}", r.request.text());
  if (!r.check.offered) {
    return out + fmt::format(" not offered{}\n", r.check.message.empty() ? "" : ": " + r.check.message);
  }
  const GemmTime& ours = r.times.front();
  out += fmt::format(" {:>9.2f} {:>9.2f}-{:<9.2f} {:>7.1f}", ours.median, ours.least, ours.most, r.tflops(ours));
  for (const std::string& column : columns_of(run)) {
    const auto t = std::ranges::find(r.times, column, &GemmTime::name);
    out += fmt::format(" {:>13}", t == r.times.end() ? "-" : fmt::format("{:.3f} ({:.0f})", r.ratio(*t), r.tflops(*t)));
  }
  out += fmt::format(" {:>11.1f}{}\n", r.model_gmacs(), r.check.equal ? "" : "  WRONG: " + r.check.message);
  if (r.has_dense() && r.check.equal && r.dense.offered && !r.dense.equal) {
    out += fmt::format("    the dense GEMM is WRONG: {}\n", r.dense.message);
  }
  if (r.beside && !r.beside->offered && !r.beside->message.empty()) {
    out += fmt::format("    beside: not offered: {}\n", r.beside->message);
  }
  if (r.beside && r.beside->offered && !r.beside->equal) {
    out += fmt::format("    beside: DIFFERS from ours: {}\n", r.beside->message);
  }
  for (const std::string& note : r.notes) out += fmt::format("    {}\n", note);
  return out;
}

GemmCheck compare_outputs(const GemmRequest& r, std::span<const std::byte> ours, std::span<const std::byte> other) {
  const std::size_t width = r.accumulates() ? 4 : 2;
  const std::size_t row_bytes = static_cast<std::size_t>(r.n) * width;
  const std::size_t rows = ours.size() / row_bytes;
  const std::size_t capacity = r.is_masked() ? static_cast<std::size_t>(r.m / r.experts) : 0;
  GemmCheck result;
  if (ours.size() != other.size() || ours.empty()) {
    result.message = fmt::format("outputs of {} and {} bytes", ours.size(), other.size());
    return result;
  }
  std::uint64_t differing = 0;
  std::string first;
  const auto word = [&](std::span<const std::byte> of, std::size_t at) {
    std::uint32_t bits = 0;  // little-endian, as the device is
    std::memcpy(&bits, of.data() + at, width);
    return bits;
  };
  for (std::size_t row = 0; row < rows; ++row) {
    if (capacity != 0 && row % capacity >= static_cast<std::size_t>(r.rows)) continue;
    result.compared += static_cast<std::uint64_t>(r.n);
    const std::size_t begin = row * row_bytes;
    if (std::memcmp(ours.data() + begin, other.data() + begin, row_bytes) == 0) continue;
    for (std::size_t at = begin; at < begin + row_bytes; at += width) {
      if (word(ours, at) == word(other, at)) continue;
      if (differing++ != 0) continue;
      first = fmt::format("row {} column {}: ours {:0{}x}, theirs {:0{}x}", row, (at - begin) / width, word(ours, at),
                          2 * width, word(other, at), 2 * width);
    }
  }
  result.equal = differing == 0;
  if (!result.equal) {
    result.message = fmt::format("{} of {} outputs differ, first at {}", differing, result.compared, first);
  }
  return result;
}

}  // namespace mxcheck::bench
