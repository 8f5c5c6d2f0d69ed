// The life of a candidate's process: start, what it offers and is made of, end. Its calls are in candidate_calls.cc.

#include "properties/process/candidate_process.h"

#include <fcntl.h>
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
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/phases.h"
#include "properties/process/candidate_table.h"
#include "properties/process/deadline.h"

namespace mxcheck {
namespace {

constexpr std::chrono::seconds kTimeToImport{60};  // at least, of functions in Python
constexpr std::chrono::seconds kTimeToLoad{10};    // of libraries, on top of the limit of a call
constexpr std::chrono::seconds kTimeToEnd{10};
constexpr std::chrono::seconds kTimeToEndAgain{1};  // of a library that has taken all of that once

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
  if (WEXITSTATUS(status) == wire::status_of_end(number_)) return "";
  return "the candidate's process did not end by itself: something in it ended it, with status " +
         std::to_string(WEXITSTATUS(status));
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

}  // namespace mxcheck
