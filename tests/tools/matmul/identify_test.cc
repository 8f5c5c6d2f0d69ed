#include <gtest/gtest.h>

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using test::make_tensor;

class IdentifyTool : public test::ToolTest {
 protected:
  void SetUp() override {
    std::vector<std::uint8_t> codes;
    for (std::uint32_t i = 0; i < 8 * 256; ++i)
      codes.push_back(static_cast<std::uint8_t>((i * 2654435761U >> 24) & 0xF7));
    write_npy(dir / "a.npy", make_tensor("", Dtype::u8, {8, 256}, codes));
    write_npy(dir / "b.npy", make_tensor("", Dtype::u8, {8, 256}, codes));
  }
};

TEST_F(IdentifyTool, a_dump_names_its_contract_and_the_number_of_words_compared) {
  ASSERT_EQ(mxcheck("mma --contract sm90_fp8+promote64 --a a.npy --b b.npy -o d.npy").code, 0);
  const auto right = mxcheck("identify --a a.npy --b b.npy --d d.npy");
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_NE(right.out.find("explained by  sm90_fp8+promote64, every bit"), std::string::npos) << right.out;
  EXPECT_NE(right.out.find("compared      64 words of 1 probes"), std::string::npos) << right.out;
  Tensor d = read_tensor(dir / "d.npy");
  d.data[0] ^= std::byte{1};
  write_npy(dir / "wrong.npy", std::move(d));
  const auto wrong = mxcheck("identify --a a.npy --b b.npy --d wrong.npy");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.out.find("closest       sm90_fp8+promote64: 63 of 64 words equal"), std::string::npos) << wrong.out;
}

TEST_F(IdentifyTool, files_that_do_not_belong_together_are_refused) {
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy").code, 2);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d a.npy").code, 2);
  EXPECT_EQ(mxcheck("identify --a a.npy --b b.npy --d a.npy --scale-k 32").code, 2);
}

}  // namespace
}  // namespace mxcheck
