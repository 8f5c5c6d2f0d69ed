// The CPU library through the C interface alone, loaded as a third party's would be: the table, what it supports, that
// every wrong call is refused with one line of text and not a byte written, and where tensors may lie.

#include <limits>
#include <set>

#include "tests/kernels/refusals.h"
#include "tests/tools/shell.h"

namespace mxcheck {
namespace {

const mxcheck_candidate_table& library() {
  static const mxcheck_candidate_table& table = load_candidate(MXCHECK_CPU_LIBRARY);
  return table;
}

// A valid call of one operation, to be made invalid: 40 x 70 BF16 with three experts.
struct Valid : ValidCall {
  mxcheck_policy policy = make_policy("e4m3", "rceil", 1, 32);
  std::array<std::int64_t, 4> offset_values{0, 8, 8, 40};

  explicit Valid(const std::string& name) {
    policy.rows = 40, policy.cols = 70;
    const std::vector<std::byte> zeros(40 * 70 * 4);
    const std::span<const std::byte> x(zeros.data(), 40 * 70 * 2);
    const std::span<const std::byte> codes(zeros.data(), 40 * 70);
    const std::span<const std::byte> scales(zeros.data(), 40 * 3);
    if (name == "dequantize") {
      in = {&memory.matrix(kU8Type, 40, 70, 0, codes), &memory.matrix(kU8Type, 40, 3, 0, scales)};
      out = {&memory.matrix(kFp32Type, 40, 70)};
    } else if (name == "scale_layout") {
      policy.layout = MXCHECK_TCGEN05;
      in = {&memory.matrix(kU8Type, 40, 3, 0, scales)};
      out = {&memory.flat(kU8Type, 2 * 512)};  // experts of 8, 0 and 32 rows
    } else {
      in = {&memory.matrix(kBf16Type, 40, 70, 0, x)};
      out = {&memory.matrix(kU8Type, 40, 70), &memory.matrix(kU8Type, 40, 3)};
      if (name == "quantize_dual") {
        out.push_back(&memory.matrix(kU8Type, 40, 70));
        out.push_back(&memory.matrix(kU8Type, 2, 70));
      }
    }
    in.push_back(&memory.offsets(offset_values));
    bind(policy);
  }

  DLTensor& offsets() { return inputs.back(); }
  void set_offset(std::size_t i, std::int64_t value) { set(in.size() - 1, i, value); }
};

using Refusals = std::vector<InvalidCall<Valid>>;

void expect_refusals(const std::string& name, const Refusals& refusals) {
  mxcheck::expect_refusals(library(), name, refusals);
}

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;

Refusals refusals_of_any_operation(const std::string& name) {
  Refusals r{
      {"an older call", "", [](Valid& v) { v.call.size = sizeof v.call - 1; }, MXCHECK_INVALID, false},
      {"an older policy", "policy.size", [](Valid& v) { v.policy.size = 8; }},
      {"too many inputs", "9 inputs", [](Valid& v) { v.call.num_inputs = 9; }},
      {"too few outputs", "0 outputs", [](Valid& v) { v.call.num_outputs = 0; }},
      {"negative threads", "threads is -1", [](Valid& v) { v.policy.threads = -1; }},
      {"unknown layout", "layout 7", [](Valid& v) { v.policy.layout = 7; }, MXCHECK_UNSUPPORTED},
      {"unknown block", "2 x 32", [](Valid& v) { v.policy.block_rows = 2; }, MXCHECK_UNSUPPORTED},
      {"negative block", "1 x -32", [](Valid& v) { v.policy.block_cols = -32; }, MXCHECK_UNSUPPORTED},
      {"wrong rows", "41", [](Valid& v) { v.policy.rows = 41; }},
      {"negative rows", "-40", [](Valid& v) { v.in[0]->shape[0] = -40; }},
      {"rows that overflow", "overflows",
       [](Valid& v) {
         v.in[0]->shape = {kHuge, kHuge};
       }},
      {"an output's columns", "must be",
       [](Valid& v) { --v.out[0]->shape[static_cast<std::size_t>(v.outputs[0].ndim) - 1]; }},
      {"byte offset", "byte_offset", [](Valid& v) { v.inputs[0].byte_offset = ~std::uint64_t{0} - 1; }},
      {"column stride", "column stride -2", [](Valid& v) { v.set_strides(v.inputs[0], 140, -2); }},
      {"offsets of another type", "offsets has", [](Valid& v) { v.offsets().dtype.bits = 16; }},
      {"offsets without end", "offsets is empty", [](Valid& v) { v.in.back()->shape[0] = 0; }},
      {"offsets off 8 bytes", "multiple", [](Valid& v) { v.offsets().byte_offset = 4, v.in.back()->shape[0] = 3; }},
      {"first offset", "offsets[0] is 1", [](Valid& v) { v.set_offset(0, 1); }},
      {"falling offsets", "offsets[2] is 7", [](Valid& v) { v.set_offset(2, 7); }},
      {"negative offset", "offsets[1] is -1", [](Valid& v) { v.set_offset(1, -1); }},
      {"last offset", "last of the offsets is 41", [](Valid& v) { v.set_offset(3, 41); }},
      {"output in offsets", "overlaps", [](Valid& v) { v.outputs[0].data = v.in.back()->memory.data() - 8; }},
  };
  if (!name.starts_with("quantize"))
    r.push_back({"column stride 2", "column stride 2", [](Valid& v) { v.set_strides(v.inputs[0], 140, 2); }});
  if (name != "scale_layout") {
    r.push_back({"no format", "format is null", [](Valid& v) { v.policy.format = nullptr; }});
    r.push_back({"format", "format e2m1", [](Valid& v) { v.policy.format = "e2m1"; }, MXCHECK_UNSUPPORTED});
  }
  return r;
}

TEST(CandidateTable, is_of_this_version_and_lists_its_operations) {
  const mxcheck_candidate_table& table = library();
  EXPECT_EQ(table.interface_version, static_cast<std::uint32_t>(MXCHECK_CANDIDATE_VERSION));
  EXPECT_EQ(table.size, sizeof table);
  EXPECT_STREQ(table.name, "cpu");
  EXPECT_STRNE(table.version, "");
  EXPECT_EQ(table.device, kDLCPU);
  std::set<std::string> names;
  for (std::int32_t i = 0; i < table.num_operations; ++i) {
    names.insert(table.operations[i].name);
    const std::string_view name = table.operations[i].name;
    const bool is_of_any_strides = name.starts_with("quantize") || name == "cast";
    EXPECT_STREQ(table.operations[i].contract, is_of_any_strides ? "exact+col_stride" : "exact");
    EXPECT_EQ(table.operations[i].rows_multiple, 1);
    EXPECT_EQ(table.operations[i].cols_multiple, 1);
  }
  EXPECT_EQ(names, (std::set<std::string>{"quantize", "quantize_dual", "dequantize", "scale_layout", "cast", "route",
                                          "route_round", "route_metadata", "route_backward"}));
}

TEST(CandidateLibrary, exports_one_symbol) {
  const test::ShellAnswer symbols = test::run_shell("nm -D --defined-only " MXCHECK_CPU_LIBRARY);
  EXPECT_EQ(symbols.code, 0);
  EXPECT_EQ(std::count(symbols.out.begin(), symbols.out.end(), '\n'), 1) << symbols.out;
  EXPECT_TRUE(symbols.says(" T mxcheck_candidate\n")) << symbols.out;
}

TEST(CandidateSupports, every_offered_combination_and_no_other) {
  struct Case {
    const char* operation;
    mxcheck_policy policy;
    DLDataType type;
    bool offered;
  };
  const mxcheck_policy plain = make_policy("e4m3", "rceil", 1, 32);
  const mxcheck_policy tiles = make_policy("e4m3", "rceil", 32, 32, MXCHECK_TCGEN05);
  const DLDataType fp16{kDLFloat, 16, 1};
  std::vector<Case> cases{{"quantize", plain, kBf16Type, true},
                          {"quantize", plain, kFp32Type, true},
                          {"quantize", plain, fp16, false},
                          {"quantize", plain, kU8Type, false},
                          {"quantize", plain, DLDataType{kDLBfloat, 16, 2}, false},
                          {"quantize", make_policy("e5m2", "floor", 32, 1), kBf16Type, true},
                          {"quantize", make_policy("e2m1", "rceil", 1, 32), kBf16Type, false},
                          {"quantize", make_policy(nullptr, "rceil", 1, 32), kBf16Type, false},
                          {"quantize", make_policy("e4m3", nullptr, 1, 32), kBf16Type, false},
                          {"quantize", make_policy("e4m3", "even", 1, 32), kBf16Type, false},
                          {"quantize", make_policy("e4m3", "rceil ", 1, 32), kBf16Type, false},
                          {"quantize", make_policy("e4m3", "rceil", 1, 64), kBf16Type, false},
                          {"quantize", make_policy("e4m3", "rceil", 0, 1), kBf16Type, false},
                          {"quantize", tiles, kBf16Type, false},
                          {"quantize", make_policy("e4m3", "rceil", 1, 0, MXCHECK_TCGEN05), kBf16Type, true},
                          {"quantize_dual", plain, kFp32Type, true},
                          {"quantize_dual", make_policy("e4m3", "rceil", 1, 128, MXCHECK_TCGEN05), kFp32Type, true},
                          {"quantize_dual", make_policy("e4m3", "rceil", 32, 1), kFp32Type, false},
                          {"quantize_dual", make_policy("e4m3", "rceil", 1, 0), kFp32Type, false},
                          {"dequantize", plain, kBf16Type, true},
                          {"dequantize", make_policy("e4m3", "rceil", 128, 128), kFp32Type, true},
                          {"dequantize", make_policy("e4m3", "what was used", 1, 32), kFp32Type, true},
                          {"dequantize", plain, fp16, false},
                          {"scale_layout", make_policy("e4m3", "rceil", 32, 1, MXCHECK_TCGEN05), kU8Type, true},
                          {"scale_layout", make_policy(nullptr, nullptr, 1, 32), kU8Type, true},
                          {"scale_layout", make_policy("e4m3", "rceil", 32, 32), kU8Type, false}};
  for (const char* recipe : {"rceil", "floor", "ocp", "torchao", "te"}) {
    for (const std::int64_t n : {32, 128}) {
      cases.push_back({"quantize", make_policy("e5m2", recipe, 1, n, MXCHECK_TCGEN05), kBf16Type, true});
      cases.push_back({"quantize", make_policy("e5m2", recipe, n, 1, MXCHECK_TCGEN05), kFp32Type, true});
      cases.push_back({"quantize", make_policy("e5m2", recipe, n, n), kFp32Type, true});
    }
    cases.push_back({"quantize", make_policy("e4m3", recipe, 1, 0), kFp32Type, true});
  }
  for (const Case& c : cases) {
    EXPECT_EQ(operation(library(), c.operation).supports(&c.policy, c.type),
              c.offered ? MXCHECK_OK : MXCHECK_UNSUPPORTED)
        << c.operation << ", case " << &c - cases.data();
  }
  EXPECT_EQ(operation(library(), "quantize").supports(nullptr, kBf16Type), MXCHECK_UNSUPPORTED);
}

TEST(CandidateRefusals, hold_for_every_operation) {
  for (const char* name : {"quantize", "quantize_dual", "dequantize", "scale_layout"}) {
    expect_refusals(name, common_refusals<Valid>());
    expect_refusals(name, refusals_of_any_operation(name));
  }
  EXPECT_EQ(operation(library(), "quantize").run(nullptr), MXCHECK_INVALID);
}

TEST(CandidateRefusals, of_quantize) {
  const Refusals either{
      {"no recipe", "recipe is null", [](Valid& v) { v.policy.recipe = nullptr; }},
      {"recipe", "recipe even", [](Valid& v) { v.policy.recipe = "even"; }, MXCHECK_UNSUPPORTED},
      {"fp16", "type code 2, 16 bits",
       [](Valid& v) {
         v.inputs[0].dtype = {kDLFloat, 16, 1};
       },
       MXCHECK_UNSUPPORTED},
      {"lanes", "not offered", [](Valid& v) { v.inputs[0].dtype.lanes = 2; }, MXCHECK_UNSUPPORTED},
      {"odd address", "multiple", [](Valid& v) { v.inputs[0].byte_offset = 1; }},
      {"row stride", "row stride 69", [](Valid& v) { v.set_strides(v.inputs[0], 69, 1); }},
      {"negative stride", "row stride -70", [](Valid& v) { v.set_strides(v.inputs[0], -70, 1); }},
      {"stride that overflows", "overflows", [](Valid& v) { v.set_strides(v.inputs[0], kHuge, 1); }},
      {"bytes that overflow", "overflows", [](Valid& v) { v.set_strides(v.inputs[0], kHuge / 20, 1); }},
      {"column stride", "with its column stride, has row stride 70",
       [](Valid& v) { v.set_strides(v.inputs[0], 70, 2); }},
      {"columns overlap", "x, transposed, has row stride 39", [](Valid& v) { v.set_strides(v.inputs[0], 1, 39); }},
      {"row stride 0", "row stride 0", [](Valid& v) { v.set_strides(v.inputs[0], 0, 40); }},
      {"column stride that overflows", "overflows", [](Valid& v) { v.set_strides(v.inputs[0], 1, kHuge); }},
      {"inner stride that overflows", "overflows", [](Valid& v) { v.set_strides(v.inputs[0], kHuge, kHuge / 2); }},
      {"codes with gaps", "contiguous", [](Valid& v) { v.set_strides(v.outputs[0], 71, 1); }},
      {"code type", "must be code 1, 8 bits", [](Valid& v) { v.outputs[0].dtype.code = kDLInt; }},
      {"scale type", "must be code 1, 8 bits", [](Valid& v) { v.outputs[1].dtype.bits = 32; }},
      {"code rows", "must be 40 x 70", [](Valid& v) { v.out[0]->shape[0] = 39; }},
      {"scale rows", "must be 40 x 3", [](Valid& v) { v.out[1]->shape[0] = 39; }},
      {"scale columns", "must be 40 x 3", [](Valid& v) { v.out[1]->shape[1] = 2; }},
      {"flat scales", "1 dimensions", [](Valid& v) { v.outputs[1].ndim = 1; }},
      {"tiles of another size", "must be 1024, the tiles",
       [](Valid& v) {
         v.policy.layout = MXCHECK_TCGEN05, v.outputs[1].ndim = 1, v.out[1]->shape[0] = 512;
         if (v.outputs.size() == 4) v.outputs[3].ndim = 1;
       }},
      {"outputs on each other", "output 1 overlaps output 0",
       [](Valid& v) { v.outputs[1].data = v.out[0]->memory.data() + 2799; }},
  };
  expect_refusals("quantize", either);
  expect_refusals("quantize_dual", either);
  expect_refusals("quantize",
                  {{"tiles", "tcgen05", [](Valid& v) { v.policy.block_rows = 32, v.policy.layout = MXCHECK_TCGEN05; },
                    MXCHECK_UNSUPPORTED}});
  expect_refusals("quantize_dual",
                  {{"column blocks", "1x32", [](Valid& v) { v.policy.block_rows = 32, v.policy.block_cols = 1; },
                    MXCHECK_UNSUPPORTED},
                   {"whole rows", "1x32", [](Valid& v) { v.policy.block_cols = 0; }, MXCHECK_UNSUPPORTED},
                   {"column scale rows", "must be 2 x 70", [](Valid& v) { v.out[3]->shape[0] = 3; }},
                   {"column codes", "must be 40 x 70", [](Valid& v) { v.out[2]->shape[1] = 71; }},
                   {"column codes on row codes", "output 2 overlaps output 0",
                    [](Valid& v) { v.outputs[2].data = v.outputs[0].data; }}});
}

TEST(CandidateRefusals, of_dequantize_and_scale_layout) {
  expect_refusals("dequantize",
                  {{"fp16", "16 bits", [](Valid& v) { v.outputs[0].dtype.bits = 16; }, MXCHECK_UNSUPPORTED},
                   {"code type", "codes has", [](Valid& v) { v.inputs[0].dtype.bits = 16; }},
                   {"y rows", "y has shape", [](Valid& v) { v.out[0]->shape[0] = 39; }},
                   {"scale rows", "must be 40 x 3", [](Valid& v) { v.in[1]->shape[0] = 39; }},
                   {"codes with gaps", "contiguous", [](Valid& v) { v.set_strides(v.inputs[0], 71, 1); }},
                   {"y off 4 bytes", "multiple", [](Valid& v) { v.outputs[0].byte_offset = 2; }}});
  expect_refusals("scale_layout",
                  {{"negative columns", "must be 0 or more", [](Valid& v) { v.policy.cols = -1; }},
                   {"columns that overflow", "overflows", [](Valid& v) { v.policy.cols = kHuge * 2; }},
                   {"tiles", "tcgen05", [](Valid& v) { v.policy.block_rows = 32; }, MXCHECK_UNSUPPORTED},
                   {"columns of another matrix", "must be 40 x 4", [](Valid& v) { v.policy.cols = 97; }}});
}

TEST(CandidateCalls, messages_fit_where_they_are_put) {
  Valid v("quantize");
  v.policy.format = "a format whose name is longer than the room for the message", v.call.message_bytes = 8;
  EXPECT_EQ(operation(library(), "quantize").run(&v.call), MXCHECK_UNSUPPORTED);
  EXPECT_STREQ(v.message.data(), "format ");
  v.call.message_bytes = 0;
  v.message.fill('x');
  EXPECT_EQ(operation(library(), "quantize").run(&v.call), MXCHECK_UNSUPPORTED);
  EXPECT_EQ(v.message[0], 'x');
}

TEST(CandidateCalls, later_versions_of_the_structures_are_accepted) {
  Valid v("quantize");
  v.policy.size += 8;
  v.call.size += 8;
  EXPECT_EQ(operation(library(), "quantize").run(&v.call), MXCHECK_OK) << v.message.data();
}

// --- memory: any element, any row stride, nowhere at all where a tensor is empty

// The bytes of quantizing the same 5 x 70 values however they lie in memory.
std::vector<std::uint8_t> quantized(std::int64_t stride, std::size_t x_shift, std::size_t codes_shift) {
  CandidateCall call(make_policy("e4m3", "rceil", 1, 32));
  call.policy.rows = 5, call.policy.cols = 70;
  TestTensor& x = call.matrix(kBf16Type, 5, 70, stride);
  TestTensor& room = call.flat(kU8Type, 5 * 70 + 64);
  TestTensor& scales = call.matrix(kU8Type, 5, 3);
  std::memset(x.memory.data(), 0xFF, x.memory.size());  // NaN in the gaps: must not be looked at
  const std::int64_t step = stride == 0 ? 70 : stride;
  if (x_shift != 0) x.shape[0] = 4;  // the last row is given up for the shift
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 70; ++c) {
      const std::uint16_t bits = static_cast<std::uint16_t>(0x3F00 + 37 * r + 5 * c);
      std::memcpy(x.memory.data() + x_shift + static_cast<std::size_t>(r * step + c) * 2, &bits, 2);
    }
  }
  call.policy.rows = 4;
  x.shape[0] = scales.shape[0] = 4, x.dl.byte_offset = x_shift;
  TestTensor codes{GuardedMemory(0), {4, 70}, {}, room.dl};
  codes.dl.ndim = 2, codes.dl.shape = codes.shape.data(), codes.dl.byte_offset = codes_shift;
  EXPECT_EQ(call.run(operation(library(), "quantize"), {&x}, {&codes, &scales}), MXCHECK_OK) << call.message.data();
  EXPECT_TRUE(call.kept_inside());
  const std::vector<std::uint8_t> all = room.bytes();
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(codes_shift);
  EXPECT_EQ(std::count(all.begin(), first, GuardedMemory::kPoison), static_cast<std::ptrdiff_t>(codes_shift));
  EXPECT_EQ(std::count(first + 280, all.end(), GuardedMemory::kPoison), all.end() - first - 280);
  std::vector<std::uint8_t> result(first, first + 280);
  const std::vector<std::uint8_t> scale_bytes = scales.bytes();
  result.insert(result.end(), scale_bytes.begin(), scale_bytes.begin() + 12);
  return result;
}

TEST(CandidateMemory, values_may_lie_at_any_element_and_any_row_stride) {
  const std::vector<std::uint8_t> expected = quantized(0, 0, 0);
  EXPECT_NE(std::set<std::uint8_t>(expected.begin(), expected.end()).size(), 1U);
  for (const std::int64_t stride : {0, 70, 71, 96, 200}) {
    for (const std::size_t x_shift : {0U, 2U, 4U, 62U}) {
      for (const std::size_t codes_shift : {0U, 1U, 3U, 63U}) {
        EXPECT_EQ(quantized(stride, x_shift, codes_shift), expected)
            << stride << ", " << x_shift << ", " << codes_shift;
      }
    }
  }
}

TEST(CandidateMemory, values_may_have_any_column_stride) {
  const auto strided = [](std::int64_t row, std::int64_t col) {
    CandidateCall call(make_policy("e4m3", "rceil", 1, 32));
    call.policy.rows = 5, call.policy.cols = 70;
    TestTensor& x = call.flat(kFp32Type, 4 * row + 69 * col + 1);
    std::memset(x.memory.data(), 0xFF, x.memory.size());  // NaN between the elements
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 70; ++j) {
        const auto value = static_cast<float>(i * 70 + j);
        std::memcpy(x.memory.data() + static_cast<std::size_t>(i * row + j * col) * 4, &value, 4);
      }
    }
    x.shape = {5, 70}, x.strides = {row, col};
    x.dl.ndim = 2, x.dl.shape = x.shape.data(), x.dl.strides = x.strides.data();
    TestTensor& codes = call.matrix(kU8Type, 5, 70);
    TestTensor& scales = call.matrix(kU8Type, 5, 3);
    EXPECT_EQ(call.run(operation(library(), "quantize"), {&x}, {&codes, &scales}), MXCHECK_OK) << call.message.data();
    EXPECT_TRUE(call.kept_inside());
    std::vector<std::uint8_t> result = codes.bytes();
    const std::vector<std::uint8_t> scale_bytes = scales.bytes();
    result.insert(result.end(), scale_bytes.begin(), scale_bytes.end());
    return result;
  };
  const std::vector<std::uint8_t> expected = strided(70, 1);
  EXPECT_NE(std::set<std::uint8_t>(expected.begin(), expected.end()).size(), 1U);
  for (const auto& [row, col] : {std::pair{1, 5}, {1, 9}, {2, 10}, {139, 2}, {500, 7}})
    EXPECT_EQ(strided(row, col), expected) << row << ", " << col;
}

TEST(CandidateMemory, empty_tensors_need_no_data) {
  for (const std::array<std::int64_t, 2> shape : {std::array<std::int64_t, 2>{0, 70}, {5, 0}, {0, 0}}) {
    CandidateCall call(make_policy("e4m3", "rceil", 1, 32));
    call.policy.rows = shape[0], call.policy.cols = shape[1];
    TestTensor& x = call.matrix(kBf16Type, shape[0], shape[1]);
    TestTensor& codes = call.matrix(kU8Type, shape[0], shape[1]);
    TestTensor& scales = call.matrix(kU8Type, shape[0], (shape[1] + 31) / 32);
    x.dl.data = codes.dl.data = scales.dl.data = nullptr;
    EXPECT_EQ(call.run(operation(library(), "quantize"), {&x}, {&codes, &scales}), MXCHECK_OK) << call.message.data();
  }
}

}  // namespace
}  // namespace mxcheck
