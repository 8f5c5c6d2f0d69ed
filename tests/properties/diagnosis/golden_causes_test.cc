// Common mistakes, made here without the reference's help, have names.

#include "properties/diagnosis/golden_causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"
#include "tests/properties/diagnosis/golden_parts.h"

namespace mxcheck {
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
  const Bytes x = bytes_of(golden.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 96, 256, 256};
  int told_apart = 0;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.rule == ScaleRule::fp32) continue;
    Tensors t = golden.tensors;
    const Quantized q = quantize(view, Format::e4m3, {1, 32}, recipe);
    if (q.scales == bytes_of(t["scales"])) continue;
    put(t["scales"], q.scales), put(t["codes"], q.codes);
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
  const Bytes codes = bytes_of(golden.tensors.at("codes")), scales = bytes_of(golden.tensors.at("scales"));
  constexpr std::size_t kRows = 96, kCols = 256;
  const auto with_codes = [&](auto from) {
    Tensors t = golden.tensors;
    Bytes moved(codes.size());
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
    Bytes moved(scales.size());
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
  const Bytes scales = bytes_of(golden.tensors.at("scales"));
  const auto cause = [&](const std::string& name, const Bytes& bytes) {
    Tensors t = golden.tensors;
    put(t[name], bytes);
    return first_cause(result_of(judged(golden, t), name));
  };
  Bytes compact = scales;
  compact.resize(golden.tensors.at("scales_tcgen05").data.size(), 255);
  EXPECT_NE(cause("scales_tcgen05", compact).find("compact scales, copied"), std::string::npos);
  EXPECT_NE(cause("scales_tcgen05", to_layout(ScaleLayout::tcgen05, {{96}, 8}, scales, 0))
                .find("padding of 0 in place of 255"),
            std::string::npos);
  Bytes plain(compact.size(), 255);  // tiles without the interleaving of rows
  for (std::size_t i = 0; i < 96; ++i) {
    for (std::size_t j = 0; j < 8; ++j) plain[j / 4 * 512 + i * 4 + j % 4] = scales[i * 8 + j];
  }
  EXPECT_NE(cause("scales_tcgen05", plain).find("without the interleaving"), std::string::npos);
  Bytes words = bytes_of(golden.tensors.at("scales_deepgemm"));
  for (std::size_t i = 0; i < words.size(); i += 4)
    std::swap(words[i], words[i + 3]), std::swap(words[i + 1], words[i + 2]);
  EXPECT_NE(cause("scales_deepgemm", words).find("bytes in the opposite order"), std::string::npos);
  // Wrong scales, laid out rightly, are one fault.
  Tensors t = golden.tensors;
  Bytes wrong = scales;
  for (std::uint8_t& b : wrong) b = b < 254 ? static_cast<std::uint8_t>(b + 1) : b;
  put(t["scales"], wrong), put(t["scales_tcgen05"], to_layout(ScaleLayout::tcgen05, {{96}, 8}, wrong, 255));
  EXPECT_EQ(first_cause(result_of(judged(golden, t), "scales_tcgen05")),
            "the layout is right for the candidate's own scales: only those are wrong");
}

// Recipes differ in codes too: in how they treat NaN, infinities, ties and overflow.
TEST(GoldenCauses, a_recipe_is_named_for_its_codes) {
  const GoldenTensors& golden = gradients();
  const Bytes x = bytes_of(golden.tensors.at("x"));
  const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(x.data()), 96, 256, 256};
  for (const char* name : {"dsv3", "triton", "deepgemm_device", "microxcaling_cuda"}) {
    Tensors t = golden.tensors;
    const Quantized q = quantize(view, Format::e4m3, {1, 32}, recipe_named(name));
    put(t["scales"], q.scales), put(t["codes"], q.codes);
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
            "every element is that of the golden's toward_zero_saturate");
  const GoldenTensors scales = made(R"({"name": "g", "kind": "scales", "format": "e4m3"})");
  t = scales.tensors;
  t["te"] = t["floor"];
  EXPECT_NE(first_cause(result_of(judged(scales, t), "te")).find("the golden's floor"), std::string::npos);
  const GoldenTensors decoded = made(R"({"name": "g", "kind": "dequantize", "format": "e4m3"})");
  t = decoded.tensors;
  Bytes values = bytes_of(t["values"]);
  for (std::size_t i = 0; i < 256 * 4; ++i)
    values[i] = i % 4 == 3 ? static_cast<std::uint8_t>(i / 4 >= 128 ? 0x80 : 0) : std::uint8_t{0};
  for (const std::size_t nan : {127U, 255U}) values[4 * nan + 2] = 0xC0, values[4 * nan + 3] = 0x7F;
  put(t["values"], values);
  EXPECT_NE(first_cause(result_of(judged(decoded, t), "values")).find("a scale byte of 0 taken for the scale 0"),
            std::string::npos)
      << first_cause(result_of(judged(decoded, t), "values"));
}

}  // namespace
}  // namespace mxcheck
