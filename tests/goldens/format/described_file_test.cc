#include "goldens/format/described_file.h"

#include <gtest/gtest.h>

#include "goldens/format/reader.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

TEST(DescribedFile, says_the_same_as_safetensors_and_as_hdf5) {
  const test::TemporaryDirectory dir;
  const SafetensorsFile file{{{"codes", Dtype::u8, {2, 3}, to_bytes(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})},
                              {"scales", Dtype::f32, {2}, to_bytes(std::vector<float>{1, 2})}},
                             {{"mxcheck_file", "quantized"}, {"rule", "fp32"}, {"offsets", ""}}};
  const auto format_of = [](const NamedHead& t) { return t.name == "codes" ? "float8_e4m3fn" : "float32"; };
  write_described(dir / "f.safetensors", file, format_of);
  EXPECT_EQ(read_safetensors(dir / "f.safetensors").metadata, file.metadata);
  for (const char* name : {"f.h5", "f.hdf5"}) {
    write_described(dir / name, file, format_of);
    const GoldenReader reader(dir / name, test::entry_of(dir / name));
    EXPECT_EQ(reader.file_kind(), "quantized");
    EXPECT_EQ(reader.info().attributes, (Attributes{{"offsets", ""}, {"rule", "fp32"}}));
    EXPECT_EQ(reader.info().find("codes")->format, "float8_e4m3fn");
    EXPECT_EQ(reader.info().find("scales")->dtype, Dtype::u32);
    EXPECT_EQ(reader.read("codes").data, file.tensors[0].data);
    EXPECT_EQ(reader.read("scales").data, file.tensors[1].data);
    EXPECT_EQ(read_tensor(dir / name + ":/scales").dtype, Dtype::f32);
  }
}

TEST(DescribedFile, is_named_by_its_extension) {
  for (const char* name : {"a.h5", "a.hdf5", "a.safetensors"}) EXPECT_TRUE(is_described_path(name)) << name;
  for (const char* name : {"a.npy", "a", "a.h5x", ".h5"}) EXPECT_FALSE(is_described_path(name)) << name;
  EXPECT_FALSE(is_hdf5_path("a.safetensors"));
}

}  // namespace
}  // namespace mxcheck
