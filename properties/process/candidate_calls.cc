// The calls of a candidate's process: one exchange of messages, questions to supports(), a call and its outcome, many
// calls at once.

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/phases.h"
#include "properties/process/candidate_process.h"
#include "properties/process/deadline.h"
#include "properties/process/first_calls.h"
#include "properties/process/shared_call.h"

namespace mxcheck {
namespace {

constexpr std::chrono::seconds kTimeToRepeat{10};  // what the worker gives itself for a call's repetitions

// The text of a refusal: none where it is blank.
std::string message_in(const char* text) {
  const std::string_view all = text;
  const bool blank = std::ranges::all_of(all, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  return blank ? "" : printable(text);
}

constexpr std::uint64_t kPerSecond = 20'000'000;  // bytes, beside the limit of one call: as CandidateProcess::run

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + wire::kPage - 1) / wire::kPage * wire::kPage; }

Outcome outcome_of(const SharedCall& shared, const std::byte* base, wire::CallResult result) {
  Outcome outcome;
  outcome.status = result.status;
  result.message[sizeof(result.message) - 1] = '\0';
  outcome.message = message_in(result.message);
  if (result.workspace_broken != 0) outcome.out_of_bounds = "past its workspace";
  shared.read(base, outcome);
  return outcome;
}

}  // namespace

// Looked at while it is waited for, at most ten times a second. The shared memory is as large as the gate made it,
// unless the library took more there. RLIMIT_AS would forbid what CUDA reserves, and a library would die without a word
// of why.
bool CandidateProcess::takes_too_much() {
  const auto now = std::chrono::steady_clock::now();
  if (now - memory_seen_ < std::chrono::milliseconds(100)) return false;
  memory_seen_ = now;
  struct stat shared {};
  fstat(shared_fd_, &shared);
  const std::uint64_t in_shared = 512 * static_cast<std::uint64_t>(shared.st_blocks);
  const std::uint64_t bytes = own_memory(pid_) + (in_shared > shared_bytes_ ? in_shared - shared_bytes_ : 0);
  if (bytes <= limits_.memory) return false;
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "took more than %.3g GB of memory, its limit (--memory-limit)",
                1e-9 * static_cast<double>(limits_.memory));
  ended_ = text.data();
  return true;
}

// True if a reply came whole; else timed_out_ or ended_ may say why not.
bool CandidateProcess::receive(wire::Reply& reply, std::chrono::milliseconds limit) {
  Deadline deadline(pid_, limit);
  auto* into = reinterpret_cast<char*>(&reply);
  for (std::size_t got = 0; got < sizeof(reply);) {
    const auto left = deadline.left().count();
    std::array<pollfd, 2> waiting{{{socket_, POLLIN, 0}, {output_.descriptor(), POLLIN, 0}}};
    const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<long>(left, 0, 100)));
    if (ready > 0 && waiting[1].revents != 0) output_.read();
    if (takes_too_much()) return false;
    if (ready <= 0 || waiting[0].revents == 0) {
      if (interrupted_ != nullptr && interrupted_->load()) {
        stop();
        throw Interrupted();
      }
      timed_out_ = left <= 0;
      if (timed_out_) return false;
      continue;
    }
    const ssize_t n = recv(socket_, into + got, sizeof(reply) - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
    timed_out_ = left <= 0 && got < sizeof(reply);  // a worker sends all at once
    if (timed_out_) return false;
  }
  return true;
}

bool CandidateProcess::exchange(wire::Message message, wire::Reply& reply, std::chrono::milliseconds limit) {
  timed_out_ = false, signal_ = 0, ended_.clear();
  message.number = ++number_;
  if (send(socket_, &message, sizeof(message), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(message)) &&
      receive(reply, limit)) {
    const std::string problem = reply_problem(message, reply);
    if (problem.empty()) {
      count_cpu();
      return true;
    }
    ended_ = "wrote to the gate's socket: what came as the reply " + problem;
  }
  signal_ = end_process(timed_out_ || !ended_.empty());
  stop();
  return false;
}

// Adds the CPU time that the process has used since the last look to the phase in which this thread waited for it.
void CandidateProcess::count_cpu() {
  PhaseClock* const phases = PhaseClock::of_this_thread();
  clockid_t clock{};
  timespec now{};
  if (phases == nullptr || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &now) != 0) return;
  const double used = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  phases->add_cpu(used - cpu_counted_);
  cpu_counted_ = used;
}

// A question takes less time than its exchange: many are asked with one. Where that takes too long, they are asked one
// by one in a fresh process, since the time limit is that of one.
std::vector<bool> CandidateProcess::supports(const std::string& operation, const std::vector<Question>& questions) {
  std::vector<bool> supported(questions.size());
  wire::Message message;
  message.request = wire::Request::supports;
  message.operation = operation_index(operation);
  if (message.operation < 0) return supported;
  for (std::size_t first = 0; first < questions.size();) {
    if (pid_ < 0) start();
    const std::size_t count = std::min(questions_at_once_, questions.size() - first);
    std::byte* const base = reserve(count * sizeof(wire::Question));
    message.shared_bytes = shared_bytes_, message.questions = static_cast<std::uint32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const wire::Question question = on_the_wire(questions[first + i]);
      std::memcpy(base + i * sizeof(question), &question, sizeof(question));
    }
    wire::Reply reply;
    if (exchange(message, reply, limits_.call)) {
      for (std::size_t i = 0; i < count; ++i) {
        wire::Question answered;
        std::memcpy(&answered, base + i * sizeof(answered), sizeof(answered));
        supported[first + i] = answered.status == MXCHECK_OK;
      }
      first += count;
    } else if (timed_out_ && questions_at_once_ > 1) {
      questions_at_once_ = 1;
    } else {
      throw Error(ErrorKind::usage, "candidate " + library_ + ": supports() of operation " + operation +
                                        (!ended_.empty() ? " " + ended_
                                         : timed_out_    ? " does not return"
                                                         : " crashes"));
    }
  }
  return supported;
}

std::byte* CandidateProcess::reserve(std::uint64_t bytes) {
  if (bytes <= shared_bytes_) return shared_;
  const std::uint64_t wanted = round_up(bytes + bytes / 4, 1 << 20);
  if (shared_ != nullptr) munmap(shared_, shared_bytes_);
  shared_ = nullptr, shared_bytes_ = 0;
  // A library may have made it longer, which nothing keeps it from.
  struct stat is {};
  const bool long_enough = fstat(shared_fd_, &is) == 0 && static_cast<std::uint64_t>(is.st_size) >= wanted;
  if (!long_enough && ftruncate(shared_fd_, static_cast<off_t>(wanted)) != 0) {
    throw Error(ErrorKind::environment, "no memory for a case of " + std::to_string(wanted) + " bytes");
  }
  void* base = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd_, 0);
  if (base == MAP_FAILED) {
    throw Error(ErrorKind::environment, "no address space for a case of " + std::to_string(wanted) + " bytes");
  }
  shared_ = static_cast<std::byte*>(base), shared_bytes_ = wanted;
  return shared_;
}

Outcome CandidateProcess::without_answer() const {
  Outcome outcome;
  outcome.kind = timed_out_ ? OutcomeKind::timed_out : OutcomeKind::crashed;
  outcome.signal = signal_, outcome.ended = ended_;
  return outcome;
}

Outcome CandidateProcess::run(const Call& call) {
  if (pid_ < 0) start();
  const InPhase calling(Phase::calls);
  const SharedCall shared(call);
  std::byte* base = reserve(shared.bytes_with_between());
  wire::Message message = shared.message();
  message.request = wire::Request::run;
  message.operation = operation_index(call.operation);
  message.shared_bytes = shared_bytes_;
  if (call.model) message.request = wire::Request::compare, message.model = *call.model;
  shared.write(base);
  shared.write_between(base, message);

  Outcome outcome;
  wire::Reply reply;
  const std::uint64_t all_bytes = shared.bytes_with_between() + shared.bytes_on_device();
  const bool first = info_.adapted && first_calls_.is_first(call.operation, message, static_shapes_);
  auto limit = first ? std::max(limits_.call, limits_.first_call) : limits_.call;
  limit += std::chrono::milliseconds(all_bytes / 20'000);  // 20 MB/s on top
  if (call.repeat != 0) limit += kTimeToRepeat;
  const auto begin = std::chrono::steady_clock::now();
  const bool answered = exchange(message, reply, limit);
  if (first) first_calls_.took(std::chrono::steady_clock::now() - begin);
  if (!answered) {
    outcome = without_answer();
    outcome.first_of_its_kind = first && timed_out_;
    return outcome;
  }
  if (call.model) outcome.comparison = reply.comparison, outcome.not_compared = printable(reply.comparison.problem);
  if (reply.device_error[0] != '\0') {
    stop();
    if (!outcome.not_compared.empty()) return outcome;  // the model's, after the candidate had ended well
    outcome.kind = OutcomeKind::crashed;
    outcome.device_error = printable(reply.device_error);
    return outcome;
  }
  if (reply.conduct[0] != '\0') outcome.conduct = printable(reply.conduct);
  outcome.status = reply.status;
  outcome.memory = reply.memory;
  outcome.message = message_in(reply.message);
  if (reply.workspace_broken != 0) outcome.out_of_bounds = "past its workspace";
  const InPhase reading(Phase::comparison);
  if (reply.zones_broken != 0) outcome.out_of_bounds = "before or past an output";
  shared.read(base, outcome);
  return outcome;
}

// Many calls with one exchange: where the calls are short, the exchange is what takes the time.

Outcome CandidateProcess::run_burst(const Call& call, std::uint32_t calls,
                                    const std::vector<std::span<const std::byte>>& expected,
                                    const std::function<void(std::uint32_t, Outcome&&)>& look) {
  if (calls < 1 || calls > kMostOfBurst || info_.cuda || call.guard_pages)
    throw Error(ErrorKind::internal, "a burst is of 1 to 64 calls of a host library, without guard pages");
  if (pid_ < 0) start();
  const SharedCall shared(call);
  const std::uint64_t step = whole_pages(std::max<std::uint64_t>(1, shared.bytes()));
  const std::uint64_t results = calls * step;
  std::byte* base = reserve(results + calls * sizeof(wire::CallResult));
  wire::Message message = shared.message();
  message.request = wire::Request::run;
  message.operation = operation_index(call.operation);
  message.shared_bytes = shared_bytes_;
  message.burst = calls, message.burst_step = step;
  for (std::uint32_t i = 0; i < calls; ++i) shared.write(base + i * step);
  std::memset(base + results, 0xFF, calls * sizeof(wire::CallResult));  // what is not answered is no MXCHECK_OK

  Outcome outcome;
  wire::Reply reply;
  if (!exchange(message, reply,
                (info_.adapted ? std::max(limits_.call, limits_.first_call) : limits_.call) +
                    std::chrono::milliseconds(1000 * results / kPerSecond))) {
    return without_answer();
  }
  if (reply.conduct[0] != '\0') outcome.conduct = printable(reply.conduct);
  for (std::uint32_t i = 0; i < calls; ++i) {
    wire::CallResult result;
    std::memcpy(&result, base + results + i * sizeof(result), sizeof(result));
    const bool right = result.status == MXCHECK_OK && result.workspace_broken == 0;
    if (!right || !shared.holds(base + i * step, expected)) look(i, outcome_of(shared, base + i * step, result));
  }
  return outcome;
}

}  // namespace mxcheck
