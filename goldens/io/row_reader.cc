#include "goldens/io/row_reader.h"

#include <utility>

#include "goldens/io/readers.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

class RegionRows final : public RowReader {
 public:
  RegionRows(std::unique_ptr<ByteSource> source, const TensorRegion& region)
      : source_(std::move(source)), head_(region.head), begin_(region.begin), position_(region.bytes) {}
  [[nodiscard]] const TensorHead& head() const override { return head_; }
  void read(std::span<std::byte> to) override {
    source_->read(begin_ + position_.advance(to.size(), source_->name()), to);
  }

 private:
  std::unique_ptr<ByteSource> source_;
  TensorHead head_;
  std::uint64_t begin_;
  ReadPosition position_;
};

}  // namespace

std::uint64_t ReadPosition::advance(std::uint64_t count, const std::string& where) {
  if (count > left_) {
    throw Error(ErrorKind::usage,
                where + ": " + std::to_string(count) + " bytes are asked for, " + std::to_string(left_) + " are left");
  }
  left_ -= count;
  return std::exchange(at_, at_ + count);
}

Tensor load(const ByteSource& source, const TensorRegion& region) {
  Tensor tensor{region.name, region.head.dtype, region.head.shape, room_for(region.bytes, source.name())};
  source.read(region.begin, tensor.data);
  return tensor;
}

std::unique_ptr<RowReader> open_region(std::unique_ptr<ByteSource> source, const TensorRegion& region) {
  return std::make_unique<RegionRows>(std::move(source), region);
}

Tensor read_whole(RowReader& rows, const std::string& where) {
  const TensorHead& head = rows.head();
  Tensor tensor{"", head.dtype, head.shape, room_for(checked_bytes(head.shape, size_of(head.dtype), where), where)};
  rows.read(tensor.data);
  return tensor;
}

}  // namespace mxcheck
