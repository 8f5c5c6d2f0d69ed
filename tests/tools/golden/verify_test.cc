#include <nlohmann/json.hpp>

#include "goldens/format/reader.h"
#include "goldens/format/writer.h"
#include "tests/tools/golden/golden_tool.h"

namespace mxcheck {
namespace {

using nlohmann::json;
using test::GoldenTool;

constexpr const char* kReal = R"({"name": "x", "kind": "quantize", "input": {"real": "layer0.x"}, "format": "e4m3",
                                  "block": "1x32", "recipe": "rceil"})";

TEST_F(GoldenTool, verifies_what_quantize_writes_and_names_the_rule_that_was_used) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  write_safetensors(dir / "real.safetensors", real_tensors());
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o right.h5").code, 0);
  const test::Answer right = mxcheck("golden verify right.h5 --against g/x.h5");
  EXPECT_EQ(right.code, 0) << right.err << right.out;
  EXPECT_NE(right.out.find("2 of 2 datasets are equal, bit for bit"), std::string::npos);
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o floor.h5 --rule floor").code, 0);
  const test::Answer floor = mxcheck("golden verify floor.h5 --against g/x.h5");
  EXPECT_EQ(floor.code, 1);
  for (const char* part :
       {"DIFFERENT     codes", "cause     the codes are right for the candidate's own scales",
        "cause     every scale is that of recipe floor", "expected  ", "observed  ", "extent    ", "block     "}) {
    EXPECT_NE(floor.out.find(part), std::string::npos) << part << "\n" << floor.out;
  }
  const json j = json::parse(mxcheck("golden verify floor.h5 --against g/x.h5 --json --only scales").out);
  EXPECT_FALSE(j["equal"].get<bool>());
  ASSERT_EQ(j["datasets"].size(), 1U);
  EXPECT_EQ(j["datasets"][0]["verdict"], "DIFFERENT");
  EXPECT_GT(j["datasets"][0]["differing"].get<int>(), 100);
  // Another shape; a dataset that is not there.
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o wide.h5 --block 1x128").code, 0);
  const test::Answer wide = mxcheck("golden verify wide.h5 --against g/x.h5");
  EXPECT_EQ(wide.code, 1);
  EXPECT_NE(wide.out.find("WRONG SHAPE   scales"), std::string::npos) << wide.out;
  write_spec(R"({"name": "f", "kind": "formats", "formats": ["e2m1"]})");
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  const test::Answer missing = mxcheck("golden verify right.h5 --against g/f.h5");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.out.find("1 missing; --only NAME,... asks for fewer"), std::string::npos) << missing.out;
}

TEST_F(GoldenTool, verifies_safetensors_as_it_does_hdf5) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  write_safetensors(dir / "real.safetensors", real_tensors());
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o right.safetensors").code, 0);
  const test::Answer right = mxcheck("golden verify right.safetensors --against g/x.h5");
  EXPECT_EQ(right.code, 0) << right.err << right.out;
  for (const char* kind : {"h5", "safetensors"}) {
    ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x --rule floor -o floor." + std::string(kind)).code, 0);
  }
  const test::Answer floor = mxcheck("golden verify floor.safetensors --against g/x.h5");
  EXPECT_EQ(floor.code, 1);
  std::string same = mxcheck("golden verify floor.h5 --against g/x.h5").out;
  same.replace(same.find("floor.h5"), 8, "floor.safetensors");
  EXPECT_EQ(floor.out, same);
  SafetensorsFile codes = read_safetensors(dir / "right.safetensors");
  std::erase_if(codes.tensors, [](const Tensor& t) { return t.name != "codes"; });
  write_safetensors(dir / "codes.safetensors", codes);
  const test::Answer missing = mxcheck("golden verify codes.safetensors --against g/x.h5");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.out.find("1 missing; --only NAME,... asks for fewer"), std::string::npos) << missing.out;
  EXPECT_EQ(mxcheck("golden verify codes.safetensors --only codes --against g/x.h5").code, 0);
}

// A layer's own file is a candidate; a damaged one differs at the step of the damage.
TEST_F(GoldenTool, says_which_step_of_a_layer_first_differs) {
  const std::string golden = std::string(MXCHECK_SOURCE_DIR) + "/goldens/data/layer/layer_small.h5";
  const test::Answer same = mxcheck("golden verify " + golden + " --against " + golden);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(same.out.find("layer_small.h5 (layer, mxfp8)"), std::string::npos) << same.out;
  const GoldenReader reader(golden);
  GoldenInfo info{{}, {*reader.info().find("dH"), *reader.info().find("dX")}};
  GoldenWriter writer(dir / "mine.h5", info);
  std::vector<std::byte> dh = reader.read("dH").data;
  dh.at(dh.size() / 2) ^= std::byte{1};
  writer.append(0, dh), writer.append(1, reader.read("dX").data);
  writer.commit();
  const test::Answer damaged = mxcheck("golden verify mine.h5 --only dH,dX --against " + golden);
  EXPECT_EQ(damaged.code, 1) << damaged.err;
  for (const char* part : {"DIFFERENT     dH", "equal         dX", "first difference: step swiglu_backward, dataset dH",
                           "own       1 of ", "1 of 2 datasets are equal"}) {
    EXPECT_NE(damaged.out.find(part), std::string::npos) << part << "\n" << damaged.out;
  }
  const json j = json::parse(mxcheck("golden verify mine.h5 --json --only dH --against " + golden).out);
  EXPECT_EQ(j["datasets"][0]["step"], "swiglu_backward");
}

TEST_F(GoldenTool, verify_refuses_what_it_cannot_read) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  test::write_file(dir / "noise.h5", "no HDF5");
  test::write_file(dir / "cut.h5", test::read_file(dir / "g/x.h5").substr(0, 5000));
  expect_refused(2, "--against is required", "golden verify g/x.h5");
  expect_refused(2, "none.h5: there is no such file", "golden verify none.h5 --against g/x.h5");
  expect_refused(2, "a candidate is an HDF5 or safetensors file", "golden verify spec.json --against g/x.h5");
  expect_refused(2, "noise.h5: not an HDF5 file", "golden verify noise.h5 --against g/x.h5");
  std::filesystem::create_directory(dir / "folder.h5");
  ASSERT_EQ(std::system(("mkfifo " + (dir / "pipe.h5")).c_str()), 0);
  std::filesystem::create_symlink("/dev/null", dir / "device.h5");
  for (const auto& [name, kind] : {std::pair("folder.h5", "a directory"),
                                   {"pipe.h5", "a FIFO"},
                                   {"device.h5", "a character device"},
                                   {"/dev/null", "a character device"},
                                   {"g", "a directory"}}) {
    expect_refused(2, std::string(name) + ": is " + kind + "; a candidate is an HDF5 or safetensors file",
                   std::string("golden verify ") + name + " --against g/x.h5");
  }
  for (const auto& [name, kind] :
       {std::pair("folder.h5", "a directory"), {"pipe.h5", "a FIFO"}, {"device.h5", "a character device"}}) {
    expect_refused(5, std::string(name) + ": not a regular file but " + kind,
                   std::string("golden verify g/x.h5 --against ") + name);
  }
  expect_refused(2, "cut.h5", "golden verify cut.h5 --against g/x.h5");
  expect_refused(2, "the golden has no output 'x'; it has codes, scales",
                 "golden verify g/x.h5 --against g/x.h5 --only x");
  expect_refused(5, "none.h5", "golden verify g/x.h5 --against g/none.h5");
  std::string bytes = test::read_file(dir / "g/x.h5");
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(dir / "g/x.h5", bytes);
  expect_refused(5, "x.h5", "golden verify noise.h5 --against g/x.h5");
}

}  // namespace
}  // namespace mxcheck
