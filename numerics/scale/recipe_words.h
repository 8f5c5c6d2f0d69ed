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
