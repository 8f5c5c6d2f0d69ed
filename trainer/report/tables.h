#pragma once
// The tables of a comparison as texts, which every form of the report draws in its own way.
//
// Errors: none.

#include <string>
#include <vector>

#include "trainer/compare/comparison.h"

namespace mxcheck {

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
