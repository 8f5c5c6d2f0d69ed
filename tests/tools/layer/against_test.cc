// mxcheck layer --against, as a user runs it.

#include <nlohmann/json.hpp>

#include "numerics/bytes.h"
#include "tests/reference/layer/test_layer.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using nlohmann::json;
using test::make_tensor;
using test::Words;

class LayerAgainst : public test::ToolTest {
 protected:
  const std::string run = "layer l.safetensors --recipe mxfp8 --logits logits --top-k 2 --backward --d-o dO ";
  SafetensorsFile right;

  void SetUp() override {
    const test::TestLayer t({24, 64, 48, 4}, 2, 7);
    const auto bf16 = [](const std::string& name, std::vector<std::int64_t> shape, const Words& words) {
      return make_tensor(name, Format::bf16, std::move(shape), words);
    };
    write_safetensors(dir / "l.safetensors",
                      {{bf16("X", {24, 64}, t.x), bf16("W1", {4, 64, 96}, t.w1), bf16("W2", {4, 48, 64}, t.w2),
                        bf16("dO", {24, 64}, t.d_o), bf16("logits", {24, 4}, test::random_words(96, 1, 99))},
                       {}});
    ASSERT_EQ(mxcheck(run + "-o right.safetensors").code, 0);
    right = read_safetensors(dir / "right.safetensors");
  }
  Tensor& tensor(SafetensorsFile& file, const std::string& name) {
    return *std::find_if(file.tensors.begin(), file.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  }
  // The dump with one element of a tensor changed.
  void write_dump(const std::string& name, std::size_t byte) {
    SafetensorsFile f = right;
    tensor(f, name).data[byte] ^= std::byte{1};
    write_safetensors(dir / "dump.safetensors", f);
  }
};

TEST_F(LayerAgainst, a_clean_dump_is_equal) {
  const test::Answer a = mxcheck(run + "--against right.safetensors");
  EXPECT_EQ(a.code, 0) << a.out;
  EXPECT_NE(a.out.find("47 of 47 tensors are equal, bit for bit\n"), std::string::npos) << a.out;
  ASSERT_EQ(mxcheck(run + "-o right.h5").code, 0);
  EXPECT_EQ(mxcheck(run + "--against right.h5").out.substr(8), a.out.substr(17));
}

TEST_F(LayerAgainst, says_where_it_first_differs_and_what_follows) {
  SafetensorsFile f = right;
  Words a = values_in<std::uint16_t>(tensor(f, "A").data);
  a[5] ^= 0x8000;
  tensor(f, "A").data = to_bytes(a);
  write_safetensors(dir / "dump.safetensors", f);
  const test::Answer answer = mxcheck(run + "--against dump.safetensors");
  EXPECT_EQ(answer.code, 1);
  EXPECT_NE(answer.out.find("first difference: step swiglu, tensor A\n"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("1 of 2304 elements differ from the reference, first at (0, 5)\n"), std::string::npos);
  const auto line = answer.out.find("\n  reference 0x");
  ASSERT_NE(line, std::string::npos);
  const std::string notation = answer.out.substr(line, answer.out.find('\n', line + 1) - line);
  EXPECT_EQ(std::count(notation.begin(), notation.end(), '='), 3) << notation;
  EXPECT_NE(answer.out.find("1 of 2304 elements are not what comes of H of the dump; no known cause gives them\n"),
            std::string::npos)
      << answer.out;
  EXPECT_EQ(answer.out.find("\ndH (step"), std::string::npos) << "dH is of H and P, not of A";
}

TEST_F(LayerAgainst, names_a_cause_and_what_follows_from_it) {
  std::string other = run;
  other.replace(other.find("mxfp8"), 5, "mxfp8_floor");
  ASSERT_EQ(mxcheck(other + "-o dump.safetensors --only H,A,O").code, 0);
  const json v = json::parse(mxcheck(run + "--against dump.safetensors --json").out);
  EXPECT_EQ(v["first"], "H");
  EXPECT_EQ(v["equal"], false);
  std::map<std::string, json> by_name;
  for (const json& t : v["tensors"]) by_name[t["tensor"]] = t;
  EXPECT_NE(by_name["H"]["causes"][0].get<std::string>().find("mxfp8_floor"), std::string::npos) << v.dump(1);
  EXPECT_EQ(by_name["A"]["verdict"], "follows");
  EXPECT_EQ(by_name["Y"]["verdict"], "missing");
  EXPECT_NE(by_name["O"]["causes"][0].get<std::string>().find("floor"), std::string::npos) << v.dump(1);
}

TEST_F(LayerAgainst, compares_what_there_is_and_names_the_rest) {
  SafetensorsFile f;
  f.tensors = {tensor(right, "H"), tensor(right, "O"), tensor(right, "dS")};
  f.tensors[0].name = "model.h";
  f.tensors[1].shape.insert(f.tensors[1].shape.begin(), 1);
  f.tensors[2].shape.push_back(1);
  f.tensors.push_back(make_tensor("loss", Format::fp32, {1}, std::vector<float>{1}));
  write_safetensors(dir / "dump.safetensors", f);
  const test::Answer a = mxcheck(run + "--against dump.safetensors --map H=model.h");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_NE(a.out.find("3 of 3 tensors are equal"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("not in the dump, and not looked at: X, W1"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("not of the layer, and not looked at: loss\n"), std::string::npos) << a.out;
  EXPECT_NE(mxcheck(run + "--against dump.safetensors").out.find("not looked at: loss, model.h\n"), std::string::npos);
  EXPECT_EQ(mxcheck(run + "--against dump.safetensors --only O").code, 0);
}

TEST_F(LayerAgainst, says_what_is_of_another_form) {
  SafetensorsFile f = right;
  tensor(f, "H").shape = {96, 48};
  tensor(f, "A").format = Format::fp16;
  write_safetensors(dir / "dump.safetensors", f);
  const test::Answer a = mxcheck(run + "--against dump.safetensors");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("note      is 96 x 48; 48 x 96 is right"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("note      is F16; BF16 is right"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("45 of 47 tensors are equal"), std::string::npos) << a.out;
}

TEST_F(LayerAgainst, tells_other_inputs_and_routes) {
  write_dump("X", 0);
  EXPECT_NE(mxcheck(run + "--against dump.safetensors").out.find("first difference: step input, tensor X\n"),
            std::string::npos);
  SafetensorsFile f = right;
  std::vector<std::int32_t> token = values_in<std::int32_t>(tensor(f, "row_token").data);
  token[0] = 500;
  tensor(f, "row_token").data = to_bytes(token);
  write_safetensors(dir / "dump.safetensors", f);
  const test::Answer a = mxcheck(run + "--against dump.safetensors");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("routes: row 0 is of token 500; there are 24; what follows is computed with the reference's"),
            std::string::npos)
      << a.out << a.err;
}

TEST_F(LayerAgainst, refuses_what_is_no_dump) {
  expect_refused(2, "none.safetensors: ", run + "--against none.safetensors");
  expect_refused(2, "x.npy: a dump is FILE.safetensors", run + "--against x.npy");
  expect_refused(2, "has none of the layer's tensors", run + "--against l.safetensors --only H");
  expect_refused(2, "--map H: NAME=NAME IN THE DUMP", run + "--against right.safetensors --map H");
  expect_refused(2, "has no tensor 'h'", run + "--against right.safetensors --map H=h");
  expect_refused(2, "'h' is no tensor of this run", run + "--against right.safetensors --map h=H");
  expect_refused(2, "--against compares, and -o writes", run + "--against right.safetensors -o o.h5");
  expect_refused(2, "--map is of --against", run + "--map H=H");
  test::write_file(dir / "bad.h5", "no HDF5");
  expect_refused(2, "bad.h5", run + "--against bad.h5");
}

}  // namespace
}  // namespace mxcheck
