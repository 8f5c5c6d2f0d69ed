#pragma once
// Measurements of a GEMM, and how they are printed: as a row of a table or as JSON. Without CUDA.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/sm90/common/card.h"
#include "benchmarks/sm90/gemm/request.h"

namespace mxcheck::bench {

struct GemmCheck {
  bool offered = true;  // run may refuse what supports() was not asked
  bool equal = false;
  std::uint64_t compared = 0;
  double model_seconds = 0;  // that the GPU model took for all outputs
  std::string message;       // what differs or why it is not offered
};

// Microseconds of one call.
struct GemmTime {
  std::string name;
  double median = 0;
  double least = 0;
  double most = 0;
};

// Names of the times of the library beside ours: of its kernel alone where it tells its change of layouts from it, and
// of the whole call.
inline constexpr const char* kBesideName = "beside";
inline constexpr const char* kBesideWholeName = "beside, whole";

struct GemmResult {
  GemmRequest request;
  GemmCheck check;
  GemmCheck dense;                                              // of groups: our dense GEMM
  std::optional<GemmCheck> beside;                              // with another library: against our outputs
  std::vector<GemmTime> times;                                  // ours first; empty where nothing was timed
  std::vector<std::pair<std::string, std::string>> algorithms;  // of cuBLASLt
  std::vector<std::string> notes;
  // The ratio of cuBLASLt's blocks to our dense GEMM.
  double distance = std::numeric_limits<double>::quiet_NaN();

  [[nodiscard]] double tflops(const GemmTime& t) const { return request.operations() / t.median / 1e6; }
  // The rate of the GPU model, in the check: billions of products a second.
  [[nodiscard]] double model_gmacs() const { return request.operations() / 2e9 / check.model_seconds; }
  // Our rate over another's.
  [[nodiscard]] double ratio(const GemmTime& t) const { return t.median / times.front().median; }
  [[nodiscard]] bool has_dense() const { return request.grouping != MXCHECK_DENSE && !request.is_masked(); }
  [[nodiscard]] bool wrong() const;
};

// The facts that all cases of a run share.
struct GemmRun {
  Card card;
  std::string library;
  std::string cublaslt;  // its path, or ""
  std::size_t cublaslt_version = 0;
  std::string cublaslt_message;  // why there is none
  std::string beside;            // the name of the library beside ours, or ""
  int samples = 0;
};

// JSON is a head, results with commas in between, and a tail.
std::string json_head(const GemmRun& run);
std::string json_of(const GemmResult& result);
std::string json_tail();

std::string text_head(const GemmRun& run);
std::string text_of(const GemmRun& run, const GemmResult& result);

// Outputs of two libraries, bit for bit: whether they are equal, how many were compared, and the first that is not.
// Rows past the count of a masked group may hold anything and are left out.
GemmCheck compare_outputs(const GemmRequest& request, std::span<const std::byte> ours,
                          std::span<const std::byte> other);

}  // namespace mxcheck::bench
