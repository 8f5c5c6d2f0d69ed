// Configurations of training: a text is refused with Error{usage}, or what was read is written and reads back equal,
// and can be.

#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/check.h"
#include "trainer/config/config.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck;
  TrainingConfig config;
  const std::string text(data, data + size);
  if (!fuzz::accepted(ErrorKind::usage, [&] { config = config_from_json(text, "fuzz"); })) return 0;
  fuzz::require(fuzz::accepted(ErrorKind::usage, [&] { check(config); }), "what is read can be");
  const std::string written = to_json(config);
  TrainingConfig again;
  fuzz::require(fuzz::accepted(ErrorKind::usage, [&] { again = config_from_json(written, "fuzz"); }),
                "what is written is read");
  fuzz::require(again == config, "what is written reads back equal");
  fuzz::require(to_json(again) == written, "equal configurations give equal texts");
  return 0;
}
