#include "bindings/at_speed.h"
#include "bindings/guard.h"
#include "kernels/candidate.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

// The fault of the library that stands in for the SIMD library: the byte that it flips in each output; -1: none.
struct Fault {
  std::int64_t code = -1;
  std::int64_t scale = -1;
  std::int64_t value = -1;
} fault;  // NOLINT: the candidate interface has no place for a test's own

BlockShape block_of(const mxcheck_policy& p) { return {p.block_rows, p.block_cols}; }

std::span<const std::int64_t> offsets_of(const mxcheck_call& call, std::int32_t at) {
  if (call.num_inputs <= at) return {};
  return {static_cast<const std::int64_t*>(call.inputs[at].data), static_cast<std::size_t>(call.inputs[at].shape[0])};
}

ScaleLayout layout_of(const mxcheck_policy& p) {
  return p.layout == MXCHECK_TCGEN05 ? ScaleLayout::tcgen05 : ScaleLayout::compact;
}

template <class T>
void put(const std::vector<T>& from, const DLTensor& to, std::int64_t flipped) {
  std::memcpy(to.data, from.data(), from.size() * sizeof(T));
  if (flipped >= 0) static_cast<std::uint8_t*>(to.data)[flipped] ^= 1;
}

mxcheck_status supports(const mxcheck_policy* /*policy*/, DLDataType /*wide*/) { return MXCHECK_OK; }

mxcheck_status run_quantize(const mxcheck_call* call) {
  const mxcheck_policy& p = *call->policy;
  const DLTensor& x = call->inputs[0];
  const std::int64_t stride = x.strides == nullptr ? p.cols : x.strides[0];
  const MatrixView view{Format::bf16, static_cast<const std::byte*>(x.data), p.rows, p.cols, stride};
  const std::span offsets = offsets_of(*call, 1);
  const QuantizedTensor q = quantize(view, Format::e4m3, block_of(p), recipe_named(p.recipe), offsets, 1);
  put(values_in<std::uint8_t>(q.codes.data), call->outputs[0], fault.code);
  put(to_layout(layout_of(p), scale_shape(q, offsets), values_in<std::uint8_t>(q.scales().data), p.pad_byte),
      call->outputs[1], fault.scale);
  return MXCHECK_OK;
}

mxcheck_status run_dequantize(const mxcheck_call* call) {
  const mxcheck_policy& p = *call->policy;
  const std::span offsets = offsets_of(*call, 2);
  const BlockShape block = block_of(p);
  QuantizedTensor q =
      make_quantized(Format::e4m3, p.rows, p.cols, block, Format::e8m0, count_scale_rows(p.rows, block.rows, offsets),
                     (p.cols + block.width(p.cols) - 1) / block.width(p.cols));
  std::memcpy(q.codes.data.data(), call->inputs[0].data, q.codes.data.size());
  const ScaleShape shape = scale_shape(q, offsets);
  const auto* scales = static_cast<const std::uint8_t*>(call->inputs[1].data);
  q.scales().data =
      to_bytes(from_layout(layout_of(p), shape, {scales, static_cast<std::size_t>(layout_bytes(layout_of(p), shape))}));
  put(dequantize_bf16(q, offsets, 1), call->outputs[0], fault.value);
  return MXCHECK_OK;
}

constexpr std::array kOperations{
    mxcheck_operation{"quantize", "exact", 0, 0, 1, 1, supports, nullptr, run_quantize},
    mxcheck_operation{"dequantize", "exact", 0, 0, 1, 1, supports, nullptr, run_dequantize},
};
constexpr mxcheck_candidate_table kTable{
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "wrong", "1", kDLCPU, 2, kOperations.data()};

}  // namespace
}  // namespace mxcheck

extern "C" const mxcheck_candidate_table* mxcheck_candidate(void) { return &mxcheck::kTable; }

namespace mxcheck::c {
namespace {

struct Case {
  std::int64_t rows;
  std::int64_t cols;
  SimdBlocks blocks;
  std::vector<std::uint16_t> x;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<std::uint16_t> y;
};

Case case_of(std::int64_t rows, std::int64_t cols, const SimdBlocks& blocks) {
  Case c{rows, cols, blocks, {}, {}, {}, {}};
  for (std::int64_t i = 0; i < rows * cols; ++i) c.x.push_back(static_cast<std::uint16_t>(0x3F80 + i * 37 % 256));
  const std::int64_t width = blocks.block.width(cols);
  const ScaleShape shape{count_scale_rows_by_expert(rows, blocks.block.rows, blocks.offsets),
                         (cols + width - 1) / width, blocks.block};
  c.codes.resize(static_cast<std::size_t>(rows * cols));
  c.scales.resize(static_cast<std::size_t>(layout_bytes(blocks.layout, shape)));
  c.y.resize(c.codes.size());
  return c;
}

void quantize_case(Case& c) {
  const MatrixView x{Format::bf16, std::as_bytes(std::span(c.x)).data(), c.rows, c.cols, c.cols};
  quantize_checked(x, c.blocks, recipe_named("rceil"), c.codes.data(), c.scales);
}

void dequantize_case(Case& c) {
  dequantize_checked(c.codes.data(), c.scales, c.rows, c.cols, c.blocks, Format::bf16, c.y.data());
}

template <class Call>
bool is_noticed(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    expect_contains(std::string(e.what()), "the SIMD library and the reference differ in rows");
    return true;
  }
  return false;
}

constexpr std::array<std::int64_t, 6> kExperts{0, 0, 5, 40, 40, 100};

std::vector<SimdBlocks> all_blocks() {
  std::vector<SimdBlocks> all;
  for (const BlockShape block : {BlockShape{1, 32}, {32, 1}, {32, 32}, {128, 128}, {1, 0}}) {
    for (const ScaleLayout layout : {ScaleLayout::compact, ScaleLayout::tcgen05, ScaleLayout::deepgemm}) {
      if (!has_layout(layout, block)) continue;
      all.push_back({Format::e4m3, block, layout, {}, 9});
      all.push_back({Format::e4m3, block, layout, kExperts, 9});
    }
  }
  return all;
}

TEST(AtSpeed, a_library_that_is_right_passes_in_every_layout_with_experts_and_without) {
  fault = {};
  for (const SimdBlocks& blocks : all_blocks()) {
    Case c = case_of(100, 70, blocks);
    EXPECT_NO_THROW(quantize_case(c));
    EXPECT_NO_THROW(dequantize_case(c));
    const MatrixView x{Format::bf16, std::as_bytes(std::span(c.x)).data(), c.rows, c.cols, c.cols};
    const QuantizedTensor want = quantize(x, Format::e4m3, blocks.block, recipe_named("rceil"), blocks.offsets, 1);
    EXPECT_EQ(c.codes, values_in<std::uint8_t>(want.codes.data));
    EXPECT_EQ(c.scales,
              to_layout(blocks.layout, scale_shape(want, blocks.offsets), want.scales().as<std::uint8_t>(), 9));
    EXPECT_EQ(c.y, dequantize_bf16(want, blocks.offsets, 1));
  }
}

TEST(AtSpeed, a_code_and_a_value_of_the_first_and_of_the_last_row_that_are_wrong_are_noticed) {
  for (const SimdBlocks& blocks : all_blocks()) {
    for (const std::int64_t at :
         {std::int64_t{0}, std::int64_t{69}, std::int64_t{99 * 70}, std::int64_t{100 * 70 - 1}}) {
      fault = {};
      Case c = case_of(100, 70, blocks);
      quantize_case(c);
      fault = {-1, -1, 2 * at};
      EXPECT_TRUE(is_noticed([&] { dequantize_case(c); })) << at;
      fault = {at, -1, -1};
      EXPECT_TRUE(is_noticed([&] { quantize_case(c); })) << at;
    }
  }
  fault = {};
}

// Each byte of the scales flipped in turn: those of the two rows of blocks are noticed, wherever the layout has them.
TEST(AtSpeed, scales_of_the_first_and_of_the_last_row_of_blocks_are_compared_in_every_layout) {
  for (const SimdBlocks& blocks : all_blocks()) {
    if (blocks.layout == ScaleLayout::deepgemm) continue;  // made of the compact scales, after they were compared
    Case c = case_of(100, 70, blocks);
    std::size_t noticed = 0;
    for (std::size_t at = 0; at < c.scales.size(); ++at) {
      fault = {-1, static_cast<std::int64_t>(at), -1};
      noticed += is_noticed([&] { quantize_case(c); }) ? 1 : 0;
    }
    const std::int64_t width = blocks.block.width(c.cols);
    const auto row = static_cast<std::size_t>((c.cols + width - 1) / width);
    const bool one = count_scale_rows(c.rows, blocks.block.rows, blocks.offsets) == 1;
    EXPECT_EQ(noticed, one ? row : 2 * row);
  }
  fault = {};
}

TEST(AtSpeed, one_row_of_blocks_in_a_thousand_is_looked_at_between_them) {
  Case c = case_of(8192, 1, {Format::e4m3, {1, 32}});
  std::set<std::int64_t> noticed;
  for (std::int64_t row = 0; row < c.rows; row += 1) {
    fault = {row, -1, -1};
    if (is_noticed([&] { quantize_case(c); })) noticed.insert(row);
  }
  fault = {};
  EXPECT_GE(noticed.size(), 5U);
  EXPECT_LE(noticed.size(), 20U);
  EXPECT_TRUE(noticed.contains(0));
  EXPECT_TRUE(noticed.contains(8191));
}

TEST(AtSpeed, engines_have_names) {
  EXPECT_EQ(engine_of("auto"), Engine::automatic);
  EXPECT_EQ(engine_of("simd"), Engine::simd);
  EXPECT_EQ(engine_of("reference"), Engine::reference);
  EXPECT_THROW(engine_of("gpu"), Error);
  EXPECT_THROW(refuse_simd(), Error);
}

// The table of errors, as other languages say it.

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(MXCHECK_SOURCE_DIR "/") + path).rdbuf();
  return text.str();
}

// Programs that were built before know these.
TEST(Errors, keep_their_numbers) {
  const std::set<std::string> known{"usage 1 2", "input 2 2", "environment 3 3", "golden 4 5", "internal 5 70"};
  std::set<std::string> rows;
  for (const ErrorKindSpec& row : kErrorKinds)
    rows.insert(std::string(row.name) + " " + std::to_string(row.c_result) + " " + std::to_string(row.exit_code));
  EXPECT_EQ(rows, known);
}

TEST(Errors, are_results_of_the_c_interface) {
  for (const ErrorKindSpec& row : kErrorKinds) {
    EXPECT_EQ(c::guarded([&] { throw Error(row.kind, "words"); }), row.c_result);
    EXPECT_EQ(c::last_error(), "words");
  }
  EXPECT_EQ(c::guarded([] {}), 0);
}

TEST(Errors, are_those_of_the_c_header) {
  const std::string text = file_text("bindings/mxcheck_c.h");
  const std::string errors = text.substr(text.find("Errors, a function's result: 0 none, "), 400);
  for (const ErrorKindSpec& row : kErrorKinds) {
    const std::string words = row.kind == ErrorKind::internal ? std::string(row.meaning) : std::string(row.name);
    EXPECT_NE(errors.find(std::to_string(row.c_result) + " " + words), std::string::npos) << row.name;
  }
}

TEST(Errors, are_exceptions_of_python) {
  const std::string text = file_text("python/mxcheck/_errors.py");
  std::string table = "_TABLE = (\n";
  for (const ErrorKindSpec& row : kErrorKinds) {
    table += "    (\"" + std::string(row.name) + "\", " + std::to_string(row.c_result) + ", " +
             std::to_string(row.exit_code) + ", " + std::string(row.python) + "),\n";
    EXPECT_NE(text.find("class " + std::string(row.python) + "("), std::string::npos) << row.python;
  }
  EXPECT_NE(text.find(table + ")\n"), std::string::npos) << table;
}

TEST(Errors, have_their_exit_codes_in_the_documentation) {
  const std::string text = file_text("docs/ci.md");
  for (const ErrorKindSpec& row : kErrorKinds)
    EXPECT_NE(text.find("\n| " + std::to_string(row.exit_code) + " | "), std::string::npos) << row.name;
}

}  // namespace
}  // namespace mxcheck::c
