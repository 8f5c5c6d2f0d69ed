#include "properties/process/contain.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace mxcheck {
namespace {

template <std::size_t kSize>
bool ends(const char (&text)[kSize]) {
  return std::memchr(text, '\0', kSize) != nullptr;
}

bool all_end(const wire::Reply& r) {
  return ends(r.message) && ends(r.device_error) && ends(r.conduct) && ends(r.comparison.problem) &&
         ends(r.unconfined) && ends(r.device_text) && ends(r.gpus) && ends(r.name) && ends(r.version) &&
         std::all_of(std::begin(r.operations), std::end(r.operations),
                     [](const wire::Operation& o) { return ends(o.name) && ends(o.contract); });
}

bool can_be(const MemoryUse& use) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::int64_t all[] = {use.address_space, use.resident, use.heap, use.files, use.threads, use.children};
  return std::all_of(std::begin(all), std::end(all), [](std::int64_t one) { return one >= 0 && one <= kMost; });
}

// A product's output, the first after the inputs.
std::uint64_t elements_compared(const wire::Message& message) {
  if (message.request != wire::Request::compare || message.num_outputs < 1 || message.num_inputs < 0 ||
      message.num_inputs >= wire::kMaxTensors) {
    return 0;
  }
  const wire::Tensor& output = message.tensors[message.num_inputs];
  std::uint64_t elements = 1;
  for (int i = 0; i < std::min<int>(output.ndim, wire::kMaxDimensions); ++i)
    elements *= static_cast<std::uint64_t>(output.shape[i]);
  return elements;
}

}  // namespace

std::string reply_problem(const wire::Message& message, const wire::Reply& reply) {
  if (reply.number != message.number) return "answers no message";
  if (!all_end(reply)) return "has a text without an end";
  if (reply.num_operations < 0 || reply.num_operations > wire::kMaxOperations) return "has too many operations";
  for (const std::uint8_t flag : {reply.workspace_broken, reply.zones_broken, reply.adapted, reply.static_shapes}) {
    if (flag > 1) return "has a flag that is neither 0 nor 1";
  }
  const MemoryOfCalls& memory = reply.memory;
  if (memory.calls < 0 || memory.calls > std::int64_t{message.repeat} || !can_be(memory.begin) ||
      !can_be(memory.middle) || !can_be(memory.end)) {
    return "has memory of calls that were not made";
  }
  const DeviceComparison& found = reply.comparison;
  if (found.differing > found.compared || (found.differing != 0 && found.first >= elements_compared(message)))
    return "names an output that does not exist";
  return {};
}

std::string PrintedLines::take(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (kept_ >= kMost) return out;
    const bool at_end = c == '\n' || c == '\r';
    if (!at_end) line_ += (c >= 0x20 && c <= 0x7E) || c == '\t' ? c : '?';
    if (line_.empty() || (!at_end && line_.size() < kLongest)) continue;
    out += "library: " + line_ + "\n";
    kept_ += line_.size() + 10;
    line_.clear();
    if (kept_ >= kMost) out += "mxcheck: the library has printed 1 MB; the rest is left out\n";
  }
  return out;
}

std::string LinesOfProcesses::unseen(std::string_view lines, std::uint64_t process) {
  const std::lock_guard lock(mutex_);
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string line(lines.substr(0, end));
    lines.remove_prefix(end);
    const auto found = first_.find(line);
    if (found != first_.end() && found->second != process) continue;
    if (found == first_.end() && first_.size() < kMost) first_.emplace(line, process);
    out += line;
  }
  return out;
}

namespace {

LinesOfProcesses printed_lines;
std::atomic<std::uint64_t> next_printer{0};

}  // namespace

void LibraryOutput::show(std::string_view lines) const {
  const std::string out = printed_lines.unseen(lines, process_);
  std::fwrite(out.data(), 1, out.size(), stderr);
}

bool LibraryOutput::open() {
  end();
  process_ = ++next_printer;
  if (pipe2(ends_, O_CLOEXEC) != 0) return false;
  fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  return true;
}

void LibraryOutput::redirect() const {
  dup2(ends_[1], STDOUT_FILENO);
  dup2(ends_[1], STDERR_FILENO);
}

void LibraryOutput::close_other_end() { close_one(1); }

void LibraryOutput::close_one(int end) {
  if (ends_[end] >= 0) close(ends_[end]);
  ends_[end] = -1;
}

// One who prints without end is not waited for: a few buffers at a time.
void LibraryOutput::read() {
  std::array<char, 65'536> buffer;
  std::string out;
  for (int i = 0; i < 4 && ends_[0] >= 0; ++i) {
    const ssize_t n = ::read(ends_[0], buffer.data(), buffer.size());
    if (n < 0) break;  // nothing for now
    if (n == 0) close_one(0);
    out += lines_.take({buffer.data(), static_cast<std::size_t>(n)});
  }
  show(out);
}

void LibraryOutput::end() {
  close_one(1);
  read();
  close_one(0);
  show(lines_.end());
}

namespace {

// Shared by all StartedProcesses: their marks, and whether this process took orphans before there were any.
std::mutex marks_mutex;
std::set<rlim_t> marks;
rlim_t next_mark = 1;
int took_orphans = 0;

// Marks are below what this process and its other children have.
rlim_t above_marks() {
  rlimit own{};
  getrlimit(RLIMIT_LOCKS, &own);
  return std::min(own.rlim_max, rlim_t{1} << 40);
}

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  std::error_code unreadable;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", unreadable)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

StartedProcesses::StartedProcesses() {
  const std::lock_guard lock(marks_mutex);
  if (marks.empty()) {
    prctl(PR_GET_CHILD_SUBREAPER, &took_orphans);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  mark_ = above_marks() - next_mark++;
  marks.insert(mark_);
}

StartedProcesses::~StartedProcesses() {
  const std::lock_guard lock(marks_mutex);
  marks.erase(mark_);
  if (marks.empty()) prctl(PR_SET_CHILD_SUBREAPER, took_orphans);
}

void StartedProcesses::mark() const {
  const rlimit limit{mark_, mark_};
  setrlimit(RLIMIT_LOCKS, &limit);
}

// One that has lowered its mark, to that of nobody, is ended too.
bool StartedProcesses::is_one(pid_t child) const {
  rlimit limit{};
  if (prlimit(child, RLIMIT_LOCKS, nullptr, &limit) != 0 || limit.rlim_max >= above_marks()) return false;
  const std::lock_guard lock(marks_mutex);
  return limit.rlim_max == mark_ || marks.count(limit.rlim_max) == 0;
}

// A process that ends hands its own children to this one: until there are none.
void StartedProcesses::end_orphans() const {
  for (int tries = 0; tries < 1000; ++tries) {
    bool any = false;
    for (const pid_t child : children_of_this_process()) {
      if (!is_one(child)) continue;
      any = true;
      kill(child, SIGKILL);
      waitpid(child, nullptr, WNOHANG);
    }
    if (!any) return;
    usleep(tries < 10 ? 100 : 2000);
  }
}

std::uint64_t own_memory(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t all = 0, resident = 0, shared = 0;
  if (!(file >> all >> resident >> shared) || resident < shared) return 0;
  return (resident - shared) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t default_memory_limit() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);  // a number, or "max"
    if (std::uint64_t most = 0; file >> most && most != 0) bytes = std::min(bytes, most);
  }
  return bytes / 4 * 3;
}

}  // namespace mxcheck
