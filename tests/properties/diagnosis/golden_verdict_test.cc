#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/diagnosis/golden_verdict.h"
#include "properties/goldens/kind.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
namespace {

using namespace golden_parts;

TEST(GoldenVerdict, the_right_answer_is_equal_and_has_no_cause) {
  for (const GoldenTensors* golden : {&gradients(), &activations()}) {
    const GoldenVerdict v = judged(*golden, golden->tensors);
    EXPECT_TRUE(v.equal());
    for (const DatasetResult& r : v.results) EXPECT_TRUE(r.notes.empty() && r.causes.empty() && !r.difference);
    EXPECT_TRUE(judged(*golden, quantized_by(*golden, {rceil, nearest}), {"codes", "scales"}).equal());
  }
}

TEST(GoldenVerdict, one_cause_is_not_reported_as_two) {
  const GoldenVerdict v = judged(activations(), quantized_by(activations(), {floored, nearest}));
  EXPECT_EQ(first_cause(result_of(v, "codes")),
            "the codes are right for the candidate's own scales: only those are wrong");
  EXPECT_EQ(first_cause(result_of(v, "scales")).find("every scale is that of recipe floor (identical here: recipe ocp"),
            0U)
      << first_cause(result_of(v, "scales"));
}

TEST(GoldenVerdict, two_causes_are_reported_as_two) {
  const GoldenVerdict v = judged(activations(), quantized_by(activations(), {floored, ties_away}));
  EXPECT_EQ(first_cause(result_of(v, "codes")).find("every code is that of ties away from zero"), 0U);
  EXPECT_EQ(first_cause(result_of(v, "scales")).find("every scale is that of recipe floor"), 0U);
}

TEST(GoldenVerdict, noise_has_no_cause) {
  Tensors t = gradients().tensors;
  for (const char* name : {"codes", "scales", "scales_tcgen05", "scales_deepgemm"}) {
    for (std::size_t i = 0; i < t[name].data.size(); ++i)
      t[name].data[i] = static_cast<std::byte>(random_word(9, i) & 0xFF);
  }
  for (const DatasetResult& r : judged(gradients(), t).results) {
    EXPECT_EQ(r.verdict, DatasetVerdict::different);
    EXPECT_EQ(first_cause(r), "(none)") << r.expected.name;
  }
  t = gradients().tensors;
  t["codes"].data[77] ^= std::byte{1};
  const GoldenVerdict one = judged(gradients(), t);
  EXPECT_EQ(result_of(one, "codes").difference->count, 1);
}

TEST(GoldenVerdict, what_only_some_blocks_have_in_common_is_said) {
  Tensors t = gradients().tensors;
  ByteList scales = bytes_of(t["scales"]);
  for (std::uint8_t& b : scales) b = b == 255 ? 77 : b;  // no known rule
  put(t["scales"], scales);
  const DatasetResult r = result_of(judged(gradients(), t), "scales");
  ASSERT_FALSE(r.causes.empty());
  EXPECT_NE(r.causes.front().find("NaN"), std::string::npos) << r.causes.front();
}

TEST(GoldenVerdict, column_blocks_experts_and_float_scales_are_understood) {
  const std::string input = R"({"real": "layer3.x", "rows_of": [0, 100], "cols_of": [0, 200]})";
  const GoldenTensors experts =
      made(quantize_of(input, "32x1", "rceil", R"(, "offsets": [0, 33, 33, 100], "layouts": ["tcgen05"])"));
  EXPECT_TRUE(judged(experts, experts.tensors).equal());
  const ByteList x = bytes_of(experts.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 100, 200, 200};
  Tensors t = experts.tensors;
  QuantizedTensor q = quantize(view, Format::e4m3, {1, 32}, recipe_named("rceil"));
  put(t["codes"], values_in<std::uint8_t>(q.codes.data));
  EXPECT_NE(first_cause(result_of(judged(experts, t), "codes")).find("blocks of 1x32 in place of 32x1"),
            std::string::npos);
  const GoldenTensors fp32 = made(quantize_of(input, "1x128", "fp32"));
  t = fp32.tensors;
  q = quantize(view, Format::e4m3, {1, 128}, recipe_named("fp32"));
  Recipe reciprocal = recipe_named("fp32");
  reciprocal.scaling = ElementScaling::times_reciprocal;
  t["codes"].data = quantize(view, Format::e4m3, {1, 128}, reciprocal).codes.data;
  EXPECT_NE(first_cause(result_of(judged(fp32, t), "codes")).find("x times the reciprocal of the scale"),
            std::string::npos)
      << first_cause(result_of(judged(fp32, t), "codes"));
  const GoldenTensors nothing = made(quantize_of(R"({"real": "layer0.x", "rows_of": [0, 0]})"));
  EXPECT_TRUE(judged(nothing, nothing.tensors).equal());
}

}  // namespace

// Common mistakes, made here without the reference's help, have names.

namespace {

using namespace golden_parts;

TEST(GoldenCauses, faults_of_scales_are_named) {
  const auto clamped = [](double least) {
    return [=](double amax) { return rceil(std::isnan(amax) ? amax : std::max(amax, least)); };
  };
  const std::vector<std::pair<std::function<int(double)>, std::string>> faults{
      {clamped(1e-4), "an amax raised to at least 1e-4"},
      {clamped(1e-6), "an amax raised to at least 1e-6"},
      {clamped(3e-5), "a smallest byte of 104 (an amax or a scale raised to a least value)"},
      {[](double a) { return std::min(254, rceil(a) + 1); }, "a scale 1 binade too large"},
      {[](double a) { return std::isfinite(a) ? std::max(0, rceil(a) - 1) : 255; }, "a scale 1 binade too small"},
      {[](double a) { return std::isfinite(a) ? 254 - rceil(a) : 255; }, "the reciprocal of the scale"},
      {[](double a) { return (rceil(a) - 127) & 0xFF; }, "an exponent without its bias"},
      {[](double) { return 127; }, "a scale of 1 (byte 127) everywhere"},
      {[](double) { return 0; }, "zeros that nobody wrote over"},
      {[](double a) { return std::min(254, rceil(a)); }, "NaN scales (byte 255) written as 254"},
      {[](double a) { return floored(a); }, "recipe floor"},
      {[](double a) {
         return !std::isfinite(a) ? 255 : std::ldexp(1.0, std::ilogb(a)) == a ? floored(a) : floored(a) + 1;
       },
       "recipe ceil"},
  };
  for (const auto& [fault, cause] : faults) {
    const GoldenVerdict v = judged(gradients(), quantized_by(gradients(), {fault, nearest}));
    EXPECT_NE(first_cause(result_of(v, "scales")).find(cause), std::string::npos)
        << cause << "\n"
        << first_cause(result_of(v, "scales"));
    EXPECT_EQ(result_of(v, "scales").verdict, DatasetVerdict::different);
  }
}

TEST(GoldenCauses, every_recipe_is_named_for_what_it_does) {
  const GoldenTensors& golden = gradients();
  const ByteList x = bytes_of(golden.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 96, 256, 256};
  int told_apart = 0;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.rule == ScaleRule::fp32) continue;
    Tensors t = golden.tensors;
    const QuantizedTensor q = quantize(view, Format::e4m3, {1, 32}, recipe);
    if (q.scales().data == t["scales"].data) continue;
    put(t["scales"], values_in<std::uint8_t>(q.scales().data)), put(t["codes"], values_in<std::uint8_t>(q.codes.data));
    const DatasetResult r = result_of(judged(golden, t), "scales");
    EXPECT_NE(first_cause(r).find("recipe " + recipe.name), std::string::npos) << recipe.name << ": " << first_cause(r);
    ++told_apart;
  }
  EXPECT_GE(told_apart, 12);
}

TEST(GoldenCauses, faults_of_codes_are_named) {
  const auto encoded = [](Format f, Rounding r, Overflow o) { return [=](double v) { return encode(f, v, r, o); }; };
  const std::vector<std::pair<std::function<std::uint32_t(double)>, std::string>> faults{
      {ties_away, "ties away from zero"},
      {encoded(Format::e4m3, Rounding::toward_zero, Overflow::saturate), "rounding toward zero"},
      {encoded(Format::e4m3, Rounding::upward, Overflow::saturate), "rounding toward +Inf"},
      {encoded(Format::e5m2, Rounding::nearest_even, Overflow::saturate), "format float8_e5m2"},
      {[](double v) { return std::fabs(v) < 0x1p-6 ? (std::signbit(v) ? 0x80U : 0U) : nearest(v); }, "flushed to zero"},
      {[](double v) { return (nearest(v) & 0x7F) == 0 ? 0U : nearest(v); },
       "negative zeros and underflows without their sign"},
      {[](double v) { return nearest(std::clamp(v, -240.0, 240.0)); }, "elements clamped to 240"},
      {[](double v) { return nearest(std::fabs(v)); }, "the sign is lost"},
      {[](double v) { return nearest(-v); }, "the opposite sign"},
      {[](double v) { return nearest(v / 2); }, "codes for a scale one binade larger"},
      {[](double v) { return nearest(v * 2); }, "codes for a scale one binade smaller"},
      {[](double v) {  // bias 8: the code of v is E4M3's code of 2 v, up to 240, and there is no negative zero
         const std::uint32_t code = std::fabs(v) >= 240
                                        ? 0x7F | (v < 0 ? 0x80U : 0U)
                                        : encode(Format::e4m3, 2 * v, Rounding::nearest_even, Overflow::saturate);
         return code == 0x80 ? 0U : code;
       },
       "float8_e4m3fnuz"},
  };
  for (const auto& [fault, cause] : faults) {
    const GoldenVerdict v = judged(gradients(), quantized_by(gradients(), {rceil, fault}));
    EXPECT_NE(first_cause(result_of(v, "codes")).find(cause), std::string::npos) << cause << "\n"
                                                                                 << first_cause(result_of(v, "codes"));
    EXPECT_EQ(result_of(v, "scales").verdict, DatasetVerdict::equal);
  }
}

TEST(GoldenCauses, tensors_in_the_wrong_place_are_named) {
  const GoldenTensors& golden = activations();
  const ByteList codes = bytes_of(golden.tensors.at("codes")), scales = bytes_of(golden.tensors.at("scales"));
  constexpr std::size_t kRows = 96, kCols = 256;
  const auto with_codes = [&](auto from) {
    Tensors t = golden.tensors;
    ByteList moved(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) moved[i] = from(i);
    put(t["codes"], moved);
    return first_cause(result_of(judged(golden, t), "codes"));
  };
  EXPECT_NE(with_codes([&](std::size_t i) { return codes[i % kRows * kCols + i / kRows]; }).find("transposed codes"),
            std::string::npos);
  EXPECT_NE(with_codes([&](std::size_t i) {
              return i == 0 ? std::uint8_t{0} : codes[i - 1];
            }).find("the element to the left"),
            std::string::npos);
  EXPECT_NE(
      with_codes([&](std::size_t i) { return i < kCols ? std::uint8_t{0} : codes[i - kCols]; }).find("the row above"),
      std::string::npos);
  EXPECT_NE(with_codes([&](std::size_t i) { return codes[i ^ 1]; }).find("pairs in the opposite order"),
            std::string::npos);
  EXPECT_NE(with_codes([&](std::size_t i) {
              return static_cast<std::uint8_t>(codes[i] << 4 | codes[i] >> 4);
            }).find("swapped nibbles"),
            std::string::npos);
  EXPECT_NE(with_codes([&](std::size_t i) {
              return i < 12'000 ? codes[i] : std::uint8_t{0xCD};
            }).find("on all are 0xcd: were they written?"),
            std::string::npos);
  const auto with_scales = [&](auto from) {
    Tensors t = golden.tensors;
    ByteList moved(scales.size());
    for (std::size_t i = 0; i < scales.size(); ++i) moved[i] = from(i);
    put(t["scales"], moved);
    return first_cause(result_of(judged(golden, t), "scales"));
  };
  EXPECT_NE(with_scales([&](std::size_t i) { return scales[i % 96 * 8 + i / 96]; }).find("transposed scales"),
            std::string::npos);
  EXPECT_NE(with_scales([&](std::size_t) { return scales[0]; }).find("the first block's scale in every block"),
            std::string::npos);
  EXPECT_NE(with_scales([&](std::size_t i) {
              return i < 8 ? std::uint8_t{0} : scales[i - 8];
            }).find("the scale of the row before"),
            std::string::npos);
}

TEST(GoldenCauses, faults_of_layouts_are_named) {
  const GoldenTensors& golden = gradients();
  const ByteList scales = bytes_of(golden.tensors.at("scales"));
  const auto cause = [&](const std::string& name, const ByteList& bytes) {
    Tensors t = golden.tensors;
    put(t[name], bytes);
    return first_cause(result_of(judged(golden, t), name));
  };
  ByteList compact = scales;
  compact.resize(golden.tensors.at("scales_tcgen05").data.size(), 255);
  EXPECT_NE(cause("scales_tcgen05", compact).find("compact scales, copied"), std::string::npos);
  EXPECT_NE(cause("scales_tcgen05", to_layout(ScaleLayout::tcgen05, {{96}, 8}, scales, 0))
                .find("padding of 0 in place of 255"),
            std::string::npos);
  ByteList plain(compact.size(), 255);  // tiles without the interleaving of rows
  for (std::size_t i = 0; i < 96; ++i) {
    for (std::size_t j = 0; j < 8; ++j) plain[j / 4 * 512 + i * 4 + j % 4] = scales[i * 8 + j];
  }
  EXPECT_NE(cause("scales_tcgen05", plain).find("without the interleaving"), std::string::npos);
  ByteList words = bytes_of(golden.tensors.at("scales_deepgemm"));
  for (std::size_t i = 0; i < words.size(); i += 4)
    std::swap(words[i], words[i + 3]), std::swap(words[i + 1], words[i + 2]);
  EXPECT_NE(cause("scales_deepgemm", words).find("bytes in the opposite order"), std::string::npos);
  // Wrong scales, laid out rightly, are one fault.
  Tensors t = golden.tensors;
  ByteList wrong = scales;
  for (std::uint8_t& b : wrong) b = b < 254 ? static_cast<std::uint8_t>(b + 1) : b;
  put(t["scales"], wrong), put(t["scales_tcgen05"], to_layout(ScaleLayout::tcgen05, {{96}, 8}, wrong, 255));
  EXPECT_EQ(first_cause(result_of(judged(golden, t), "scales_tcgen05")),
            "the layout is right for the candidate's own scales: only those are wrong");
}

// Recipes differ in codes too: in how they treat NaN, infinities, ties and overflow.
TEST(GoldenCauses, a_recipe_is_named_for_its_codes) {
  const GoldenTensors& golden = gradients();
  const ByteList x = bytes_of(golden.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 96, 256, 256};
  for (const char* name : {"dsv3", "triton", "deepgemm_device", "microxcaling_cuda"}) {
    Tensors t = golden.tensors;
    const QuantizedTensor q = quantize(view, Format::e4m3, {1, 32}, recipe_named(name));
    put(t["scales"], values_in<std::uint8_t>(q.scales().data)), put(t["codes"], values_in<std::uint8_t>(q.codes.data));
    const std::string cause = first_cause(result_of(judged(golden, t), "codes"));
    EXPECT_TRUE(cause.find(name) != std::string::npos ||
                cause.find("right for the candidate's own scales") != std::string::npos ||
                cause.find("ties away") != std::string::npos)
        << name << ": " << cause;
  }
}

TEST(GoldenCauses, tables_name_the_neighbouring_column) {
  const GoldenTensors casts = made(R"({"name": "g", "kind": "casts", "format": "e4m3"})");
  Tensors t = casts.tensors;
  t["nearest_even_saturate"] = t["toward_zero_saturate"];
  EXPECT_EQ(first_cause(result_of(judged(casts, t), "nearest_even_saturate")),
            "every element is that of the golden's toward_zero_saturate (identical here: rounding toward zero "
            "(truncation))");
  const GoldenTensors scales = made(R"({"name": "g", "kind": "scales", "format": "e4m3"})");
  t = scales.tensors;
  t["te"] = t["floor"];
  EXPECT_NE(first_cause(result_of(judged(scales, t), "te")).find("the golden's floor"), std::string::npos);
  const GoldenTensors decoded = made(R"({"name": "g", "kind": "dequantize", "format": "e4m3"})");
  t = decoded.tensors;
  ByteList values = bytes_of(t["values"]);
  for (std::size_t i = 0; i < 256 * 4; ++i)
    values[i] = i % 4 == 3 ? static_cast<std::uint8_t>(i / 4 >= 128 ? 0x80 : 0) : std::uint8_t{0};
  for (const std::size_t nan : {127U, 255U}) values[4 * nan + 2] = 0xC0, values[4 * nan + 3] = 0x7F;
  put(t["values"], values);
  EXPECT_NE(first_cause(result_of(judged(decoded, t), "values")).find("a scale byte of 0 taken for the scale 0"),
            std::string::npos)
      << first_cause(result_of(judged(decoded, t), "values"));
}

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
  expect(changed([](Tensor& t) { t.format = Format::int8; }), DatasetVerdict::equal, "taken as the bits");
  expect(changed([](Tensor& t) { t.format = Format::fp32, t.data.resize(t.data.size() * 4); }),
         DatasetVerdict::wrong_dtype, "dequantized values");
  expect(changed([](Tensor& t) { t.format = Format::int32, t.data.resize(t.data.size() * 4); }),
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
