// The bytes decide how the contents of a checkpoint differ from what was written, the hash being right. What the reader
// takes is written, and gives the same state to the bit. Whether it belongs to a run is answered or refused.

#include "fuzz/check.h"
#include "fuzz/sealed_edits.h"
#include "goldens/format/schema.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/checkpoint.h"

namespace mxcheck::fuzz {
namespace {

UnverifiedGolden sample() {
  Checkpoint c{test::sample_config(), std::string(64, 'a'), {}};
  c.state.step = 3, c.state.updates = 2;
  for (const ParameterSpec& p : parameters_of(c.config.model)) {
    for (auto* tensors : {&c.state.weights, &c.state.first_moments, &c.state.second_moments}) {
      tensors->emplace_back(static_cast<std::size_t>(p.size()), 0.5F);
    }
  }
  return contents_of(c);
}

void read(const UnverifiedGolden& contents) {
  Checkpoint c;
  if (!accepted(ErrorKind::input, [&] { c = checkpoint_in(SealedReader("fuzz", kCheckpointKind, contents)); })) return;
  static const RunRecord run = test::sample_run();
  accepted(ErrorKind::input, [&] { check_belongs(c, run, "fuzz"); });
  const UnverifiedGolden written = contents_of(c);
  require(objection(written.info, written.kind).empty(), "a file can hold what is written");
  // Compared as bytes: a NaN is not equal to itself.
  for (const char* name : {"weights", "first_moments", "second_moments"}) {
    require(data_of(written, name) == data_of(contents, name), "the state is what was written");
  }
  const Checkpoint again = checkpoint_in(SealedReader("fuzz", kCheckpointKind, written));
  require(again.config == c.config && again.training_sha256 == c.training_sha256, "the run is what was written");
  require(again.state.step == c.state.step && again.state.updates == c.state.updates, "counts are what was written");
}

}  // namespace
}  // namespace mxcheck::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck::fuzz;
  static const mxcheck::UnverifiedGolden whole = sample();
  read(edited(whole, Choices(bytes_of(data, size))));
  return 0;
}
