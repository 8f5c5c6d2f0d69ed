// The calls that a black box which multiplies is asked: each a different stress of a sum.

#include <algorithm>
#include <cmath>

#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/identify/product.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

enum class ProductData { ordinary, wide, intervals, cancelling, special };

std::uint32_t drawn(Format format, ProductData data, Draw& draw) {
  const FormatSpec& f = spec(format);
  const auto any = static_cast<std::uint32_t>(draw.word() & ((std::uint64_t{1} << f.bits) - 1));
  if (data == ProductData::special && draw.chance(3)) return any;
  const auto mantissa = std::ldexp(static_cast<double>(draw.between(1 - (1 << 24), (1 << 24) - 1)), -23);
  const int spread =
      data == ProductData::wide ? static_cast<int>(draw.between(-9, 6)) : static_cast<int>(draw.between(-1, 1));
  return encode(format, std::ldexp(mantissa, spread), Rounding::nearest_even, Overflow::saturate);
}

// Every second product nearly takes back the one before it.
void cancel(ProductCall& call, Draw& draw) {
  const std::uint32_t sign = std::uint32_t{1} << (spec(call.a_format).bits - 1);
  for (std::size_t i = 0; i + 1 < call.a.size(); i += 2) {
    call.a[i + 1] = call.a[i] ^ sign;
    if (draw.chance(30) && (call.a[i + 1] & 0x7F) > 1) --call.a[i + 1];
  }
  for (std::size_t i = 0; i + 1 < call.b.size(); i += 2) call.b[i + 1] = call.b[i];
}

// Every 32 of k have a magnitude of their own, and every 128 one that is further from their neighbours', so that adding
// up intervals rounds: their order then shows.
std::vector<std::uint32_t> drawn_rows(Format format, std::int64_t rows, std::int64_t k, ProductData data, Draw& draw) {
  std::vector<std::uint32_t> codes;
  int far = 0;
  int shift = 0;
  for (std::int64_t i = 0; i < rows * k; ++i) {
    if (data == ProductData::intervals && i % k % 128 == 0) far = static_cast<int>(draw.between(-6, 6));
    if (data == ProductData::intervals && i % k % 32 == 0) shift = far + static_cast<int>(draw.between(-2, 2));
    const std::uint32_t code = drawn(format, data, draw);
    const double shifted = std::ldexp(decode(format, code), shift);
    codes.push_back(shift == 0 ? code : encode(format, shifted, Rounding::nearest_even, Overflow::saturate));
  }
  return codes;
}

// Where products cancel, scales lie far apart: what the smaller ones add is then left, or was cut off before.
std::vector<std::uint32_t> drawn_scales(const ProductSpace& s, std::int64_t rows, std::int64_t of, ProductData data,
                                        Draw& draw) {
  const std::int64_t blocks = ceil_div(rows, of) * ceil_div(s.k, s.scale_k);
  std::vector<std::uint32_t> scales(static_cast<std::size_t>(blocks));
  for (std::uint32_t& word : scales) {
    // All 23 bits of an FP32 scale: products of shorter ones are exact, and every order of them is one.
    const double fraction = s.scale_format == Format::e8m0 ? 1 : 1 + std::ldexp(draw.between(0, (1 << 23) - 1), -23);
    const double value =
        std::ldexp(fraction, static_cast<int>(draw.between(data == ProductData::cancelling ? -16 : -6, 3)));
    word = encode(s.scale_format, value, Rounding::nearest_even, Overflow::saturate);
  }
  return scales;
}

ProductCall drawn_call(const ProductSpace& s, std::int64_t m, std::int64_t n, ProductData data, Draw& draw) {
  ProductCall call{
      s.a, s.b, s.output, m, n, s.k, {}, {}, s.scale_k, s.scale_format, {}, {}, {}, s.a_scale_rows, s.b_scale_rows};
  call.a = drawn_rows(s.a, m, s.k, data, draw);
  call.b = drawn_rows(s.b, n, s.k, data, draw);
  if (data == ProductData::cancelling) cancel(call, draw);
  if (s.scale_k != 0) {
    call.a_scales = drawn_scales(s, m, s.a_scale_rows, data, draw);
    call.b_scales = drawn_scales(s, n, s.b_scale_rows, data, draw);
  }
  for (std::int64_t i = 0; s.with_c && i < m * n; ++i) {
    const double value = std::ldexp(draw.between(-4096, 4096), static_cast<int>(draw.between(-20, -4)));
    call.c.push_back(encode(s.output, value, Rounding::nearest_even, Overflow::saturate));
  }
  return call;
}

// The second half of k takes back the first but for one product in a hundred: what is left is what intervals rounded,
// which a narrow D shows too.
ProductCall halves_that_cancel(const ProductSpace& s, Draw& draw) {
  ProductCall call = drawn_call(s, s.m, s.n, ProductData::intervals, draw);
  const std::uint32_t sign = std::uint32_t{1} << (spec(s.a).bits - 1);
  const std::int64_t half = s.k / 2;
  for (std::int64_t i = 0; i < std::max(s.m, s.n); ++i) {
    for (std::int64_t k = 0; k < half; ++k) {
      const auto from = static_cast<std::size_t>(i * s.k + k);
      const auto to = static_cast<std::size_t>(i * s.k + k + half);
      if (i < s.m && !draw.chance(1)) call.a[to] = call.a[from] ^ sign;
      if (i < s.n) call.b[to] = call.b[from];
    }
  }
  for (std::uint32_t& word : call.a_scales) word = call.a_scales.front();
  for (std::uint32_t& word : call.b_scales) word = call.b_scales.front();
  return call;
}

}  // namespace

std::vector<std::pair<std::string, ProductCall>> product_probes(const ProductSpace& s) {
  Draw draw(derived_seed(0, "identify product"));  // the same probes on every run
  std::vector<std::pair<std::string, ProductCall>> probes;
  probes.emplace_back("ordinary", drawn_call(s, s.m, s.n, ProductData::ordinary, draw));
  probes.emplace_back("wide exponents", drawn_call(s, s.m, s.n, ProductData::wide, draw));
  probes.emplace_back("intervals of far magnitudes", drawn_call(s, s.m, s.n, ProductData::intervals, draw));
  probes.emplace_back("nearly cancelling", drawn_call(s, s.m, s.n, ProductData::cancelling, draw));
  probes.emplace_back("halves that cancel", halves_that_cancel(s, draw));
  if (s.one_shape) {
    probes.emplace_back("special values", drawn_call(s, s.m, s.n, ProductData::special, draw));
    return probes;
  }
  probes.emplace_back("one row", drawn_call(s, 1, 8, ProductData::wide, draw));
  probes.emplace_back("special values", drawn_call(s, 8, 8, ProductData::special, draw));
  if (s.scale_k != 0 && (s.a_scale_rows > 1 || s.b_scale_rows > 1)) {
    const auto rows = [](std::int64_t of) { return of > 1 ? of + 8 : 4; };  // two blocks of rows
    const ProductCall call = drawn_call(s, rows(s.a_scale_rows), rows(s.b_scale_rows), ProductData::ordinary, draw);
    probes.emplace_back("blocks of rows", call);
  }
  return probes;
}

}  // namespace mxcheck
