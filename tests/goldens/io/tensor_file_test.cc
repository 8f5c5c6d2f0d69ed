#include "goldens/io/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "goldens/io/byte_source.h"
#include "goldens/make/embedded.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(ReadTensor, finds_the_file_in_names_with_colons_and_extensions) {
  const test::TemporaryDirectory dir;
  const Tensor t{"x.npy:y", Dtype::u8, {1}, {std::byte{7}}};
  std::filesystem::create_directory(dir / "a.safetensors:b");
  for (const std::string path : {"x.npy", "a:b.npy", "a.npy.npy", "a.safetensors:b/c.npy"}) {
    write_npy(dir / path, t);
    EXPECT_EQ(read_tensor(dir / path).data, t.data) << path;
  }
  write_safetensors(dir / "x:y.safetensors", {{t}, {}});
  EXPECT_EQ(read_tensor(dir / "x:y.safetensors").data, t.data);
  EXPECT_EQ(read_tensor((dir / "x:y.safetensors") + ":x.npy:y").data, t.data);
}

TEST(ReadTensor, says_what_it_can_read) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "x.h5", "");
  std::filesystem::create_directory(dir / "d.npy");
  ASSERT_EQ(::mkfifo((dir / "pipe.npy").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x.bin", "not a known kind of file"},
      {"", "not a known kind of file"},
      {"missing.npy", "cannot be opened"},
      {"missing.safetensors:t", "cannot be opened"},
      {"missing.h5:/t", "cannot be opened"},
      {"x.h5", "which dataset?"},
      {"d.npy", "not a regular file but a directory"},
      {"pipe.npy", "not a regular file"},
  };
  for (const auto& [name, text] : cases) expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(dir / n); });
  expect_error(ErrorKind::input, "FILE.npy, FILE.safetensors:TENSOR or FILE.h5:/DATASET", [] { read_tensor("x"); });
}

}  // namespace
}  // namespace mxcheck
