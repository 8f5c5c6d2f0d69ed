#include "properties/diagnosis/golden_form.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/goldens/temporary_directory.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
namespace {

using namespace golden_parts;

TEST(GoldenForm, is_looked_at_first) {
  const GoldenTensors& golden = activations();
  const auto changed = [&](auto change, const std::string& name = "codes") {
    Tensors t = golden.tensors;
    change(t[name]);
    return result_of(judged(golden, t), name);
  };
  const auto expect = [](const DatasetResult& r, DatasetVerdict verdict, const std::string& note) {
    EXPECT_EQ(r.verdict, verdict) << note;
    EXPECT_TRUE(std::any_of(r.notes.begin(), r.notes.end(), [&](const std::string& n) {
      return n.find(note) != std::string::npos;
    })) << note;
  };
  expect(changed([](Tensor& t) { t.dtype = Dtype::i8; }), DatasetVerdict::equal, "taken as the bits");
  expect(changed([](Tensor& t) { t.dtype = Dtype::f32, t.data.resize(t.data.size() * 4); }),
         DatasetVerdict::wrong_dtype, "dequantized values");
  expect(changed([](Tensor& t) { t.dtype = Dtype::i32, t.data.resize(t.data.size() * 4); }),
         DatasetVerdict::wrong_dtype, "several codes a word");
  expect(changed([](Tensor& t) { t.shape = {256, 96}; }), DatasetVerdict::wrong_shape, "the transpose");
  expect(changed([](Tensor& t) { t.shape = {96 * 256}; }), DatasetVerdict::wrong_shape,
         "the same elements in another shape");
  expect(changed([](Tensor& t) {
           t.shape = {96, 128}, t.data.resize(96 * 128);
         }),
         DatasetVerdict::wrong_shape, "two codes a byte");
  expect(changed([](Tensor& t) {
           t.shape = {128, 256}, t.data.resize(128 * 256);
         }),
         DatasetVerdict::wrong_shape, "padded");
  expect(changed(
             [](Tensor& t) {
               t.shape = {96, 2}, t.data.resize(192);
             },
             "scales"),
         DatasetVerdict::wrong_shape, "four times the width");
  expect(changed(
             [](Tensor& t) {
               t.shape = {3, 8}, t.data.resize(24);
             },
             "scales"),
         DatasetVerdict::wrong_shape, "one scale for 32 rows");
  expect(changed([](Tensor& t) { t.shape = {1024}, t.data.resize(1024); }, "scales"), DatasetVerdict::wrong_shape,
         "tcgen05 layout");
  Tensors t = golden.tensors;
  t.erase("codes");
  EXPECT_EQ(result_of(judged(golden, t), "codes").verdict, DatasetVerdict::missing);
  const GoldenVerdict unreadable =
      judge(golden, [](const std::string&) -> std::optional<Tensor> { throw Error(ErrorKind::input, "damaged"); });
  EXPECT_EQ(unreadable.results.at(0).verdict, DatasetVerdict::unreadable);
  test::expect_error(ErrorKind::usage, "no output 'x'; it has codes, scales",
                     [&] { judged(golden, golden.tensors, {"x"}); });
}

}  // namespace
}  // namespace mxcheck
