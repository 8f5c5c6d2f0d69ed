#pragma once
// Numbers and sentences that every form of the report shares.
//
//   signed_percent(0.00012) == "+0.0120 %"      limits({...}) == "[-0.0100, +0.0340] %"
//
// Errors: none.

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/compare/comparison.h"

namespace mxcheck {

// "-" for what is no finite number, in all of them.
std::string signed_percent(double share);  // with its sign
std::string share_text(double share);      // without: "98.2 %", "0.0031 %"
std::string decimal(double value, int digits);
std::string limits(const PairedInterval& interval);
std::string limits(const UnpairedInterval& interval);
std::string amount(double count);  // "512", "12.8 k", "1.05 M"

// The sentence of docs/parity_rule.md; empty for an arm that is not judged non-inferior or equivalent: nothing may be
// said of it.
std::string allowed_sentence(const ParityComparison& c, const ArmResult& arm);

// "2 judged arms: 1 equivalent, 1 inferior": what the exit code is for.
std::string summary_line(const ParityComparison& c);

// " from 50 %": where arms branch off; empty where all of an experiment's are from scratch.
std::string branch_words(const ParityComparison& c, std::int64_t step);

// How it was decided: design, margin, conditions, noise. One sentence each.
std::vector<std::string> decision_lines(const ParityComparison& c);

}  // namespace mxcheck
