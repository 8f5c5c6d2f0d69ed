#include <nlohmann/json.hpp>

#include <csignal>
#include <utility>

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

// A disk that fills up at the second golden: neither a golden, nor a manifest, nor a directory.
TEST_F(GoldenTool, a_full_disk_leaves_nothing) {
  write_spec(kLayout);
  expect_refused(3, "golden tiles", "golden make --suite ./spec.json -o out", "ulimit -f 2; ");
  write_spec(std::string(kLayout) + R"(, {"name": "wide", "kind": "quantize", "input": {"real": "layer0.x"},
                                        "format": "e4m3", "block": "1x32", "recipe": "rceil"})");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o out", "ulimit -f 64; ");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o new/out", "ulimit -f 64; ");
  std::filesystem::create_directory(dir / "empty");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o empty", "ulimit -f 64; ");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "empty"));
}

// Goldens that were there are replaced by all of the new ones, or by none.
TEST_F(GoldenTool, a_full_disk_leaves_the_goldens_that_were_there) {
  write_spec(kLayout);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o out").code, 0);
  const std::string golden = test::read_file(dir / "out/tiles.h5"),
                    manifest = test::read_file(dir / "out/manifest.txt");
  write_spec(R"({"name": "tiles", "kind": "layout", "rows": 4, "cols": 6, "pad_byte": 0},
                {"name": "wide", "kind": "quantize", "input": {"real": "layer0.x"},
                 "format": "e4m3", "block": "1x32", "recipe": "rceil"})");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o out", "ulimit -f 64; ");
  EXPECT_EQ(test::read_file(dir / "out/tiles.h5"), golden);
  EXPECT_EQ(test::read_file(dir / "out/manifest.txt"), manifest);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / "out"), {}), 2);
}

TEST_F(GoldenTool, an_answer_that_nobody_can_read_leaves_nothing) {
  write_spec(kLayout);
  for (const char* more : {"", " --json"}) {
    expect_refused(3, "standard output cannot be written",
                   std::string("golden make --suite ./spec.json -o out") + more + " > /dev/full");
  }
}

// While goldens wait under hidden names for the last of the suite.
TEST_F(GoldenTool, a_signal_leaves_nothing) {
  for (const auto& [signal, number] : {std::pair{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}}) {
    // The process that becomes the tool is the parent of a substitution's. Without files in `out` nothing is signalled:
    // a tool that ended early must not cost another process its life.
    const std::string before =
        "me=$(exec sh -c 'echo $PPID'); ( n=0; while [ $n -lt 1000 ]; do sleep 0.01; "
        "n=$((n + 1)); [ -z \"$(ls -A out 2> /dev/null)\" ] || exec kill -" +
        std::string(signal) + " $me; done ) & ";
    const test::Answer a = mxcheck("golden make --suite real -o out", before);
    EXPECT_EQ(a.code, 128 + number) << signal;
    EXPECT_FALSE(std::filesystem::exists(dir / "out")) << signal;
  }
}

}  // namespace
}  // namespace mxcheck
