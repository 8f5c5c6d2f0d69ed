// GoldenSuite specs: a text is refused with Error{usage}, or every name and number of what was read is within its
// bounds.

#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/check.h"
#include "properties/goldens/suite.h"
#include "properties/operations/router/golden.h"
#include "properties/operations/scaled_blocks/golden.h"

using namespace mxcheck;

namespace {

void check_input(const InputSpec& input) {
  fuzz::require(input.rows >= 0 && input.cols >= 0 && input.bits.size() <= 65'536, "inputs are bounded");
  fuzz::require(input.synthetic == SyntheticLogits::none || input.rows * input.cols <= 1 << 20,
                "synthetic input is bounded");
  const int sources = int{!input.real.empty()} + int{!input.file.empty()} + int{!input.patterns.empty()};
  fuzz::require(sources <= 1, "one source");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  GoldenSuite suite;
  const std::string text(data, data + size);
  if (!fuzz::accepted(ErrorKind::usage, [&] { suite = parse_suite(text, "fuzz"); })) return 0;
  fuzz::require(!suite.goldens.empty() && suite.goldens.size() <= 4096, "1 to 4,096 goldens");
  for (const GoldenSpec& golden : suite.goldens) {
    fuzz::require(golden.name.find_first_of("/.\\") == std::string::npos, "a name is no path");
    if (const auto* layout = std::any_cast<LayoutGolden>(&golden.own)) {
      fuzz::require(layout->rows >= 0 && layout->cols >= 0 && layout->rows * layout->cols <= 1 << 20,
                    "layouts are bounded");
    } else if (const auto* blocks = std::any_cast<QuantizeGolden>(&golden.own)) {
      fuzz::require(blocks->offsets.empty() || blocks->offsets.front() == 0, "offsets begin with 0");
      check_input(blocks->input);
    } else if (const auto* route = std::any_cast<RouteGolden>(&golden.own)) {
      check_input(route->input);
      fuzz::require(route->slots.size() <= 65'536 && route->bias.size() <= 65'536, "lists of routers are bounded");
      for (const std::int32_t expert : route->slots) fuzz::require(expert >= -1 && expert < route->experts, "slots");
    }
  }
  return 0;
}
