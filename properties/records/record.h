#pragma once
// A run of the gate as it is kept: for every case its descriptor, and for every call of the candidate its status and a
// digest of each output as the device returned it. An HDF5 file of the goldens' schema (goldens/format/golden.h), kind
// "record"; docs/records.md draws it.
//
// Errors: write_record as GoldenWriter; read_record Error{golden} for whatever is damaged, cut, or no record.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/case.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// XXH3 of 128 bits, as four words, the highest first. Of values with every NaN made the same one: IEEE 754
// leaves open which NaN an operation returns.
using OutputDigest = std::array<std::uint32_t, 4>;
OutputDigest digest_of(std::span<const std::byte> bytes);
void make_nans_equal(std::vector<std::byte>& values, const CallTensor& tensor);  // integers have none
bool nans_are_equal(const std::string& operation);                               // in its outputs

struct RecordedCall {
  int status = 0;  // mxcheck_status
  std::vector<OutputDigest> outputs;
};

struct RecordedCase {
  std::uint32_t statement = 0;  // of Record::statements
  Case c;
  std::vector<RecordedCall> calls;
};

// The bytes of an output of a small case, to look at where a digest would only say that something differs.
struct KeptOutput {
  std::uint32_t number = 0;  // among all outputs of all calls of all cases
  std::vector<std::byte> bytes;
};

struct Record {
  std::string suite;
  std::uint64_t seed = 0;
  std::string mxcheck;  // version and commit that made it
  CandidateInfo candidate;
  std::vector<Variant> variants;
  std::vector<std::string> statements;
  std::vector<RecordedCase> cases;
  std::vector<KeptOutput> kept;
};

void write_record(const std::string& path, const Record& record);
Record read_record(const std::string& path);

// A candidate that is written down as it answers: the gate asks this one, and says where cases begin and end.

class RecordingRunner final : public CandidateRunner {
 public:
  explicit RecordingRunner(CandidateRunner& candidate) : candidate_(candidate) {}

  [[nodiscard]] const CandidateInfo& info() const override { return candidate_.info(); }
  Outcome run(const Call& call) override;
  void restart() override { candidate_.restart(); }
  std::string end_in_order() override { return candidate_.end_in_order(); }
  [[nodiscard]] std::string why_no_model() const override { return candidate_.why_no_model(); }

  void begin_case() { calls_.clear(), small_.clear(); }
  // The calls since begin_case, as those of this case.
  void keep_case(const std::string& statement, const Case& c);

  // Cases and outputs so far; suite, seed and variants are the caller's.
  Record take();

 private:
  CandidateRunner& candidate_;
  Record record_;
  std::vector<RecordedCall> calls_;
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> small_;  // output's number in the case, and its bytes
  std::uint32_t outputs_ = 0;                                          // of all cases
  std::size_t kept_of_statement_ = 0;
};

}  // namespace mxcheck
