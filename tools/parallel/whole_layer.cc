#include "tools/parallel/whole_layer.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/parallel/library_call.h"
#include "kernels/parallel/moe_call.h"
#include "tools/parallel/inputs.h"

namespace mxcheck {

namespace parallel = mxcheck_kernels::parallel;

namespace {

using parallel::kBf16;
using parallel::kBytes;
using parallel::kFp32;
using parallel::kInt32;
using parallel::kInt64;
using parallel::LibraryCall;
using parallel::Memory;

template <class T>
Memory on_device(parallel::Device& device, const std::vector<T>& values) {
  Memory memory(device, values.size() * sizeof(T));
  device.to_device(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

// One call of each pass.
class WholeLayer {
 public:
  WholeLayer(const ParallelOptions& o, parallel::Device& device, const parallel::Libraries& libraries)
      : spec_(layer_spec(o)), device_(device), libraries_(libraries), tokens_(o.tokens), experts_(o.experts) {
    const auto slots = parallel_slots(o, 0, tokens_);
    routes = parallel::home_rows(slots, experts_, o.capacity,
                                 std::vector<std::int64_t>(static_cast<std::size_t>(experts_), 0));
    x_ = on_device(device, parallel_x(o, 0, tokens_)), d_o_ = on_device(device, parallel_d_o(o, 0, tokens_));
    std::vector<std::int64_t> all(static_cast<std::size_t>(experts_));
    std::iota(all.begin(), all.end(), 0);
    w1_ = on_device(device, parallel_w1(o, all)), w2_ = on_device(device, parallel_w2(o, all));
    row_token_ = on_device(device, routes.row_token), row_weight_ = on_device(device, routes.row_weight);
    token_offsets_ = on_device(device, routes.token_offsets), token_rows_ = on_device(device, routes.token_rows);
    offsets_ = on_device(device, routes.offsets);
    if (spec_.dispatches_fp8) pass_through_fp8();
  }

  void run() {
    const std::int64_t d = spec_.width, n = spec_.inner, h = 2 * n, rows = routes.rows();
    o = Memory(device_, parallel::size_of(tokens_, 2 * d)), dx = Memory(device_, parallel::size_of(tokens_, 2 * d));
    dw1 = Memory(device_, parallel::size_of(experts_ * d, 4 * h));
    dw2 = Memory(device_, parallel::size_of(experts_ * n, 4 * d));
    ds = Memory(device_, parallel::size_of(rows, 4));
    const parallel::Kept kept(device_, spec_, rows, tokens_);
    const mxcheck_moe_policy policy = parallel::moe_policy(spec_, tokens_, rows, experts_);
    LibraryCall forward(device_, libraries_.named("moe_forward"), &policy.policy);
    forward.in(x_.data(), kBf16, {tokens_, d});
    add_weights(forward), add_routes(forward);
    forward.out(o.data(), kBf16, {tokens_, d});
    kept.add_outputs(forward, 0, rows, tokens_);
    forward.run(scratch_);
    LibraryCall backward(device_, libraries_.named("moe_backward"), &policy.policy);
    backward.in(d_o_.data(), kBf16, {tokens_, d});
    add_weights(backward);
    kept.add_inputs(backward, 0, rows, tokens_, x_.data());
    add_routes(backward);
    backward.out(dx.data(), kBf16, {tokens_, d})
        .out(dw1.data(), kFp32, {experts_ * d, h})
        .out(dw2.data(), kFp32, {experts_ * n, d})
        .out(ds.data(), kFp32, {rows})
        .run(scratch_);
    check_report(device_, scratch_);
  }

  // A part of an output, on the host.
  std::vector<std::byte> part(const Memory& memory, std::int64_t first, std::int64_t rows, std::int64_t row_bytes) {
    std::vector<std::byte> bytes(parallel::size_of(rows, row_bytes));
    if (!bytes.empty()) device_.to_host(bytes.data(), memory.at(parallel::size_of(first, row_bytes)), bytes.size());
    return bytes;
  }

  parallel::HomeRows routes;
  Memory o, dx, dw1, dw2, ds;

 private:
  void add_weights(LibraryCall& call) const {
    call.in(w1_.data(), kBf16, {experts_ * spec_.width, 2 * spec_.inner});
    call.in(w2_.data(), kBf16, {experts_ * spec_.inner, spec_.width});
  }
  void add_routes(LibraryCall& call) const {
    call.in(row_token_.data(), kInt32, {routes.rows()}).in(row_weight_.data(), kFp32, {routes.rows()});
    call.in(token_offsets_.data(), kInt64, {tokens_ + 1})
        .in(token_rows_.data(), kInt32, {std::ssize(routes.token_rows)});
    call.in(offsets_.data(), kInt64, {experts_ + 1});
  }
  // X as the dispatch leaves it at the experts.
  void pass_through_fp8() {
    if (tokens_ == 0) return;
    const std::int64_t blocks = parallel::scale_blocks(spec_.width);
    const Memory codes(device_, parallel::size_of(tokens_, spec_.width)),
        scales(device_, parallel::size_of(tokens_, blocks));
    const mxcheck_policy policy = parallel::dispatch_policy(spec_, tokens_);
    LibraryCall(device_, libraries_.named("quantize"), &policy)
        .in(x_.data(), kBf16, {tokens_, spec_.width})
        .out(codes.data(), kBytes, {tokens_, spec_.width})
        .out(scales.data(), kBytes, {tokens_, blocks})
        .run(scratch_);
    LibraryCall(device_, libraries_.named("dequantize"), &policy)
        .in(codes.data(), kBytes, {tokens_, spec_.width})
        .in(scales.data(), kBytes, {tokens_, blocks})
        .out(x_.data(), kBf16, {tokens_, spec_.width})
        .run(scratch_);
    check_report(device_, scratch_);
  }

  parallel::LayerSpec spec_;
  parallel::Device& device_;
  const parallel::Libraries& libraries_;
  std::int64_t tokens_, experts_;
  parallel::Scratch scratch_;
  Memory x_, d_o_, w1_, w2_, row_token_, row_weight_, token_offsets_, token_rows_, offsets_;
};

// Gradients of weights of a rank's experts, one expert after the other.
RowDigest digest_experts(WholeLayer& layer, const Memory& memory, const std::vector<std::int64_t>& experts,
                         std::int64_t each, std::int64_t row_bytes) {
  RowDigest sum;
  for (const std::int64_t e : experts) {
    const auto bytes = layer.part(memory, e * each, each, row_bytes);
    sum += digest_rows(bytes.data(), row_bytes, number_range(e * each, (e + 1) * each));
  }
  return sum;
}

}  // namespace

std::vector<std::int64_t> number_range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(last - first));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

std::vector<std::int64_t> expert_rows(const std::vector<std::int64_t>& experts, std::int64_t each) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t e : experts) {
    for (std::int64_t i = 0; i < each; ++i) rows.push_back(e * each + i);
  }
  return rows;
}

std::vector<std::array<RowDigest, 5>> whole_layer_digests(const ParallelOptions& o,
                                                          const parallel::Placement& placement,
                                                          parallel::Device& device,
                                                          const parallel::Libraries& libraries) {
  WholeLayer layer(o, device, libraries);
  layer.run();
  std::vector<std::array<RowDigest, 5>> all;
  const auto ds = layer.part(layer.ds, 0, layer.routes.rows(), 4);
  for (int rank = 0; rank < placement.ranks; ++rank) {
    const std::int64_t first = placement.token_begin(rank), last = placement.token_begin(rank + 1);
    const auto experts = placement.experts_of(rank);
    std::array<RowDigest, 5> mine{};
    const auto o_rows = layer.part(layer.o, first, last - first, 2 * o.width);
    const auto dx_rows = layer.part(layer.dx, first, last - first, 2 * o.width);
    mine[0] = digest_rows(o_rows.data(), 2 * o.width, number_range(first, last));
    mine[1] = digest_rows(dx_rows.data(), 2 * o.width, number_range(first, last));
    mine[2] = digest_experts(layer, layer.dw1, experts, o.width, 8 * o.inner);
    mine[3] = digest_experts(layer, layer.dw2, experts, o.inner, 4 * o.width);
    for (std::size_t r = 0; r < layer.routes.row_slot.size(); ++r) {
      const std::int64_t slot = layer.routes.row_slot[r];
      if (slot >= first * o.top_k && slot < last * o.top_k) mine[4] += digest_rows(ds.data() + 4 * r, 4, {slot});
    }
    all.push_back(mine);
  }
  return all;
}

}  // namespace mxcheck
