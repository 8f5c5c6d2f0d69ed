#pragma once
// Numbers, sentences and tables of a comparison as texts, which every form of the report draws in its own way.
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

struct TableColumn {
  std::string head;
  bool is_text = false;  // to the left; numbers are to the right
};

struct ReportTable {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> rows;
};

// BF16, then the judged arms by branch point and mean d, with what each recipe takes.
ReportTable recipe_table(const ParityComparison& comparison);
std::string recipe_note();
ReportTable conditions_table(const ParityComparison& comparison);  // A/A and the controls
ReportTable dependence_table(const ParityComparison& comparison);  // recipes that have several branch points
ReportTable beside_table(const ParityComparison& comparison);      // other experiments' gaps
std::string beside_note();
ReportTable power_table(const ParityComparison& comparison);  // noise, and what the pairs can see
std::string power_note(const ParityComparison& comparison);
ReportTable spike_table(const ParityComparison& comparison);
ReportTable checkpoint_table(const ParityComparison& comparison);
ReportTable routing_table(const ParityComparison& comparison);  // at the last observation
ReportTable operand_table(const ParityComparison& comparison);  // likewise
ReportTable pair_table(const ParityComparison& comparison);
ReportTable run_table(const ParityComparison& comparison);

// "mxfp8: equivalent: the limits ...; at 0.2500 %: equivalent", of every arm but BF16.
std::vector<std::string> reason_lines(const ParityComparison& comparison);

// Parameters, tokens, runs, corpus.
std::string experiment_line(const ParityComparison& comparison);

}  // namespace mxcheck
