// SwiGLU and its gradient: a band of rows to values, the values to whatever outputs there are.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/arguments.h"
#include "kernels/cpu/layer/codes.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantize/scalar_decode.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::int64_t kHBlock = 32;

struct Job {
  SwigluPlan plan;
  SwigluTensors x;
  std::vector<Band> bands;
};

// The results of SwiGLU for a band of rows, in FP32: A, or in the backward pass A' and dH.
struct BandValues {
  std::vector<float> a;
  std::vector<float> dh;
};

struct Columns {
  std::int64_t gate;
  std::int64_t up;
};
Columns columns_of(const Job& job, std::int64_t j) {
  return job.plan.interleaved ? Columns{2 * j, 2 * j + 1} : Columns{j, job.x.n + j};
}

// Row `row` of H, in FP32.
void read_h(const Job& job, std::int64_t row, std::vector<float>& h) {
  const std::int64_t width = 2 * job.x.n;
  if (!job.plan.coded_h) {
    const auto* const from = static_cast<const std::uint16_t*>(job.x.h.data) + row * job.x.h.stride;
    for (std::int64_t j = 0; j < width; ++j) h[static_cast<std::size_t>(j)] = fp32_of(from[j]);
    return;
  }
  const auto* const codes = static_cast<const std::uint8_t*>(job.x.h.data) + row * width;
  const auto* const scales = static_cast<const std::uint8_t*>(job.x.h_scales.data) + row * blocks_of(width, kHBlock);
  for (std::int64_t j = 0; j < width; ++j) {
    const std::uint8_t scale = scales[j / kHBlock];
    const std::uint32_t bits =
        job.plan.h_element == Element::e4m3 ? decode_fp32<E4m3>(codes[j], scale) : decode_fp32<E5m2>(codes[j], scale);
    h[static_cast<std::size_t>(j)] = std::bit_cast<float>(bits);
  }
}

float rounded_to_bf16(float x) { return fp32_of(bf16_of(x)); }

float swiglu(float g, float u) { return rounded_to_bf16((g * sigmoid(g)) * u); }

// Neighbours are added, then neighbours of those sums; a row whose length is no power of two is followed by +0.
float pairwise_sum(std::vector<float>& v) {
  if (v.empty()) return 0;
  for (std::size_t count = v.size(); count > 1; count = (count + 1) / 2) {
    for (std::size_t i = 0; i < count / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    if (count % 2 != 0) v[count / 2] = v[count - 1] + 0.0F;
  }
  return v[0];
}

void forward_row(const Job& job, const std::vector<float>& h, float* a) {
  for (std::int64_t j = 0; j < job.x.n; ++j) {
    const Columns at = columns_of(job, j);
    a[j] = swiglu(h[static_cast<std::size_t>(at.gate)], h[static_cast<std::size_t>(at.up)]);
  }
}

float backward_row(const Job& job, const std::vector<float>& h, std::int64_t row, float* scaled_a, float* dh,
                   std::vector<float>& products) {
  const auto* const p = static_cast<const float*>(job.x.p.data) + row * job.x.n;
  const float weight = static_cast<const float*>(job.x.weights.data)[row];
  products.resize(static_cast<std::size_t>(job.x.n));
  for (std::int64_t j = 0; j < job.x.n; ++j) {
    const Columns at = columns_of(job, j);
    const float g = h[static_cast<std::size_t>(at.gate)];
    const float u = h[static_cast<std::size_t>(at.up)];
    const float q = sigmoid(g);
    const float a = swiglu(g, u);
    const float da = weight * p[j];
    const float derivative = q * std::fma(g, 1.0F - q, 1.0F);
    dh[at.gate] = rounded_to_bf16(da * (u * derivative));
    dh[at.up] = rounded_to_bf16(da * (g * q));
    scaled_a[j] = rounded_to_bf16(weight * a);
    products[static_cast<std::size_t>(j)] = p[j] * a;
  }
  return pairwise_sum(products);
}

void write_bf16(const Checked& to, std::int64_t first, const std::vector<float>& values) {
  auto* const words = static_cast<std::uint16_t*>(to.data) + first;
  for (std::size_t i = 0; i < values.size(); ++i) words[i] = bf16_of(values[i]);
}

void write_columns(const Job& job, const Coding& coding, std::size_t band, const Values& values,
                   const CodeTensors& to) {
  const std::int64_t scale = coding.scale == CodeScale::fp32 ? 4 : 1;
  encode_columns(coding, values, static_cast<std::uint8_t*>(to.codes.data) + job.bands[band].first, job.x.rows,
                 static_cast<std::uint8_t*>(to.scales.data) + static_cast<std::int64_t>(band) * scale, to.scales.cols);
}

void write_band(const Job& job, std::size_t band, const BandValues& v) {
  const auto [first, rows] = job.bands[band];
  const std::int64_t n = job.x.n;
  const Values a{v.a.data(), rows, n};
  const Values dh{v.dh.data(), rows, 2 * n};
  if (job.plan.values) {
    write_bf16(job.x.a, first * n, v.a);
    if (job.plan.backward) write_bf16(job.x.dh, first * 2 * n, v.dh);
  }
  if (job.plan.rows) {
    const Values& of = job.plan.backward ? dh : a;
    const std::int64_t scale = job.plan.coding.scale == CodeScale::fp32 ? 4 : 1;
    encode_rows(job.plan.coding, of, static_cast<std::uint8_t*>(job.x.row.codes.data) + first * of.cols,
                static_cast<std::uint8_t*>(job.x.row.scales.data) + first * job.x.row.scales.cols * scale);
  }
  if (!job.plan.columns) return;
  Coding of_a = job.plan.coding;
  if (job.plan.backward) of_a.element = job.plan.scaled;
  write_columns(job, of_a, band, a, job.x.column_a);
  if (job.plan.backward) write_columns(job, job.plan.coding, band, dh, job.x.column_dh);
}

void compute_band(const Job& job, std::size_t band, BandValues& v, std::vector<float>& h,
                  std::vector<float>& products) {
  const auto [first, rows] = job.bands[band];
  const std::int64_t n = job.x.n;
  v.a.resize(static_cast<std::size_t>(rows * n));
  v.dh.resize(static_cast<std::size_t>(job.plan.backward ? rows * 2 * n : 0));
  for (std::int64_t r = 0; r < rows; ++r) {
    read_h(job, first + r, h);
    float* const a = v.a.data() + r * n;
    if (!job.plan.backward) {
      forward_row(job, h, a);
      continue;
    }
    static_cast<float*>(job.x.ds.data)[first + r] =
        backward_row(job, h, first + r, a, v.dh.data() + r * 2 * n, products);
  }
}

// The buffers of one thread. Memory is taken before the threads start: their work must not throw.
struct Space {
  BandValues values;
  std::vector<float> h;
  std::vector<float> products;

  Space(const Job& job, std::int64_t height) {
    const auto n = static_cast<std::size_t>(job.x.n);
    const auto rows = static_cast<std::size_t>(std::min(height, job.x.rows));
    values.a.reserve(rows * n);
    h.resize(2 * n);
    if (!job.plan.backward) return;
    values.dh.reserve(rows * 2 * n);
    products.reserve(n);
  }
};

void compute(const Job& job, std::int64_t height, std::int32_t threads) {
  const auto count = static_cast<std::int64_t>(job.bands.size());
  const std::int64_t parts = part_count(count, static_cast<std::int64_t>(job.x.h.bytes), threads);
  std::vector<Space> spaces;
  for (std::int64_t i = 0; i < parts; ++i) spaces.emplace_back(job, height);
  std::atomic<std::size_t> next{0};
  for_each_part(count, parts, [&](std::int64_t begin, std::int64_t end) {
    Space& s = spaces[next++];
    for (std::int64_t band = begin; band < end; ++band) {
      compute_band(job, static_cast<std::size_t>(band), s.values, s.h, s.products);
      write_band(job, static_cast<std::size_t>(band), s.values);
    }
  });
}

void run(const mxcheck_call& call, bool backward) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: h is missing");
  Job job;
  job.plan = read_swiglu_policy(backward, call.policy, call.inputs[0].dtype);
  job.x = read_swiglu(call, job.plan, check_tensor);
  // Codes along tokens need a band of whole blocks; all else is by row.
  constexpr std::int64_t kRows = 32;
  const std::int64_t height = job.plan.columns ? job.plan.coding.block : kRows;
  job.bands = bands_of(job.x.offsets, job.x.rows, height);
  if (job.plan.columns) {
    require_bands("scales of transposed codes of a", job.x.column_a, job.bands);
    if (backward) require_bands("scales of transposed codes of dh", job.x.column_dh, job.bands);
  }
  compute(job, height, call.policy->threads);
}

}  // namespace

void run_swiglu(const mxcheck_call& call) { run(call, false); }
void run_swiglu_backward(const mxcheck_call& call) { run(call, true); }

}  // namespace mxcheck_kernels::cpu
