#pragma once
// The GPUs of one host in a run of the gate: which job has which, and whether a failing case fails on all of them.
//
//   const GpusOfRun gpus = gpus_of_job(process.info().gpus, 3);   // of two GPUs, the second
//
// Jobs have the GPUs in turn. A statement's result does not depend on the job that it falls to, so that a report is the
// same on one GPU and on eight: it names a GPU only where a case, or the end of a process, fails on some GPUs alone, or
// once.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/candidate.h"

namespace mxcheck {

// visible: CandidateInfo::gpus. Nothing where there is one GPU or none.
GpusOfRun gpus_of_job(const std::vector<Gpu>& visible, int job);

// The GPUs that a failure is of.
struct FailingGpus {
  std::string text;  // to follow a finding's words; empty: all, or a run that is not spread over several
  std::string uuid;  // of one on which the case fails, where it fails on some alone
};

// Finds out where else a case fails that fails again in this process: it is tried on the other GPUs, each in a fresh
// process. fails: checks it. The process is a fresh one on its own GPU afterwards.
FailingGpus where_it_fails(CandidateRunner& process, const std::function<bool()>& fails);
// The GPU of a case that failed once and then passed.
FailingGpus where_it_failed(const CandidateRunner& process);

// Texts about processes that did not end in order, each text once. ends: the text, and the job's place among the
// visible GPUs.
std::vector<std::string> texts_of_ends(const std::vector<std::pair<std::string, std::size_t>>& ends,
                                       const std::vector<Gpu>& visible, int jobs);

}  // namespace mxcheck
