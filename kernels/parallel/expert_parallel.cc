#include "kernels/parallel/expert_parallel.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/candidate_layer.h"
#include "kernels/parallel/library_call.h"
#include "kernels/parallel/parallel_error.h"

namespace mxcheck_kernels::parallel {
namespace {

template <class T>
Memory copy_of(Device& device, const std::vector<T>& values) {
  Memory memory(device, values.size() * sizeof(T));
  device.to_device(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

template <class T>
std::vector<T> counted(std::int64_t size) {
  std::vector<T> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), T{});
  return values;
}

// Rows of a tensor that travel: `bytes` each.
struct RowsOfTensor {
  const Memory* memory = nullptr;
  std::int64_t row_bytes = 0;
};

void add_pieces(std::vector<Transfer>& to, const std::vector<Rows::Piece>& pieces, const RowsOfTensor& rows) {
  for (const Rows::Piece& p : pieces) {
    if (p.rows == 0) continue;
    to.push_back({p.peer, rows.memory->at(size_of(p.first_row, rows.row_bytes)), size_of(p.rows, rows.row_bytes)});
  }
}

}  // namespace

const mxcheck_operation& Libraries::named(const std::string& operation) const {
  std::string names;
  for (const mxcheck_candidate_table* table : tables_) {
    for (std::int32_t i = 0; i < table->num_operations; ++i) {
      if (operation == table->operations[i].name) return table->operations[i];
    }
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  throw ParallelError(Fault::configuration, "no library has the operation " + operation + ": " + names);
}

// Device memory. What is at home has as many rows as this rank's tokens have routes; the rest, as this rank's experts.
struct ExpertParallelLayer::Buffers {
  Scratch scratch;
  Memory row_token, row_weight, token_offsets, token_rows;  // of the routes at home
  Memory home_rows, home_codes, home_scales;                // on their way to experts
  Memory home_back, home_ds;                                // on their way back
  Memory codes, scales;                                     // X as it arrives in FP8
  Memory x, d_o, y, ds, weights;
  Kept kept;
  // Routes of a chunk, in which every row is a token of its own.
  Memory counted32, counted64, ones;
  std::vector<Memory> offsets;
};

// Marks of a pass, and its bytes.
struct ExpertParallelLayer::Pass {
  Device& device;
  int rank = 0;
  Parts parts = Parts::all;
  int begin = 0;
  PassTimes times;

  Pass(Device& of, int of_rank, Parts of_parts)
      : device(of), rank(of_rank), parts(of_parts), begin(of.mark(Lane::compute)) {}

  // One step of the transfer lane after the mark; returns its end.
  int transfer(const std::string& step, int after, std::span<const Transfer> sends,
               std::span<const Transfer> receives) {
    device.wait(Lane::transfer, after);
    if (parts != Parts::compute) device.transfer(step, sends, receives);
    for (const Transfer& t : sends) (t.peer == rank ? times.local : times.sent) += t.bytes;
    for (const Transfer& t : receives) times.received += t.peer == rank ? 0 : t.bytes;
    return device.mark(Lane::transfer);
  }

  template <class Run>
  int compute(int after, const Run& run) {
    device.wait(Lane::compute, after);
    if (parts != Parts::transfers) run();
    return device.mark(Lane::compute);
  }

  PassTimes finish(const std::string& step) {
    const int end = device.mark(Lane::compute);
    device.synchronize(step);
    times.total = device.seconds_between(begin, end);
    device.forget_marks();
    return times;
  }
};

ExpertParallelLayer::ExpertParallelLayer(LayerSpec spec, Placement placement, Mesh& mesh, Device& device,
                                         const Libraries& libraries)
    : spec_(std::move(spec)),
      placement_(std::move(placement)),
      mesh_(mesh),
      device_(device),
      libraries_(libraries),
      buffers_(std::make_unique<Buffers>()) {}

ExpertParallelLayer::~ExpertParallelLayer() = default;

// ---- Routes ----

void ExpertParallelLayer::route(const HomeSlots& slots, std::int64_t capacity) {
  const auto experts = std::ssize(placement_.expert_rank);
  const std::vector<std::int64_t> mine = count_slots(slots, experts);
  const std::string bytes(static_cast<const char*>(static_cast<const void*>(mine.data())),
                          mine.size() * sizeof(std::int64_t));
  std::vector<std::vector<std::int64_t>> counts;
  for (const std::string& text : mesh_.all_gather("counts of rows", bytes)) {
    if (text.size() != bytes.size()) throw ParallelError(Fault::disagreement, "ranks have other numbers of experts");
    counts.emplace_back(mine.size());
    std::memcpy(counts.back().data(), text.data(), text.size());
  }
  std::vector<std::int64_t> before(mine.size(), 0);
  for (int r = 0; r < placement_.ranks; ++r) {
    std::vector<std::int64_t>& of_rank = counts[static_cast<std::size_t>(r)];
    if (r == mesh_.rank()) home_ = home_rows(slots, experts, capacity, before);
    for (std::size_t e = 0; e < before.size(); ++e) {
      const std::int64_t kept =
          capacity > 0 ? std::clamp<std::int64_t>(capacity - before[e], 0, of_rank[e]) : of_rank[e];
      before[e] += of_rank[e], of_rank[e] = kept;
    }
  }
  rows_ = std::make_unique<Rows>(placement_, mesh_.rank(), spec_.chunks, std::move(counts));
  reserve();
  std::vector<Transfer> sends, receives;
  for (int c = 0; c < spec_.chunks; ++c) {
    add_pieces(sends, rows_->home(c), {&buffers_->row_weight, kFp32Bytes});
    add_pieces(receives, rows_->expert(c), {&buffers_->weights, kFp32Bytes});
  }
  device_.wait(Lane::transfer, device_.mark(Lane::compute));
  device_.transfer("weights of routes", sends, receives);
  device_.wait(Lane::compute, device_.mark(Lane::transfer));
  device_.synchronize("weights of routes");
  device_.forget_marks();
}

void ExpertParallelLayer::reserve() {
  *buffers_ = Buffers();
  Buffers& b = *buffers_;
  const std::int64_t home = home_.rows();
  const std::int64_t rows = rows_->rows();
  const auto take = [&](std::int64_t count, std::int64_t row_bytes) {
    return Memory(device_, size_of(count, row_bytes));
  };
  b.row_token = copy_of(device_, home_.row_token), b.row_weight = copy_of(device_, home_.row_weight);
  b.token_offsets = copy_of(device_, home_.token_offsets), b.token_rows = copy_of(device_, home_.token_rows);
  b.home_rows = take(home, kBf16Bytes * spec_.width), b.home_back = take(home, kBf16Bytes * spec_.width);
  b.home_ds = take(home, kFp32Bytes);
  if (spec_.dispatches_fp8) {
    b.home_codes = take(home, spec_.width), b.home_scales = take(home, scale_blocks(spec_.width));
    b.codes = take(rows, spec_.width), b.scales = take(rows, scale_blocks(spec_.width));
  }
  for (Memory* const memory : {&b.x, &b.d_o, &b.y}) *memory = take(rows, kBf16Bytes * spec_.width);
  b.ds = take(rows, kFp32Bytes), b.weights = take(rows, kFp32Bytes);
  b.kept = Kept(device_, spec_, rows, rows);
  std::int64_t most = 0;
  for (const Rows::Chunk& chunk : rows_->chunks()) {
    most = std::max(most, chunk.last_row - chunk.first_row);
    b.offsets.push_back(copy_of(device_, chunk.offsets));
  }
  b.counted32 = copy_of(device_, counted<std::int32_t>(most));
  b.counted64 = copy_of(device_, counted<std::int64_t>(most + 1));
  b.ones = copy_of(device_, std::vector<float>(static_cast<std::size_t>(most), 1.0F));
}

// ---- Calls of the libraries ----

namespace {

// Rows of a chunk, and where they begin in tensors of a rank's rows.
struct ChunkCall {
  std::int64_t rows = 0, first_row = 0, experts = 0, first_expert = 0;
  explicit ChunkCall(const Rows::Chunk& c)
      : rows(c.last_row - c.first_row),
        first_row(c.first_row),
        experts(c.last_expert - c.first_expert),
        first_expert(c.first_expert) {}
  [[nodiscard]] void* of(const Memory& memory, std::int64_t row_bytes) const {
    return rows == 0 ? nullptr : memory.at(size_of(first_row, row_bytes));
  }
};

const void* matrices_of(const void* weights, std::int64_t expert, std::int64_t elements, std::int64_t element_bytes) {
  return static_cast<const std::byte*>(weights) + size_of(expert * elements, element_bytes);
}

}  // namespace

void ExpertParallelLayer::run_forward_chunk(int chunk, const void* w1, const void* w2) {
  Buffers& b = *buffers_;
  const ChunkCall c(rows_->chunks()[static_cast<std::size_t>(chunk)]);
  if (c.rows == 0) return;
  const std::int64_t d = spec_.width, n = spec_.inner, h = 2 * n;
  if (spec_.dispatches_fp8) {
    const mxcheck_policy codes = dispatch_policy(spec_, c.rows);
    LibraryCall(device_, libraries_.named("dequantize"), &codes)
        .in(c.of(b.codes, d), kBytes, {c.rows, d})
        .in(c.of(b.scales, scale_blocks(d)), kBytes, {c.rows, scale_blocks(d)})
        .out(c.of(b.x, kBf16Bytes * d), kBf16, {c.rows, d})
        .run(b.scratch);
  }
  const mxcheck_moe_policy policy = moe_policy(spec_, c.rows, c.rows, c.experts);
  LibraryCall call(device_, libraries_.named("moe_forward"), &policy.policy);
  call.in(c.of(b.x, kBf16Bytes * d), kBf16, {c.rows, d})
      .in(matrices_of(w1, c.first_expert, d * h, kBf16Bytes), kBf16, {c.experts * d, h})
      .in(matrices_of(w2, c.first_expert, n * d, kBf16Bytes), kBf16, {c.experts * n, d})
      .in(b.counted32.data(), kInt32, {c.rows})
      .in(b.ones.data(), kFp32, {c.rows})
      .in(b.counted64.data(), kInt64, {c.rows + 1})
      .in(b.counted32.data(), kInt32, {c.rows})
      .in(b.offsets[static_cast<std::size_t>(chunk)].data(), kInt64, {c.experts + 1})
      .out(c.of(b.y, kBf16Bytes * d), kBf16, {c.rows, d});
  b.kept.add_outputs(call, c.first_row, c.rows, c.rows);
  call.run(b.scratch);
}

void ExpertParallelLayer::run_backward_chunk(int chunk, const void* w1, const void* w2, void* dw1, void* dw2) {
  Buffers& b = *buffers_;
  const ChunkCall c(rows_->chunks()[static_cast<std::size_t>(chunk)]);
  const std::int64_t d = spec_.width, n = spec_.inner, h = 2 * n;
  if (c.experts == 0) return;
  std::byte* const dw1_here = static_cast<std::byte*>(dw1) + size_of(c.first_expert * d * h, kFp32Bytes);
  std::byte* const dw2_here = static_cast<std::byte*>(dw2) + size_of(c.first_expert * n * d, kFp32Bytes);
  if (c.rows == 0) {
    device_.clear(dw1_here, size_of(c.experts * d * h, kFp32Bytes));
    device_.clear(dw2_here, size_of(c.experts * n * d, kFp32Bytes));
    return;
  }
  const mxcheck_moe_policy policy = moe_policy(spec_, c.rows, c.rows, c.experts);
  LibraryCall call(device_, libraries_.named("moe_backward"), &policy.policy);
  call.in(c.of(b.d_o, kBf16Bytes * d), kBf16, {c.rows, d})
      .in(matrices_of(w1, c.first_expert, d * h, kBf16Bytes), kBf16, {c.experts * d, h})
      .in(matrices_of(w2, c.first_expert, n * d, kBf16Bytes), kBf16, {c.experts * n, d});
  b.kept.add_inputs(call, c.first_row, c.rows, c.rows, c.of(b.x, kBf16Bytes * d));
  call.in(b.counted32.data(), kInt32, {c.rows})
      .in(c.of(b.weights, kFp32Bytes), kFp32, {c.rows})
      .in(b.counted64.data(), kInt64, {c.rows + 1})
      .in(b.counted32.data(), kInt32, {c.rows})
      .in(b.offsets[static_cast<std::size_t>(chunk)].data(), kInt64, {c.experts + 1})
      .out(c.of(b.y, kBf16Bytes * d), kBf16, {c.rows, d})
      .out(dw1_here, kFp32, {c.experts * d, h})
      .out(dw2_here, kFp32, {c.experts * n, d})
      .out(c.of(b.ds, kFp32Bytes), kFp32, {c.rows})
      .run(b.scratch);
}

void ExpertParallelLayer::aggregate(const void* rows, void* to, bool weighted) {
  Buffers& b = *buffers_;
  const std::int64_t tokens = std::ssize(home_.token_offsets) - 1;
  const std::int64_t slots = std::ssize(home_.token_rows);
  auto policy = empty_policy<mxcheck_aggregate_policy>();
  policy.policy.size = sizeof(policy), policy.policy.layout = MXCHECK_COMPACT;
  policy.policy.format = "", policy.policy.recipe = "";
  policy.policy.rows = tokens, policy.policy.cols = spec_.width, policy.policy.threads = spec_.threads;
  policy.weighted = weighted ? 1 : 0;
  if (tokens == 0) return;
  LibraryCall call(device_, libraries_.named("aggregate"), &policy.policy);
  call.in(rows, kBf16, {home_.rows(), spec_.width});
  if (weighted) call.in(b.row_weight.data(), kFp32, {home_.rows()});
  call.in(b.token_offsets.data(), kInt64, {tokens + 1})
      .in(b.token_rows.data(), kInt32, {slots})
      .out(to, kBf16, {tokens, spec_.width})
      .run(b.scratch);
}

// ---- Passes ----

void ExpertParallelLayer::gather_x(const void* x) {
  Buffers& b = *buffers_;
  const std::int64_t tokens = std::ssize(home_.token_offsets) - 1;
  if (!spec_.dispatches_fp8) {
    device_.gather_rows(b.home_rows.data(), x, static_cast<const std::int32_t*>(b.row_token.data()), home_.rows(),
                        kBf16Bytes * spec_.width);
  } else if (home_.rows() != 0) {
    const mxcheck_policy codes = dispatch_policy(spec_, home_.rows());
    LibraryCall(device_, libraries_.named("quantize"), &codes)
        .in(x, kBf16, {tokens, spec_.width})
        .in(b.row_token.data(), kInt32, {home_.rows()})
        .out(b.home_codes.data(), kBytes, {home_.rows(), spec_.width})
        .out(b.home_scales.data(), kBytes, {home_.rows(), scale_blocks(spec_.width)})
        .run(b.scratch);
  }
}

PassTimes ExpertParallelLayer::forward(const void* x, const void* w1, const void* w2, void* o, Parts parts) {
  Buffers& b = *buffers_;
  Pass pass(device_, mesh_.rank(), parts);
  if (parts != Parts::transfers) gather_x(x);
  const int ready = device_.mark(Lane::compute);
  const std::int64_t row = kBf16Bytes * spec_.width;
  std::vector<int> arrived;
  for (int c = 0; c < spec_.chunks; ++c) {
    std::vector<Transfer> sends, receives;
    if (spec_.dispatches_fp8) {
      add_pieces(sends, rows_->home(c), {&b.home_codes, spec_.width});
      add_pieces(receives, rows_->expert(c), {&b.codes, spec_.width});
      add_pieces(sends, rows_->home(c), {&b.home_scales, scale_blocks(spec_.width)});
      add_pieces(receives, rows_->expert(c), {&b.scales, scale_blocks(spec_.width)});
    } else {
      add_pieces(sends, rows_->home(c), {&b.home_rows, row});
      add_pieces(receives, rows_->expert(c), {&b.x, row});
    }
    arrived.push_back(pass.transfer("dispatch of X, chunk " + std::to_string(c), ready, sends, receives));
  }
  int back = ready;
  for (int c = 0; c < spec_.chunks; ++c) {
    const int done = pass.compute(arrived[static_cast<std::size_t>(c)], [&] { run_forward_chunk(c, w1, w2); });
    std::vector<Transfer> sends, receives;
    add_pieces(sends, rows_->expert(c), {&b.y, row});
    add_pieces(receives, rows_->home(c), {&b.home_back, row});
    back = pass.transfer("combine of Y, chunk " + std::to_string(c), done, sends, receives);
  }
  device_.wait(Lane::compute, back);
  if (parts != Parts::transfers) aggregate(b.home_back.data(), o, true);
  const PassTimes times = pass.finish("forward");
  check_report(device_, b.scratch);
  return times;
}

PassTimes ExpertParallelLayer::backward(const void* d_o, const void* w1, const void* w2, void* dx, void* dw1, void* dw2,
                                        void* ds, Parts parts) {
  Buffers& b = *buffers_;
  Pass pass(device_, mesh_.rank(), parts);
  const std::int64_t row = kBf16Bytes * spec_.width;
  if (parts != Parts::transfers)
    device_.gather_rows(b.home_rows.data(), d_o, static_cast<const std::int32_t*>(b.row_token.data()), home_.rows(),
                        row);
  const int ready = device_.mark(Lane::compute);
  std::vector<int> arrived;
  for (int c = 0; c < spec_.chunks; ++c) {
    std::vector<Transfer> sends, receives;
    add_pieces(sends, rows_->home(c), {&b.home_rows, row});
    add_pieces(receives, rows_->expert(c), {&b.d_o, row});
    arrived.push_back(pass.transfer("dispatch of dO, chunk " + std::to_string(c), ready, sends, receives));
  }
  int back = ready;
  for (int c = 0; c < spec_.chunks; ++c) {
    const int done =
        pass.compute(arrived[static_cast<std::size_t>(c)], [&] { run_backward_chunk(c, w1, w2, dw1, dw2); });
    std::vector<Transfer> sends, receives;
    add_pieces(sends, rows_->expert(c), {&b.y, row});
    add_pieces(receives, rows_->home(c), {&b.home_back, row});
    add_pieces(sends, rows_->expert(c), {&b.ds, kFp32Bytes});
    add_pieces(receives, rows_->home(c), {&b.home_ds, kFp32Bytes});
    back = pass.transfer("combine of dX, chunk " + std::to_string(c), done, sends, receives);
  }
  device_.wait(Lane::compute, back);
  if (parts != Parts::transfers) aggregate(b.home_back.data(), dx, false);
  device_.copy(ds, b.home_ds.data(), size_of(home_.rows(), kFp32Bytes));
  const PassTimes times = pass.finish("backward");
  check_report(device_, b.scratch);
  return times;
}

}  // namespace mxcheck_kernels::parallel
