// HDF5 datasets, row by row, from a child process (goldens/hdf5/child.h). The child sends dtype, rank and extents
// first, then pieces of the data until all of it is sent.

#include <algorithm>
#include <utility>
#include <vector>

#include "goldens/hdf5/child.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/readers.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr char kHead = 'T';
constexpr char kData = 'D';

bool send_head(int fd, const TensorHead& head) {
  std::vector<std::int64_t> content{static_cast<std::int64_t>(head.dtype)};
  content.insert(content.end(), head.shape.begin(), head.shape.end());
  return send_message(fd, kHead, std::as_bytes(std::span(content)));
}

// False when the other end is closed.
bool send_rows(int fd, RowReader& rows) {
  const TensorHead& head = rows.head();
  if (!send_head(fd, head)) return false;
  std::uint64_t left = checked_bytes(head.shape, size_of(head.dtype), "the tensor");
  std::vector<std::byte> piece(std::min<std::uint64_t>(left, kChildPiece));
  while (left > 0) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(left, kChildPiece));
    rows.read(part);
    if (!send_message(fd, kData, part)) return false;
    left -= part.size();
  }
  return true;
}

class ChildRows final : public RowReader {
 public:
  ChildRows(const std::string& path, const std::string& dataset)
      : path_(path), child_(path, [&](int fd) { return send_rows(fd, *open_hdf5_in_this_process(path, dataset)); }) {
    receive_head();
  }

  [[nodiscard]] const TensorHead& head() const override { return head_; }

  void read(std::span<std::byte> to) override {
    if (to.empty()) return;
    position_.advance(to.size(), path_);
    while (!to.empty()) {
      if (piece_left_ == 0) piece_left_ = child_.next_message(kData, kChildPiece);
      const std::size_t part = std::min<std::uint64_t>(piece_left_, to.size());
      child_.read(to.first(part));
      piece_left_ -= static_cast<std::uint32_t>(part);
      to = to.subspan(part);
    }
    if (position_.left() == 0) child_.stop();
  }

 private:
  void receive_head() {
    std::vector<std::int64_t> content(kMaxRank + 1);
    const std::size_t bytes =
        child_.next_message(kHead, static_cast<std::uint32_t>(content.size() * sizeof(content[0])));
    content.resize(bytes / sizeof(content[0]));
    const auto target = std::as_writable_bytes(std::span(content));
    if (target.size() != bytes) child_.damaged("the reader lost its way");
    child_.read(target);
    if (content[0] < 0 || content[0] > static_cast<std::int64_t>(Dtype::f64)) child_.damaged("the reader lost its way");
    head_.dtype = static_cast<Dtype>(content[0]);
    head_.shape.assign(content.begin() + 1, content.end());
    const std::uint64_t all = checked_bytes(head_.shape, size_of(head_.dtype), path_ + ": the reader's shape");
    if (all / kMaxExpansion > child_.file_bytes()) child_.damaged("the reader lost its way");
    position_ = ReadPosition(all);
    if (all == 0) child_.stop();
  }

  std::string path_;
  Hdf5Child child_;
  TensorHead head_;
  ReadPosition position_{0};
  std::uint32_t piece_left_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_hdf5(const std::string& path, const std::string& dataset) {
  return std::make_unique<ChildRows>(path, dataset);
}

}  // namespace mxcheck
