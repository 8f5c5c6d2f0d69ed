// The bytes decide how the contents of a run's file differ from what was written, the hash being right. What the reader
// takes agrees with itself, is written, and reads back equal.

#include "fuzz/check.h"
#include "fuzz/sealed_edits.h"
#include "goldens/format/schema.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/run_file.h"

namespace mxcheck::fuzz {
namespace {

void read(const UnverifiedGolden& contents) {
  RunRecord run;
  if (!accepted(ErrorKind::input, [&] { run = run_in(SealedReader("fuzz", kRunKind, contents)); })) return;
  require(objection(run).empty(), "the run agrees with itself");
  const UnverifiedGolden written = contents_of(run);
  require(objection(written.info, written.kind).empty(), "a file can hold what is written");
  require(run_in(SealedReader("fuzz", kRunKind, written)) == run, "what is written reads back equal");
}

}  // namespace
}  // namespace mxcheck::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck::fuzz;
  static const mxcheck::UnverifiedGolden whole = contents_of(mxcheck::test::sample_run());
  read(edited(whole, Choices(bytes_of(data, size))));
  return 0;
}
