#pragma once
// The fixture of the tests of mxcheck golden: a spec to make goldens of.

#include "tests/tools/command.h"

namespace mxcheck::test {

class GoldenTool : public ToolTest {
 protected:
  void write_spec(const std::string& goldens) {
    write_file(dir / "spec.json", R"({"suite": "mine", "goldens": [)" + goldens + "]}");
  }
};

inline constexpr const char* kLayout = R"({"name": "tiles", "kind": "layout", "rows": 3, "cols": 5, "pad_byte": 255})";

}  // namespace mxcheck::test
