#include <nlohmann/json.hpp>

#include "tests/tools/golden/golden_tool.h"

namespace mxcheck {
namespace {

using nlohmann::json;
using test::GoldenTool;
using test::kLayout;

// The tool's own examples would be printed of a subcommand that has none.
TEST_F(GoldenTool, every_subcommands_help_has_examples_of_its_own) {
  for (const std::string command : {"show", "make", "verify", "suites"}) {
    const std::string help = mxcheck("golden " + command + " --help").out;
    const std::size_t examples = help.find("Examples:\n  mxcheck golden " + command);
    ASSERT_NE(examples, std::string::npos) << help;
    EXPECT_EQ(help.find("mxcheck quantize"), std::string::npos) << help;
  }
}

TEST_F(GoldenTool, defaults_are_what_the_help_says) {
  write_spec(kLayout);
  EXPECT_EQ(mxcheck("golden make --suite ./spec.json -o a").code, 0);
  EXPECT_EQ(mxcheck("golden make --suite ./spec.json -o b --compression 0 --threads 0").code, 0);
  EXPECT_EQ(test::read_file(dir / "a/tiles.h5"), test::read_file(dir / "b/tiles.h5"));
  EXPECT_EQ(mxcheck("golden show a/tiles.h5 --dataset tcgen05").out,
            mxcheck("golden show a/tiles.h5 --dataset tcgen05 --first 16").out);
  EXPECT_EQ(mxcheck("golden show a/tiles.h5").out.size(),
            mxcheck("golden show a/tiles.h5 --manifest a/manifest.txt").out.size());
  EXPECT_EQ(json::parse(mxcheck("golden make --suite ./spec.json -o a --json").out)["goldens"][0]["name"], "tiles.h5");
}

}  // namespace
}  // namespace mxcheck
