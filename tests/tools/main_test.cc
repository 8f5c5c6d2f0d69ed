#include <sys/wait.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "numerics/format/codec.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

using Tool = ToolTest;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_F(Tool, prints_its_version_and_help_and_succeeds) {
  const Answer version = expect_output("--version", 0);
  EXPECT_EQ(version.out.rfind("mxcheck " MXCHECK_PROJECT_VERSION " ", 0), 0U) << version.out;
  for (const std::string command : {"", "quantize ", "dequantize ", "scale ", "formats "}) {
    const Answer help = expect_output(command + "--help", 0);
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST_F(Tool, the_examples_of_help_that_need_no_files_run) {
  for (const std::string command : {"", "scale ", "formats "}) {
    const std::string help = mxcheck(command + "--help").out;
    std::size_t run = 0;
    for (std::size_t at = help.find("\n  mxcheck "); at != std::string::npos; at = help.find("\n  mxcheck ", at + 1)) {
      std::string line = help.substr(at + 11, help.find('\n', at + 1) - at - 11);
      line = line.substr(0, line.find("   "));  // the remark
      if (line.rfind("scale", 0) != 0 && line.rfind("formats", 0) != 0) continue;
      EXPECT_EQ(mxcheck(line).code, 0) << line;
      ++run;
    }
    EXPECT_GE(run, 2U) << command;
  }
}

TEST_F(Tool, refuses_unknown_words_with_code_2) {
  expect_refused(2, "no subcommand given", "");
  expect_refused(2, "unknown subcommand 'quantise'; did you mean 'quantize'?", "quantise x.npy");
  expect_refused(2, "unknown subcommand 'gaet'; did you mean 'gate'?", "gaet");
  expect_refused(2, "unknown subcommand 'gaet'; did you mean 'gate'?", "gaet --candidate cpu -o x");
  expect_refused(2, "unknown subcommand 'verfiy'; did you mean 'verify'?", "golden verfiy x.h5 --against y.h5");
  expect_refused(2, "unknown subcommand 'walk'; mxcheck --help lists them", "walk");
  expect_refused(2, "unknown option '--quick'; mxcheck --help lists them", "--quick");
  expect_refused(2, "unknown subcommand 'verfiy'; did you mean 'verify'?", "golden verfiy x.h5");
  expect_refused(2, "no subcommand given; mxcheck golden --help lists them", "golden");
  expect_refused(2, "unknown option '--ouptut'; did you mean '--output'?", "quantize x.npy --ouptut q.safetensors");
}

// A newcomer's mistakes, each with what is wrong and what would be right.
TEST_F(Tool, says_what_an_option_needs) {
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {1, 2}, std::vector<float>{1, 2}));
  for (const auto& [text, arguments] :
       {std::pair{"--output is required: OUT.safetensors or OUT.h5", "quantize x.npy"},
        std::pair{"; 'q.safetensors' is an argument too many", "quantize x.npy q.safetensors"},
        std::pair{"IN is required: FILE.npy, ", "quantize -o q.safetensors"},
        std::pair{"--layout: 'tcgen5' is none of compact, tcgen05", "quantize x.npy -o q.h5 --layout tcgen5"},
        std::pair{"--pad-byte: '256' is not a whole number from 0 to 255", "quantize x.npy -o q.h5 --pad-byte 256"},
        std::pair{"--index: 'first' is not a whole number", "quantize x.npy -o q.h5 --index first"},
        std::pair{"--output is given 2 times; give it once", "quantize x.npy -o a.h5 -o b.h5"},
        std::pair{"--candidate needs a value: cpu, sm90, the path of a shared library", "gate --candidate"},
        std::pair{"--suite needs a value: quick", "gate --suite"},
        std::pair{"--jobs: 'all' is not a whole number from 0 to 256", "gate --jobs all"},
        std::pair{"--soak: 'long' is not a number", "gate --soak long"},
        std::pair{"--json is a flag and takes no value", "gate --json=maybe"},
        std::pair{"'cpu' is an argument too many; mxcheck gate --help lists what is taken", "gate cpu"},
        std::pair{"--top: '-1' is not a whole number from 0 to", "recipes x.npy --top -1"},
        std::pair{"a function in Python is python:mine.py:quantize", "gate --candidate mine.py:quantize"},
        std::pair{"no operation of it has a contract; claims by name are made about route", "gate --claim none"},
        std::pair{"--pair needs 2 values: ACTIVATIONS WEIGHTS", "recipes --pair x.npy"},
        std::pair{"--manifest excludes --sha256; give one of them", "golden show x.h5 --manifest m --sha256 s"},
        std::pair{"unknown option '--formt'; did you mean '--format'?", "recipes x.npy --formt e4m3"},
        std::pair{"unknown option '--recipee'; did you mean '--recipe'?", "quantize x.npy -o q.h5 --recipee te"}}) {
    expect_refused(2, text, arguments);
  }
}

TEST_F(Tool, takes_rule_and_recipe_for_the_same) {
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {1, 2}, std::vector<float>{1, 2}));
  EXPECT_EQ(expect_output("scale --recipe te 1", 0).out, mxcheck("scale --rule te 1").out);
  expect_output("quantize x.npy -o q.safetensors --recipe te", 0, {" by te, "});
  EXPECT_EQ(expect_output("recipes x.npy --rule te", 0).out, mxcheck("recipes x.npy --recipe te").out);
}

// Printed text must not go into a file that took the place of a closed descriptor, nor be part of a verdict.
TEST_F(Tool, closed_standard_descriptors_spoil_no_file_and_no_verdict) {
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {64, 512}, std::vector<float>(64 * 512, 3.0F)));
  EXPECT_EQ(mxcheck("quantize x.npy -o q.safetensors >&-").code, 3);
  EXPECT_EQ(std::ranges::count(dir.names(), "q.safetensors"), 0);
  for (const auto& [closed, code] : {std::pair{">&-", 3}, std::pair{"2>&-", 0}, std::pair{"<&-", 0}}) {
    const std::string gate = "gate --candidate cpu --only 'cast_equals*' --cases 5 --save '' ";
    EXPECT_EQ(mxcheck(gate + closed).code, code) << closed;
  }
}

TEST_F(Tool, says_which_name_was_perhaps_meant) {
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {1, 2}, std::vector<float>{1, 2}));
  for (const auto& [meant, arguments] :
       {std::pair{"e4m3", "formats e4n3"}, std::pair{"e4m3", "formats E4M3"},
        std::pair{"rceil", "scale --rule rciel 1"}, std::pair{"e5m2", "quantize x.npy -o q.safetensors --format e5m"},
        std::pair{"tcgen05", "quantize x.npy -o q.safetensors --layout tcgen5"},
        std::pair{"sm90_fp8", "mma --contract sm90_pf8 --a x.npy --b x.npy --explain 0,0"},
        std::pair{"te", "recipes x.npy --recipe et"},
        std::pair{"topk-softmax", "route x.npy --top-k 1 --variant topk-sotfmax"},
        std::pair{"quick", "gate --suite qiuck"},
        std::pair{"cast_equals_the_reference", "gate --only cast_equal_the_reference"},
        std::pair{"cast_equals_the_reference", "gate --reproduce 'cast_equals_the_refrence: op=cast'"},
        std::pair{"quantize", "gate --reproduce 'cast_equals_the_reference: op=quantise'"},
        std::pair{"route", "identify --candidate cpu --op rotue"},
        std::pair{"scales", "golden make --suite scalse -o g"}, std::pair{"tiny", "parity run --preset tniy -o r.h5"},
        std::pair{"mxfp8", "layer --recipe mxpf8 --show"}}) {
    expect_refused(2, std::string("; did you mean '") + meant + "'?", arguments);
  }
  // Up to a third of the letters may be changed, and no more.
  EXPECT_EQ(mxcheck("formats e9m9").err.find("did you mean"), std::string::npos);
}

TEST_F(Tool, keeps_to_one_line_whatever_a_name_holds) {
  expect_refused(2, "a b  [31mc.npy: cannot be opened",
                 "quantize \"$(printf 'a\\nb \\033[31mc.npy')\" -o q.safetensors");
}

TEST_F(Tool, calls_a_full_disk_an_environment_error) {
  expect_refused(3, "standard output cannot be written", "formats bf16 > /dev/full");
  expect_refused(3, "standard output cannot be written", "scale 1 > /dev/full");
  for (const char* arguments : {"--version", "--help", "route --help", "route --list", "gate --list"})
    expect_refused(3, "standard output cannot be written", std::string(arguments) + " > /dev/full");
  write_safetensors(dir / "real.safetensors", real_tensors());
  expect_refused(3, "writing failed: File too large", "quantize real.safetensors:layer0.x -o q.safetensors",
                 "ulimit -f 8; ");
}

TEST_F(Tool, calls_a_lack_of_memory_an_environment_error) {
  if (kSanitized) GTEST_SKIP() << "sanitizers do not run under a memory limit";
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1), }";
  write_file(dir / "big.npy", std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(dict.size()) + '\0' + dict);
  std::filesystem::resize_file(dir / "big.npy",
                               10 + dict.size() + (std::uintmax_t{4} << 30));  // all but the header a hole
  // quantize holds one number a row of blocks, and here each has one element.
  expect_refused(3, "big.npy: rows of blocks: no memory for 1073741825 values of 8 bytes",
                 "quantize big.npy -o q.safetensors", "ulimit -v 2000000; ");
  const std::string why = "big.npy: out of memory: 4294967296 bytes are needed";
  expect_refused(3, why, "route big.npy --top-k 1", "ulimit -v 2000000; ");
  expect_refused(3, why, "mma --contract sm90_bf16 --a big.npy --b big.npy -o d.npy", "ulimit -v 2000000; ");
  // Two vectors whose product is too large.
  write_npy(dir / "long.npy", make_tensor("", Format::uint8, {40000, 1}, std::vector<std::uint8_t>(40000)));
  expect_refused(3, "d.npy: out of memory: 6400000000 bytes are needed",
                 "mma --contract sm90_fp8 --a long.npy --b long.npy -o d.npy", "ulimit -v 2000000; ");
}

// An empty name, which "$OUT" of a script that lost its variable gives, is an option without a value, not one left out.
TEST_F(Tool, refuses_an_empty_name) {
  write_npy(dir / "x.npy", make_tensor("", Format::fp32, {1, 2}, std::vector<float>{1, 2}));
  write_npy(dir / "a.npy", make_tensor("", Format::uint8, {1, 1}, std::vector<std::uint8_t>{56}));
  const std::string route = "route x.npy --top-k 1 ";
  const std::string mma = "mma --contract sm90_fp8 --a a.npy --b a.npy --explain 0,0 ";
  for (const std::string& arguments :
       {route + "-o ''", route + "--bias ''", route + "--name ''", mma + "-o ''", mma + "--c ''", mma + "--scale-a ''",
        std::string("matmul q.safetensors q.safetensors --explain 0,0 -o ''"), std::string("gate --record ''"),
        std::string("gate --junit ''"), std::string("gate --reproduce ''")}) {
    expect_refused(2, ": a name is needed, not ''", arguments);
  }
}

TEST_F(Tool, is_silent_on_standard_error_when_that_is_no_terminal) {
  write_safetensors(dir / "real.safetensors", real_tensors());
  EXPECT_EQ(mxcheck("quantize real.safetensors:layer0.x -o q.safetensors").err, "");
}

using FormatsTool = ToolTest;
using nlohmann::json;

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(FormatsTool, lists_every_format_with_its_range) {
  EXPECT_EQ(lines(mxcheck("formats").out), 1 + kAllFormats.size());
  const json rows = json::parse(mxcheck("formats --json").out);
  ASSERT_EQ(rows.size(), kAllFormats.size());
  EXPECT_EQ(rows[0], json::parse(R"({"name": "e4m3", "dtype": "float8_e4m3fn", "bits": 8, "layout": "1-4-3", "bias": 7,
      "max": 448, "min_normal": 0.015625, "min_subnormal": 0.001953125, "inf": null, "nan": "0x7f"})"));
  EXPECT_EQ(rows[1], json::parse(R"({"name": "e5m2", "dtype": "float8_e5m2", "bits": 8, "layout": "1-5-2", "bias": 15,
      "max": 57344, "min_normal": 6.103515625e-05, "min_subnormal": 1.52587890625e-05, "inf": "0x7c", "nan": "0x7f"})"));
  EXPECT_EQ(rows[2]["min_subnormal"], nullptr);
  EXPECT_EQ(rows[2]["min_normal"], 0x1p-127);
  EXPECT_EQ(rows[2]["max"], 0x1p127);
  EXPECT_EQ(rows[5]["nan"], nullptr);
}

TEST_F(FormatsTool, prints_the_whole_code_table_of_e2m1) {
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const json codes = json::parse(mxcheck("formats e2m1 --json").out)["codes"];
  ASSERT_EQ(codes.size(), 16U);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(codes[i]["value"], (i < 8 ? 1 : -1) * magnitudes[i % 8]);
  EXPECT_EQ(codes[13], json({{"code", "0xd"}, {"fields", "1.10.1"}, {"hexfloat", "-0x1.8p+1"}, {"value", -3}}));
}

TEST_F(FormatsTool, prints_codes_that_decode_to_what_is_printed) {
  for (const Format format : kAllFormats) {
    if (format == Format::fp32) continue;
    const std::string name(spec(format).name);
    const json codes = json::parse(mxcheck("formats --json " + name).out)["codes"];
    ASSERT_EQ(codes.size(), std::size_t{1} << spec(format).bits) << name;
    for (std::uint32_t code = 0; code < codes.size(); ++code) {
      const double value = decode(format, code);
      const json& row = codes[code];
      ASSERT_EQ(std::stoul(row["code"].get<std::string>(), nullptr, 16), code);
      std::string bits = row["fields"];
      std::erase(bits, '.');
      ASSERT_EQ(bits.size(), static_cast<std::size_t>(spec(format).bits)) << name;
      ASSERT_EQ(std::stoul(bits, nullptr, 2), code) << name;
      if (std::isfinite(value)) {
        ASSERT_EQ(row["value"].get<double>(), value) << name << " " << code;
        ASSERT_EQ(std::stod(row["hexfloat"].get<std::string>()), value) << name << " " << code;
      } else {
        ASSERT_EQ(row["value"], std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf") << name << " " << code;
      }
    }
  }
}

TEST_F(FormatsTool, prints_text_one_line_a_code_and_takes_dtype_names) {
  const Answer a = mxcheck("formats float8_e4m3fn");
  EXPECT_EQ(lines(a.out), 257U);
  expect_contains(a.out, {"0x7e     0.1111.110           0x1.cp+8             448\n",
                          "0xff     1.1111.111           nan                  nan\n"});
  EXPECT_EQ(lines(mxcheck("formats bf16").out), 65537U);
}

TEST_F(FormatsTool, refuses_fp32_and_unknown_names) {
  expect_refused(2, "fp32 has 2^32 codes", "formats fp32");
  expect_refused(2, "unknown format 'e9m9'; known are e4m3, e5m2, e8m0", "formats e9m9");
  expect_refused(2, "'e5m2' is an argument too many; mxcheck formats --help lists what is taken", "formats e4m3 e5m2");
}

class SourceDigest : public ToolTest {
 protected:
  // The lines that it printed, and its exit code.
  std::pair<std::string, int> digest(const std::string& arguments) {
    const std::string command = "'" MXCHECK_SOURCE_DIGEST "' " + arguments + " > " + (dir / "out") + " 2> /dev/null";
    const int status = std::system(command.c_str());
    return {read_file(dir / "out"), WEXITSTATUS(status)};
  }
};

TEST_F(SourceDigest, gives_each_source_a_line_that_follows_its_bytes_alone) {
  write_file(dir / "a.cc", "int a;\n");
  write_file(dir / "b.cc", "int b;\n");
  const auto [first, code] = digest(dir.path() + " a.cc b.cc");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 2);
  expect_contains(first, "  a.cc\n");
  EXPECT_EQ(digest(dir.path() + " a.cc b.cc").first, first);
  write_file(dir / "b.cc", "int c;\n");
  const std::string second = digest(dir.path() + " a.cc b.cc").first;
  EXPECT_NE(second, first);
  EXPECT_EQ(second.substr(0, second.find('\n')), first.substr(0, first.find('\n')));
}

TEST_F(SourceDigest, writes_the_same_as_a_c_source) {
  write_file(dir / "a.cc", "int a;\n");
  const std::string line = digest(dir.path() + " a.cc").first;
  EXPECT_EQ(digest("--c " + dir.path() + " a.cc").first,
            "__attribute__((visibility(\"default\"))) const char mxcheck_candidate_sources[] =\n    \"" +
                line.substr(0, line.size() - 1) + "\\n\"\n    ;\n");
}

TEST_F(SourceDigest, says_that_it_cannot_write) {
  write_file(dir / "a.cc", "int a;\n");
  const std::string command = "'" MXCHECK_SOURCE_DIGEST "' " + dir.path() + " a.cc > /dev/full 2> " + (dir / "err");
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3);
  EXPECT_EQ(read_file(dir / "err"), "mxcheck_source_digest: error: standard output cannot be written\n");
}

TEST_F(SourceDigest, refuses_what_it_cannot_read) {
  EXPECT_EQ(digest("").second, 2);
  EXPECT_EQ(digest(dir.path()).second, 2);
  EXPECT_EQ(digest(dir.path() + " none.cc").second, 2);
}

}  // namespace
}  // namespace mxcheck
