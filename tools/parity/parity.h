#pragma once
// The subcommands of mxcheck parity, one file each, and what they share.

#include <cstdint>
#include <memory>
#include <string>

#include "tools/subcommands.h"
#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"
#include "trainer/run/engine.h"

namespace mxcheck {

void add_parity_run(Command& parity);
void add_parity_audit(Command& parity);
void add_parity_compare(Command& parity);
void add_parity_verify(Command& parity);

void add_parity_corpus(Command& parity);
void add_parity_campaign(Command& parity);

// The text that --data names: a file or folder; none: the known text with this hash of its training part, or the
// headers of Boost.
Corpus corpus_of(const std::string& data, const std::string& training_sha256);

// "cpu", "sm90" or a library: what computes runs of this configuration. threads: of the CPU.
std::unique_ptr<TrainingEngine> parity_engine(const std::string& engine, const TrainingConfig& config,
                                              std::int64_t validation_sequences, int threads);
std::string parity_version();  // version and commit, as runs record it

// "mxfp8, seed 1": what tells one run from another. Rounding, moments and a perturbed weight where they are not the
// usual ones.
std::string run_title(const TrainingConfig& config);
std::string run_title(const RunRecord& run);  // with where it branched off

}  // namespace mxcheck
