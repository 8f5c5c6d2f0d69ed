#pragma once
// The subcommands of mxcheck parity, one file each, and what they share.

#include <string>

#include "tools/subcommands.h"
#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"

namespace mxcheck {

void add_parity_run(Command& parity);
void add_parity_audit(Command& parity);
void add_parity_compare(Command& parity);
void add_parity_verify(Command& parity);

// What --data names: a file or folder; none: the headers of Boost.
Corpus corpus_of(const std::string& data);

// "mxfp8, seed 1": what tells one run from another. Rounding, moments and a perturbed weight where they are not the
// usual ones.
std::string run_title(const TrainingConfig& config);
std::string run_title(const RunRecord& run);  // with where it branched off

}  // namespace mxcheck
