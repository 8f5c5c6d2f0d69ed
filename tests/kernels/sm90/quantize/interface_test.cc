// Calls that the Hopper library refuses before it enqueues anything, or its plan kernel on the device: a status, a
// sentence, and no output byte changed. Needs a GPU; without one every test is skipped.

#include "tests/kernels/sm90/device_interface.h"
#include "tests/kernels/sm90/moe/device.h"

namespace {

constexpr std::int64_t kRows = 70;
constexpr std::int64_t kCols = 96;
constexpr std::size_t kCodesAt = 256 << 10;
constexpr std::size_t kScalesAt = 512 << 10;
constexpr std::size_t kOffsetsAt = 600 << 10;
constexpr std::size_t kIndexAt = 610 << 10;
constexpr std::size_t kWorkspaceAt = 640 << 10;
constexpr std::size_t kReportAt = 1000 << 10;

// quantize 32x1 of 70 x 96 BF16 ones.
struct QuantizeCall : mxcheck::test::DeviceCall {
  QuantizeCall()
      : DeviceCall("quantize", {kCodesAt, kOffsetsAt, kWorkspaceAt, std::size_t{256} << 10, kReportAt}, policy) {
    put(0, std::vector<std::uint16_t>(2 * kRows * kCols, 0x3F80));
    policy.size = sizeof(policy), policy.format = "e4m3", policy.recipe = "rceil";
    policy.block_rows = 32, policy.block_cols = 1, policy.rows = kRows, policy.cols = kCols;
    inputs = {tensor(0, {kDLBfloat, 16, 1}, {kRows, kCols})};
    outputs = {tensor(kCodesAt, {kDLUInt, 8, 1}, {kRows, kCols}), tensor(kScalesAt, {kDLUInt, 8, 1}, {3, kCols})};
  }
  void add_offsets(const std::vector<std::int64_t>& offsets) {
    put(kOffsetsAt, offsets);
    inputs.push_back(tensor(kOffsetsAt, {kDLInt, 64, 1}, {std::ssize(offsets)}));
  }
  void add_index(const std::vector<std::int32_t>& index) {
    put(kIndexAt, index);
    inputs.push_back(tensor(kIndexAt, {kDLInt, 32, 1}, {std::ssize(index)}));
  }

  mxcheck_policy policy{};
};

class Sm90Interface : public mxcheck::test::DeviceTest {};

TEST_F(Sm90Interface, good_calls_are_good_and_one_of_the_first_version_needs_no_report) {
  QuantizeCall good;
  EXPECT_EQ(good.run(), MXCHECK_OK) << good.message;
  EXPECT_FALSE(good.untouched());
  good.call.size = offsetof(mxcheck_call, report);
  EXPECT_EQ(good.run(), MXCHECK_OK) << good.message;
}

TEST_F(Sm90Interface, refuses_before_anything_is_enqueued) {
  mxcheck::test::expect_refused<QuantizeCall>(
      {{"x does not start in memory of a CUDA device", [](auto& c) { c.inputs[0].data = c.host.data(); }},
       // One that ends beyond its allocation.
       {"in memory of a CUDA device",
        [](auto& c) { c.shapes[0][0] = c.shapes[1][0] = c.policy.rows = std::int64_t{1} << 40; }},
       {"codes is on DLPack device 1: must be on CUDA, 2", [](auto& c) { c.outputs[0].device.device_type = kDLCPU; }},
       {"x starts at an address that is not a multiple of its element's 2 bytes",
        [](auto& c) { c.inputs[0].byte_offset = 1; }},
       {"output 1 overlaps output 0", [](auto& c) { c.outputs[1].data = c.arena + kCodesAt + kRows * kCols - 1; }},
       {"output 0 overlaps input 0", [](auto& c) { c.inputs[0].data = c.arena + kCodesAt + kRows * kCols - 2; }},
       {"x has row stride 95: must be at least 96", [](auto& c) { c.set_stride(kCols - 1, c.inputs[0]); }},
       {"overflows", [](auto& c) { c.set_stride(std::int64_t{1} << 60, c.inputs[0]); }},
       {"scales has shape 2 x 96: must be 3 x 96", [](auto& c) { c.shapes[2][0] = 2; }},
       {"the workspace has 64 bytes: must have",
        [](auto& c) {
          c.add_offsets({0, 30, kRows}), c.call.workspace_bytes = 64;
        }},
       {"the workspace must be aligned to 256 bytes",
        [](auto& c) {
          c.add_offsets({0, 30, kRows}), c.call.workspace = c.arena + kWorkspaceAt + 8;
        }},
       {"is a second tensor of offsets", [](auto& c) {
          c.add_offsets({0, kRows}), c.add_offsets({0, kRows});
        }}});
}

TEST_F(Sm90Interface, refuses_on_the_device) {
  mxcheck::test::expect_refused_on_the_device<QuantizeCall>(
      {{"must be at least the one before it", 2, 30,
        [](auto& c) {
          c.add_offsets({0, 60, 30, kRows});
        }},
       {"offsets[0] must be 0", 0, -5,
        [](auto& c) {
          c.add_offsets({-5, 30, kRows});
        }},
       {"the last of the offsets must be the number of rows", 2, kRows - 1,
        [](auto& c) {
          c.add_offsets({0, 30, kRows - 1});
        }},
       // 1 + 1 + 3 rows of scales, where the tensor has 3.
       {"scales have another size", 3, 5,
        [](auto& c) {
          c.add_offsets({0, 1, 2, kRows});
        }},
       // The first row index that is outside is named.
       {"the row index must be", 40, kRows, [](auto& c) {
          std::vector<std::int32_t> index(kRows, 3);
          index[40] = kRows, index[69] = -1;
          c.add_index(index);
        }}});
}

}  // namespace
