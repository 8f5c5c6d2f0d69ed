#pragma once
// Probes 4 and 6: which lanes and which bytes an address means.

#include "tests/kernels/sm100/probe/fixture.h"
#include "tests/kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// --- probe 4
// 4. Which lanes does the lane field of tcgen05.ld and .st mean, in each shape?
//
// A warp reaches the 32 lanes of its quarter. The absolute lane is right; a lane relative to the quarter is reported to
// work as well, as the hardware ignores the bits above. Each shape is run with both, at lanes 0 and 16 of the quarter
// where it has 16 lanes, and with the lanes of another warp's quarter. Loads read cells that name themselves; stores
// are read back with .32x32b.

inline namespace MXCHECK_SM100_PROBE_BODY {

inline constexpr unsigned kCellColumns = 16;  // what .x2 of the widest shape reaches
inline constexpr unsigned kHalfSplit = 8;     // of 16x32bx2
inline constexpr unsigned kMaxRegisters = 8;
enum class LaneRule : std::uint8_t { absolute, relative, of_next_warp };
// Arguments::variant: bits 2:0 the shape, 3 a store, 5:4 the rule, 6 lane 16.
inline constexpr unsigned kShapes = 5, kIsStore = 8, kRuleAt = 4, kLane16 = 64;

MXCHECK_SM100_ANYWHERE constexpr unsigned first_lane(LaneRule rule, unsigned warp, unsigned offset) {
  return (rule == LaneRule::absolute ? 32 * warp : rule == LaneRule::relative ? 0 : 32 * ((warp + 1) % 4)) + offset;
}

template <int kCount>
MXCHECK_SM100_DEVICE void registers_out(const Fragment<kCount>& fragment, std::uint32_t* out) {
  MXCHECK_SM100_UNROLL
  for (unsigned r = 0; r < kCount; ++r) out[r * kThreads + thread_index()] = fragment.r[r];
}
template <int kCount>
MXCHECK_SM100_DEVICE void registers_in(Fragment<kCount>& fragment) {
  MXCHECK_SM100_UNROLL
  for (unsigned r = 0; r < kCount; ++r) fragment.r[r] = 0x77000000U | thread_index() << 8 | r;
}
template <TmemShape kShape>
MXCHECK_SM100_DEVICE void access(TmemAddress at, bool stores, std::uint32_t* out) {
  TmemFragment<kShape, 2> fragment;
  if (stores) {
    registers_in(fragment);
    tmem_st<kShape, 2>(at, fragment);
    tmem_wait_st();
  } else {
    tmem_ld<kShape, 2>(fragment, at);
    tmem_wait_ld(fragment);
    registers_out(fragment, out);
  }
}
MXCHECK_SM100_DEVICE void access_halves(TmemAddress at, bool stores, std::uint32_t* out) {
  Fragment<2> fragment;
  if (stores) {
    registers_in(fragment);
    tmem_st_halves<2, kHalfSplit>(at, fragment);
    tmem_wait_st();
  } else {
    tmem_ld_halves<2, kHalfSplit>(fragment, at);
    tmem_wait_ld(fragment);
    registers_out(fragment, out);
  }
}

MXCHECK_SM100_KERNEL void ld_lanes(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  const TmemAddress tmem = open<1>(a);
  write_cells(tmem, kCellColumns, a.words);
  sync_tensor<1>();
  const auto rule = static_cast<LaneRule>(a.variant >> kRuleAt & 3U);
  const unsigned offset = (a.variant & kLane16) != 0 ? 16 : 0;
  const TmemAddress at = tmem_at(tmem, first_lane(rule, warp_index() % 4, offset), 0);
  const bool stores = (a.variant & kIsStore) != 0;
  switch (a.variant & 7U) {
    case 0: access<TmemShape::lanes32x32b>(at, stores, a.out); break;
    case 1: access<TmemShape::lanes16x64b>(at, stores, a.out); break;
    case 2: access<TmemShape::lanes16x128b>(at, stores, a.out); break;
    case 3: access<TmemShape::lanes16x256b>(at, stores, a.out); break;
    default: access_halves(at, stores, a.out); break;
  }
  sync_tensor<1>();
  if (stores) read_cells(tmem, kCellColumns, a.out);
  close<1>(tmem);
}

// --- host

inline constexpr const char* kShapeNames[kShapes] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
inline constexpr unsigned kShapeRegisters[kShapes] = {2, 2, 4, 8, 2};  // of .x2

// Register r of thread t (PTX ISA, figures of tcgen05's data movement shapes), from the access's first cell on.
inline std::pair<unsigned, unsigned> lane_and_column(unsigned shape, unsigned t, unsigned r) {
  switch (shape) {
    case 0: return {t, r};
    case 1: return {t / 4 + 8 * (t % 2), 2 * r + (t / 2) % 2};
    case 2: return {t / 4 + 8 * (r % 2), 4 * (r / 2) + t % 4};
    case 3: return {t / 4 + 8 * ((r / 2) % 2), 8 * (r / 4) + 2 * (t % 4) + r % 2};
    default: return {t % 16, r + kHalfSplit * (t / 16)};
  }
}

// Words that are wrong if a warp's access begins at the lane that `rule` says.
inline std::size_t wrong_lanes(const Outcome& outcome, const std::vector<std::uint32_t>& cells, std::uint32_t variant,
                               LaneRule rule) {
  const unsigned shape = variant & 7U;
  std::vector<std::uint32_t> right = cells;
  if ((variant & kIsStore) == 0) right.assign(kMaxRegisters * kThreads, 0);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    const unsigned lane0 = first_lane(rule, thread / 32, (variant & kLane16) != 0 ? 16 : 0);
    for (unsigned r = 0; r < kShapeRegisters[shape]; ++r) {
      const auto [lane, column] = lane_and_column(shape, thread % 32, r);
      const std::size_t cell = cell_at(static_cast<int>(lane0 + lane), static_cast<int>(column), kCellColumns);
      if ((variant & kIsStore) != 0) {
        right[cell] = 0x77000000U | thread << 8 | r;
      } else {
        right[r * kThreads + thread] = cells[cell];
      }
    }
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < right.size() && !outcome.out.empty(); ++i) wrong += outcome.out[i] == right[i] ? 0 : 1;
  return wrong;
}

inline Report p04_ld_lanes(Launcher& launcher) {
  Report report(4, "tcgen05.ld and .st: absolute lanes, lanes relative to the warp's quarter, lanes of another warp");
  std::vector<std::uint32_t> cells(kCellColumns * 128);
  for (unsigned i = 0; i < cells.size(); ++i) cells[i] = 0x5A000000U | (i % 128) << 8 | i / 128;
  const auto run = [&](std::uint32_t variant) {
    return launcher.run({.kernel = &ld_lanes,
                         .shared_bytes = kImageAt,
                         .arguments = {.variant = variant},
                         .words = cells,
                         .out_words = kCellColumns * 128});
  };
  for (const LaneRule rule : {LaneRule::absolute, LaneRule::relative, LaneRule::of_next_warp}) {
    constexpr const char* kRules[] = {"absolute lanes", "relative lanes", "lanes of the next warp's quarter"};
    const std::string rule_name = kRules[static_cast<std::size_t>(rule)];
    std::size_t wrong = 0, all = 0, own = 0, named = 0, cases = 0;
    Outcome whole{.state = Outcome::State::ran, .text = "", .out = {}};
    for (std::uint32_t i = 0; i < 4 * kShapes; ++i) {
      const unsigned shape = i % kShapes;
      const bool lane16 = i / kShapes % 2 == 1;
      if (shape == 0 && lane16) continue;
      const std::uint32_t variant = shape | (i / (2 * kShapes) == 1 ? kIsStore : 0U) |
                                    static_cast<std::uint32_t>(rule) << kRuleAt | (lane16 ? kLane16 : 0U);
      const Outcome outcome = run(variant);
      const std::string what = std::string((variant & kIsStore) != 0 ? "st." : "ld.") + kShapeNames[shape] +
                               (lane16 ? ", lane 16, " : ", lane 0, ") + rule_name;
      const std::size_t wrong_own = wrong_lanes(outcome, cells, variant, LaneRule::absolute);
      const std::size_t wrong_named = wrong_lanes(outcome, cells, variant, rule);
      ++cases;
      all += (variant & kIsStore) != 0 ? kCellColumns * 128 : kShapeRegisters[shape] * kThreads;
      wrong += wrong_own;
      std::string text = outcome.text;
      if (outcome.state == Outcome::State::ran) {
        own += wrong_own == 0 ? 1 : 0;
        named += wrong_named == 0 ? 1 : 0;
        text = wrong_own == 0     ? "the warp's own quarter"
               : wrong_named == 0 ? "the lanes that the field names"
                                  : std::to_string(wrong_own) + " words of neither";
      } else if (whole.state == Outcome::State::ran) {
        whole = {outcome.state, what + ": " + outcome.text, {}};
      }
      report.add_evidence(what, text);
    }
    if (rule == LaneRule::absolute) {
      expect_model(report, rule_name, whole, wrong, all);
    } else {
      ask(report, rule_name, whole,
          counts(own, cases, "forms reach the warp's own quarter, ") + std::to_string(named) + " the lanes named");
    }
  }
  return report;
}

// --- probe 6
// 6. Starts inside of the swizzle's pattern, and the base offset: which bytes are read?
//
// B is the identity, so that D is A as it was read. A is noise in 136 rows of 128 bytes; the descriptor begins at
// row r (0 to 7) and byte 16 i of it, with base offset 0 or r. Each run is compared with several ways to find an
// address.

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
    {"absolute, the row's end wrapped to its beginning", [](unsigned start, unsigned, unsigned row, unsigned unit) {
       const unsigned line = start / 128 + row;
       return xor_by(line * 128 + (start + unit * 16) % 128, line);
     }}};

inline Report p06_descriptor_start(Launcher& launcher) {
  Report report(6, "matrix descriptors that begin inside of the swizzle's pattern, and the base offset: what is read?");
  Operands identity{.rows = 1, .columns = 32, .a = std::vector<int>(32), .b = std::vector<int>(32 * 32)};
  for (std::size_t n = 0; n < 32; ++n) identity.b[n * 33] = 1;
  Image image(kOperandBytes);
  for (unsigned i = 0; i < 136 * 128; ++i) image.bytes()[kAAt + i] = e4m3(static_cast<int>(noise(6, i) % 31) - 15);
  image.put_rows(kBAt, identity.b);
  // e4m3 of -15 to 15, back.
  const auto value = [&](unsigned at) { return word_of(static_cast<float>(static_cast<int>(noise(6, at) % 31) - 15)); };
  const std::uint32_t instruction = instruction_descriptor<ByteInstruction{.m = 128, .n = 32}>().bits;

  std::size_t model_wrong = 0, model_words = 0;
  Outcome model{.state = Outcome::State::ran, .text = "", .out = {}};
  std::string refusal, answers;
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
