// properties/gpu_model/gpu_model.h on the fake driver: the reference where the library has kernels, so that the gate's
// way to the model is tested without a GPU. FAKE_MODEL in the environment: "fails", "is_wrong".

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/gpu_model/gpu_model.h"
#include "reference/matmul/matmul.h"
#include "tests/libraries/right/cuda/fake.h"

namespace {

using mxcheck::Format;

bool mode(const char* name) { return fake::mode(name, "FAKE_MODEL"); }

constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::bf16, Format::fp16, Format::fp32};
constexpr const char* kSums[] = {"sm90_fp8", "sm90_fp8", "sm90_bf16", "sm90_fp16", "sm90_tf32"};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

mxcheck::MatmulOperand operand_of(const MxcheckGpuModelCall& c, bool first) {
  mxcheck::MatmulOperand o;
  o.format = kFormats[first ? c.a_format : c.b_format];
  o.codes = first ? c.a : c.b;
  o.rows = !first ? c.n : c.row_index != nullptr ? c.a_rows : c.m;
  o.depth = o.row_stride = c.k;
  if (c.scale_format == MXCHECK_GPU_MODEL_NO_SCALE) return o;
  o.block = first ? mxcheck::BlockShape{1, c.scale_a_block} : mxcheck::BlockShape{c.scale_b_rows, c.scale_b_block};
  o.scale_format = c.scale_format == MXCHECK_GPU_MODEL_SCALE_E8M0 ? Format::e8m0 : Format::fp32;
  o.scales = first ? c.scale_a : c.scale_b, o.scale_row_stride = divide_up(c.k, o.block.cols);
  return o;
}

void compare(void* argument) {
  const MxcheckGpuModelCall& c = *static_cast<const MxcheckGpuModelCall*>(argument);
  mxcheck::Matmul x;
  x.contract = mxcheck::parse_matmul_contract(kSums[c.a_format]), x.contract.promotion = c.promotion;
  x.a = operand_of(c, true), x.b = operand_of(c, false);
  x.output = c.output == MXCHECK_GPU_MODEL_OUT_BF16 ? Format::bf16 : Format::fp32;
  x.alpha = c.alpha, x.c = c.c, x.grouping = static_cast<mxcheck::Grouping>(c.groups);
  std::vector<std::int64_t> offsets{0};
  if (c.offsets != nullptr) offsets.insert(offsets.end(), c.offsets, c.offsets + c.experts);
  if (c.offsets != nullptr) x.offsets = offsets;
  if (c.row_index != nullptr) x.row_index = {c.row_index, static_cast<std::size_t>(c.m)}, x.gathers = true;
  const std::size_t width = x.output == Format::bf16 ? 2 : 4;
  const auto outputs = static_cast<std::size_t>((c.groups == MXCHECK_GPU_MODEL_ALONG_K ? c.experts : 1) * c.m * c.n);
  std::vector<std::byte> expected(outputs * width);
  mxcheck::matmul(x, expected.data());
  if (mode("is_wrong")) expected[5 * width] ^= std::byte{1};
  *c.report = {outputs, 0, ~std::uint64_t{0}, 0, 0, 0, 0};
  for (std::size_t i = outputs; i-- > 0;) {
    std::uint32_t mine = 0, theirs = 0;
    std::memcpy(&mine, expected.data() + i * width, width);
    std::memcpy(&theirs, static_cast<const std::byte*>(c.d) + i * width, width);
    if (mine == theirs) continue;
    ++c.report->differing;
    c.report->first = i, c.report->expected = mine, c.report->observed = theirs;
  }
}

struct Decoding {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  std::int64_t rows, k;
  std::uint16_t* out;
};

void decode_all(void* argument) {
  const Decoding& d = *static_cast<const Decoding*>(argument);
  for (std::int64_t i = 0; i < d.rows * d.k; ++i) {
    const std::uint8_t scale = d.scales[i / d.k * divide_up(d.k, 32) + i % d.k / 32];
    const double value = mxcheck::decode(Format::e4m3, d.codes[i]) * mxcheck::decode(Format::e8m0, scale);
    d.out[i] = static_cast<std::uint16_t>(
        mxcheck::encode(Format::bf16, value, mxcheck::Rounding::nearest_even, mxcheck::Overflow::non_saturate));
  }
}

void decode_all_nvfp4(void* argument) {
  const Decoding& d = *static_cast<const Decoding*>(argument);
  for (std::int64_t i = 0; i < d.rows * d.k; ++i) {
    const std::int64_t row = i / d.k;
    const std::int64_t column = i % d.k;
    const unsigned two = d.codes[row * divide_up(d.k, 2) + column / 2];
    const std::uint8_t scale = d.scales[row * divide_up(d.k, 16) + column / 16] & 0x7F;
    const double value =
        mxcheck::decode(Format::e2m1, column % 2 == 0 ? two & 0xF : two >> 4) * mxcheck::decode(Format::e4m3, scale);
    d.out[i] = static_cast<std::uint16_t>(
        mxcheck::encode(Format::bf16, value, mxcheck::Rounding::nearest_even, mxcheck::Overflow::non_saturate));
  }
}

}  // namespace

int mxcheck_gpu_model_compare(const MxcheckGpuModelCall* call, char* message, size_t size) {
  if (mode("fails")) return std::snprintf(message, size, "CUDA: no kernel image is available"), 2;
  return fake_launch(call->stream, compare, new MxcheckGpuModelCall(*call));
}

int mxcheck_gpu_model_decode_mx(const uint8_t* codes, const uint8_t* scales, int64_t rows, int64_t k, uint16_t* out,
                                void* stream, char*, size_t) {
  return fake_launch(stream, decode_all, new Decoding{codes, scales, rows, k, out});
}

int mxcheck_gpu_model_decode_nvfp4(const uint8_t* codes, const uint8_t* scales, int64_t rows, int64_t k, uint16_t* out,
                                   void* stream, char*, size_t) {
  return fake_launch(stream, decode_all_nvfp4, new Decoding{codes, scales, rows, k, out});
}
