#include "kernels/parallel/expert_parallel.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/candidate_layer.h"
#include "kernels/parallel/library_call.h"
#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

template <class T>
Memory copy_of(Device& device, const std::vector<T>& values) {
  Memory memory(device, values.size() * sizeof(T));
  device.to_device(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

std::vector<std::int64_t> counted(std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), std::int64_t{0});
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

// Device memory. A row a token that travels: sent...; a row a token that is here: here...; results of rows at this
// rank's experts, in the order of results, and of those that come back: y, ds; x and d_o the former alone; weights,
// ds_of_row and what is kept: rows at this rank's experts in their own order.
struct ExpertParallelLayer::Buffers {
  Scratch scratch;
  Memory sent_tokens, token_offsets, token_results, result_weight, result_of_home_row;  // of the routes at home
  Memory sent_rows, sent_codes, sent_scales;
  Memory here_rows, here_codes, here_scales;
  Memory places, result_of_row, row_of_result;  // of results of rows at this rank's experts
  Memory x, d_o, y, ds;
  Memory weights, ds_of_row;
  Kept kept;
  std::vector<Exchange> dispatch_x, combine_y, dispatch_d_o, combine_dx;  // one a chunk
  // Routes of a chunk, in which every row is a token of its own: the one with the number of its result.
  Memory counted, ones;
  std::vector<Memory> offsets;
};

// Marks of a pass, and its bytes.
struct ExpertParallelLayer::Pass {
  Device& device;
  Parts parts = Parts::all;
  int begin = 0;
  PassTimes times;

  Pass(Device& of, Parts of_parts) : device(of), parts(of_parts), begin(of.mark(Lane::compute)) {}

  // One step of the transfer lane after the mark; returns its end.
  int transfer(const Exchange& step, int after) {
    device.wait(Lane::transfer, after);
    if (parts != Parts::compute) device.transfer(step.step, step.sends, step.receives);
    for (const Transfer& t : step.sends) times.sent += t.bytes;
    for (const Transfer& t : step.receives) times.received += t.bytes;
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
  std::vector<std::vector<std::int64_t>> counts = gather_counts("counts of rows", mine);
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
  sent_ = sent_tokens(placement_, mesh_.rank(), spec_.chunks, home_);
  const auto sent = gather_counts("counts of tokens", sent_.counts);
  arrivals_ = std::make_unique<Arrivals>(placement_, mesh_.rank(), spec_.chunks, sent);
  reserve();
  const Memory places = copy_of(device_, places_of_rows(placement_, mesh_.rank(), spec_.chunks, home_, sent_, sent));
  const Memory weights = copy_of(device_, home_.row_weight);
  Exchange routes{"routes", {}, {}};
  for (int c = 0; c < spec_.chunks; ++c) {
    add_pieces(routes.sends, rows_->home(c), {&weights, kFp32Bytes});
    add_pieces(routes.receives, rows_->expert(c), {&buffers_->weights, kFp32Bytes});
    add_pieces(routes.sends, rows_->home(c), {&places, kFp32Bytes});
    add_pieces(routes.receives, rows_->leaving(c), {&buffers_->places, kFp32Bytes});
  }
  connect(routes);
  device_.wait(Lane::transfer, device_.mark(Lane::compute));
  device_.transfer(routes.step, routes.sends, routes.receives);
  device_.wait(Lane::compute, device_.mark(Lane::transfer));
  device_.synchronize("routes");
  device_.forget_marks();
}

std::vector<std::vector<std::int64_t>> ExpertParallelLayer::gather_counts(const char* step,
                                                                          const std::vector<std::int64_t>& mine) {
  const std::string bytes(static_cast<const char*>(static_cast<const void*>(mine.data())),
                          mine.size() * sizeof(std::int64_t));
  std::vector<std::vector<std::int64_t>> counts;
  for (const std::string& text : mesh_.all_gather(step, bytes)) {
    if (text.size() != bytes.size()) throw ParallelError(Fault::disagreement, "ranks have other numbers of experts");
    counts.emplace_back(mine.size());
    std::memcpy(counts.back().data(), text.data(), text.size());
  }
  return counts;
}

void ExpertParallelLayer::reserve() {
  *buffers_ = Buffers();
  Buffers& b = *buffers_;
  const std::int64_t d = spec_.width, rows = rows_->rows(), results = rows_->results();
  const std::int64_t sent = std::ssize(sent_.tokens), here = arrivals_->tokens();
  const auto take = [&](std::int64_t count, std::int64_t row_bytes) {
    return Memory(device_, size_of(count, row_bytes));
  };
  b.sent_tokens = copy_of(device_, sent_.tokens), b.token_offsets = copy_of(device_, home_.token_offsets);
  // Routes at home by the places of their results.
  const std::vector<std::int32_t>& result_of = rows_->result_of_home_row();
  std::vector<std::int32_t> token_results(home_.token_rows);
  for (std::int32_t& row : token_results) row = row < 0 ? row : result_of[static_cast<std::size_t>(row)];
  std::vector<float> result_weight(static_cast<std::size_t>(results), 0.0F);
  for (std::size_t row = 0; row < result_of.size(); ++row)
    result_weight[static_cast<std::size_t>(result_of[row])] = home_.row_weight[row];
  b.token_results = copy_of(device_, token_results), b.result_weight = copy_of(device_, result_weight);
  b.result_of_home_row = copy_of(device_, result_of);
  b.sent_rows = take(sent, kBf16Bytes * d), b.here_rows = take(here, kBf16Bytes * d);
  if (spec_.dispatches_fp8) {
    b.sent_codes = take(sent, d), b.sent_scales = take(sent, scale_blocks(d));
    b.here_codes = take(here, d), b.here_scales = take(here, scale_blocks(d));
  }
  b.places = take(rows, kFp32Bytes), b.weights = take(rows, kFp32Bytes), b.ds_of_row = take(rows, kFp32Bytes);
  b.result_of_row = copy_of(device_, rows_->result_of_row());
  b.row_of_result = copy_of(device_, rows_->row_of_result());
  b.x = take(rows, kBf16Bytes * d), b.d_o = take(rows, kBf16Bytes * d);
  b.y = take(results, kBf16Bytes * d), b.ds = take(results, kFp32Bytes);
  b.kept = Kept(device_, spec_, rows, rows);
  std::int64_t most = 0;
  for (const Rows::Chunk& chunk : rows_->chunks()) {
    most = std::max(most, chunk.last_row - chunk.first_row);
    b.offsets.push_back(copy_of(device_, chunk.offsets));
  }
  b.counted = copy_of(device_, counted(most + 1));
  b.ones = copy_of(device_, std::vector<float>(static_cast<std::size_t>(most), 1.0F));
}

// The steps of both passes.
void ExpertParallelLayer::connect(const Exchange& routes) {
  Buffers& b = *buffers_;
  const std::int64_t row = kBf16Bytes * spec_.width;
  std::int64_t sent = 0;
  for (int c = 0; c < spec_.chunks; ++c) {
    const std::string chunk = ", chunk " + std::to_string(c);
    Exchange x{"dispatch of X" + chunk, {}, {}}, y{"combine of Y" + chunk, {}, {}};
    Exchange d_o{"dispatch of dO" + chunk, {}, {}}, dx{"combine of dX" + chunk, {}, {}};
    const std::vector<Rows::Piece> tokens = sent_pieces(c, sent);
    const auto dispatch = [&](Exchange& to, const RowsOfTensor& from, const RowsOfTensor& at) {
      add_pieces(to.sends, tokens, from), add_pieces(to.receives, arrivals_->chunk(c).pieces, at);
    };
    if (spec_.dispatches_fp8) {
      dispatch(x, {&b.sent_codes, spec_.width}, {&b.here_codes, spec_.width});
      dispatch(x, {&b.sent_scales, scale_blocks(spec_.width)}, {&b.here_scales, scale_blocks(spec_.width)});
    } else {
      dispatch(x, {&b.sent_rows, row}, {&b.here_rows, row});
    }
    dispatch(d_o, {&b.sent_rows, row}, {&b.here_rows, row});
    std::vector<Rows::Piece> away;
    for (const Rows::Piece& p : rows_->leaving(c)) {
      if (p.peer != mesh_.rank()) away.push_back(p);
    }
    for (Exchange* const to : {&y, &dx}) {
      add_pieces(to->sends, away, {&b.y, row}), add_pieces(to->receives, rows_->back(c), {&b.y, row});
    }
    add_pieces(dx.sends, away, {&b.ds, kFp32Bytes}), add_pieces(dx.receives, rows_->back(c), {&b.ds, kFp32Bytes});
    b.dispatch_x.push_back(std::move(x)), b.combine_y.push_back(std::move(y));
    b.dispatch_d_o.push_back(std::move(d_o)), b.combine_dx.push_back(std::move(dx));
  }
  std::vector<Exchange> all{routes};
  for (const auto* steps : {&b.dispatch_x, &b.combine_y, &b.dispatch_d_o, &b.combine_dx})
    all.insert(all.end(), steps->begin(), steps->end());
  device_.connect(all);
}

// Tokens of a chunk for each rank, among those that travel; `begin` is the chunk's first, and becomes the next one's.
std::vector<Rows::Piece> ExpertParallelLayer::sent_pieces(int chunk, std::int64_t& begin) const {
  std::vector<Rows::Piece> pieces;
  for (int r = 0; r < placement_.ranks; ++r) {
    const std::int64_t count =
        sent_.counts[static_cast<std::size_t>(chunk) * static_cast<std::size_t>(placement_.ranks) +
                     static_cast<std::size_t>(r)];
    pieces.push_back({r, begin, count});
    begin += count;
  }
  return pieces;
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
  if (c.rows == 0) return;  // and no token has come with it
  const std::int64_t d = spec_.width, n = spec_.inner, h = 2 * n;
  if (spec_.dispatches_fp8) dequantize_here(arrivals_->chunk(chunk).first, arrivals_->chunk(chunk).last);
  expand(c.first_row, c.rows, b.x);  // in the order of results
  const mxcheck_moe_policy policy = moe_policy(spec_, c.rows, c.rows, c.experts);
  LibraryCall call(device_, libraries_.named("moe_forward"), &policy.policy);
  call.in(c.of(b.x, kBf16Bytes * d), kBf16, {c.rows, d})
      .in(matrices_of(w1, c.first_expert, d * h, kBf16Bytes), kBf16, {c.experts * d, h})
      .in(matrices_of(w2, c.first_expert, n * d, kBf16Bytes), kBf16, {c.experts * n, d})
      .in(c.of(b.result_of_row, kFp32Bytes), kInt32, {c.rows})
      .in(b.ones.data(), kFp32, {c.rows})
      .in(b.counted.data(), kInt64, {c.rows + 1})
      .in(c.of(b.row_of_result, kFp32Bytes), kInt32, {c.rows})
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
  expand(c.first_row, c.rows, b.d_o);
  const mxcheck_moe_policy policy = moe_policy(spec_, c.rows, c.rows, c.experts);
  LibraryCall call(device_, libraries_.named("moe_backward"), &policy.policy);
  call.in(c.of(b.d_o, kBf16Bytes * d), kBf16, {c.rows, d})
      .in(matrices_of(w1, c.first_expert, d * h, kBf16Bytes), kBf16, {c.experts * d, h})
      .in(matrices_of(w2, c.first_expert, n * d, kBf16Bytes), kBf16, {c.experts * n, d});
  b.kept.add_inputs(call, c.first_row, c.rows, c.rows, c.of(b.x, kBf16Bytes * d));
  call.in(c.of(b.result_of_row, kFp32Bytes), kInt32, {c.rows})
      .in(c.of(b.weights, kFp32Bytes), kFp32, {c.rows})
      .in(b.counted.data(), kInt64, {c.rows + 1})
      .in(c.of(b.row_of_result, kFp32Bytes), kInt32, {c.rows})
      .in(b.offsets[static_cast<std::size_t>(chunk)].data(), kInt64, {c.experts + 1})
      .out(c.of(b.y, kBf16Bytes * d), kBf16, {c.rows, d})
      .out(dw1_here, kFp32, {c.experts * d, h})
      .out(dw2_here, kFp32, {c.experts * n, d})
      .out(c.of(b.ds_of_row, kFp32Bytes), kFp32, {c.rows})
      .run(b.scratch);
  device_.gather_rows(c.of(b.ds, kFp32Bytes), c.of(b.ds_of_row, kFp32Bytes),
                      static_cast<const std::int32_t*>(c.of(b.row_of_result, kFp32Bytes)), c.rows, kFp32Bytes);
}

void ExpertParallelLayer::aggregate(void* to, bool weighted) {
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
  call.in(b.y.data(), kBf16, {rows_->results(), spec_.width});
  if (weighted) call.in(b.result_weight.data(), kFp32, {rows_->results()});
  call.in(b.token_offsets.data(), kInt64, {tokens + 1})
      .in(b.token_results.data(), kInt32, {slots})
      .out(to, kBf16, {tokens, spec_.width})
      .run(b.scratch);
}

// ---- Passes ----

// A row of its token for each result of these rows.
void ExpertParallelLayer::expand(std::int64_t first_row, std::int64_t rows, const Memory& to) {
  const std::int64_t row = kBf16Bytes * spec_.width;
  device_.gather_rows(to.at(size_of(first_row, row)), buffers_->here_rows.data(),
                      static_cast<const std::int32_t*>(buffers_->places.data()) + first_row, rows, row);
}

void ExpertParallelLayer::dequantize_here(std::int64_t first, std::int64_t last) {
  Buffers& b = *buffers_;
  const std::int64_t d = spec_.width, blocks = scale_blocks(d);
  if (first == last) return;
  const mxcheck_policy codes = dispatch_policy(spec_, last - first);
  LibraryCall(device_, libraries_.named("dequantize"), &codes)
      .in(b.here_codes.at(size_of(first, d)), kBytes, {last - first, d})
      .in(b.here_scales.at(size_of(first, blocks)), kBytes, {last - first, blocks})
      .out(b.here_rows.at(size_of(first, kBf16Bytes * d)), kBf16, {last - first, d})
      .run(b.scratch);
}

// Tokens that travel, chunk by chunk, and then those that are here already. Marks of the chunks.
std::vector<int> ExpertParallelLayer::gather_tokens(const void* tokens, bool in_fp8, Parts parts) {
  Buffers& b = *buffers_;
  const std::int64_t d = spec_.width, blocks = scale_blocks(d), own = arrivals_->own();
  std::vector<int> ready;
  std::int64_t first = 0;
  for (int c = 0; c < spec_.chunks; ++c) {
    std::int64_t last = first;
    (void)sent_pieces(c, last);
    const auto* const index = static_cast<const std::int32_t*>(b.sent_tokens.data()) + first;
    if (parts != Parts::transfers && last > first && in_fp8) {
      const mxcheck_policy codes = dispatch_policy(spec_, last - first);
      LibraryCall(device_, libraries_.named("quantize"), &codes)
          .in(tokens, kBf16, {own, d})
          .in(index, kInt32, {last - first})
          .out(b.sent_codes.at(size_of(first, d)), kBytes, {last - first, d})
          .out(b.sent_scales.at(size_of(first, blocks)), kBytes, {last - first, blocks})
          .run(b.scratch);
    } else if (parts != Parts::transfers && last > first) {
      device_.gather_rows(b.sent_rows.at(size_of(first, kBf16Bytes * d)), tokens, index, last - first, kBf16Bytes * d);
    }
    ready.push_back(device_.mark(Lane::compute));
    first = last;
  }
  if (parts == Parts::transfers || own == 0) return ready;
  if (!in_fp8) {
    device_.copy(b.here_rows.data(), tokens, size_of(own, kBf16Bytes * d));
    return ready;
  }
  const mxcheck_policy codes = dispatch_policy(spec_, own);
  LibraryCall(device_, libraries_.named("quantize"), &codes)
      .in(tokens, kBf16, {own, d})
      .out(b.here_codes.data(), kBytes, {own, d})
      .out(b.here_scales.data(), kBytes, {own, blocks})
      .run(b.scratch);
  dequantize_here(0, own);
  return ready;
}

PassTimes ExpertParallelLayer::forward(const void* x, const void* w1, const void* w2, void* o, Parts parts) {
  Buffers& b = *buffers_;
  Pass pass(device_, parts);
  const std::vector<int> ready = gather_tokens(x, spec_.dispatches_fp8, parts);
  std::vector<int> arrived;
  for (std::size_t c = 0; c < ready.size(); ++c) arrived.push_back(pass.transfer(b.dispatch_x[c], ready[c]));
  int back = ready.back();
  for (std::size_t c = 0; c < ready.size(); ++c) {
    const int done = pass.compute(arrived[c], [&] { run_forward_chunk(static_cast<int>(c), w1, w2); });
    back = pass.transfer(b.combine_y[c], done);
  }
  device_.wait(Lane::compute, back);
  if (parts != Parts::transfers) aggregate(o, true);
  const PassTimes times = pass.finish("forward");
  check_report(device_, b.scratch);
  return times;
}

PassTimes ExpertParallelLayer::backward(const void* d_o, const void* w1, const void* w2, void* dx, void* dw1, void* dw2,
                                        void* ds, Parts parts) {
  Buffers& b = *buffers_;
  Pass pass(device_, parts);
  const std::vector<int> ready = gather_tokens(d_o, false, parts);
  std::vector<int> arrived;
  for (std::size_t c = 0; c < ready.size(); ++c) arrived.push_back(pass.transfer(b.dispatch_d_o[c], ready[c]));
  int back = ready.back();
  for (std::size_t c = 0; c < ready.size(); ++c) {
    const int done = pass.compute(arrived[c], [&] { run_backward_chunk(static_cast<int>(c), w1, w2, dw1, dw2); });
    back = pass.transfer(b.combine_dx[c], done);
  }
  device_.wait(Lane::compute, back);
  if (parts != Parts::transfers) {
    aggregate(dx, false);
    device_.gather_rows(ds, b.ds.data(), static_cast<const std::int32_t*>(b.result_of_home_row.data()), home_.rows(),
                        kFp32Bytes);
  }
  const PassTimes times = pass.finish("backward");
  check_report(device_, b.scratch);
  return times;
}

}  // namespace mxcheck_kernels::parallel
