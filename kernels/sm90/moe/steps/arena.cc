#include "kernels/sm90/moe/steps/arena.h"

#include <algorithm>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kMost = std::uint64_t{1} << 60;

}  // namespace

Part Arena::take(std::int64_t rows, std::int64_t row_bytes) {
  Part part;
  if (__builtin_mul_overflow(rows, row_bytes, &part.bytes) || part.bytes > kMost) {
    invalid("the tensors are so large that no workspace would do");
  }
  part.bytes = (part.bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (part.bytes == 0) return part;
  auto next = taken_.begin();
  for (; next != taken_.end() && next->at - part.at < part.bytes; ++next) part.at = next->at + next->bytes;
  if (part.at > kMost) invalid("the tensors are so large that no workspace would do");
  taken_.insert(next, part);
  bytes_ = std::max(bytes_, part.at + part.bytes);
  return part;
}

void Arena::drop(const Part& part) {
  const auto same = [&](const Part& taken) { return taken.at == part.at; };
  if (part.bytes != 0) taken_.erase(std::find_if(taken_.begin(), taken_.end(), same));
}

}  // namespace mxcheck_kernels::sm90
