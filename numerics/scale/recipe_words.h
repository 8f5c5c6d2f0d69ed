#pragma once
// A recipe's policies as words: what options take, messages list and files record.
//
//   to_text(NanPolicy::drop)              == "drop"
//   value_in(kNanPolicies, "drop")        == NanPolicy::drop     (numerics/names.h)
//   describe(recipe_named("te"))[2].second == "drop"             (of the key "nan")
//
// Errors: none; a word that there is not is std::nullopt.

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/names.h"
#include "numerics/scale/recipe.h"

namespace mxcheck {

inline constexpr std::array<Named<NanPolicy>, 3> kNanPolicies{
    {{"propagate", NanPolicy::propagate}, {"drop", NanPolicy::drop}, {"refuse", NanPolicy::refuse}}};

inline constexpr std::array<Named<Rounding>, 5> kRoundings{{{"nearest_even", Rounding::nearest_even},
                                                            {"nearest_away", Rounding::nearest_away},
                                                            {"toward_zero", Rounding::toward_zero},
                                                            {"stochastic", Rounding::stochastic},
                                                            {"upward", Rounding::upward}}};
// Roundings that can be asked for elements by name alone: not stochastic, which needs random words.
inline constexpr std::array kElementRoundings{kRoundings[0], kRoundings[1], kRoundings[2], kRoundings[4]};

inline constexpr std::array<Named<Overflow>, 2> kOverflows{
    {{"saturate", Overflow::saturate}, {"non_saturate", Overflow::non_saturate}}};

inline constexpr std::array<Named<ElementScaling>, 8> kElementScalings{
    {{"exact", ElementScaling::exact},
     {"shifted_exponent", ElementScaling::shifted_exponent},
     {"one_at_byte_zero", ElementScaling::one_at_byte_zero},
     {"zero_at_byte_zero", ElementScaling::zero_at_byte_zero},
     {"normal_at_byte_zero", ElementScaling::normal_at_byte_zero},
     {"half_in_fp32", ElementScaling::half_in_fp32},
     {"times_reciprocal", ElementScaling::times_reciprocal},
     {"times_quotient", ElementScaling::times_quotient}}};

inline constexpr std::array<Named<DropNegativeZero>, 3> kDropNegativeZeros{
    {{"no", DropNegativeZero::none},
     {"of_quotient", DropNegativeZero::of_quotient},
     {"of_code", DropNegativeZero::of_code}}};

// Two levels of scales: numerics/scale/two_level.h.
inline constexpr std::array<Named<BlockQuotient>, 6> kBlockQuotients{
    {{"exact", BlockQuotient::exact},
     {"quotient_times_encode", BlockQuotient::quotient_times_encode},
     {"product_times_encode", BlockQuotient::product_times_encode},
     {"times_scaled_encode", BlockQuotient::times_scaled_encode},
     {"quotient_over_decode", BlockQuotient::quotient_over_decode},
     {"over_scaled_decode", BlockQuotient::over_scaled_decode}}};

inline constexpr std::array<Named<ElementQuotient>, 6> kElementQuotients{
    {{"exact", ElementQuotient::exact},
     {"inverse_of_product", ElementQuotient::inverse_of_product},
     {"over_product", ElementQuotient::over_product},
     {"encode_over_scale", ElementQuotient::encode_over_scale},
     {"encode_times_inverse", ElementQuotient::encode_times_inverse},
     {"over_quotient", ElementQuotient::over_quotient}}};

inline constexpr std::array<Named<ZeroTest>, 4> kZeroTests{{{"none", ZeroTest::none},
                                                            {"of_amax", ZeroTest::of_amax},
                                                            {"of_quotient", ZeroTest::of_quotient},
                                                            {"of_scale", ZeroTest::of_scale}}};

inline constexpr std::array<Named<StoredScale>, 3> kStoredScales{
    {{"decode", StoredScale::decode}, {"encode", StoredScale::encode}, {"amax", StoredScale::amax}}};

inline constexpr std::array<Named<TensorAmax>, 3> kTensorAmaxes{
    {{"finite", TensorAmax::finite}, {"drops_nan", TensorAmax::drops_nan}, {"propagates", TensorAmax::propagates}}};

inline constexpr std::array<Named<BlockChoice>, 4> kBlockChoices{{{"none", BlockChoice::none},
                                                                  {"squared_error", BlockChoice::squared_error},
                                                                  {"absolute_error", BlockChoice::absolute_error},
                                                                  {"largest_error", BlockChoice::largest_error}}};

constexpr std::string_view to_text(BlockQuotient quotient) { return name_in(kBlockQuotients, quotient); }
constexpr std::string_view to_text(ElementQuotient quotient) { return name_in(kElementQuotients, quotient); }
constexpr std::string_view to_text(ZeroTest test) { return name_in(kZeroTests, test); }
constexpr std::string_view to_text(StoredScale stored) { return name_in(kStoredScales, stored); }
constexpr std::string_view to_text(TensorAmax amax) { return name_in(kTensorAmaxes, amax); }
constexpr std::string_view to_text(BlockChoice choice) { return name_in(kBlockChoices, choice); }
constexpr std::string_view to_text(NanPolicy policy) { return name_in(kNanPolicies, policy); }
constexpr std::string_view to_text(Rounding rounding) { return name_in(kRoundings, rounding); }
constexpr std::string_view to_text(Overflow overflow) { return name_in(kOverflows, overflow); }
constexpr std::string_view to_text(ElementScaling scaling) { return name_in(kElementScalings, scaling); }
constexpr std::string_view to_text(DropNegativeZero drop) { return name_in(kDropNegativeZeros, drop); }

std::string hexfloat(double value);  // 0x1.cp+8, nan, inf

// Every field of the recipe that decides bytes, and its name, as key and value in a fixed order: two recipes with the
// same fields give the same bytes.
// Numbers as hexfloats, bytes in decimal, flags as yes and no.
std::vector<std::pair<std::string, std::string>> describe(const Recipe& recipe);

}  // namespace mxcheck
