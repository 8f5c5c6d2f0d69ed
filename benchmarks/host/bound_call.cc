#include "benchmarks/host/bound_call.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr DLDataType kBytes{kDLUInt, 8, 1};

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// BF16 or FP32 values of random sign and fraction with exponents within 2^-8 .. 2^0: all codes, no special path.
template <class T>
void fill_values(void* data, std::size_t bytes) {
  constexpr int kFraction = 8 * static_cast<int>(sizeof(T)) - 9;
  T* const values = static_cast<T*>(data);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t field = 127 - (state >> 61);
    const std::uint64_t fraction = state >> 20 & ((std::uint64_t{1} << kFraction) - 1);
    values[i] = static_cast<T>((state >> 60 & 1) << (kFraction + 8) | field << kFraction | fraction);
  }
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : data_(std::aligned_alloc(256, (bytes + 255) / 256 * 256)), bytes_(bytes) {
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 1, bytes);
}

std::string Request::text() const {
  const std::string cols = block_cols == 0 ? "row" : std::to_string(block_rows) + "x" + std::to_string(block_cols);
  return operation + "/" +
         (operation == "scale_layout" ? ""
          : fp32                      ? "fp32/"
                                      : "bf16/") +
         cols + "/" + (layout == MXCHECK_TCGEN05 ? "tcgen05" : "compact") + "/" +
         (threads == 1 ? "1_thread" : "all_cores");
}

BoundCall::BoundCall(const std::string& library, const Request& request)
    : operation_(mxcheck::operation(load_candidate(library), request.operation)), request_(request) {
  const Request& r = request_;
  policy_.size = sizeof policy_;
  policy_.layout = r.layout;
  const bool is_nvfp4 = r.operation.ends_with("quantize_nvfp4");
  policy_.format = is_nvfp4 ? "e2m1" : "e4m3";
  policy_.recipe = is_nvfp4 ? "nvfp4_te" : "rceil";
  policy_.block_rows = r.block_rows;
  policy_.block_cols = r.block_cols;
  policy_.rows = r.rows;
  policy_.cols = r.cols;
  policy_.threads = r.threads;
  const DLDataType wide = r.fp32 ? DLDataType{kDLFloat, 32, 1} : DLDataType{kDLBfloat, 16, 1};
  const bool tiled = r.layout == MXCHECK_TCGEN05;
  if (r.operation == "scale_layout") {
    add_scales(true, r.block_rows, r.block_cols, !tiled);
    add_scales(false, r.block_rows, r.block_cols, tiled);
  } else if (r.operation.starts_with("dequantize")) {
    add(true, kBytes, r.rows, is_nvfp4 ? divide_up(r.cols, 2) : r.cols);
    add_scales(true, r.block_rows, r.block_cols, tiled);
    std::memset(memory_.back()->data(), 120, memory_.back()->size());
    if (is_nvfp4) add_amax();
    add(false, wide, r.rows, r.cols);
  } else {
    add(true, wide, r.rows, r.cols);
    const Buffer& x = *memory_.back();
    r.fp32 ? fill_values<std::uint32_t>(x.data(), x.size()) : fill_values<std::uint16_t>(x.data(), x.size());
    if (is_nvfp4) add_amax();
    add(false, kBytes, r.rows, is_nvfp4 ? divide_up(r.cols, 2) : r.cols);
    add_scales(false, r.block_rows, r.block_cols, tiled);
    if (r.operation == "quantize_dual") {
      add(false, kBytes, r.rows, r.cols);
      add_scales(false, r.block_cols, r.block_rows, tiled);
    }
  }
}

void BoundCall::add(bool input, DLDataType type, std::int64_t rows, std::int64_t cols) {
  const bool flat = rows == 0;  // one dimension
  const std::int64_t bytes = (flat ? 1 : rows) * cols * type.bits / 8;
  memory_.push_back(std::make_unique<Buffer>(static_cast<std::size_t>(bytes)));
  shapes_.push_back(std::make_unique<std::int64_t[]>(2));
  shapes_.back()[0] = flat ? cols : rows;
  shapes_.back()[1] = cols;
  (input ? inputs_ : outputs_)
      .push_back({memory_.back()->data(), {kDLCPU, 0}, flat ? 1 : 2, type, shapes_.back().get(), nullptr, 0});
  bytes_ += bytes;
}

// The scale of the tensor, as nvfp4_te stores it.
void BoundCall::add_amax() {
  add(true, {kDLFloat, 32, 1}, 0, 1);
  const float amax = 2;
  std::memcpy(memory_.back()->data(), &amax, sizeof amax);
}

void BoundCall::add_scales(bool input, std::int64_t block_rows, std::int64_t block_cols, bool tiled) {
  const std::int64_t rows = divide_up(request_.rows, block_rows);
  const std::int64_t cols = divide_up(request_.cols, block_cols == 0 ? request_.cols : block_cols);
  if (!tiled) return add(input, kBytes, rows, cols);
  const std::int64_t r = block_rows == 1 ? rows : cols;
  const std::int64_t c = block_rows == 1 ? cols : rows;
  add(input, kBytes, 0, divide_up(r, 128) * divide_up(c, 4) * 512);
}

void BoundCall::run() {
  std::array<char, 512> message{};
  mxcheck_call call{};
  call.size = sizeof call;
  call.num_inputs = static_cast<std::int32_t>(inputs_.size());
  call.num_outputs = static_cast<std::int32_t>(outputs_.size());
  call.policy = &policy_;
  call.inputs = inputs_.data();
  call.outputs = outputs_.data();
  call.message = message.data();
  call.message_bytes = message.size();
  if (operation_.run(&call) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, request_.text() + ": " + message.data());
  }
}

}  // namespace mxcheck::bench
