#include "tools/common/output.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

constexpr OutputKinds kTensors = OutputKinds::safetensors_or_hdf5, kArrays = OutputKinds::npy_or_safetensors;

TEST(CheckOutput, takes_the_extensions_of_its_kind) {
  for (const char* name : {"a.safetensors", "a.h5", "a.hdf5"}) check_output(name, kTensors, {"x.npy"});
  for (const char* name : {"a.safetensors", "a.npy"}) check_output(name, kArrays, {});
  for (const char* name : {"a.npy", "a", "a.h5:/x", ""}) {
    expect_error(ErrorKind::usage, "name the output OUT.safetensors or OUT.h5",
                 [&] { check_output(name, kTensors, {}); });
  }
  expect_error(ErrorKind::usage, "name the output OUT.npy or OUT.safetensors",
               [] { check_output("a.h5", kArrays, {}); });
}

TEST(CheckOutput, refuses_an_input_by_whatever_name) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "x.safetensors", "");
  test::write_file(dir / "y:z.safetensors", "");
  std::filesystem::create_symlink(dir / "x.safetensors", dir / "link.safetensors");
  const std::string out = dir / "x.safetensors";
  for (const char* input : {"x.safetensors", "x.safetensors:w", "x.safetensors:a:b", "link.safetensors"}) {
    expect_error(ErrorKind::usage, "is the input file", [&] { check_output(out, kArrays, {dir / input}); });
    expect_error(ErrorKind::usage, "is an input file", [&] { check_output(out, kArrays, {"", dir / input}); });
  }
  expect_error(ErrorKind::usage, "is the input file",
               [&] { check_output(dir / "y:z.safetensors", kArrays, {dir / "y:z.safetensors:w"}); });
  check_output(out, kArrays, {dir / "other.safetensors", "", dir / "y:z.safetensors"});
}

}  // namespace
}  // namespace mxcheck
