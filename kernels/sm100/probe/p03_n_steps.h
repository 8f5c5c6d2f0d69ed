#pragma once
// 3. Which N has kind::mxf8f6f4, for one CTA and for a pair? And how are B's scales split where a pair's M is 128?
//
// The table of shapes in the PTX ISA reads as multiples of 8 and 16; others assert 16 and 32. ptxas checks none of it.
// Every multiple of 8 is run on its own, as a wrong one may be an illegal instruction. With M = 128 a pair has 64 rows
// in each CTA, and columns from N / 2 on in lanes 64 to 127 (layout B).

#include "kernels/sm100/probe/one_mma.h"

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

// The images of both CTAs of a pair, or of one: A's rows in halves, B's rows in halves, all of B's scales in both.
inline std::vector<std::uint8_t> images_of_pair(const Operands& o, int group) {
  std::vector<std::uint8_t> all;
  for (int rank = 0; rank < group; ++rank) {
    const auto part = [&](const std::vector<int>& all_of_it) {
      const std::size_t count = all_of_it.size() / static_cast<std::size_t>(group);
      return std::span<const int>(all_of_it).subspan(count * static_cast<std::size_t>(rank), count);
    };
    Image image(kOperandBytes);
    image.put_rows(kAAt, part(o.a));
    image.put_rows(kBAt, part(o.b));
    image.put_scales(kScalesAAt, part(o.exponents_a));
    image.put_scales(kScalesBAt, o.exponents_b);
    all.insert(all.end(), image.bytes().begin(), image.bytes().end());
  }
  return all;
}

inline std::uint32_t scaled_instruction(int group, int m, int n) {
  if (group == 1) return with_n(instruction_descriptor<ScaledInstruction{.m = 128, .n = 256}>(), n);
  return with_n(m == 256 ? instruction_descriptor<ScaledInstruction{.m = 256, .n = 256, .cta_group = 2}>()
                         : instruction_descriptor<ScaledInstruction{.m = 128, .n = 256, .cta_group = 2}>(),
                n);
}

// Words that are wrong. `scale_of(n)` is the row of B whose scale column n has.
template <class ScaleOf>
std::size_t wrong_words(const Operands& o, const Outcome& outcome, int group, const ScaleOf& scale_of) {
  std::size_t wrong = 0;
  const bool half = group == 2 && o.rows == 128;
  const int columns = half ? o.columns / 2 : o.columns;
  const int rows = o.rows / group;
  for (int m = 0; m < o.rows && !outcome.out.empty(); ++m) {
    for (int n = 0; n < o.columns; ++n) {
      const int lane = m % rows + (half && n >= columns ? 64 : 0);
      const float right = std::ldexp(o.value(m, n), o.exponents_a[static_cast<std::size_t>(m)] +
                                                        o.exponents_b[static_cast<std::size_t>(scale_of(n))]);
      wrong += outcome.out[cell_at(lane, n % columns, columns, m / rows)] == word_of(right) ? 0 : 1;
    }
  }
  return wrong;
}

inline Report p03_n_steps(Launcher& launcher) {
  Report report(3, "kind::mxf8f6f4: which N, of one CTA and of a pair; B's scales where a pair's M is 128");
  for (const int group : {1, 2}) {
    const int step = 8 * group;  // of the model
    const std::string who = group == 1 ? "one CTA" : "a pair";
    std::size_t model_wrong = 0, model_words = 0;
    Outcome model{.state = Outcome::State::ran, .text = "", .out = {}};
    Outcome others{.state = Outcome::State::ran, .text = "", .out = {}};
    std::string right, other;
    for (int n = 8; n <= 256; n += 8) {
      const Operands o = draw(128 * group, n, -8, 17, static_cast<std::uint32_t>(n));
      const Outcome outcome =
          run_one_mma(launcher, group, images_of_pair(o, group), scaled_instruction(group, 128 * group, n), 0, n);
      const std::size_t wrong = wrong_words(o, outcome, group, [](int column) { return column; });
      const bool ran = outcome.state == Outcome::State::ran;
      const std::string result =
          ran ? counts(wrong, static_cast<std::size_t>(128 * group * n), "words wrong") : outcome.text;
      if (n % step == 0) {
        model_wrong += wrong;
        model_words += static_cast<std::size_t>(128 * group * n);
        if (!ran && model.state == Outcome::State::ran) {
          model = {outcome.state, std::string("N = ").append(std::to_string(n)).append(": ").append(result), {}};
        }
        if (!ran || wrong != 0) report.add_evidence(who + ", N = " + std::to_string(n), result);
        continue;
      }
      if (ran && wrong == 0) right += (right.empty() ? "" : ", ") + std::to_string(n);
      if (outcome.state == Outcome::State::refused) {
        others = {outcome.state, outcome.text, {}};
      } else {
        other.append(other.empty() ? "" : ", ").append(std::to_string(n)).append(": ").append(result);
        if (outcome.state == Outcome::State::failed) others = {outcome.state, outcome.text, {}};
      }
    }
    expect_model(report, who + ", N of every multiple of " + std::to_string(step), model, model_wrong, model_words);
    report.add_evidence(who + ", the model's N", counts(model_wrong, model_words, "words wrong"));
    if (group == 1) continue;
    const std::string what = who + ", the other multiples of 8";
    ask(report, what, others, right.empty() ? "none has the right words" : "right: " + right);
    if (!other.empty()) report.add_evidence(what, other);
  }
  for (const int n : {64, 128, 256}) {
    const Operands o = draw(128, n, -8, 17, static_cast<std::uint32_t>(1000 + n));
    const Outcome outcome = run_one_mma(launcher, 2, images_of_pair(o, 2), scaled_instruction(2, 128, n), 0, n / 2);
    // Every partition has all rows' scales here. If the later half of N is read from partitions 2 and 3 as if they had
    // that half alone, the scales found there are those of the first half.
    const std::size_t whole = wrong_words(o, outcome, 2, [](int column) { return column; });
    const std::size_t split = wrong_words(o, outcome, 2, [n](int column) { return column % (n / 2); });
    const std::string what = "a pair with M = 128, N = " + std::to_string(n);
    ask(report, what, outcome,
        whole == 0   ? "row n's scale at column n / 32, as with M = 256"
        : split == 0 ? "split: partitions 2 and 3 have the later half's scales from column 0 on"
                     : "neither whole nor split scales have these words");
    report.add_evidence(what, words_or_reason(outcome, std::to_string(whole) + " words wrong if whole, " +
                                                           std::to_string(split) + " if split"));
  }
  return report;
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
