#include <nlohmann/json.hpp>

#include "goldens/make/suite.h"
#include "tests/tools/golden/golden_tool.h"

namespace mxcheck {
namespace {

using nlohmann::json;
using test::GoldenTool;
using test::kLayout;

TEST_F(GoldenTool, lists_the_suites_and_their_goldens) {
  const test::Answer table = mxcheck("golden suites");
  EXPECT_EQ(table.code, 0);
  const json suites = json::parse(mxcheck("golden suites --json").out)["suites"];
  ASSERT_EQ(suites.size(), builtin_suites().size());
  for (const json& suite : suites) {
    EXPECT_NE(table.out.find(suite["name"].get<std::string>() + " "), std::string::npos);
    EXPECT_EQ(suite["goldens"].size(), builtin_suite(suite["name"].get<std::string>()).goldens.size());
  }
}

TEST_F(GoldenTool, a_file_of_the_spec_is_found_beside_it) {
  std::filesystem::create_directory(dir / "specs");
  write_npy(dir / "specs/x.npy", test::make_tensor("", Dtype::f32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  test::write_file(dir / "specs/s.json",
                   R"({"suite": "s", "goldens": [{"name": "x", "kind": "quantize", "input": {"file": "x.npy"},
                       "format": "e4m3", "block": "1x32", "recipe": "rceil"}]})");
  EXPECT_EQ(mxcheck("golden make --suite specs/s.json -o out").code, 0);
  EXPECT_NE(mxcheck("golden show out/x.h5").out.find("source              x.npy\n"), std::string::npos);
}

// A disk that fills up: neither the golden nor a manifest that names it.
TEST_F(GoldenTool, a_full_disk_leaves_nothing) {
  write_spec(kLayout);
  const test::Answer a = mxcheck("golden make --suite ./spec.json -o out", "ulimit -f 2; ");
  EXPECT_EQ(a.code, 3) << a.err;
  EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

}  // namespace
}  // namespace mxcheck
