// Each block must not compile; the file without any must. Built by one test a block, see CMakeLists.txt.

#include "numerics/format/codec.h"
#include "numerics/format/format.h"

namespace mxcheck {

inline constexpr E4m3 kCode{{0x38}};
inline constexpr E5m2 kOther{{0x3C}};
inline constexpr auto kNearest = Rounding::nearest_even;
inline constexpr auto kSaturate = Overflow::saturate;

// The control: what the blocks get wrong, done right.
inline constexpr double kValue = decode(kCode);
inline constexpr bool kEqual = kCode == E4m3{{0x38}};
inline constexpr E4m3 kEncoded = encode<E4m3>(1.0, kNearest, kSaturate);
static_assert(kValue == 1.0 && kEqual && kEncoded == kCode);

#if defined(MUST_NOT_turn_a_code_into_a_float)
inline constexpr float kWrong = kCode;
#elif defined(MUST_NOT_turn_a_code_into_an_integer)
inline constexpr int kWrong = kCode;
#elif defined(MUST_NOT_turn_a_float_into_a_code)
inline constexpr E4m3 kWrong = 1.0F;
#elif defined(MUST_NOT_turn_an_integer_into_a_code)
inline constexpr E4m3 kWrong = 0x38;
#elif defined(MUST_NOT_turn_a_code_into_another_formats)
inline constexpr E5m2 kWrong = kCode;
#elif defined(MUST_NOT_compare_codes_of_two_formats)
inline constexpr bool kWrong = kCode == kOther;
#elif defined(MUST_NOT_compare_a_code_with_a_float)
inline constexpr bool kWrong = kCode == 1.0F;
#elif defined(MUST_NOT_add_codes)
inline constexpr auto kWrong = kCode + kCode;
#elif defined(MUST_NOT_order_codes)
inline constexpr bool kWrong = kCode < kCode;
#elif defined(MUST_NOT_encode_without_a_rounding)
inline constexpr E4m3 kWrong = encode<E4m3>(1.0, kSaturate);
#elif defined(MUST_NOT_encode_without_an_overflow)
inline constexpr E4m3 kWrong = encode<E4m3>(1.0, kNearest);
#elif defined(MUST_NOT_decode_a_plain_byte)
inline constexpr double kWrong = decode(std::uint8_t{0x38});
#elif defined(MUST_NOT_name_a_rounding_by_number)
inline constexpr E4m3 kWrong = encode<E4m3>(1.0, 0, kSaturate);
#endif

}  // namespace mxcheck
