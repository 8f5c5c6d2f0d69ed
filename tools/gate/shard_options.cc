#include "tools/gate/shard_options.h"

#include <fstream>
#include <optional>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::usage, "--shard " + what); }

std::optional<long long> number(const Environment& environment, const std::string& word, const char* name) {
  const char* text = environment(name);
  if (text == nullptr || text[0] == '\0') return std::nullopt;
  const auto value = parse_number<long long>(text);
  if (!value || *value < 0) refuse(word + ": " + name + " is '" + text + "', which is no number from 0");
  return value;
}

long long required(const Environment& environment, const std::string& word, const char* name) {
  const auto value = number(environment, word, name);
  if (!value) refuse(word + ": " + name + " is not set");
  return *value;
}

Shard checked(const std::string& word, long long index, long long count) {
  if (count < 1 || count > kMostShards || index < 0 || index >= count)
    refuse(word + ": shard " + std::to_string(index) + ", from 0, of " + std::to_string(count) + " cannot be");
  return {static_cast<int>(index), static_cast<int>(count), false};
}

// Tasks ID = MIN, MIN + STEP, ...
Shard of_slurm(const Environment& environment) {
  const long long id = required(environment, "slurm", "SLURM_ARRAY_TASK_ID");
  const long long count = required(environment, "slurm", "SLURM_ARRAY_TASK_COUNT");
  const long long first = required(environment, "slurm", "SLURM_ARRAY_TASK_MIN");
  const long long step = number(environment, "slurm", "SLURM_ARRAY_TASK_STEP").value_or(1);
  if (step < 1 || id < first || (id - first) % step != 0)
    refuse("slurm: SLURM_ARRAY_TASK_ID " + std::to_string(id) + " is no task from " + std::to_string(first) +
           " in steps of " + std::to_string(step));
  return checked("slurm", (id - first) / step, count);
}

ShardChoice of_test_runner(const Environment& environment, const std::string& word, const std::string& prefix) {
  ShardChoice choice;
  const auto count = number(environment, word, (prefix + "TOTAL_SHARDS").c_str());
  if (count) choice.shard = checked(word, required(environment, word, (prefix + "SHARD_INDEX").c_str()), *count);
  const char* file = environment((prefix + "SHARD_STATUS_FILE").c_str());
  if (file != nullptr) choice.status_file = file;
  choice.shard.may_be_empty = !choice.status_file.empty();
  return choice;
}

// CI_NODE_INDEX counts from 1, and is not set in jobs without `parallel`.
Shard of_gitlab(const Environment& environment) {
  const long long count = required(environment, "gitlab", "CI_NODE_TOTAL");
  const auto index = number(environment, "gitlab", "CI_NODE_INDEX");
  if (count == 1 && !index) return {};
  return checked("gitlab", required(environment, "gitlab", "CI_NODE_INDEX") - 1, count);
}

}  // namespace

ShardChoice shard_choice(const std::string& text, const Environment& environment) {
  if (text.empty()) return {};
  if (text == "slurm") return {of_slurm(environment), ""};
  if (text == "gtest") return of_test_runner(environment, text, "GTEST_");
  if (text == "bazel") return of_test_runner(environment, text, "TEST_");
  if (text == "gitlab") return {of_gitlab(environment), ""};
  if (text.find('/') == std::string::npos) refuse("'" + text + "' is none of I/N, slurm, gtest, bazel, gitlab");
  return {parse_shard(text, "--shard"), ""};
}

void touch(const std::string& path) {
  std::ofstream file(path, std::ios::app);
  if (!file) throw Error(ErrorKind::usage, "shard status file " + path + " cannot be written");
}

}  // namespace mxcheck
