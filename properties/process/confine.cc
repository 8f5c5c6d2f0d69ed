#include "properties/process/confine.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mxcheck_version.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter
#endif

// Since Linux 5.1, 5.3 and 5.6, the same number everywhere; older headers lack them.
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;
constexpr long kPidfdGetfd = 438;

constexpr std::uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kNegative = 0x8000'0000U;  // of an int

// A program of classic BPF over seccomp_data.
class Filter {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  void load_first_argument() { load(offsetof(seccomp_data, args)); }  // its low half: pids are int
  void end(std::uint32_t result) { add(BPF_RET | BPF_K, result); }
  void end_if_equal(std::uint32_t value, std::uint32_t result) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    end(result);
  }
  void end_if_at_least(std::uint32_t value, std::uint32_t result) {
    add(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1);
    end(result);
  }
  void deny(long call) { end_if_equal(static_cast<std::uint32_t>(call), kDeny); }
  // `rules` decide on this system call by its first argument; they end with a result.
  template <class Rules>
  void on(long call, const Rules& rules) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 0);
    const std::size_t jump = code_.size() - 1;
    load_first_argument();
    rules();
    code_[jump].jf = static_cast<std::uint8_t>(code_.size() - jump - 1);
  }
  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(int code, std::uint32_t k, std::uint8_t jt = 0, std::uint8_t jf = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), jt, jf, k});
  }
  std::vector<sock_filter> code_;
};

bool filter_system_calls(pid_t gate) {
  if (kArchitecture == 0) return false;
  const auto of_gate = static_cast<std::uint32_t>(gate);
  const auto own_group = static_cast<std::uint32_t>(-getpid());  // the child leads its group
  Filter f;
  f.load(offsetof(seccomp_data, arch));
  f.end_if_equal(AUDIT_ARCH_I386, kDeny);  // the numbers below are not those of another architecture
  f.load_number();
#if defined(__x86_64__)
  f.end_if_at_least(0x4000'0000U, kDeny);  // x32
#endif
  for (const long call : {long{SYS_ptrace}, long{SYS_process_vm_readv}, long{SYS_process_vm_writev}, long{SYS_kcmp},
                          long{SYS_perf_event_open}, long{SYS_bpf}, kPidfdSendSignal, kPidfdOpen, kPidfdGetfd}) {
    f.deny(call);
  }
  f.on(SYS_kill, [&] {
    f.end_if_equal(of_gate, kDeny);
    f.end_if_equal(own_group, SECCOMP_RET_ALLOW);
    f.end_if_at_least(kNegative, kDeny);
    f.end(SECCOMP_RET_ALLOW);
  });
  for (const int call : {SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_prlimit64}) {
    f.on(call, [&] {
      f.end_if_equal(of_gate, kDeny);
      f.end_if_at_least(kNegative, kDeny);
      f.end(SECCOMP_RET_ALLOW);
    });
  }
  f.end(SECCOMP_RET_ALLOW);
  return f.install();
}

bool drop_capabilities() {
  constexpr std::uint32_t kKept = 1U << CAP_DAC_READ_SEARCH;
  for (unsigned long one = 0; one < 64; ++one) {
    if (one != CAP_DAC_READ_SEARCH) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);  // only the privileged can, or need to
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= kKept, data[0].permitted &= kKept, data[0].inheritable = 0;
  data[1] = {};
  return syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

std::string confine(pid_t gate) {
  std::string missing;
  const auto expect = [&](bool done, const char* what) {
    if (!done) missing += (missing.empty() ? "" : ", ") + std::string(what);
  };
  expect(drop_capabilities(), "capabilities dropped");
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  expect(filter_system_calls(gate), "filter of system calls");
  return missing;
}

namespace {
std::mutex dumpable_mutex;
int undumpable = 0;
int dumpable_before = 1;
}  // namespace

ScopedNoDump::ScopedNoDump() {
  const std::lock_guard lock(dumpable_mutex);
  if (undumpable++ != 0) return;
  dumpable_before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

ScopedNoDump::~ScopedNoDump() {
  const std::lock_guard lock(dumpable_mutex);
  if (--undumpable == 0 && dumpable_before == 1) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

void rename_process(int argc, char** argv) {
  constexpr const char* kName = "python3";
  prctl(PR_SET_NAME, kName);
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  std::memset(argv[0], 0, static_cast<std::size_t>(end - argv[0]));  // they lie one after the other
  if (end - argv[0] > 7) std::memcpy(argv[0], kName, 7);
}

namespace {

namespace fs = std::filesystem;

// The folder that has the package mxcheck: in a checkout, an installation, a wheel (MXCHECK/bin/mxcheck). Empty: as
// Python finds it.
std::string package_folder(const std::string& tool) {
  const fs::path here = fs::path(tool).parent_path();
  std::error_code unreadable;
  for (const char* place : {"../..", "../../../python", "../python", "../share/mxcheck/python"}) {
    const fs::path folder = here / place;
    if (fs::is_regular_file(folder / "mxcheck" / "_worker.py", unreadable)) return fs::canonical(folder).string();
  }
  return {};
}

// The environment of the child. A Python candidate has a folder more to look for modules in, and the package's library,
// which it finds by a variable of ours; where that is not set, the one given. Either may be empty.
std::vector<std::string> environment_of_child(bool python, const std::string& python_path, const std::string& library) {
  constexpr std::string_view kOurs = "MXCHECK_";
  constexpr std::string_view kLibrary = "MXCHECK_C_LIBRARY=";
  constexpr std::string_view kPath = "PYTHONPATH=";
  std::vector<std::string> kept;
  std::string path = python_path;
  bool has_library = false;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view entry = *one;
    if (!python_path.empty() && entry.starts_with(kPath)) {
      path = std::string(entry.substr(kPath.size())) + ":" + python_path;
    } else if (!entry.starts_with(kOurs) || (python && entry.starts_with(kLibrary))) {
      kept.emplace_back(entry);
      has_library = has_library || entry.starts_with(kLibrary);
    }
  }
  if (!path.empty()) kept.push_back(std::string(kPath) + path);
  std::error_code unreadable;
  if (!has_library && fs::is_regular_file(library, unreadable)) kept.push_back(std::string(kLibrary) + library);
  return kept;
}

// A process that sees one GPU is the same on each: its number there is 0, and nothing of a call goes to another one.
void show_only(const std::string& gpu, std::vector<std::string>& environment) {
  constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(kVisible); });
  environment.push_back(std::string(kVisible) + gpu);
}

}  // namespace

Launch launch_of(const std::string& tool, const std::string& candidate, int socket, int shared,
                 const std::string& gpu_model, const std::string& gpu) {
  const std::string socket_text = std::to_string(socket), shared_text = std::to_string(shared);
  Launch launch;
  if (!is_python(candidate)) {
    launch = {
        tool, {tool, "__worker", candidate, socket_text, shared_text, gpu_model}, environment_of_child(false, "", "")};
  } else {
    const char* given = std::getenv("MXCHECK_PYTHON");
    const std::string python = given != nullptr && *given != '\0' ? given : "python3";
    const std::string worker = find_candidate_library("worker", tool);
    launch = {python,
              {python, "-m", "mxcheck._worker", worker, candidate.substr(kPythonPrefix.size()), socket_text,
               shared_text, gpu_model},
              environment_of_child(true, package_folder(tool), fs::path(worker).parent_path() / "libmxcheck_c.so")};
  }
  if (!gpu.empty()) show_only(gpu, launch.environment);
  return launch;
}

std::string early_end(const Launch& launch, const std::string& candidate, int status) {
  if (WIFSIGNALED(status)) return "crashed while it was loaded (signal " + std::to_string(WTERMSIG(status)) + ")";
  const std::string code = std::to_string(WEXITSTATUS(status));
  if (!is_python(candidate)) return "crashed while it was loaded (signal 0, status " + code + ")";
  if (WEXITSTATUS(status) == 127)
    return "needs a Python interpreter: " + launch.program + " cannot be started; name one with MXCHECK_PYTHON";
  return "ended its process with status " + code + " while it was imported; what it printed is above (interpreter " +
         launch.program + ")";
}

// Where libraries are looked for (properties/process/candidate_process.h).

namespace {

namespace fs = std::filesystem;

// Beside the tool, and where an installation or a build has libraries.
constexpr std::array kPlaces{".",
                             "../lib",
                             "../lib/mxcheck",
                             "../lib/x86_64-linux-gnu",
                             "../kernels/cpu",
                             "../kernels/sm90",
                             "../kernels/sm100"};
constexpr std::string_view kPrefix = "libmxcheck_", kSuffix = ".so";

std::optional<std::string> find_by_name(const std::string& name, const std::string& tool) {
  const fs::path here = fs::path(tool).parent_path();
  std::error_code unreadable;  // a folder without permission has no library
  for (const char* place : kPlaces) {
    const fs::path path = here / place / (std::string(kPrefix) + name + std::string(kSuffix));
    if (fs::is_regular_file(path, unreadable)) return fs::canonical(path).string();
  }
  return std::nullopt;
}

// A library that this tree builds.
struct TreeLibrary {
  std::string_view name;
  bool is_candidate, is_cuda;
};
constexpr std::array<TreeLibrary, 15> kTreeLibraries{{{"cpu", true, false},
                                                      {"cpu_layer", true, false},
                                                      {"cpu_nvfp4", true, false},
                                                      {"sm90", true, true},
                                                      {"sm90_gemm", true, true},
                                                      {"sm90_route", true, true},
                                                      {"sm90_layer", true, true},
                                                      {"sm90_moe", true, true},
                                                      {"sm90_nvfp4", true, true},
                                                      {"sm100_emulated", true, false},
                                                      {"sm100_emulated_on_sm90", true, true},
                                                      {"sm90_train", false, true},
                                                      {"c", false, false},
                                                      {"gpu_model", false, false},
                                                      {"worker", false, false}}};

// The target to build, and what the machine lacks for it.
std::string advice_for(const TreeLibrary& library) {
  const std::string target = std::string("mxcheck_") + std::string(library.name);
  const std::string missing = "lib" + target + ".so is not beside mxcheck; ";
  const std::string build = "./run build " + target;
  if (!library.is_cuda) return missing + build;
  const char* const gpu = fs::exists("/dev/nvidiactl") ? "" : "; it runs on a Hopper GPU, and this machine has none";
  if (MXCHECK_HAS_SM90 != 0) return missing + build + gpu;
  return missing + "it needs the CUDA Toolkit 12.4 or later, which this mxcheck was built without: install it, then " +
         build + gpu;
}

// "; in it are liba.so, libb.so": the first few of a folder's libraries.
std::string libraries_in(const std::string& folder) {
  constexpr std::size_t kMost = 5;
  std::set<std::string> names;
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".so") names.insert(entry.path().filename().string());
  }
  std::string text;
  for (const std::string& name : names) {
    if (names.size() > kMost && name == *std::next(names.begin(), kMost)) return text + ", ...";
    text += (text.empty() ? "; in it are " : ", ") + name;
  }
  return text;
}

void refuse_folder(const std::string& name) {
  std::error_code unreadable;
  if (!fs::is_directory(name, unreadable)) return;
  refuse_usage("candidate " + name + " is a folder: name the library itself, as ./libmine.so" + libraries_in(name));
}

// The names of candidates that this tree builds, and of the libraries that are there.
std::vector<std::string> candidate_names(const std::string& tool) {
  std::vector<std::string> names = tree_candidates();
  std::set<std::string_view> others;
  for (const TreeLibrary& library : kTreeLibraries) {
    if (!library.is_candidate) others.insert(library.name);
  }
  std::error_code unreadable;
  for (const char* place : kPlaces) {
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(tool).parent_path() / place, unreadable)) {
      std::string name = entry.path().filename().string();
      if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
      name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
      if (!others.contains(name)) names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> tree_candidates() {
  std::vector<std::string> names;
  for (const TreeLibrary& library : kTreeLibraries) {
    if (library.is_candidate) names.emplace_back(library.name);
  }
  return names;
}

std::string own_executable() { return fs::read_symlink("/proc/self/exe").string(); }

std::string find_candidate_library(const std::string& name, const std::string& tool) {
  std::error_code unreadable;
  if (is_python(name)) return name;
  if (name.find('/') != std::string::npos || name.ends_with(".so")) {
    if (fs::is_regular_file(name, unreadable)) return fs::absolute(name).lexically_normal().string();
    refuse_folder(name);
    throw Error(ErrorKind::usage, "candidate " + name + " does not exist or is no file");
  }
  if (const auto path = find_by_name(name, tool)) return *path;
  if (fs::is_regular_file(name, unreadable)) return fs::absolute(name).lexically_normal().string();
  refuse_folder(name);
  for (const TreeLibrary& library : kTreeLibraries) {
    if (library.name == name) refuse_usage(advice_for(library));
  }
  if (name.find(':') != std::string::npos)
    refuse_usage("no candidate named '" + name + "'; a function in Python is python:" + name);
  refuse_usage("no candidate named '" + name + "'; searched " + std::to_string(kPlaces.size()) +
               " folders beside mxcheck; give the path of a shared library, as ./libmine.so, or python:MODULE:NAME" +
               did_you_mean(name, candidate_names(tool)));
}

std::pair<std::string, std::string> find_gpu_model(const std::string& given, const std::string& tool) {
  std::error_code unreadable;
  if (!given.empty() && fs::is_regular_file(given, unreadable)) return {given, ""};
  if (given.empty()) {
    if (const auto path = find_by_name("gpu_model", tool)) return {*path, ""};
  }
  return {"", "there is no library of the GPU model; " +
                  (given.empty() ? std::string("./run build mxcheck_gpu_model") : "looked for " + given)};
}

std::set<std::string> mapped_files() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');  // no other column has one
    if (at == std::string::npos || line.ends_with(" (deleted)")) continue;
    std::string path = line.substr(at);
    if (!path.starts_with("/dev/") && !path.starts_with("/memfd:")) files.insert(std::move(path));
  }
  return files;
}

bool is_of_the_system(const std::string& path) {
  constexpr std::array<std::string_view, 6> kFolders{"/lib/",     "/lib32/",     "/lib64/",
                                                     "/usr/lib/", "/usr/lib32/", "/usr/lib64/"};
  for (const std::string_view folder : kFolders) {
    if (path.starts_with(folder)) return true;
  }
  return false;
}

namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

double cpu_of(int who) {
  rusage use{};
  getrusage(who, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> build_and_machine(const CandidateInfo& candidate) {
  std::string gpu;
  for (const auto& [key, value] : candidate.device)
    gpu += (gpu.empty() ? "" : ", ") + (key == "device" ? "" : key + " ") + value;
  utsname system{};
  uname(&system);
  return {{"mxcheck", std::string(kVersion) + " commit " + kCommit + (kDirty ? " (modified)" : "")},
          {"compiler", std::string(kCompiler) + ", " + kBuildType + ", " + kFlags},
          {"cpu", cpu_name() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores"},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"gpu", gpu.empty() ? "none used" : gpu}};
}

CpuSeconds cpu_seconds() {
  CpuSeconds is{cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN), 0};
  // user, nice, system, idle, iowait, irq, softirq, steal: proc_stat(5)
  std::ifstream stat("/proc/stat");
  std::string name;
  stat >> name;
  for (int field = 0; field < 8; ++field) {
    double ticks = 0;
    if (!(stat >> ticks)) return is;
    if (field != 3 && field != 4) is.machine += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return is;
}

}  // namespace mxcheck
