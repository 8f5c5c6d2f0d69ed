#include "properties/process/machine.h"

#include <sys/utsname.h>

#include <fstream>
#include <thread>

#include "mxcheck_version.h"

namespace mxcheck {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
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

}  // namespace mxcheck
