// The forward pass of few tokens as a plan. In the workspace: the routes' header, the list of experts with rows,
// counters, rows of X, A, Y, and H where it is kept in E5M6; the rows of X and of A with some more after them, which
// the GEMMs read and do not use.

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/few/jobs.h"
#include "kernels/sm90/moe/few/plan.h"
#include "kernels/sm90/moe/moe_builder.h"
#include "kernels/sm90/moe/moe_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBlock = 128;

// Rows of an item, by how many an expert has if all have as many.
int item_rows(const MoeCall& c) {
  const std::int64_t mean = c.routed / c.experts;
  if (c.tokens <= 8 || mean <= 3) return 8;
  return c.tokens <= 32 || mean <= 16 ? 32 : 128;
}

// The parts of a plan, in the order in which it is made.
class FewPass {
 public:
  FewPass(const MoeCall& call, const MoeCodedWeights* weights, const KeptJob& kept = {})
      : c_(call), weights_(weights), kept_(kept), fp8_(call.recipe->fp8()), memory_(call.workspace) {}

  MoePlan plan() {
    lay_out();
    add_prepare();
    add("up", up_job(), c_.d, 2 * c_.n, {"up", up_job().d, bytes_of(c_.routed, c_.n, 4)});
    add("down", down_job(), c_.n, c_.d, {"down", down_job().d, bytes_of(c_.routed, c_.d, 2)});
    plan_.workspace_bytes = memory_.bytes();
    return std::move(plan_);
  }

 private:
  template <class T>
  T* take(std::int64_t rows, std::int64_t row_bytes) {
    return memory_.at<T>(memory_.take(rows, row_bytes));
  }
  FewCodes take_codes(std::int64_t cols) {
    FewCodes codes;
    codes.codes = take<std::uint8_t>(c_.routed + kFewSlack, cols);
    codes.scales = take<float>(c_.routed, cols / kBlock * 4);
    codes.permuted = weights_ == nullptr;
    return codes;
  }

  void lay_out() {
    table_.item_rows = item_rows(c_);
    most_items_ = std::min(c_.routed, c_.experts + c_.routed / table_.item_rows);
    groups_ = (c_.n + kFewGroup - 1) / kFewGroup;
    table_.header = take<PlanHeader>(1, kHeaderBytes);
    table_.items = take<FewItem>(most_items_, sizeof(FewItem));
    counters_ = take<std::uint32_t>(count(), 4);
    y_ = take<std::uint16_t>(c_.routed, 2 * c_.d);
    h_ = c_.recipe->keeps_e5m6 ? take<std::uint16_t>(c_.routed, 4 * c_.n) : data_of<std::uint16_t>(c_.tensors.h);
    if (fp8_) {
      x_codes_ = take_codes(c_.d), a_codes_ = take_codes(c_.n);
      coding_ = device_coding({Element::e4m3, c_.recipe->scale, kBlock});
    } else {
      x_ = take<std::uint16_t>(c_.routed + kFewSlack, 2 * c_.d);
      a_ = take<std::uint16_t>(c_.routed + kFewSlack, 2 * c_.n);
    }
  }

  // Counters of up are one for each item and group; those of down one for each tile, the narrowest of which has 64
  // columns.
  [[nodiscard]] std::int64_t up_count() const { return most_items_ * groups_; }
  [[nodiscard]] std::int64_t count() const { return up_count() + (c_.d + 63) / 64; }

  void add_prepare() {
    const MoeTensors& t = c_.tensors;
    FewPrepareJob job;
    job.routes = routes_job(c_, kBlock), job.table = table_;
    job.counters = counters_, job.count = count();
    job.x = data_of<const std::uint16_t>(t.x), job.d = c_.d;
    job.rows = x_, job.codes = x_codes_;
    job.weights = kept_;
    if (fp8_) job.kept = {data_of<std::uint8_t>(t.kept_x), t.kept_scales.data, c_.d / kBlock, coding_};
    const std::uint64_t bytes = bytes_of(c_.experts + c_.tokens + 2, 1, 8) + bytes_of(c_.routed, 1, 4) +
                                bytes_of(c_.slots, 1, 4) + bytes_of(c_.tokens, c_.d, fp8_ ? 3 : 2) +
                                bytes_of(c_.routed, c_.d, fp8_ ? 1 : 2);
    plan_.steps.push_back({"check routes, rows of X", MoeStepKind::check, bytes, 0,
                           [job](cudaStream_t stream) { return launch_few_prepare(job, stream); }, std::nullopt,
                           std::nullopt});
  }

  [[nodiscard]] FewGemmJob gemm_job(std::int64_t k, std::int64_t columns) const {
    FewGemmJob job;
    job.weights = !fp8_ ? FewWeights::bf16 : weights_ == nullptr ? FewWeights::blocks : FewWeights::codes;
    job.table = table_, job.coding = coding_, job.rows = c_.routed;
    job.most_items = most_items_, job.experts = c_.experts, job.columns = columns, job.k = k;
    return job;
  }
  [[nodiscard]] FewGemmJob up_job() const {
    FewGemmJob job = gemm_job(c_.d, 2 * c_.n);
    job.up = true, job.counters = counters_, job.d = h_;
    job.w = weights_ == nullptr ? c_.tensors.w1.data : weights_->w1;
    if (weights_ != nullptr) job.w_scales = weights_->w1_scales;
    job.x = fp8_ ? static_cast<const void*>(x_codes_.codes) : x_, job.x_scales = x_codes_.scales;
    FewSwiglu& to = job.swiglu;
    to.n = c_.n, to.interleaved = c_.interleaved, to.a = a_, to.codes = a_codes_, to.coding = coding_;
    if (c_.recipe->keeps_e5m6) {
      to.packed = data_of<std::uint8_t>(c_.tensors.h), to.packed_scales = data_of<std::uint8_t>(c_.tensors.h_scales);
    }
    return job;
  }
  [[nodiscard]] FewGemmJob down_job() const {
    const MoeTensors& t = c_.tensors;
    FewGemmJob job = gemm_job(c_.n, c_.d);
    job.counters = counters_ == nullptr ? nullptr : counters_ + up_count(), job.d = y_;
    job.w = weights_ == nullptr ? t.w2.data : weights_->w2;
    if (weights_ != nullptr) job.w_scales = weights_->w2_scales;
    job.x = fp8_ ? static_cast<const void*>(a_codes_.codes) : a_, job.x_scales = a_codes_.scales;
    AggregateJob& sums = job.aggregate;
    sums.y = y_, sums.weights = data_of<const float>(t.row_weight), sums.o = data_of<std::uint16_t>(t.o);
    sums.token_offsets = data_of<const std::int64_t>(t.token_offsets);
    sums.token_rows = data_of<const std::int32_t>(t.token_rows);
    sums.tokens = c_.tokens, sums.cols = c_.d, sums.header = table_.header;
    return job;
  }

  // Weights of as many experts as can have rows.
  void add(const char* name, const FewGemmJob& job, std::int64_t k, std::int64_t columns, MoeProduct product) {
    const std::int64_t experts = std::min(c_.experts, c_.routed);
    const int width = weights_ == nullptr ? 2 : 1;
    const std::uint64_t bytes =
        bytes_of(experts * k, columns, width) + bytes_of(c_.routed, k, fp8_ ? 1 : 2) + bytes_of(c_.routed, columns, 2);
    plan_.steps.push_back({name, MoeStepKind::elementwise, bytes, bytes_of(c_.routed, k, columns),
                           [job](cudaStream_t stream) { return launch_few_gemm(job, stream); }, std::nullopt,
                           std::move(product)});
  }

  const MoeCall& c_;
  const MoeCodedWeights* weights_;
  KeptJob kept_;
  bool fp8_;
  Arena memory_;
  MoePlan plan_;
  FewTable table_;
  std::int64_t most_items_ = 0;
  std::int64_t groups_ = 0;
  std::uint32_t* counters_ = nullptr;
  std::uint16_t* x_ = nullptr;
  std::uint16_t* a_ = nullptr;
  std::uint16_t* y_ = nullptr;
  std::uint16_t* h_ = nullptr;
  FewCodes x_codes_, a_codes_;
  DeviceCoding coding_;
};

}  // namespace

bool takes_few(const MoeCall& call) {
  const MoeRecipe& r = *call.recipe;
  const bool plain = r.operands == MoeOperands::values && !r.rule(RoundedOperand::up_x) &&
                     !r.rule(RoundedOperand::up_w1) && !r.rule(RoundedOperand::down_a) &&
                     !r.rule(RoundedOperand::down_w2);
  const int mode = call.kept.mode;  // a call that keeps weights, or compares them, takes its time anyway
  return (mode == 0 || mode == MXCHECK_WEIGHTS_KEPT) && (plain || r.keeps_codes()) && call.tokens <= kFewTokens &&
         call.routed > 0 && call.routed <= kFewRows && call.experts <= kFewExperts && call.d > 0 && call.n > 0;
}

MoePlan forward_of_few(const MoeCall& call) {
  if (!call.keeps_weights()) return FewPass(call, nullptr).plan();
  // In the order in which forward_of_codes lays them out.
  Arena memory(call.kept.memory);
  const KeptJob check = kept_job(call, memory);
  const std::int64_t scale_bytes = call.recipe->scale == CodeScale::fp32 ? 4 : 1;
  const MoeCodes w1 = take_squares(memory, call.experts * 2 * call.n, call.d, scale_bytes);
  const MoeCodes w2 = take_squares(memory, call.experts * call.d, call.n, scale_bytes);
  const MoeCodedWeights weights{w1.codes, w1.scales, w2.codes, w2.scales};
  MoePlan plan = FewPass(call, &weights, check).plan();
  plan.kept_bytes = memory.bytes();
  return plan;
}

MoePlan moe_few_plan(const mxcheck_call& call, const MoeCodedWeights& weights) {
  const MoeCall checked = read_moe_call(call, false);
  if (!checked.recipe->keeps_codes()) unsupported("weights as codes are offered for recipes of blocks of 128 alone");
  if (!takes_few(checked)) unsupported("weights as codes are offered for few tokens: 1 to 256, with rows");
  const bool whole =
      weights.w1 != nullptr && weights.w1_scales != nullptr && weights.w2 != nullptr && weights.w2_scales != nullptr;
  if (call.workspace != nullptr && !whole) invalid("a tensor of the weights as codes is null");
  if (!is_aligned(weights.w1, 16) || !is_aligned(weights.w2, 16)) {
    unsupported("codes of weights that are not at a multiple of 16 bytes are not offered");
  }
  const bool has_floats = checked.recipe->scale == CodeScale::fp32;
  if (has_floats && !(is_aligned(weights.w1_scales, 4) && is_aligned(weights.w2_scales, 4))) {
    invalid("FP32 scales of weights as codes are not at a multiple of 4 bytes");
  }
  MoePlan plan = FewPass(checked, &weights).plan();
  if (call.workspace != nullptr) require_workspace(call, plan.workspace_bytes);
  return plan;
}

}  // namespace mxcheck_kernels::sm90
