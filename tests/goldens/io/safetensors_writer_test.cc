#include "goldens/io/safetensors_writer.h"

#include <gtest/gtest.h>

#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

const Tensor kNarrow{"narrow", Dtype::u8, {2, 3}, to_bytes(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})};
const Tensor kWide{"wide", Dtype::f32, {2}, to_bytes(std::vector<float>{1, 2})};
const std::map<std::string, std::string> kMetadata{{"kind", "pieces"}};

TEST(SafetensorsWriter, writes_pieces_in_any_order_as_the_whole_is_written) {
  const test::TemporaryDirectory dir;
  write_safetensors(dir / "whole.safetensors", {{kNarrow, kWide}, kMetadata});
  SafetensorsWriter writer(dir / "pieces.safetensors", {{"narrow", {Dtype::u8, {2, 3}}}, {"wide", {Dtype::f32, {2}}}},
                           kMetadata);
  const std::span narrow(kNarrow.data);
  const std::span wide(kWide.data);
  writer.append(0, narrow.first(1));  // which lies behind the wider tensor
  writer.append(1, wide.first(5));
  writer.append(0, narrow.subspan(1));
  writer.append(0, {});
  writer.append(1, wide.subspan(5));
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"whole.safetensors"})) << "nothing appears before commit";
  writer.commit();
  EXPECT_EQ(test::read_file(dir / "pieces.safetensors"), test::read_file(dir / "whole.safetensors"));
}

TEST(SafetensorsWriter, refuses_more_and_fewer_bytes_than_declared_and_names_that_cannot_be_written) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "x.safetensors";
  const std::vector<NamedHead> narrow{{"narrow", {Dtype::u8, {2, 3}}}};
  {
    SafetensorsWriter writer(path, narrow, {});
    expect_error(ErrorKind::usage, "'narrow' lacks 6 bytes", [&] { writer.commit(); });
    writer.append(0, std::span(kNarrow.data).first(4));
    expect_error(ErrorKind::usage, "2 bytes more than its shape holds",
                 [&] { writer.append(0, std::span(kNarrow.data).first(4)); });
  }
  expect_error(ErrorKind::usage, "given twice", [&] { SafetensorsWriter(path, {narrow[0], narrow[0]}, {}); });
  expect_error(ErrorKind::usage, "UTF-8", [&] { SafetensorsWriter(path, {{"\xFF", {Dtype::u8, {1}}}}, {}); });
  EXPECT_TRUE(dir.names().empty());
}

}  // namespace
}  // namespace mxcheck
