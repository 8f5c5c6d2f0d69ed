// GoldenSuite specs: a text is refused with Error{usage}, or every name and number of what was read is within its
// bounds.

#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/check.h"
#include "properties/goldens/suite.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck;
  GoldenSuite suite;
  const std::string text(data, data + size);
  if (!fuzz::accepted(ErrorKind::usage, [&] { suite = parse_suite(text, "fuzz"); })) return 0;
  fuzz::require(!suite.goldens.empty() && suite.goldens.size() <= 4096, "1 to 4,096 goldens");
  for (const GoldenSpec& golden : suite.goldens) {
    fuzz::require(golden.name.find_first_of("/.\\") == std::string::npos, "a name is no path");
    fuzz::require(golden.rows >= 0 && golden.cols >= 0 && golden.rows * golden.cols <= 1 << 20, "layouts are bounded");
    fuzz::require(golden.offsets.empty() || golden.offsets.front() == 0, "offsets begin with 0");
    const InputSpec& input = golden.input;
    fuzz::require(input.rows >= 0 && input.cols >= 0 && input.bits.size() <= 65'536, "inputs are bounded");
    fuzz::require(input.synthetic == SyntheticLogits::none || input.rows * input.cols <= 1 << 20,
                  "synthetic input is bounded");
    const RouteSpec& route = golden.route;
    fuzz::require(route.slots.size() <= 65'536 && route.bias.size() <= 65'536, "lists of routers are bounded");
    for (const std::int32_t expert : route.slots) fuzz::require(expert >= -1 && expert < route.experts, "slots");
    if (golden.kind != GoldenKind::quantize) continue;
    const int sources = int{!input.real.empty()} + int{!input.file.empty()} + int{!input.patterns.empty()};
    fuzz::require(sources <= 1, "one source");
  }
  return 0;
}
