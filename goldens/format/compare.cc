#include "goldens/format/compare.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <span>
#include <vector>

#include "goldens/io/byte_source.h"
#include "goldens/io/row_reader.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kPiece = 4 << 20;

}  // namespace

bool dataset_equals(const GoldenReader& golden, const std::string& dataset, const std::string& location,
                    std::atomic<std::uint64_t>* compared) {
  const std::unique_ptr<RowReader> want = golden.rows(dataset);
  const std::unique_ptr<RowReader> have = open_rows(location);
  const TensorHead& head = want->head();
  if (have->head().dtype != head.dtype || have->head().shape != head.shape) return false;
  std::vector<std::byte> a(kPiece), b(kPiece);
  for (std::uint64_t left = checked_bytes(head.shape, size_of(head.dtype), location); left > 0;) {
    const auto now = static_cast<std::size_t>(std::min(left, kPiece));
    std::future<void> golden_read = std::async(std::launch::async, [&] { want->read(std::span(a).first(now)); });
    have->read(std::span(b).first(now));
    golden_read.get();
    if (std::memcmp(a.data(), b.data(), now) != 0) return false;
    left -= now;
    if (compared != nullptr) *compared += now;
  }
  return true;
}

}  // namespace mxcheck
