#include <csignal>
#include <nlohmann/json.hpp>

#include "goldens/format/reader.h"
#include "goldens/format/writer.h"
#include "goldens/io/sha256.h"
#include "properties/goldens/suite.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/tools/command.h"
#include "tools/golden/golden.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;

// A spec to make goldens of.
class GoldenTool : public ToolTest {
 protected:
  void write_spec(const std::string& goldens) {
    write_file(dir / "spec.json", R"({"suite": "mine", "goldens": [)" + goldens + "]}");
  }
};

constexpr const char* kLayout = R"({"name": "tiles", "kind": "layout", "rows": 3, "cols": 5, "pad_byte": 255})";

TEST_F(GoldenTool, makes_shows_and_hashes) {
  write_spec(kLayout);
  const Answer made = expect_output("golden make --suite ./spec.json -o out", 0);
  const std::string bytes = read_file(dir / "out/tiles.h5");
  const std::string hash = sha256(std::as_bytes(std::span(bytes)));
  expect_contains(made.out, hash.substr(0, 16));
  expect_contains(read_file(dir / "out/manifest.txt"), hash + "  " + std::to_string(bytes.size()) + "  tiles.h5\n");
  expect_output("golden show out/tiles.h5", 0, {hash, "pad_byte            255"});
  const Answer elements = mxcheck("golden show out/tiles.h5 --dataset tcgen05 --first 6");
  expect_contains(elements.out, "(5)           0xff        nan\n");
  const json j = json::parse(mxcheck("golden show out/tiles.h5 --json").out);
  EXPECT_EQ(j["sha256"], hash);
  EXPECT_EQ(j["attributes"]["kind"], "layout");
  EXPECT_EQ(j["datasets"][1]["shape"], json({1024}));
  // Without its manifest the hash itself will do.
  std::filesystem::remove(dir / "out/manifest.txt");
  EXPECT_EQ(mxcheck("golden show out/tiles.h5 --sha256 " + hash).code, 0);
}

TEST_F(GoldenTool, refuses_in_one_line_and_writes_nothing) {
  write_spec(kLayout);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o out").code, 0);
  write_file(dir / "file", "");
  write_file(dir / "bad.json", "{");
  expect_refused(2, "subcommand", "golden");
  expect_refused(2, "either --suite or --case is needed", "golden make -o x");
  expect_refused(2, "--output is required", "golden make --suite real");
  expect_refused(2, "no suite 'mine'; there are formats, casts", "golden make --suite mine -o x");
  expect_refused(2, "none.json: cannot be opened", "golden make --suite none.json -o x");
  expect_refused(2, "bad.json: is not valid JSON (at byte 2)", "golden make --suite bad.json -o x");
  expect_refused(2, "file: cannot be made a directory", "golden make --suite ./spec.json -o file");
  expect_refused(2, "--compression", "golden make --suite ./spec.json -o x --compression 10");
  expect_refused(5, "none.h5", "golden show none.h5");
  expect_refused(5, "has no entry for it", "golden show out/manifest.txt");
  expect_refused(2, "has no dataset 'x'; there are scales, tcgen05, deepgemm", "golden show out/tiles.h5 --dataset x");
  expect_refused(2, "--sha256 takes 64", "golden show out/tiles.h5 --sha256 12");
  expect_refused(5, "tiles.h5", "golden show out/tiles.h5 --sha256 " + std::string(64, '0'));
  expect_refused(5, "no manifest", "golden show out/tiles.h5 --manifest none.txt");
  write_file(dir / "out/tiles.h5", read_file(dir / "out/tiles.h5") + "x");
  expect_refused(5, "tiles.h5", "golden show out/tiles.h5");
}

class TrustedEntry : public testing::Test {
 protected:
  TrustedEntry() : entry(write_golden(golden, small_info())) {}
  TemporaryDirectory dir;
  const std::string golden = dir / "g.h5";
  const ManifestEntry entry;
};

TEST_F(TrustedEntry, comes_from_the_manifest_beside_another_one_or_a_hash) {
  expect_error(ErrorKind::golden, "no manifest", [&] { trusted_entry(golden, {}); });
  write_file(dir / "manifest.txt", to_text(Manifest{"mxcheck", {entry}}));
  write_file(dir / "other.txt", to_text(Manifest{"mxcheck", {entry}}));
  EXPECT_EQ(trusted_entry(golden, {}), entry);
  EXPECT_EQ(trusted_entry(golden, {dir / "other.txt", ""}), entry);
  EXPECT_EQ(trusted_entry(golden, {"", entry.sha256}), entry);
}

TEST_F(TrustedEntry, is_not_there_for_other_files_and_malformed_hashes) {
  write_file(dir / "empty.txt", to_text(Manifest{"mxcheck", {}}));
  expect_error(ErrorKind::golden,
               "empty.txt has no entry for it: it is empty; take the manifest that was written with this golden", [&] {
                 trusted_entry(golden, {dir / "empty.txt", ""});
               });
  expect_error(ErrorKind::golden, "none.h5", [&] { trusted_entry(dir / "none.h5", {"", entry.sha256}); });
  for (const std::string& hash : {std::string("12"), std::string(64, 'A'), entry.sha256 + "0"})
    expect_error(ErrorKind::usage, "--sha256 takes 64 lower-case", [&] { trusted_entry(golden, {"", hash}); });
}

TEST_F(GoldenTool, lists_the_suites_and_their_goldens) {
  const Answer table = expect_output("golden suites", 0);
  const json suites = json::parse(mxcheck("golden suites --json").out)["suites"];
  ASSERT_EQ(suites.size(), builtin_suites().size());
  for (const json& suite : suites) {
    expect_contains(table.out, suite["name"].get<std::string>() + " ");
    EXPECT_EQ(suite["goldens"].size(), builtin_suite(suite["name"].get<std::string>()).goldens.size());
  }
}

TEST_F(GoldenTool, a_file_of_the_spec_is_found_beside_it) {
  std::filesystem::create_directory(dir / "specs");
  write_npy(dir / "specs/x.npy", make_tensor("", Format::fp32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  write_file(dir / "specs/s.json",
             R"({"suite": "s", "goldens": [{"name": "x", "kind": "quantize", "input": {"file": "x.npy"},
                       "format": "e4m3", "block": "1x32", "recipe": "rceil"}]})");
  EXPECT_EQ(mxcheck("golden make --suite specs/s.json -o out").code, 0);
  expect_contains(mxcheck("golden show out/x.h5").out, "source              x.npy\n");
}

TEST_F(GoldenTool, makes_a_golden_of_one_case_of_the_gate) {
  const std::string product =
      "--case 'op=matmul:sm90_bf16 format=bf16 format_b=bf16 block=none block_b=none scales=none groups=none d=fp32 "
      "rows=3 "
      "cols=4 depth=20 data=normal seed=1' ";
  EXPECT_EQ(mxcheck("golden make " + product + "-o out").code, 0);
  EXPECT_EQ(mxcheck("golden make " + product + "--name other -o out").code, 0);
  expect_contains(mxcheck("golden show out/case.h5").out, "case_depth          20\n");
  EXPECT_EQ(mxcheck("golden verify out/other.h5 --against out/case.h5").code, 0);
  expect_refused(2, "either --suite or --case is needed", "golden make -o none");
  expect_refused(2, "either --suite or --case is needed", "golden make --suite real " + product + "-o none");
  expect_refused(2, "must be 1 to 64 letters", "golden make " + product + "--name ../x -o none");
  expect_refused(2, "there is no operation 'sort'", "golden make --case 'op=sort rows=1' -o none");
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

// A disk that fills up at the second golden: neither a golden, nor a manifest, nor a directory.
TEST_F(GoldenTool, a_full_disk_leaves_nothing) {
  write_spec(kLayout);
  expect_refused(3, "golden tiles", "golden make --suite ./spec.json -o out", "ulimit -f 2; ");
  write_spec(std::string(kLayout) + R"(, {"name": "wide", "kind": "quantize", "input": {"real": "layer0.x"},
                                        "format": "e4m3", "block": "1x32", "recipe": "rceil"})");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o out", "ulimit -f 64; ");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o new/out", "ulimit -f 64; ");
  std::filesystem::create_directory(dir / "empty");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o empty", "ulimit -f 64; ");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "empty"));
}

// Goldens that were there are replaced by all of the new ones, or by none.
TEST_F(GoldenTool, a_full_disk_leaves_the_goldens_that_were_there) {
  write_spec(kLayout);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o out").code, 0);
  const std::string golden = read_file(dir / "out/tiles.h5"), manifest = read_file(dir / "out/manifest.txt");
  write_spec(R"({"name": "tiles", "kind": "layout", "rows": 4, "cols": 6, "pad_byte": 0},
                {"name": "wide", "kind": "quantize", "input": {"real": "layer0.x"},
                 "format": "e4m3", "block": "1x32", "recipe": "rceil"})");
  expect_refused(3, "golden wide", "golden make --suite ./spec.json -o out", "ulimit -f 64; ");
  EXPECT_EQ(read_file(dir / "out/tiles.h5"), golden);
  EXPECT_EQ(read_file(dir / "out/manifest.txt"), manifest);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / "out"), {}), 2);
}

TEST_F(GoldenTool, an_answer_that_nobody_can_read_leaves_nothing) {
  write_spec(kLayout);
  for (const char* more : {"", " --json"})
    expect_refused(3, "standard output cannot be written",
                   std::string("golden make --suite ./spec.json -o out") + more + " > /dev/full");
}

// While goldens wait under hidden names for the last of the suite.
TEST_F(GoldenTool, a_signal_leaves_nothing) {
  for (const auto& [signal, number] : {std::pair{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}}) {
    // The process that becomes the tool is the parent of a substitution's. Without files in `out` nothing is signalled:
    // a tool that ended early must not cost another process its life.
    const std::string before =
        "me=$(exec sh -c 'echo $PPID'); ( n=0; while [ $n -lt 1000 ]; do sleep 0.01; "
        "n=$((n + 1)); [ -z \"$(ls -A out 2> /dev/null)\" ] || exec kill -" +
        std::string(signal) + " $me; done ) & ";
    const Answer a = mxcheck("golden make --suite real -o out", before);
    EXPECT_EQ(a.code, 128 + number) << signal;
    EXPECT_FALSE(std::filesystem::exists(dir / "out")) << signal;
  }
}

// The tool's own examples would be printed of a subcommand that has none.
TEST_F(GoldenTool, every_subcommands_help_has_examples_of_its_own) {
  for (const std::string command : {"show", "make", "verify", "suites"}) {
    const std::string help = mxcheck("golden " + command + " --help").out;
    const std::size_t examples = help.find("Examples:\n  mxcheck golden " + command);
    ASSERT_NE(examples, std::string::npos) << help;
    EXPECT_EQ(help.find("mxcheck quantize"), std::string::npos) << help;
  }
}

TEST_F(GoldenTool, defaults_are_what_the_help_says) {
  write_spec(kLayout);
  EXPECT_EQ(mxcheck("golden make --suite ./spec.json -o a").code, 0);
  EXPECT_EQ(mxcheck("golden make --suite ./spec.json -o b --compression 0 --threads 0").code, 0);
  EXPECT_EQ(read_file(dir / "a/tiles.h5"), read_file(dir / "b/tiles.h5"));
  EXPECT_EQ(mxcheck("golden show a/tiles.h5 --dataset tcgen05").out,
            mxcheck("golden show a/tiles.h5 --dataset tcgen05 --first 16").out);
  EXPECT_EQ(mxcheck("golden show a/tiles.h5").out.size(),
            mxcheck("golden show a/tiles.h5 --manifest a/manifest.txt").out.size());
  EXPECT_EQ(json::parse(mxcheck("golden make --suite ./spec.json -o a --json").out)["goldens"][0]["name"], "tiles.h5");
}

constexpr const char* kReal = R"({"name": "x", "kind": "quantize", "input": {"real": "layer0.x"}, "format": "e4m3",
                                  "block": "1x32", "recipe": "rceil"})";

TEST_F(GoldenTool, verifies_what_quantize_writes_and_names_the_rule_that_was_used) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  write_safetensors(dir / "real.safetensors", real_tensors());
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o right.h5").code, 0);
  const Answer right =
      expect_output("golden verify right.h5 --against g/x.h5", 0, {"2 of 2 datasets are equal, bit for bit"});
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o floor.h5 --rule floor").code, 0);
  const Answer floor = expect_output("golden verify floor.h5 --against g/x.h5", 1);
  expect_contains(floor.out, {"DIFFERENT     codes", "cause     the codes are right for the candidate's own scales",
                              "cause     every scale is that of recipe floor", "expected  ", "observed  ", "extent    ",
                              "block     "});
  const json j = json::parse(mxcheck("golden verify floor.h5 --against g/x.h5 --json --only scales").out);
  EXPECT_FALSE(j["equal"].get<bool>());
  ASSERT_EQ(j["datasets"].size(), 1U);
  EXPECT_EQ(j["datasets"][0]["verdict"], "DIFFERENT");
  EXPECT_GT(j["datasets"][0]["differing"].get<int>(), 100);
  // Another shape; a dataset that is not there.
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o wide.h5 --block 1x128").code, 0);
  expect_output("golden verify wide.h5 --against g/x.h5", 1, {"WRONG SHAPE   scales"});
  write_spec(R"({"name": "f", "kind": "formats", "formats": ["e2m1"]})");
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  expect_output("golden verify right.h5 --against g/f.h5", 1, {"1 missing; --only NAME,... asks for fewer"});
}

TEST_F(GoldenTool, verifies_safetensors_as_it_does_hdf5) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  write_safetensors(dir / "real.safetensors", real_tensors());
  ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x -o right.safetensors").code, 0);
  expect_output("golden verify right.safetensors --against g/x.h5", 0);
  for (const char* kind : {"h5", "safetensors"})
    ASSERT_EQ(mxcheck("quantize real.safetensors:layer0.x --rule floor -o floor." + std::string(kind)).code, 0);
  const Answer floor = expect_output("golden verify floor.safetensors --against g/x.h5", 1);
  std::string same = mxcheck("golden verify floor.h5 --against g/x.h5").out;
  same.replace(same.find("floor.h5"), 8, "floor.safetensors");
  EXPECT_EQ(floor.out, same);
  SafetensorsFile codes = read_safetensors(dir / "right.safetensors");
  std::erase_if(codes.tensors, [](const Tensor& t) { return t.name != "codes"; });
  write_safetensors(dir / "codes.safetensors", codes);
  expect_output("golden verify codes.safetensors --against g/x.h5", 1, {"1 missing; --only NAME,... asks for fewer"});
  EXPECT_EQ(mxcheck("golden verify codes.safetensors --only codes --against g/x.h5").code, 0);
}

// A layer's own file is a candidate; a damaged one differs at the step of the damage.
TEST_F(GoldenTool, says_which_step_of_a_layer_first_differs) {
  const std::string golden = std::string(MXCHECK_SOURCE_DIR) + "/goldens/data/layer/layer_small.h5";
  expect_output("golden verify " + golden + " --against " + golden, 0, {"layer_small.h5 (layer, mxfp8)"});
  const GoldenReader reader(golden);
  GoldenInfo info{{}, {*reader.info().find("dH"), *reader.info().find("dX")}};
  GoldenWriter writer(dir / "mine.h5", info);
  std::vector<std::byte> dh = reader.read("dH").data;
  dh.at(dh.size() / 2) ^= std::byte{1};
  writer.append(0, dh), writer.append(1, reader.read("dX").data);
  writer.commit();
  const Answer damaged = expect_output("golden verify mine.h5 --only dH,dX --against " + golden, 1);
  expect_contains(damaged.out,
                  {"DIFFERENT     dH", "equal         dX", "first difference: step swiglu_backward, dataset dH",
                   "own       1 of ", "1 of 2 datasets are equal"});
  const json j = json::parse(mxcheck("golden verify mine.h5 --json --only dH --against " + golden).out);
  EXPECT_EQ(j["datasets"][0]["step"], "swiglu_backward");
}

TEST_F(GoldenTool, verify_refuses_what_it_cannot_read) {
  write_spec(kReal);
  ASSERT_EQ(mxcheck("golden make --suite ./spec.json -o g").code, 0);
  write_file(dir / "noise.h5", "no HDF5");
  write_file(dir / "cut.h5", read_file(dir / "g/x.h5").substr(0, 5000));
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
  std::string bytes = read_file(dir / "g/x.h5");
  bytes[bytes.size() / 2] ^= 1;
  write_file(dir / "g/x.h5", bytes);
  expect_refused(5, "x.h5", "golden verify noise.h5 --against g/x.h5");
}

}  // namespace
}  // namespace mxcheck
