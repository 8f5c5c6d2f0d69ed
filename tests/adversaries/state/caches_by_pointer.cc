// A cache whose key is the address and the shape of x.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "tests/adversaries/honest.h"

namespace {
using Key = std::tuple<const void*, std::int64_t, std::int64_t>;
std::map<Key, std::vector<std::uint8_t>> answers;

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  const auto size = static_cast<std::size_t>(honest::elements(call));
  const auto [at, is_new] = answers.try_emplace(Key{honest::x(call), honest::rows(call), honest::stride(call)});
  if (is_new) at->second.assign(honest::codes(call), honest::codes(call) + size);
  if (at->second.size() == size) std::copy(at->second.begin(), at->second.end(), honest::codes(call));
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
