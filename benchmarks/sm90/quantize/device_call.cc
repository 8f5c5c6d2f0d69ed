#include "benchmarks/sm90/quantize/device_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck::bench {
namespace {

BlockShape transposed(BlockShape b) { return {b.cols, b.rows}; }
bool quantizes(const DeviceRequest& r) { return r.operation == "quantize" || r.operation == "quantize_dual"; }

// Ends that are no multiples of anything, and every fourth expert empty.
std::vector<std::int64_t> ragged(std::int64_t rows, int experts) {
  std::vector<std::int64_t> offsets{0};
  for (int e = 1; e < experts; ++e) {
    const std::int64_t end = rows * e / experts + 37 * e % 61;
    offsets.push_back(e % 4 == 0 ? offsets.back() : std::clamp(end, offsets.back(), rows));
  }
  offsets.push_back(rows);
  return offsets;
}

}  // namespace

std::string DeviceRequest::text() const {
  std::string out = operation + " " + to_text(block) + " " + std::string(spec(wide).name) + " " +
                    std::string(spec(element).name) + (tiled ? " tcgen05 " : " compact ") + std::to_string(rows) + "x" +
                    std::to_string(cols);
  if (experts != 0) out += " experts=" + std::to_string(experts);
  if (gather) out += " gather";
  return out;
}

void DeviceCall::add(Set& set, bool input, DLDataType type, std::vector<std::int64_t> shape) {
  std::uint64_t bytes = type.bits / 8U;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  set.memory.emplace_back(bytes);
  auto& kept = shapes_.emplace_back(new std::int64_t[2]);
  std::copy(shape.begin(), shape.end(), kept.get());
  DLTensor t{};
  t.data = set.memory.back().data(), t.device = {kDLCUDA, 0}, t.ndim = static_cast<int>(shape.size());
  t.dtype = type, t.shape = kept.get();
  (input ? set.inputs : set.outputs).push_back(t);
  if (sets_.empty()) bytes_ += static_cast<std::int64_t>(bytes);
}

void DeviceCall::add_scales(Set& set, bool input, BlockShape block) {
  const auto by_expert = count_scale_rows_by_expert(request_.rows, block.rows, offsets_);
  const std::int64_t cols = (request_.cols + block.cols - 1) / block.cols;
  if (request_.tiled) {
    add(set, input, {kDLUInt, 8, 1}, {layout_bytes(ScaleLayout::tcgen05, {by_expert, cols, block})});
  } else {
    add(set, input, {kDLUInt, 8, 1}, {std::accumulate(by_expert.begin(), by_expert.end(), std::int64_t{0}), cols});
  }
}

DeviceCall::DeviceCall(const mxcheck_operation& operation, const DeviceRequest& request, std::uint64_t least_bytes)
    : operation_(operation), request_(request) {
  const DLDataType wide = request.wide == Format::fp32 ? DLDataType{kDLFloat, 32, 1} : DLDataType{kDLBfloat, 16, 1};
  policy_.size = sizeof(policy_);
  policy_.format = spec(request.element).name.data(), policy_.recipe = "rceil";
  policy_.block_rows = request.block.rows, policy_.block_cols = request.block.cols;
  policy_.rows = request.rows, policy_.cols = request.cols;
  policy_.layout = request.tiled ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
  if (request.experts != 0) offsets_ = ragged(request.rows, request.experts);
  if (request.gather) {
    for (std::int64_t i = 0; i < request.rows; ++i) {
      index_.push_back(static_cast<std::int32_t>(i * 7919 % request.rows));
    }
  }
  do {
    Set set;
    if (quantizes(request)) {
      add(set, true, wide, {request.rows, request.cols});
      fill_normal(set.memory[0].data(), request.rows, request.cols, request.wide == Format::fp32,
                  static_cast<std::uint32_t>(sets_.size()), nullptr);
    } else {
      add(set, true, {kDLUInt, 8, 1}, {request.rows, request.cols});
      add_scales(set, true, request.block);
      // Bits of normal values make codes and scale bytes of all sorts.
      for (const DeviceBuffer& b : set.memory) {
        const auto words = static_cast<std::int64_t>(b.bytes() / 4);
        fill_normal(b.data(), words, 1, true, static_cast<std::uint32_t>(sets_.size()), nullptr);
      }
    }
    if (!offsets_.empty()) {
      add(set, true, {kDLInt, 64, 1}, {static_cast<std::int64_t>(offsets_.size())});
      check_cuda(cudaMemcpy(set.memory.back().data(), offsets_.data(), offsets_.size() * 8, cudaMemcpyHostToDevice),
                 "offsets");
    }
    if (!index_.empty()) {
      add(set, true, {kDLInt, 32, 1}, {request.rows});
      check_cuda(cudaMemcpy(set.memory.back().data(), index_.data(), index_.size() * 4, cudaMemcpyHostToDevice),
                 "row index");
    }
    const DLDataType byte{kDLUInt, 8, 1};
    if (quantizes(request)) {
      add(set, false, byte, {request.rows, request.cols});
      add_scales(set, false, request.block);
      if (request.operation == "quantize_dual") {
        add(set, false, byte, {request.rows, request.cols});
        add_scales(set, false, transposed(request.block));
      }
    } else {
      add(set, false, wide, {request.rows, request.cols});
    }
    sets_.push_back(std::move(set));
  } while (static_cast<std::uint64_t>(bytes_) * sets_.size() < least_bytes);
}

void DeviceCall::enqueue(cudaStream_t stream) {
  Set& set = sets_[next_++ % sets_.size()];
  char message[256] = "";
  mxcheck_call call{};
  call.size = sizeof(call);
  call.num_inputs = static_cast<std::int32_t>(set.inputs.size());
  call.num_outputs = static_cast<std::int32_t>(set.outputs.size());
  call.policy = &policy_;
  call.inputs = set.inputs.data(), call.outputs = set.outputs.data();
  call.message = message, call.message_bytes = sizeof(message);
  call.stream = stream;
  std::uint64_t bytes = 0;
  mxcheck_status status = MXCHECK_OK;
  if (operation_.workspace != nullptr) status = operation_.workspace(&call, &bytes);
  if (status == MXCHECK_OK && bytes != 0) {
    if (!workspace_ || workspace_->bytes() < bytes) workspace_ = std::make_unique<DeviceBuffer>(bytes);
    call.workspace = workspace_->data(), call.workspace_bytes = bytes;
  }
  if (status == MXCHECK_OK) status = operation_.run(&call);
  if (status != MXCHECK_OK) throw Error(ErrorKind::internal, request_.text() + ": " + message);
}

std::string DeviceCall::difference(cudaStream_t stream) {
  next_ = 0;
  const Set& set = sets_[0];
  const auto fetch = [](const DeviceBuffer& from) {
    std::vector<std::uint8_t> bytes(from.bytes());
    check_cuda(cudaMemcpy(bytes.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost), "fetching a tensor");
    return bytes;
  };
  for (std::size_t i = set.inputs.size(); i < set.memory.size(); ++i) {
    check_cuda(cudaMemset(set.memory[i].data(), 0xA5, set.memory[i].bytes()), "poison");
  }
  check_cuda(cudaDeviceSynchronize(), "before the check");
  enqueue(stream);
  check_cuda(cudaStreamSynchronize(stream), "the call");

  std::vector<std::vector<std::uint8_t>> expected;
  const Recipe recipe = recipe_named("rceil");
  const auto in_layout = [&](const QuantizedTensor& q) {
    const std::vector<std::uint8_t> scales = values_in<std::uint8_t>(q.scales().data);
    return request_.tiled ? to_layout(ScaleLayout::tcgen05, scale_shape(q, offsets_), scales) : scales;
  };
  std::vector<std::uint8_t> first = fetch(set.memory[0]);
  if (quantizes(request_)) {
    const std::uint64_t line = static_cast<std::uint64_t>(request_.cols) * (request_.wide == Format::fp32 ? 4 : 2);
    if (request_.gather) {
      std::vector<std::uint8_t> gathered(first.size());
      for (std::size_t i = 0; i < index_.size(); ++i) {
        std::memcpy(gathered.data() + i * line, first.data() + static_cast<std::size_t>(index_[i]) * line, line);
      }
      first = std::move(gathered);
    }
    const MatrixView x{request_.wide, reinterpret_cast<const std::byte*>(first.data()), request_.rows, request_.cols,
                       request_.cols};
    const auto direction = [&](BlockShape block) {
      QuantizedTensor q = quantize(x, request_.element, block, recipe, offsets_);
      expected.push_back(values_in<std::uint8_t>(q.codes.data));
      expected.push_back(in_layout(q));
    };
    direction(request_.block);
    if (request_.operation == "quantize_dual") direction(transposed(request_.block));
  } else {
    const std::int64_t scale_cols = (request_.cols + request_.block.cols - 1) / request_.block.cols;
    const std::int64_t scale_rows = count_scale_rows(request_.rows, request_.block.rows, offsets_);
    QuantizedTensor q{tensor_of(request_.element, {request_.rows, request_.cols}, first),
                      {{request_.block, ScaleRule::rceil, {"", Format::e8m0, {scale_rows, scale_cols}, {}}}}};
    const std::vector<std::uint8_t> scales = fetch(set.memory[1]);
    q.scales().data =
        to_bytes(request_.tiled ? from_layout(ScaleLayout::tcgen05, scale_shape(q, offsets_), scales) : scales);
    const auto take = [&](const auto& values) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
      expected.emplace_back(bytes, bytes + values.size() * sizeof(values[0]));
    };
    if (request_.wide == Format::fp32) take(dequantize(q, offsets_));
    if (request_.wide == Format::bf16) take(dequantize_bf16(q, offsets_));
  }
  // In y one NaN is as good as another.
  const auto both_nan = [&](const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b, std::size_t at) {
    if (quantizes(request_)) return false;
    const std::size_t width = request_.wide == Format::fp32 ? 4 : 2;
    const auto is_nan = [&](const std::vector<std::uint8_t>& v) {
      const std::size_t top = at / width * width + width - 2;
      const int bits = v[top] | v[top + 1] << 8;
      return (bits & 0x7F80) == 0x7F80 && ((bits & 0x7F) != 0 || width == 4);
    };
    return is_nan(a) && is_nan(b);
  };
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const std::vector<std::uint8_t> observed = fetch(set.memory[set.inputs.size() + o]);
    if (observed == expected[o]) continue;
    for (std::size_t i = 0; i < observed.size(); ++i) {
      if (observed[i] == expected[o][i] || both_nan(observed, expected[o], i)) continue;
      return "output " + std::to_string(o) + " differs at byte " + std::to_string(i);
    }
  }
  return "";
}

}  // namespace mxcheck::bench
