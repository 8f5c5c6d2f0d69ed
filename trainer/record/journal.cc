#include "trainer/record/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "goldens/io/byte_source.h"
#include "numerics/byte_stream.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "trainer/config/config.h"
#include "trainer/record/run_file.h"

namespace mxcheck {
namespace {

constexpr std::string_view kStart = "mxcheck parity journal 1\n";
constexpr std::string_view kStartOfAny = "mxcheck parity journal ";
constexpr std::uint32_t kHeaderType = 0;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  constexpr std::array kMachine{ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE};
  const bool machine = std::find(kMachine.begin(), kMachine.end(), error) != kMachine.end();
  throw Error(machine ? ErrorKind::environment : ErrorKind::usage, path + ": " + what + ": " + std::strerror(error));
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// A run appends each record when it is due (RunPlan): where a later one is there without it, it was taken out.
class Sequence {
 public:
  explicit Sequence(const RunRecord& run) : run_(run), next_(run.first_step()) {}

  // The record that must come before this one and does not; empty where none is missing. The run is as it was before.
  [[nodiscard]] std::string missing_before(const JournalEntry& entry) const {
    if (const auto* step = std::get_if<JournalStep>(&entry)) return before_step(step->step);
    if (const auto* evaluation = std::get_if<RecordedEvaluation>(&entry)) return before_evaluation(evaluation->step);
    if (const auto* observation = std::get_if<RecordedObservation>(&entry)) return before(observation->step + 1);
    if (const auto* witness = std::get_if<RecordedWitness>(&entry)) return before(witness->step + 1);
    const auto* end = std::get_if<RunEnd>(&entry);
    return end != nullptr && *end != RunEnd::unfinished ? before_end(*end) : "";
  }

  void took(const JournalEntry& entry) {
    if (const auto* step = std::get_if<JournalStep>(&entry)) next_ = step->step + 1;
    if (const auto* sitting = std::get_if<JournalSitting>(&entry)) next_ = sitting->step;
  }

 private:
  // Steps up to `steps`.
  [[nodiscard]] std::string before(std::int64_t steps) const {
    return steps > next_ && next_ < run_.config.steps ? "step " + std::to_string(next_) : "";
  }

  [[nodiscard]] std::string before_evaluation(std::int64_t steps) const {
    const std::string missing = before(steps);
    return missing.empty() ? beside(next_ - 1) : missing;
  }

  [[nodiscard]] std::string before_step(std::int64_t step) const {
    if (std::string missing = before(step); !missing.empty()) return missing;
    if (step < next_) return "the sitting that goes on from step " + std::to_string(step);
    if (std::string missing = evaluation(step, run_.plan.evaluates_before(step)); !missing.empty()) return missing;
    return beside(step - 1);
  }

  [[nodiscard]] std::string before_end(RunEnd end) const {
    std::string missing;
    if (end == RunEnd::finished) {
      missing = before(run_.config.steps);
      if (missing.empty()) missing = evaluation(run_.config.steps, true);
    }
    return missing.empty() ? beside(next_ - 1) : missing;
  }

  [[nodiscard]] std::string evaluation(std::int64_t step, bool due) const {
    return due && !has(run_.evaluations, step) ? "the evaluation after " + std::to_string(step) + " steps" : "";
  }

  // The entry that is due after a step and missing. A step that ended in a layer, its loss NaN, may have none.
  [[nodiscard]] std::string beside(std::int64_t step) const {
    if (step < run_.first_step() || step >= run_.steps_done()) return "";
    if (std::isnan(std::bit_cast<float>(run_.step(step).loss))) return "";
    const std::string of = " of step " + std::to_string(step);
    if (run_.plan.observes(step) && !has(run_.observations, step)) return "the observation" + of;
    return run_.plan.witnesses(step, run_.config.steps) && !has(run_.witnesses, step) ? "the witness" + of : "";
  }

  template <class Entry>
  static bool has(const std::vector<Entry>& entries, std::int64_t step) {
    const auto at = std::lower_bound(entries.begin(), entries.end(), step,
                                     [](const Entry& e, std::int64_t wanted) { return e.step < wanted; });
    return at != entries.end() && at->step == step;
  }

  const RunRecord& run_;
  std::int64_t next_;  // step that comes next in this sitting
};

JournalContents contents_of(std::span<const std::byte> bytes, const std::string& path) {
  if (!begins_with(bytes, kStart)) {
    refuse(path, begins_with(bytes, kStartOfAny) ? "a journal of another version; this build reads version 1"
                                                 : "no journal of a run; one begins with 'mxcheck parity journal 1'");
  }
  const Frames all = frames_in(bytes, kStart.size(), path);
  if (all.frames.empty()) refuse(path, "holds no whole record, so nothing of a run: remove it");
  const auto where = [&](const Frame& frame) { return path + ": record at byte " + std::to_string(frame.at); };
  if (all.frames[0].type != kHeaderType) refuse(where(all.frames[0]), "no header; a journal begins with one");
  JournalContents contents{run_of_header(all.frames[0].payload, where(all.frames[0])), all.whole_bytes,
                           bytes.size() - all.whole_bytes};
  Sequence sequence(contents.record);
  for (const Frame& frame : std::span(all.frames).subspan(1)) {
    const JournalEntry entry = entry_of(frame.type, frame.payload, where(frame));
    if (const std::string missing = sequence.missing_before(entry); !missing.empty())
      refuse(where(frame), "the record of " + missing + " must come before it, and is missing");
    add(contents.record, entry, where(frame));
    sequence.took(entry);
  }
  return contents;
}

}  // namespace

std::filesystem::path journal_path(const std::filesystem::path& run) {
  std::filesystem::path path = run;
  return path += ".journal";
}

JournalContents read_journal(const std::filesystem::path& path) {
  const FileSource source(path.string());
  std::vector<std::byte> bytes = room_for(source.size(), path.string());
  source.read(0, bytes);
  return contents_of(bytes, path.string());
}

Journal::Journal(const std::filesystem::path& path, int flags) : path_(path.string()) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, kMode);  // O_NONBLOCK: a FIFO does not hold us
  if (fd_ < 0) fail(path_, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw Error(ErrorKind::usage, path_ + ": is " + kind_of_file(status.st_mode) + ", no file");
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(fd_);
  if (error != EWOULDBLOCK) fail(path_, "cannot be locked", error);
  throw Error(ErrorKind::usage, path_ + ": another process writes this run; wait for its end");
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), contents_(std::move(other.contents_)) {}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

// Checks that the locked file still has its name, which another process could have taken before the lock, and that only
// the beginning of a journal would be lost.
void Journal::require_begun(const std::filesystem::path& path) const {
  struct stat here {};
  struct stat there {};
  const bool same = ::fstat(fd_, &here) == 0 && ::lstat(path.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
                    here.st_ino == there.st_ino;
  if (!same) throw Error(ErrorKind::usage, path_ + ": another process writes this run; wait for its end");
  std::string bytes(kStart.size(), '\0');
  const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), 0);
  if (got < 0) fail(path.string(), "cannot be read", errno);
  bytes.resize(static_cast<std::size_t>(got));
  if (!kStart.starts_with(bytes))
    throw Error(ErrorKind::usage,
                path.string() + ": is no journal that was begun; a journal is made under this name first");
}

Journal Journal::create(const std::filesystem::path& path, const RunRecord& about) {
  if (const std::string wrong = objection_to_head(about); !wrong.empty()) {
    throw Error(ErrorKind::usage, path.string() + ": " + wrong);
  }
  // Under its own name only when it has its header: a kill before that leaves no journal that nobody can go on with.
  std::filesystem::path begun = path;
  begun += "~";
  Journal journal(begun, O_CREAT | O_NOFOLLOW);
  journal.path_ = path.string();  // for messages
  journal.require_begun(begun);
  const std::vector<std::byte> header = frame_of(kHeaderType, header_payload(about));
  try {
    std::error_code error;
    if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found)
      throw Error(ErrorKind::usage, journal.path_ + ": there is a journal already: resume that run, or remove it");
    if (::ftruncate(journal.fd_, 0) != 0) fail(journal.path_, "writing failed", errno);
    journal.write(bytes_of(kStart));
    journal.write(header);
    journal.sync();
    if (::rename(begun.c_str(), path.c_str()) != 0) fail(journal.path_, "cannot be written", errno);
  } catch (...) {
    ::unlink(begun.c_str());  // this process holds its lock
    throw;
  }
  journal.contents_.record = run_of_header(std::span(header).subspan(kFrameHead), journal.path_);
  return journal;
}

Journal Journal::resume(const std::filesystem::path& path) {
  Journal journal(path, 0);
  journal.contents_ = read_journal(path);
  if (journal.contents_.torn_bytes > 0 &&
      ::ftruncate(journal.fd_, static_cast<off_t>(journal.contents_.whole_bytes)) != 0) {
    fail(journal.path_, "its torn tail cannot be dropped", errno);
  }
  return journal;
}

void Journal::append(const JournalEntry& entry) {
  const std::vector<std::byte> frame = frame_of(type_of(entry), payload_of(entry));
  add(contents_.record, entry, path_);
  write(frame);
}

void Journal::write(std::span<const std::byte> bytes) {
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(contents_.whole_bytes + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Bytes written so far are a torn tail, which readers drop; where ftruncate fails too, they still do.
      static_cast<void>(::ftruncate(fd_, static_cast<off_t>(contents_.whole_bytes)));
      fail(path_, "writing failed", error);
    }
    done += static_cast<std::uint64_t>(written);
  }
  contents_.whole_bytes += done;
}

void Journal::sync() {
  if (::fsync(fd_) != 0) fail(path_, "writing failed", errno);
}

namespace {

struct Put {
  ByteWriter to;

  void operator()(const JournalStep& s) {
    const RecordedStep& r = s.recorded;
    to.number(s.step);
    for (const std::uint32_t bits : {r.loss, r.balance_loss, r.gradient_norm, r.rate}) to.number(bits);
    to.number(r.weights), to.number(r.skipped), to.number(s.seconds);
  }
  void operator()(const RecordedEvaluation& e) {
    to.number(e.step), to.number(e.loss_bf16), to.number(e.loss_own), to.list(e.equal_routes), to.number(e.routes);
  }
  void operator()(const RecordedObservation& o) {
    to.number(o.step), to.number<std::uint64_t>(o.layers.size());
    for (const LayerObservation& layer : o.layers) {
      to.list(layer.expert_loads), to.number(layer.output_digest);
      to.number<std::uint64_t>(layer.operands.size());
      for (const OperandFacts& f : layer.operands) {
        to.text(f.name);
        for (const std::int64_t n : {f.elements, f.saturated, f.flushed, f.scales}) to.number(n);
        to.number(f.least_exponent), to.number(f.largest_exponent);
      }
    }
  }
  void operator()(const RecordedWitness& w) { to.number(w.step), to.list(w.parameters), to.list(w.layers); }
  void operator()(const JournalSitting& s) { to.number(s.step), to.text(s.started); }
  void operator()(const RunEnd& end) { to.text(to_text(end)); }
};

JournalStep take_step(ByteReader& from) {
  JournalStep s;
  s.step = from.number<std::int64_t>();
  RecordedStep& r = s.recorded;
  for (std::uint32_t* bits : {&r.loss, &r.balance_loss, &r.gradient_norm, &r.rate}) {
    *bits = from.number<std::uint32_t>();
  }
  r.weights = from.number<std::uint64_t>();
  r.skipped = from.number<std::int64_t>();
  s.seconds = from.number<double>();
  return s;
}

RecordedEvaluation take_evaluation(ByteReader& from) {
  RecordedEvaluation e;
  e.step = from.number<std::int64_t>();
  e.loss_bf16 = from.number<std::uint32_t>();
  e.loss_own = from.number<std::uint32_t>();
  e.equal_routes = from.list<std::int64_t>();
  e.routes = from.number<std::int64_t>();
  return e;
}

OperandFacts take_operand(ByteReader& from) {
  OperandFacts f;
  f.name = from.text();
  for (std::int64_t* n : {&f.elements, &f.saturated, &f.flushed, &f.scales}) *n = from.number<std::int64_t>();
  f.least_exponent = from.number<std::int32_t>();
  f.largest_exponent = from.number<std::int32_t>();
  return f;
}

RecordedObservation take_observation(ByteReader& from) {
  RecordedObservation o;
  o.step = from.number<std::int64_t>();
  for (std::uint64_t layers = from.length(1); layers > 0; --layers) {
    LayerObservation layer;
    layer.expert_loads = from.list<std::int64_t>();
    layer.output_digest = from.number<std::uint64_t>();
    for (std::uint64_t operands = from.length(1); operands > 0; --operands)
      layer.operands.push_back(take_operand(from));
    o.layers.push_back(std::move(layer));
  }
  return o;
}

RecordedWitness take_witness(ByteReader& from) {
  RecordedWitness w;
  w.step = from.number<std::int64_t>();
  w.parameters = from.list<std::uint64_t>();
  w.layers = from.list<std::uint64_t>();
  return w;
}

JournalSitting take_sitting(ByteReader& from) {
  JournalSitting s;
  s.step = from.number<std::int64_t>();
  s.started = from.text();
  return s;
}

JournalEntry take(std::uint32_t type, ByteReader& from) {
  switch (type) {
    case 1: return take_step(from);
    case 2: return take_evaluation(from);
    case 3: return take_observation(from);
    case 4: return take_witness(from);
    case 5: return take_sitting(from);
    case 6: return run_end_named(from.text());
    default: from.refuse("a record of type " + std::to_string(type) + "; there are 1 to 6");
  }
}

struct Add {
  RunRecord& run;
  const std::string& where;

  [[noreturn]] void refuse(const std::string& what) const { throw Error(ErrorKind::input, where + ": " + what); }
  template <class Entry>
  void check(const Entry& entry) const {
    if (const std::string wrong = objection(run, entry); !wrong.empty()) refuse(wrong);
  }
  [[noreturn]] void differs(const char* what, std::int64_t step) const {
    refuse(std::string(what) + " of step " + std::to_string(step) +
           " was computed twice, to different bits: the machine or the program is not the one it was");
  }

  void operator()(const JournalStep& s) const {
    const std::int64_t steps = run.steps_done();
    if (s.step < run.first_step() || s.step > steps || s.step >= run.config.steps) {
      refuse("step " + std::to_string(s.step) + " after " + std::to_string(steps) + " steps of " +
             std::to_string(run.config.steps));
    }
    check(s.recorded);
    if (!(std::isfinite(run.seconds + s.seconds) && s.seconds >= 0)) {
      refuse("a step's seconds are no finite number of at least 0, or those of all steps together");
    }
    if (s.step < steps && run.step(s.step) != s.recorded) differs("step", s.step);
    if (s.step == steps) run.steps.push_back(s.recorded);
    run.seconds += s.seconds;
  }
  void operator()(const RecordedEvaluation& e) const { insert(run.evaluations, e, "evaluation"); }
  void operator()(const RecordedObservation& o) const { insert(run.observations, o, "observation"); }
  void operator()(const RecordedWitness& w) const { insert(run.witnesses, w, "witness"); }
  void operator()(const JournalSitting& s) const {
    if (s.step < run.first_step() || s.step > run.steps_done()) {
      refuse("a sitting that begins at step " + std::to_string(s.step) + " after " + std::to_string(run.steps_done()) +
             " steps");
    }
    ++run.sittings;
    run.end = RunEnd::unfinished;
  }
  void operator()(const RunEnd& end) const {
    if (end == RunEnd::finished && run.steps_done() != run.config.steps) {
      refuse("finished after " + std::to_string(run.steps_done()) + " steps of " + std::to_string(run.config.steps));
    }
    run.end = end;
  }

  template <class Entry>
  void insert(std::vector<Entry>& entries, const Entry& entry, const char* what) const {
    check(entry);
    const auto at = std::lower_bound(entries.begin(), entries.end(), entry.step,
                                     [](const Entry& e, std::int64_t step) { return e.step < step; });
    if (at == entries.end() || at->step != entry.step) {
      entries.insert(at, entry);
    } else if (!(*at == entry)) {
      differs(what, entry.step);
    }
  }
};

}  // namespace

std::vector<std::byte> payload_of(const JournalEntry& entry) {
  Put put;
  std::visit(put, entry);
  return put.to.bytes();
}

JournalEntry entry_of(std::uint32_t type, std::span<const std::byte> payload, const std::string& where) {
  ByteReader from(payload, where);
  try {
    JournalEntry entry = take(type, from);
    from.finish();
    return entry;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::input) throw;
    from.refuse(one_line(e.what()));
  }
}

std::vector<std::byte> header_payload(const RunRecord& run) {
  ByteWriter to;
  to.text(to_json(run.config));
  for (const std::string* text : {&run.corpus, &run.training_sha256, &run.validation_sha256, &run.mxcheck, &run.engine,
                                  &run.device, &run.started}) {
    to.text(*text);
  }
  for (const std::int64_t n : {run.training_bytes, run.validation_bytes, run.plan.validation_sequences,
                               run.plan.evaluate_every, run.plan.observe_every, run.plan.checkpoint_every}) {
    to.number(n);
  }
  to.list(run.plan.kept);
  if (run.branch)
    to.text(run.branch->trunk), to.text(run.branch->file), to.number(run.branch->step), to.number(run.branch->weights);
  return to.bytes();
}

RunRecord run_of_header(std::span<const std::byte> payload, const std::string& where) {
  ByteReader from(payload, where);
  RunRecord run;
  try {
    run.config = config_from_json(from.text(), where);
  } catch (const Error& e) {
    throw Error(ErrorKind::input, e.what());
  }
  for (std::string* text : {&run.corpus, &run.training_sha256, &run.validation_sha256, &run.mxcheck, &run.engine,
                            &run.device, &run.started}) {
    *text = from.text();
  }
  for (std::int64_t* n : {&run.training_bytes, &run.validation_bytes, &run.plan.validation_sequences,
                          &run.plan.evaluate_every, &run.plan.observe_every, &run.plan.checkpoint_every}) {
    *n = from.number<std::int64_t>();
  }
  run.plan.kept = from.list<std::int64_t>();
  if (!from.at_end()) {  // of a branch
    RunBranch& branch = run.branch.emplace();
    branch.trunk = from.text();
    branch.file = from.text();
    branch.step = from.number<std::int64_t>();
    branch.weights = from.number<std::uint64_t>();
  }
  from.finish();
  if (const std::string wrong = objection_to_head(run); !wrong.empty()) from.refuse(wrong);
  return run;
}

void add(RunRecord& run, const JournalEntry& entry, const std::string& where) { std::visit(Add{run, where}, entry); }

namespace {

constexpr std::uint32_t kMark = 0x4D584A52;

std::uint64_t checksum(std::uint32_t type, std::span<const std::byte> payload) {
  ByteWriter head;
  head.number(type);
  head.number<std::uint64_t>(payload.size());
  // The head's hash is the payload's seed: one pass over each, and both count.
  const XXH64_hash_t seed = XXH3_64bits(head.bytes().data(), head.bytes().size());
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

template <class T>
T number_at(std::span<const std::byte> bytes, std::uint64_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The payload of a frame that begins here, by mark and length alone.
std::optional<std::span<const std::byte>> payload_at(std::span<const std::byte> bytes, std::uint64_t at) {
  if (bytes.size() - at < kFrameHead || number_at<std::uint32_t>(bytes, at) != kMark) return std::nullopt;
  const auto length = number_at<std::uint64_t>(bytes, at + 8);
  if (length > kMostPayload || length > bytes.size() - at - kFrameHead) return std::nullopt;
  return bytes.subspan(at + kFrameHead, length);
}

// The whole frame that begins here, if one does.
std::optional<Frame> frame_at(std::span<const std::byte> bytes, std::uint64_t at) {
  const auto begun = payload_at(bytes, at);
  if (!begun) return std::nullopt;
  const std::span<const std::byte> payload = *begun;
  const auto type = number_at<std::uint32_t>(bytes, at + 4);
  if (checksum(type, payload) != number_at<std::uint64_t>(bytes, at + 16)) return std::nullopt;
  return Frame{type, at, payload};
}

}  // namespace

std::vector<std::byte> frame_of(std::uint32_t type, std::span<const std::byte> payload) {
  if (payload.size() > kMostPayload) {
    throw Error(ErrorKind::usage, "a journal's record of " + std::to_string(payload.size()) + " bytes; at most " +
                                      std::to_string(kMostPayload));
  }
  ByteWriter to;
  to.number(kMark);
  to.number(type);
  to.number<std::uint64_t>(payload.size());
  to.number(checksum(type, payload));
  to.append(payload);
  return to.bytes();
}

Frames frames_in(std::span<const std::byte> bytes, std::uint64_t begin, const std::string& where) {
  Frames all{{}, begin};
  while (all.whole_bytes < bytes.size()) {
    const std::optional<Frame> frame = frame_at(bytes, all.whole_bytes);
    if (!frame) break;
    all.frames.push_back(*frame);
    all.whole_bytes += kFrameHead + frame->payload.size();
  }
  // A torn tail holds no mark but its own, but by chance: one full of marks would take the square of its length.
  std::uint64_t hashed = 0;
  const std::uint64_t most = 4 * (bytes.size() + kMostPayload);
  for (std::uint64_t at = all.whole_bytes; at < bytes.size(); ++at) {
    const auto payload = payload_at(bytes, at);
    if (!payload) continue;
    hashed += payload->size();
    if (hashed > most) {
      throw Error(ErrorKind::input, where + ": damaged at byte " + std::to_string(all.whole_bytes) +
                                        ": no record is there, and what follows is full of marks of records");
    }
    if (!frame_at(bytes, at)) continue;
    throw Error(ErrorKind::input, where + ": damaged at byte " + std::to_string(all.whole_bytes) +
                                      ": no record is there, but one follows at byte " + std::to_string(at));
  }
  return all;
}

}  // namespace mxcheck
