#include "benchmarks/sm90/gemm/gemm_case.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "benchmarks/sm90/common/fill.h"
#include "numerics/error.h"
#include "properties/gpu_model/gpu_model.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr std::size_t kMostCopies = 16;

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }
std::uint64_t count(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols);
}

void check_model(int status, const char* message) {
  if (status != 0) throw Error(ErrorKind::internal, std::string("the GPU model: ") + message);
}

void upload(const DeviceBuffer& to, const void* from) {
  check_cuda(cudaMemcpy(to.data(), from, to.bytes(), cudaMemcpyHostToDevice), "upload");
}

}  // namespace

GemmLibrary::GemmLibrary(const std::string& path) : table_(&load_candidate(path)) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // once more what is loaded
  void* const symbol = library == nullptr ? nullptr : dlsym(library, MXCHECK_PEER_SYMBOL);
  if (symbol == nullptr) return;
  steps_ = reinterpret_cast<mxcheck_peer_function>(symbol)();
  if (steps_ != nullptr && steps_->size != sizeof(mxcheck_peer_steps)) {
    throw Error(ErrorKind::environment, path + " has steps of another version than benchmarks/peers/peer.h");
  }
}

const mxcheck_operation* GemmLibrary::find(const GemmRequest& request) const {
  const mxcheck_matmul_policy policy = policy_of(request);
  for (std::int32_t i = 0; i < table_->num_operations; ++i) {
    const mxcheck_operation& o = table_->operations[i];
    if (std::string(o.name) != "matmul" || o.contract == nullptr || request.contract != o.contract) continue;
    if (o.supports == nullptr ||
        o.supports(&policy.policy, request.accumulates() ? kFloat32 : kBfloat16) == MXCHECK_OK) {
      return &o;
    }
  }
  return nullptr;
}

std::string GemmLibrary::name() const { return std::string(table_->name) + " " + table_->version; }

GemmCase::GemmCase(const mxcheck_operation& operation, const GemmRequest& request, std::uint64_t least_bytes)
    : operation_(operation),
      request_(request),
      offsets_(ends_of(request)),
      offsets_memory_(offsets_.size() * 8),
      report_(sizeof(mxcheck_device_report)),
      one_(sizeof(float)) {
  const float one = 1;
  upload(one_, &one);
  upload(offsets_memory_, offsets_.data());
  check_cuda(cudaMemset(report_.data(), 0, report_.bytes()), "report");
  std::uint64_t bytes = 0;
  std::uint64_t each = 0;  // what one run of ours touches
  do {
    Set set = make_set(static_cast<std::uint32_t>(sets_.size()) * 16);
    set.asked = bind(set, request_);
    if (!request_.is_masked()) set.dense = bind(set, in_form(GemmForm::dense));
    each = set.codes_a(request_)->bytes() + set.codes_b(request_)->bytes() + set.d->bytes();
    sets_.push_back(std::move(set));
    bytes += each;
  } while ((bytes < least_bytes || sets_.size() < 2) && sets_.size() < kMostCopies);
  check_cuda(cudaDeviceSynchronize(), "filling");
}

GemmRequest GemmCase::in_form(GemmForm form) const {
  GemmRequest r = request_;
  if (form == GemmForm::dense) r.grouping = MXCHECK_DENSE, r.experts = 1, r.ragged = false;
  return r;
}

GemmCase::Set GemmCase::make_set(std::uint32_t seed) const {
  const GemmRequest& r = request_;
  const bool wide = r.format == "bf16";
  const std::int64_t matrices = r.matrices();
  const std::int64_t outputs = r.grouping == MXCHECK_DEPTH ? r.experts : 1;
  const auto filled = [&](std::int64_t rows, std::int64_t cols, Filling filling, std::uint64_t width) {
    const std::uint64_t n = count(rows, cols);
    auto memory = std::make_unique<DeviceBuffer>(n * width);
    fill(memory->data(), static_cast<std::int64_t>(n), filling, ++seed, nullptr);
    return memory;
  };
  Set set;
  // cuBLASLt's types of operands are there too; of experts, it needs the first.
  set.a = filled(r.m, r.k, Filling::e4m3, 1);
  set.b = filled((wide ? 1 : matrices) * r.n, r.k, Filling::e4m3, 1);
  set.wide_a = filled(r.m, r.k, Filling::bf16, 2);
  set.wide_b = filled((wide ? matrices : 1) * r.n, r.k, Filling::bf16, 2);
  if (r.packs()) {
    set.packed_a = filled(r.m, blocks(r.k, 2), Filling::two_codes, 1);
    set.packed_b = filled(matrices * r.n, blocks(r.k, 2), Filling::two_codes, 1);
  }
  if (r.scale != MXCHECK_NO_SCALES) {
    const bool fp32 = r.scale == MXCHECK_FP32;
    const Filling filling = fp32 ? Filling::fp32_scales : r.packs() ? Filling::e4m3_scales : Filling::e8m0_scales;
    set.scale_a = filled(r.m, blocks(r.k, r.block), filling, fp32 ? 4 : 1);
    set.scale_b = filled(matrices * blocks(r.n, r.b_rows), blocks(r.k, r.block), filling, fp32 ? 4 : 1);
  }
  make_lt_scales(set, seed + 1);
  set.d = filled(outputs * r.m, r.n, r.accumulates() ? Filling::fp32 : Filling::bf16, r.accumulates() ? 4 : 2);
  return set;
}

// The same scales where ours are of 128 columns, others of the same size where they are not.
void GemmCase::make_lt_scales(Set& set, std::uint32_t seed) const {
  const GemmRequest& r = request_;
  const std::int64_t of_k = blocks(r.k, 128);
  const bool square = lt_problem(LtMode::fp8_blocks).square;
  const std::int64_t b_count = square ? blocks(r.n, 128) * ((of_k + 3) / 4 * 4) : r.n * of_k;
  set.lt_scale_a = std::make_unique<DeviceBuffer>(count(r.m, of_k) * 4);
  set.lt_scale_b = std::make_unique<DeviceBuffer>(static_cast<std::uint64_t>(b_count) * 4);
  auto* const a = static_cast<float*>(set.lt_scale_a->data());
  auto* const b = static_cast<float*>(set.lt_scale_b->data());
  if (r.block != 128) {
    fill(a, r.m * of_k, Filling::fp32_scales, seed, nullptr);
    fill(b, b_count, Filling::fp32_scales, seed + 1, nullptr);
    return;
  }
  const bool e8m0 = r.scale == MXCHECK_E8M0;
  scales_by_block(set.scale_a->data(), e8m0, r.m, of_k, a, nullptr);
  if (square) {
    scales_padded(set.scale_b->data(), e8m0, blocks(r.n, 128), of_k, b, nullptr);
  } else {
    scales_by_block(set.scale_b->data(), e8m0, r.n, of_k, b, nullptr);
  }
}

GemmCase::Bound GemmCase::bind(const Set& set, const GemmRequest& r) const {
  Bound bound;
  bound.policy = policy_of(r);
  // The text outlives this request: it is the member's.
  bound.policy.policy.format = bound.policy.format_b = request_.format.c_str();
  bound.policy.policy.rows = r.m, bound.policy.policy.cols = r.n, bound.policy.depth = r.k;
  int at = 0;
  const auto add = [&](void* data, DLDataType type, std::int64_t rows, std::int64_t cols) {
    DLTensor& t = bound.tensors[static_cast<std::size_t>(at)];
    bound.shapes[static_cast<std::size_t>(at)] = {rows, cols};
    t.data = data, t.device = {kDLCUDA, 0}, t.ndim = 2, t.dtype = type;
    ++at;
    return &t;
  };
  const bool wide = r.format == "bf16";
  const std::int64_t matrices = r.matrices();
  const std::int64_t outputs = r.grouping == MXCHECK_DEPTH ? r.experts : 1;
  const DLDataType code = wide ? kBfloat16 : kByte;
  const std::int64_t columns = r.packs() ? blocks(r.k, 2) : r.k;
  add(set.codes_a(r)->data(), code, r.m, columns);
  add(set.codes_b(r)->data(), code, matrices * r.n, columns);
  if (r.scale != MXCHECK_NO_SCALES) {
    const DLDataType type = r.scale == MXCHECK_FP32 ? kFloat32 : kByte;
    add(set.scale_a->data(), type, r.m, blocks(r.k, r.block));
    add(set.scale_b->data(), type, matrices * blocks(r.n, r.b_rows), blocks(r.k, r.block));
  }
  const DLDataType output = request_.accumulates() ? kFloat32 : kBfloat16;
  if (request_.accumulates()) {
    bound.policy.accumulate = 1;
    add(set.d->data(), output, outputs * r.m, r.n);
  }
  if (r.grouping != MXCHECK_DENSE) {
    add(offsets_memory_.data(), {kDLInt, 64, 1}, static_cast<std::int64_t>(offsets_.size()), 1)->ndim = 1;
  }
  bound.inputs = at;
  add(set.d->data(), output, outputs * r.m, r.n);
  return bound;
}

mxcheck_status GemmCase::try_run(const mxcheck_operation& operation, const Bound& bound,
                                 std::unique_ptr<DeviceBuffer>& workspace, cudaStream_t stream, std::string& message,
                                 const Run& run) {
  std::array<char, 512> text{};
  std::array<DLTensor, 7> tensors = bound.tensors;
  auto shapes = bound.shapes;
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].shape = shapes[i].data();
  mxcheck_call call{};
  call.size = sizeof call;
  call.num_inputs = bound.inputs, call.num_outputs = 1;
  call.policy = &bound.policy.policy;
  call.inputs = tensors.data(), call.outputs = &tensors[static_cast<std::size_t>(bound.inputs)];
  call.message = text.data(), call.message_bytes = text.size();
  call.stream = stream;
  call.report = static_cast<mxcheck_device_report*>(report_.data());
  std::uint64_t bytes = 0;
  mxcheck_status status = MXCHECK_OK;
  if (operation.workspace != nullptr) status = operation.workspace(&call, &bytes);
  if (status == MXCHECK_OK && bytes != 0) {
    if (!workspace || workspace->bytes() < bytes) workspace = std::make_unique<DeviceBuffer>(bytes);
    call.workspace = workspace->data(), call.workspace_bytes = bytes;
  }
  if (status == MXCHECK_OK) status = run ? run(call) : operation.run(&call);
  message = text.data();
  return status;
}

void GemmCase::enqueue(GemmForm form, std::size_t copy, cudaStream_t stream) {
  const Set& set = sets_[copy % sets_.size()];
  std::string message;
  if (try_run(operation_, form == GemmForm::dense ? set.dense : set.asked, workspace_, stream, message) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, in_form(form).text() + ": " + message);
  }
}

GemmCheck GemmCase::check(GemmForm form, cudaStream_t stream) {
  const GemmRequest r = in_form(form);
  const Set& set = sets_[0];
  GemmCheck result;
  std::unique_ptr<DeviceBuffer> c;
  if (request_.accumulates()) {
    c = std::make_unique<DeviceBuffer>(set.d->bytes());
    check_cuda(cudaMemcpyAsync(c->data(), set.d->data(), c->bytes(), cudaMemcpyDeviceToDevice, stream), "c");
  } else {
    check_cuda(cudaMemsetAsync(set.d->data(), 0xA5, set.d->bytes(), stream), "poison");
  }
  const mxcheck_status status =
      try_run(operation_, form == GemmForm::dense ? set.dense : set.asked, workspace_, stream, result.message);
  if (status == MXCHECK_UNSUPPORTED) {
    result.offered = false;
    return result;
  }
  if (status != MXCHECK_OK) throw Error(ErrorKind::internal, r.text() + ": " + result.message);
  check_cuda(cudaStreamSynchronize(stream), r.text().c_str());
  mxcheck_device_report report{};
  check_cuda(cudaMemcpy(&report, report_.data(), sizeof report, cudaMemcpyDeviceToHost), "report");
  if (report.status != MXCHECK_OK) {
    throw Error(ErrorKind::internal, r.text() + ": the device reports: " + report.message);
  }
  compare(r, set, c ? static_cast<const float*>(c->data()) : nullptr, result, stream);
  return result;
}

// --- a library beside ours

mxcheck_status GemmCase::prepared(std::size_t copy, bool prepares, cudaStream_t stream, std::string& message) {
  prepared_.resize(sets_.size());
  const std::size_t at = copy % sets_.size();
  return try_run(*beside_, sets_[at].asked, prepared_[at], stream, message, [&](const mxcheck_call& call) {
    return prepares ? beside_steps_->prepare(&call) : beside_steps_->run_prepared(&call, request_.rows);
  });
}

std::vector<std::byte> GemmCase::output_of(const DeviceBuffer* c, cudaStream_t stream, GemmCheck& result,
                                           const std::function<mxcheck_status(std::string&)>& run) {
  const DeviceBuffer& d = *sets_[0].d;
  if (c != nullptr) {
    check_cuda(cudaMemcpyAsync(d.data(), c->data(), d.bytes(), cudaMemcpyDeviceToDevice, stream), "c");
  } else {
    check_cuda(cudaMemsetAsync(d.data(), 0xA5, d.bytes(), stream), "poison");
  }
  const mxcheck_status status = run(result.message);
  check_cuda(cudaStreamSynchronize(stream), request_.text().c_str());
  mxcheck_device_report report{};
  check_cuda(cudaMemcpy(&report, report_.data(), sizeof report, cudaMemcpyDeviceToHost), "report");
  check_cuda(cudaMemset(report_.data(), 0, report_.bytes()), "report");
  if (report.status != MXCHECK_OK) result.message = report.message;
  result.offered = status != MXCHECK_UNSUPPORTED && report.status != MXCHECK_UNSUPPORTED;
  if (result.offered && (status != MXCHECK_OK || report.status != MXCHECK_OK)) {
    throw Error(ErrorKind::internal, request_.text() + ": " + result.message);
  }
  std::vector<std::byte> bytes(d.bytes());
  check_cuda(cudaMemcpy(bytes.data(), d.data(), d.bytes(), cudaMemcpyDeviceToHost), "download");
  return bytes;
}

GemmCheck GemmCase::check_beside(const mxcheck_operation& operation, const mxcheck_peer_steps* steps,
                                 cudaStream_t stream) {
  beside_ = &operation, beside_steps_ = steps;
  const Set& set = sets_[0];
  std::unique_ptr<DeviceBuffer> c;
  if (request_.accumulates()) {
    c = std::make_unique<DeviceBuffer>(set.d->bytes());
    check_cuda(cudaMemcpy(c->data(), set.d->data(), c->bytes(), cudaMemcpyDeviceToDevice), "c");
  }
  GemmCheck result;
  const std::vector<std::byte> ours = output_of(c.get(), stream, result, [&](std::string& message) {
    return try_run(operation_, set.asked, workspace_, stream, message);
  });
  const std::vector<std::byte> whole = output_of(c.get(), stream, result, [&](std::string& message) {
    return try_run(operation, set.asked, beside_workspace_, stream, message);
  });
  if (!result.offered) return result;
  result = compare_outputs(request_, ours, whole);
  if (steps == nullptr) return result;
  GemmCheck alone;
  for (std::size_t copy = 0; copy < sets_.size(); ++copy) {
    if (prepared(copy, true, stream, alone.message) != MXCHECK_OK) {
      throw Error(ErrorKind::internal, request_.text() + ", beside: " + alone.message);
    }
  }
  const std::vector<std::byte> of_kernel =
      output_of(c.get(), stream, alone, [&](std::string& message) { return prepared(0, false, stream, message); });
  if (alone.offered) alone = compare_outputs(request_, ours, of_kernel);
  return result.equal ? alone : result;
}

void GemmCase::enqueue_beside(std::size_t copy, cudaStream_t stream) {
  std::string message;
  const Set& set = sets_[copy % sets_.size()];
  if (try_run(*beside_, set.asked, beside_workspace_, stream, message) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, request_.text() + ", beside: " + message);
  }
}

void GemmCase::enqueue_prepared(std::size_t copy, cudaStream_t stream) {
  std::string message;
  if (prepared(copy, false, stream, message) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, request_.text() + ", beside: " + message);
  }
}

// --- comparison with the model

void GemmCase::compare(const GemmRequest& r, const Set& set, const float* c, GemmCheck& result, cudaStream_t stream) {
  std::array<char, 256> message{};
  const std::int64_t matrices = r.matrices();
  const std::int64_t outputs = r.grouping == MXCHECK_DEPTH ? r.experts : 1;
  const bool wide = r.format == "bf16";
  MxcheckGpuModelCall call{};
  call.a_format = call.b_format = wide || r.decodes() ? MXCHECK_GPU_MODEL_BF16 : MXCHECK_GPU_MODEL_E4M3;
  call.a = set.codes_a(r)->data(), call.b = set.codes_b(r)->data();
  call.m = r.m, call.n = r.n, call.k = r.k;
  std::unique_ptr<DeviceBuffer> decoded_a;
  std::unique_ptr<DeviceBuffer> decoded_b;
  if (r.decodes()) {
    const auto decoded = [&](const DeviceBuffer& codes, const DeviceBuffer& scales, std::int64_t rows) {
      auto out = std::make_unique<DeviceBuffer>(count(rows, r.k) * 2);
      const auto decode = r.packs() ? mxcheck_gpu_model_decode_nvfp4 : mxcheck_gpu_model_decode_mx;
      check_model(
          decode(static_cast<const std::uint8_t*>(codes.data()), static_cast<const std::uint8_t*>(scales.data()), rows,
                 r.k, static_cast<std::uint16_t*>(out->data()), stream, message.data(), message.size()),
          message.data());
      return out;
    };
    decoded_a = decoded(*set.codes_a(r), *set.scale_a, r.m);
    decoded_b = decoded(*set.codes_b(r), *set.scale_b, matrices * r.n);
    call.a = decoded_a->data(), call.b = decoded_b->data();
  } else if (r.scale != MXCHECK_NO_SCALES) {
    call.promotion = 128;
    call.scale_format = r.scale == MXCHECK_E8M0 ? MXCHECK_GPU_MODEL_SCALE_E8M0 : MXCHECK_GPU_MODEL_SCALE_FP32;
    call.scale_a = set.scale_a->data(), call.scale_b = set.scale_b->data();
    call.scale_a_block = call.scale_b_block = static_cast<std::int32_t>(r.block);
    call.scale_b_rows = static_cast<std::int32_t>(r.b_rows);
  }
  call.groups = r.grouping == MXCHECK_ROWS    ? MXCHECK_GPU_MODEL_ALONG_M
                : r.grouping == MXCHECK_DEPTH ? MXCHECK_GPU_MODEL_ALONG_K
                                              : MXCHECK_GPU_MODEL_DENSE;
  call.experts = r.experts;
  call.offsets = static_cast<const std::int64_t*>(offsets_memory_.data()) + 1;
  if (r.grouping == MXCHECK_DENSE || r.is_masked()) call.experts = 1, call.offsets = nullptr;
  call.alpha = 1;
  call.output = request_.accumulates() ? MXCHECK_GPU_MODEL_OUT_FP32 : MXCHECK_GPU_MODEL_OUT_BF16;
  call.c = c;
  call.d = set.d->data();
  if (r.is_masked()) return compare_groups(call, result, stream);
  const auto [report, seconds] = run_model(&mxcheck_gpu_model_compare, call, stream);
  result.model_seconds = seconds;
  const std::uint64_t all = count(outputs * r.m, r.n);
  result.compared = report.compared;
  result.equal = report.differing == 0 && report.compared == all && report.bad_offsets == 0 && report.bad_rows == 0;
  if (result.equal) return;
  if (report.differing == 0) {
    result.message = fmt::format("{} of {} outputs were compared", report.compared, all);
    return;
  }
  const auto columns = static_cast<std::uint64_t>(r.n);
  result.message = fmt::format("{} of {} outputs differ, first at row {} column {}: expected {:08x}, observed {:08x}",
                               report.differing, all, report.first / columns, report.first % columns, report.expected,
                               report.observed);
}

// Each masked group as a dense GEMM of its rows.
void GemmCase::compare_groups(const MxcheckGpuModelCall& all, GemmCheck& result, cudaStream_t stream) {
  const GemmRequest& r = request_;
  const std::int64_t capacity = r.m / r.experts;
  const std::int64_t code_bytes = all.a_format == MXCHECK_GPU_MODEL_BF16 ? 2 : 1;
  const std::int64_t scale_bytes = r.scale == MXCHECK_FP32 ? 4 : 1;
  const auto moved = [](const void* from, std::int64_t bytes) { return static_cast<const char*>(from) + bytes; };
  result.equal = true;
  for (std::int64_t e = 0; e < r.experts; ++e) {
    MxcheckGpuModelCall call = all;
    call.m = r.rows;
    call.a = moved(all.a, e * capacity * r.k * code_bytes);
    call.b = moved(all.b, e * r.n * r.k * code_bytes);
    if (all.scale_a != nullptr) {
      const std::int64_t line = blocks(r.k, r.block) * scale_bytes;
      call.scale_a = moved(all.scale_a, e * capacity * line);
      call.scale_b = moved(all.scale_b, e * blocks(r.n, r.b_rows) * line);
    }
    call.d = static_cast<char*>(all.d) + e * capacity * r.n * 2;
    const auto [report, seconds] = run_model(&mxcheck_gpu_model_compare, call, stream);
    result.model_seconds += seconds, result.compared += report.compared;
    if (report.differing == 0 && report.compared == count(r.rows, r.n)) continue;
    result.equal = false;
    result.message = fmt::format("group {}: {} of {} outputs differ", e, report.differing, report.compared);
  }
}

LtProblem GemmCase::lt_problem(LtMode mode) const {
  const GemmRequest& r = request_;
  LtProblem p;
  p.mode = mode;
  p.m = r.m, p.n = r.n, p.k = r.k, p.stride = r.k;
  if (r.grouping == MXCHECK_DEPTH) p.k = r.k / r.experts;
  p.square = r.block == 128 ? r.b_rows == 128 : r.grouping != MXCHECK_DEPTH;
  p.accumulates = r.accumulates();
  return p;
}

std::vector<LtOperands> GemmCase::lt_operands(LtMode mode, std::size_t copy) const {
  const GemmRequest& r = request_;
  const Set& set = sets_[copy % sets_.size()];
  const bool wide = mode == LtMode::bf16;
  const bool by_block = mode == LtMode::fp8_blocks;
  const auto* const one = static_cast<const float*>(one_.data());
  std::vector<LtOperands> all;
  for (std::int64_t e = 0; e < (r.grouping == MXCHECK_DEPTH ? r.experts : 1); ++e) {
    const std::int64_t begin = e * (r.k / r.experts);
    const auto operand = [&](const DeviceBuffer& from) {
      return static_cast<const char*>(from.data()) + begin * (wide ? 2 : 1);
    };
    LtOperands o;
    o.a = operand(wide ? *set.wide_a : *set.a);
    o.b = operand(wide ? *set.wide_b : *set.b);
    // Groups have 1x128 blocks on both sides, whose scales lie block by block.
    o.scale_a = by_block ? static_cast<const float*>(set.lt_scale_a->data()) + begin / 128 * r.m : one;
    o.scale_b = by_block ? static_cast<const float*>(set.lt_scale_b->data()) + begin / 128 * r.n : one;
    o.d = static_cast<char*>(set.d->data()) + e * r.m * r.n * (r.accumulates() ? 4 : 2);
    all.push_back(o);
  }
  return all;
}

double GemmCase::distance(LtMatmul& lt, LtMode mode, cudaStream_t stream) {
  if (request_.accumulates()) return std::numeric_limits<double>::quiet_NaN();
  enqueue(GemmForm::dense, 0, stream);
  const Set& set = sets_[0];
  const DeviceBuffer other(set.d->bytes());
  const DeviceBuffer sums(2 * sizeof(double));
  check_cuda(cudaMemsetAsync(other.data(), 0xFF, other.bytes(), stream), "poison");
  check_cuda(cudaMemsetAsync(sums.data(), 0, sums.bytes(), stream), "sums");
  LtOperands operands = lt_operands(mode, 0)[0];
  operands.d = other.data();
  lt.enqueue(operands, stream);
  add_squares(set.d->data(), other.data(), request_.m * request_.n, static_cast<double*>(sums.data()), stream);
  check_cuda(cudaStreamSynchronize(stream), "the distance");
  std::array<double, 2> host{};
  check_cuda(cudaMemcpy(host.data(), sums.data(), sums.bytes(), cudaMemcpyDeviceToHost), "sums");
  return std::sqrt(host[0] / host[1]);
}

}  // namespace mxcheck::bench
