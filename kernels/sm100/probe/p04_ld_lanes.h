#pragma once
// 4. Which lanes does the lane field of tcgen05.ld and .st mean, in each shape?
//
// A warp reaches the 32 lanes of its quarter. The absolute lane is right; a lane relative to the quarter is reported to
// work as well, as the hardware ignores the bits above. Each shape is run with both, at lanes 0 and 16 of the quarter
// where it has 16 lanes, and with the lanes of another warp's quarter. Loads read cells that name themselves; stores
// are read back with .32x32b.

#include "kernels/sm100/probe/fixture.h"
#include "kernels/sm100/probe/judge.h"
#include "kernels/sm100/probe/operands.h"

namespace mxcheck::sm100::probe {
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

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
