#pragma once
// The comparison of the CPU library's routers with the reference, on every SIMD target of the machine.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/router/token_rounding.h"
#include "tests/kernels/cpu/model_comparison.h"

namespace mxcheck {

enum class LogitKind : std::uint8_t { normal, few_values, close, wide, infinities, nans, nan_rows, zeros };
inline constexpr LogitKind kLogitKinds[] = {LogitKind::normal,   LogitKind::few_values, LogitKind::close,
                                            LogitKind::wide,     LogitKind::infinities, LogitKind::nans,
                                            LogitKind::nan_rows, LogitKind::zeros};

// T is std::uint16_t for BF16, std::uint32_t for FP32.
template <class T>
Sample<T> random_logits(LogitKind kind, std::uint64_t seed, std::int64_t tokens, std::int64_t experts,
                        std::int64_t stride);

struct RouteCase {
  std::string variant = "topk-softmax";
  std::int64_t top_k = 1, groups = 0, groups_kept = 0;
  NanLogits nan = NanLogits::last;
  float scale = 1;
  std::vector<float> bias;
  TokenRounding token_rounding;
  std::int32_t threads = 1;
  bool best_target_only = false;
  std::uint32_t mxcsr = 0;  // floating-point control bits set while the candidate runs

  std::string text() const;
};

// Empty where the library gives the reference's bits (any NaN is as good as another), or refuses what the reference
// refuses and has written nothing; otherwise where they differ first.
template <class T>
std::string route_difference(const RouteCase& c, const Sample<T>& logits);
template <class T>
std::string round_difference(const RouteCase& c, const Sample<T>& logits);
template <class T>
std::string backward_difference(const RouteCase& c, const Sample<T>& logits, const std::vector<std::int32_t>& experts,
                                const std::vector<float>& gradient);

// token_offsets empty: width slots a token.
std::string metadata_difference(const std::vector<std::int32_t>& slot_experts, std::int64_t width,
                                const std::vector<std::int64_t>& token_offsets, std::int64_t experts, std::int64_t tile,
                                std::int32_t threads);

}  // namespace mxcheck
