#include "tests/properties/diagnosis/golden_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "goldens/format/reader.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/goldens/suite.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck::golden_parts {

GoldenTensors made(const std::string& golden) {
  const test::TemporaryDirectory dir;
  make_suite(parse_suite(R"({"suite": "s", "goldens": [)" + golden + "]}", "t"), dir.path(), {});
  const GoldenReader reader(dir / "g.h5");
  GoldenTensors tensors{reader.info(), {}};
  for (const DatasetInfo& info : reader.info().datasets) tensors.tensors[info.name] = reader.read(info.name);
  return tensors;
}

std::string quantize_of(const std::string& input, const std::string& block, const std::string& recipe,
                        const std::string& more) {
  return R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": ")" + block + R"(", "recipe": ")" + recipe +
         R"(", "input": )" + input + more + "}";
}

const GoldenTensors& gradients() {
  static const GoldenTensors golden = made(quantize_of(
      R"({"real": "layer0.dO", "rows_of": [0, 96], "cols_of": [0, 256],
          "plant": [[0, 3, "7f80"], [1, 40, "ffc0"], [2, 70, "43e8"], [3, 97, "0001"], [3, 98, "8001"], [4, 1, "4399"], [4, 0, "43cc"]]})",
      "1x32", "rceil", R"(, "layouts": ["tcgen05", "deepgemm"], "pad_byte": 255)"));
  return golden;
}

const GoldenTensors& activations() {
  static const GoldenTensors golden =
      made(quantize_of(R"({"real": "layer0.x", "rows_of": [0, 96], "cols_of": [0, 256]})"));
  return golden;
}

ByteList bytes_of(const Tensor& t) {
  ByteList bytes(t.data.size());
  std::memcpy(bytes.data(), t.data.data(), bytes.size());
  return bytes;
}

void put(Tensor& t, const ByteList& bytes) {
  ASSERT_EQ(t.data.size(), bytes.size());
  std::memcpy(t.data.data(), bytes.data(), bytes.size());
}

GoldenVerdict judged(const GoldenTensors& golden, const Tensors& candidate, const std::vector<std::string>& only) {
  return judge(
      golden,
      [&](const std::string& name) -> std::optional<Tensor> {
        const auto at = candidate.find(name);
        return at == candidate.end() ? std::nullopt : std::optional(at->second);
      },
      only);
}

const DatasetResult& result_of(const GoldenVerdict& verdict, const std::string& name) {
  for (const DatasetResult& r : verdict.results) {
    if (r.expected.name == name) return r;
  }
  throw Error(ErrorKind::internal, "no result for " + name);
}

std::string first_cause(const DatasetResult& r) { return r.causes.empty() ? "(none)" : r.causes.front(); }

Tensors quantized_by(const GoldenTensors& golden, const Mine& mine) {
  Tensors t = golden.tensors;
  const ByteList x = bytes_of(t["x"]);
  ByteList codes = bytes_of(t["codes"]), scales = bytes_of(t["scales"]);
  for (std::size_t block = 0; block < scales.size(); ++block) {
    double amax = 0;
    double values[32];
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t at = block * 32 + i;
      const auto bits = static_cast<std::uint32_t>(x[2 * at] | x[2 * at + 1] << 8) << 16;
      values[i] = static_cast<double>(std::bit_cast<float>(bits));
      amax = std::isnan(values[i]) || std::isnan(amax) ? std::nan("") : std::max(amax, std::fabs(values[i]));
    }
    const int byte = mine.scale_byte(amax);
    scales[block] = static_cast<std::uint8_t>(byte);
    for (std::size_t i = 0; i < 32; ++i) {
      codes[block * 32 + i] =
          static_cast<std::uint8_t>(byte == 255 ? 0x7F : mine.cast(std::ldexp(values[i], 127 - byte)));
    }
  }
  put(t["codes"], codes), put(t["scales"], scales);
  return t;
}

int rceil(double amax) {
  if (!std::isfinite(amax)) return 255;
  int byte = 0;
  while (byte < 254 && std::ldexp(448.0, byte - 127) < amax) ++byte;
  return byte;
}

int floored(double amax) {
  if (!std::isfinite(amax)) return 255;
  return amax == 0 ? 0 : std::clamp(std::ilogb(amax) - 8 + 127, 0, 254);
}

std::uint32_t nearest(double v) { return encode(Format::e4m3, v, Rounding::nearest_even, Overflow::saturate); }

// 0x08 ... 0x7E are 8 codes a binade; ties away from zero in decimal arithmetic.
std::uint32_t ties_away(double v) {
  const double a = std::min(std::fabs(v), 448.0);
  const int e = a == 0 ? -6 : std::max(std::ilogb(a), -6);
  const auto steps = static_cast<std::uint32_t>(std::floor(std::ldexp(a, 3 - e) + 0.5));
  return static_cast<std::uint32_t>((e + 6) * 8) + steps + (std::signbit(v) ? 128U : 0U);
}

}  // namespace mxcheck::golden_parts
