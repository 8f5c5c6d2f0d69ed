#pragma once
// 6. Starts inside of the swizzle's pattern, and the base offset: which bytes are read?
//
// B is the identity, so that D is A as it was read. A is noise in 136 rows of 128 bytes; the descriptor begins at
// row r (0 to 7) and byte 16 i of it, with base offset 0 or r. Each run is compared with several ways to find an
// address.

#include "kernels/sm100/probe/one_mma.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

// Bytes from the pattern's boundary on, of the 16 bytes `unit` of `row`; `start` is 128 r + 16 i.
struct Addressing {
  const char* name;
  unsigned (*at)(unsigned start, unsigned base, unsigned row, unsigned unit);
};
inline unsigned xor_by(unsigned linear, unsigned phase) { return linear ^ (phase & 7U) << 4; }
inline constexpr Addressing kAddressings[] = {
    {"XOR of the absolute address",
     [](unsigned start, unsigned, unsigned row, unsigned unit) {
       const unsigned linear = start + row * 128 + unit * 16;
       return xor_by(linear, linear >> 7);
     }},
    {"absolute, less the base offset",
     [](unsigned start, unsigned base, unsigned row, unsigned unit) {
       const unsigned linear = start + row * 128 + unit * 16;
       return xor_by(linear, (linear >> 7) - base);
     }},
    {"absolute, plus the base offset",
     [](unsigned start, unsigned base, unsigned row, unsigned unit) {
       const unsigned linear = start + row * 128 + unit * 16;
       return xor_by(linear, (linear >> 7) + base);
     }},
    {"XOR of the tile's own row, then the start added",
     [](unsigned start, unsigned, unsigned row, unsigned unit) { return start + xor_by(row * 128 + unit * 16, row); }},
    {"absolute, the row's end wrapped to its beginning",
     [](unsigned start, unsigned, unsigned row, unsigned unit) {
       const unsigned line = start / 128 + row;
       return xor_by(line * 128 + (start + unit * 16) % 128, line);
     }},
};

inline Report p06_descriptor_start(Launcher& launcher) {
  Report report(6, "matrix descriptors that begin inside of the swizzle's pattern, and the base offset: what is read?");
  Operands identity{.rows = 1, .columns = 32, .a = std::vector<int>(32), .b = std::vector<int>(32 * 32)};
  for (std::size_t n = 0; n < 32; ++n) identity.b[n * 33] = 1;
  Image image(kOperandBytes);
  for (unsigned i = 0; i < 136 * 128; ++i) {
    image.bytes()[kAAt + i] = e4m3(static_cast<int>(noise(6, i) % 31) - 15);
  }
  image.put_rows(kBAt, identity.b);
  // e4m3 of -15 to 15, back.
  const auto value = [&](unsigned at) { return word_of(static_cast<float>(static_cast<int>(noise(6, at) % 31) - 15)); };
  const std::uint32_t instruction = instruction_descriptor<ByteInstruction{.m = 128, .n = 32}>().bits;

  std::size_t model_wrong = 0, model_words = 0;
  Outcome model{.state = Outcome::State::ran, .text = "", .out = {}};
  std::string refusal;
  std::string answers;
  const auto run = [&](unsigned row, unsigned unit, unsigned base) {
    const unsigned start = row * 128 + unit * 16;
    const Outcome outcome = run_one_mma(launcher, 1, image.bytes(), instruction, kByteKind, 32, {},
                                        std::uint64_t{start >> 4} | std::uint64_t{base} << 49);
    const auto wrong_by = [&](const Addressing& addressing) {
      std::size_t wrong = 0;
      for (unsigned m = 0; m < 128 && !outcome.out.empty(); ++m) {
        for (unsigned k = 0; k < 32; ++k) {
          const unsigned at = addressing.at(start, base, m, k / 16) + k % 16;
          const std::uint32_t found = outcome.out[cell_at(static_cast<int>(m), static_cast<int>(k), 32)];
          wrong += at < 136 * 128 && found == value(at) ? 0 : 1;
        }
      }
      return wrong;
    };
    const std::string what =
        "row " + std::to_string(row) + ", byte " + std::to_string(16 * unit) + ", base offset " + std::to_string(base);
    std::string fits;
    for (const Addressing& addressing : kAddressings) {
      if (outcome.out.empty() || wrong_by(addressing) != 0) continue;
      fits += (fits.empty() ? "" : " = ") + std::string(addressing.name);
    }
    report.add_evidence(what, outcome.state != Outcome::State::ran ? outcome.text : fits.empty() ? "none fits" : fits);
    // The model has operands that start in the first row, with 32 bytes that end in it, and base offset 0.
    if (row == 0 && unit <= 6 && base == 0) {
      model_wrong += wrong_by(kAddressings[0]);
      model_words += 128 * 32;
      if (outcome.state != Outcome::State::ran) model = {outcome.state, what + ": " + outcome.text, {}};
      return;
    }
    if (outcome.state == Outcome::State::refused) refusal = outcome.text;
    if (outcome.state == Outcome::State::ran && fits.empty()) answers += " " + what + " fits nothing known;";
    if (outcome.state != Outcome::State::ran && outcome.state != Outcome::State::refused) {
      answers += " " + what + ": " + outcome.text + ";";
    }
  };
  for (unsigned unit = 0; unit < 8; ++unit) run(0, unit, 0);
  for (unsigned row = 1; row < 8; ++row) {
    run(row, 0, 0);
    run(row, 0, row);
  }
  expect_model(report, "starts at bytes 0, 16, .. 96 of the first row, absolute XOR", model, model_wrong, model_words);
  ask(report, "starts in other rows, base offsets, byte 112",
      {.state = refusal.empty() ? Outcome::State::ran : Outcome::State::refused, .text = refusal, .out = {}},
      answers.empty() ? "each fits an addressing that the evidence names" : answers.substr(1));
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
