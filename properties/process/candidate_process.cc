// One class, its process's life and its calls: over 400 lines, since each half knows how the other leaves the process.

#include "properties/process/candidate_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/phases.h"
#include "properties/core/policy.h"
#include "properties/process/candidate_table.h"
#include "properties/process/deadline.h"
#include "properties/process/first_calls.h"
#include "properties/process/shared_call.h"

namespace mxcheck {
namespace {

constexpr std::chrono::seconds kTimeToImport{60};  // at least, of functions in Python
constexpr std::chrono::seconds kTimeToLoad{10};    // of libraries, on top of the limit of a call
constexpr std::chrono::seconds kTimeToEnd{10};
constexpr std::chrono::seconds kTimeToEndAgain{1};  // of a library that has taken all of that once
constexpr std::chrono::seconds kTimeToRepeat{10};   // what the worker gives itself for a call's repetitions

// XXH3 of the files' bytes, one after the other.
std::string digest_of_files(const std::set<std::string>& paths) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  }
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state.get())));
  return hex.data();
}

// An environment in the form that execvpe takes.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::string canonical_path(const std::string& path) {
  std::error_code unreadable;
  const auto canonical = std::filesystem::canonical(path, unreadable);
  return unreadable ? path : canonical.string();
}

// "key=value" lines.
std::vector<std::pair<std::string, std::string>> key_values(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos)
      pairs.emplace_back(printable(line.substr(0, equals).c_str()), printable(line.substr(equals + 1).c_str()));
  }
  return pairs;
}

// "number=UUID" lines.
std::vector<Gpu> gpus_in(const std::string& text) {
  std::vector<Gpu> gpus;
  for (const auto& [number, uuid] : key_values(text)) {
    if (const auto parsed = parse_number<int>(number)) gpus.push_back({*parsed, uuid});
  }
  return gpus;
}

// The text of a refusal: none where it is blank.
std::string message_in(const char* text) {
  const std::string_view all = text;
  const bool blank = std::ranges::all_of(all, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  return blank ? "" : printable(text);
}

}  // namespace

std::string printable(const char* text) {
  std::string out = text;
  for (char& c : out) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return out;
}

CandidateProcess::CandidateProcess(std::string tool, std::string library, TimeLimits limits,
                                   const std::string& gpu_model, std::vector<std::string> claims, GpusOfRun gpus)
    : tool_(std::move(tool)),
      claims_(std::move(claims)),
      library_(std::move(library)),
      limits_(limits),
      gpus_(std::move(gpus)) {
  if (limits_.memory == 0) limits_.memory = default_memory_limit();
  std::tie(gpu_model_, no_model_) = find_gpu_model(gpu_model, tool_);
  info_.path = library_;
  // Sealed: a library that made it shorter would end the gate by SIGBUS at its next look.
  shared_fd_ = memfd_create("mxcheck", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (shared_fd_ < 0) throw Error(ErrorKind::environment, "no shared memory: memfd_create failed");
  fcntl(shared_fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
  // Numbers that no library knows without reading the messages; others answer nothing by accident all the same.
  if (getrandom(&number_, sizeof(number_), GRND_NONBLOCK) < 0) number_ = 0x9E3779B97F4A7C15U;
  try {
    start();
  } catch (...) {  // no destructor runs for a constructor that throws
    stop();
    close(shared_fd_);
    throw;
  }
}

CandidateProcess::~CandidateProcess() {
  stop();
  if (shared_ != nullptr) munmap(shared_, shared_bytes_);
  if (shared_fd_ >= 0) close(shared_fd_);
}

void CandidateProcess::stop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (pid_ > 0) end_process(true);
}

// Waits for the process and returns how it ended. A process that closed its socket is dying, or was left without one by
// the library: it has half a second to end by itself, so that its own signal is seen. What it started ends with it.
int CandidateProcess::end_process(bool at_once) {
  int status = 0;
  pid_t done = 0;
  for (int tries = at_once ? 0 : 50; tries > 0 && done == 0; --tries) {
    done = waitpid(pid_, &status, WNOHANG);
    output_.read();
    if (done == 0) usleep(10'000);
  }
  kill(-pid_, SIGKILL);
  if (done == 0) kill(pid_, SIGKILL);
  while (done == 0 || (done < 0 && errno == EINTR)) done = waitpid(pid_, &status, 0);
  pid_ = -1;
  end_status_ = status;
  started_.end_orphans();
  output_.end();
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// The process ends when it is asked to: it leaves its loop, and exit() runs what the library registered for it.
std::string CandidateProcess::end_in_order() {
  if (pid_ < 0) return "";
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  const std::chrono::seconds limit = never_ends_ ? kTimeToEndAgain : kTimeToEnd;
  Deadline deadline(pid_, limit);
  int status = 0;
  pid_t done = 0;
  for (useconds_t pause = 200; done == 0; pause = std::min<useconds_t>(2 * pause, 20'000)) {
    output_.read();  // it may print more than a pipe holds
    done = waitpid(pid_, &status, WNOHANG);
    if (done != 0) break;
    if (deadline.left().count() < 0 || (interrupted_ != nullptr && interrupted_->load())) break;
    usleep(pause);
  }
  if (done != pid_) {
    const bool interrupted = interrupted_ != nullptr && interrupted_->load();
    stop();
    if (interrupted) return "";
    never_ends_ = true;
    return "the candidate's process did not end within " + std::to_string(limit.count()) + " s of being asked to";
  }
  kill(-pid_, SIGKILL);  // its group, then what left that
  pid_ = -1;
  started_.end_orphans();
  output_.end();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "the candidate's process died at its end (signal " + std::to_string(signal) + ", " + strsignal(signal) + ")";
  }
  if (WEXITSTATUS(status) == 0) return "";
  return "the candidate's process ended with status " + std::to_string(WEXITSTATUS(status)) + " in place of 0";
}

void CandidateProcess::restart() {
  stop();
  start();
}

void CandidateProcess::spread_over(GpusOfRun gpus) {
  gpus_ = std::move(gpus);
  restart();
}

std::string CandidateProcess::named() const {
  return "candidate " + library_ + (gpus_.all.empty() ? "" : " on " + to_text(gpus_.all[gpus_.own]));
}

void CandidateProcess::start() {
  const InPhase starting(Phase::start_up);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(ErrorKind::environment, "no socket pair for the candidate's process");
  }
  Launch launch;
  try {
    launch =
        launch_of(tool_, library_, ends[1], shared_fd_, gpu_model_, gpus_.all.empty() ? "" : gpus_.all[gpus_.own].uuid);
    if (!output_.open()) throw Error(ErrorKind::environment, "no pipe for what the candidate's process prints");
  } catch (...) {
    close(ends[0]), close(ends[1]);
    throw;
  }
  const std::vector<char*> arguments = pointers(launch.arguments), environment = pointers(launch.environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    close(ends[0]), close(ends[1]);
    output_.end();
    throw Error(ErrorKind::environment, "the candidate's process cannot be started: fork failed");
  }
  if (pid_ == 0) {
    // A group of its own: a Ctrl-C for the gate is no crash of the candidate, and what the library starts can be ended.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    started_.mark();
    output_.redirect();
    fcntl(ends[1], F_SETFD, 0);
    fcntl(shared_fd_, F_SETFD, 0);
    execvpe(launch.program.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  setpgid(pid_, pid_);  // here too: whichever of the two comes first
  close(ends[1]);
  output_.close_other_end();
  socket_ = ends[0];
  first_calls_.forget();
  cpu_counted_ = 0;
  wire::Reply reply;
  const std::chrono::milliseconds limit = is_python(library_)
                                              ? std::max<std::chrono::milliseconds>(kTimeToImport, limits_.first_call)
                                              : limits_.call + kTimeToLoad;
  if (!exchange({}, reply, limit)) {
    throw Error(ErrorKind::usage, named() + " " +
                                      (!ended_.empty() ? ended_
                                       : timed_out_    ? "did not finish loading within " +
                                                          std::to_string(limit / std::chrono::seconds(1)) + " s"
                                                    : early_end(launch, library_, end_status_)));
  }
  if (reply.status != 0) {
    throw Error(reply.environment != 0 ? ErrorKind::environment : ErrorKind::usage,
                named() + " " + printable(reply.message));
  }
  info_.name = printable(reply.name), info_.version = printable(reply.version), info_.cuda = reply.device == kDLCUDA;
  info_.adapted = reply.adapted != 0, static_shapes_ = reply.static_shapes != 0;
  if (reply.device != kDLCPU && reply.device != kDLCUDA) {
    throw Error(ErrorKind::environment, named() + " wants DLPack device kind " + std::to_string(reply.device) +
                                            "; the gate has the host (1) and CUDA (2)");
  }
  info_.device = key_values(reply.device_text), info_.gpus = gpus_in(reply.gpus);
  info_.operations =
      operations_in({reply.operations, static_cast<std::size_t>(reply.num_operations)}, claims_, library_);
  info_.unconfined = printable(reply.unconfined);
  info_.sources = read_text(wire::Request::sources);
  if (info_.digest.empty()) info_.digest = digest();
}

// The digest of the library and of the files that loading it has mapped beside those of the system.
std::string CandidateProcess::digest() {
  std::set<std::string> files{library_};
  const std::string own = canonical_path(library_);
  std::istringstream lines(read_text(wire::Request::files));
  for (std::string line; std::getline(lines, line);) {
    if (line != own) files.insert(line);
  }
  return digest_of_files(files);
}

int CandidateProcess::operation_index(const std::string& name) const {
  for (std::size_t i = 0; i < info_.operations.size(); ++i) {
    if (info_.operations[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// In pieces of a message's text; a library that goes on for ever is cut off.
std::string CandidateProcess::read_text(wire::Request what) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::string text;
  while (text.size() < kMost) {
    wire::Message message;
    message.request = what;
    message.byte_offset = text.size();
    message.shared_bytes = shared_bytes_;
    wire::Reply reply;
    if (!exchange(message, reply, limits_.call)) {
      throw Error(ErrorKind::usage, "candidate " + library_ + " " + (ended_.empty() ? "crashed" : ended_) +
                                        " while it was asked what it is made of");
    }
    if (reply.message[0] == '\0') break;
    text += reply.message;
  }
  return text;
}

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

namespace {

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
