#include <nlohmann/json.hpp>

#include "goldens/io/sha256.h"
#include "tests/tools/golden/golden_tool.h"

namespace mxcheck {
namespace {

using nlohmann::json;
using test::GoldenTool;
using test::kLayout;

TEST_F(GoldenTool, makes_shows_and_hashes) {
  write_spec(kLayout);
  const test::Answer made = mxcheck("golden make --suite ./spec.json -o out");
  EXPECT_EQ(made.code, 0) << made.err;
  const std::string bytes = test::read_file(dir / "out/tiles.h5");
  const std::string hash = sha256(std::as_bytes(std::span(bytes)));
  EXPECT_NE(made.out.find(hash.substr(0, 16)), std::string::npos);
  EXPECT_NE(test::read_file(dir / "out/manifest.txt").find(hash + "  " + std::to_string(bytes.size()) + "  tiles.h5\n"),
            std::string::npos);
  const test::Answer shown = mxcheck("golden show out/tiles.h5");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find(hash), std::string::npos);
  EXPECT_NE(shown.out.find("pad_byte            255"), std::string::npos) << shown.out;
  const test::Answer elements = mxcheck("golden show out/tiles.h5 --dataset tcgen05 --first 6");
  EXPECT_NE(elements.out.find("(5)           0xff        nan\n"), std::string::npos) << elements.out;
  const json j = json::parse(mxcheck("golden show out/tiles.h5 --json").out);
  EXPECT_EQ(j["sha256"], hash);
  EXPECT_EQ(j["attributes"]["kind"], "layout");
  EXPECT_EQ(j["datasets"][1]["shape"], json({1024}));
  // Without its manifest the hash itself will do.
  std::filesystem::remove(dir / "out/manifest.txt");
  EXPECT_EQ(mxcheck("golden show out/tiles.h5 --sha256 " + hash).code, 0);
}

TEST_F(GoldenTool, refuses_in_one_line_and_writes_nothing) {
  write_spec(kLayout);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o out").code, 0);
  test::write_file(dir / "file", "");
  test::write_file(dir / "bad.json", "{");
  expect_refused(2, "subcommand", "golden");
  expect_refused(2, "--suite is required", "golden make -o x");
  expect_refused(2, "--output is required", "golden make --suite real");
  expect_refused(2, "no suite 'mine'; there are formats, casts", "golden make --suite mine -o x");
  expect_refused(2, "none.json: cannot be opened", "golden make --suite none.json -o x");
  expect_refused(2, "bad.json: is not valid JSON (at byte 2)", "golden make --suite bad.json -o x");
  expect_refused(2, "file: cannot be made a directory", "golden make --suite ./spec.json -o file");
  expect_refused(2, "--compression", "golden make --suite ./spec.json -o x --compression 10");
  expect_refused(5, "none.h5", "golden show none.h5");
  expect_refused(5, "has no entry for it", "golden show out/manifest.txt");
  expect_refused(2, "has no dataset 'x'; there are scales, tcgen05, deepgemm", "golden show out/tiles.h5 --dataset x");
  expect_refused(2, "--sha256 takes 64", "golden show out/tiles.h5 --sha256 12");
  expect_refused(5, "tiles.h5", "golden show out/tiles.h5 --sha256 " + std::string(64, '0'));
  expect_refused(5, "no manifest", "golden show out/tiles.h5 --manifest none.txt");
  test::write_file(dir / "out/tiles.h5", test::read_file(dir / "out/tiles.h5") + "x");
  expect_refused(5, "tiles.h5", "golden show out/tiles.h5");
}

}  // namespace
}  // namespace mxcheck
