#include "tools/gate/shard_choice.h"

#include <fstream>
#include <optional>
#include <string_view>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void shard_options_refuse(const std::string& what) { throw Error(ErrorKind::usage, "--shard " + what); }

std::optional<long long> number(const Environment& environment, const std::string& word, const char* name) {
  const char* text = environment(name);
  if (text == nullptr || text[0] == '\0') return std::nullopt;
  const auto value = parse_number<long long>(text);
  if (!value || *value < 0) shard_options_refuse(word + ": " + name + " is '" + text + "', which is no number from 0");
  return value;
}

long long required(const Environment& environment, const std::string& word, const char* name,
                   const std::string& hint = "") {
  const auto value = number(environment, word, name);
  if (!value) shard_options_refuse(word + ": " + name + " is not set" + hint);
  return *value;
}

Shard checked(const std::string& word, long long index, long long count) {
  if (count < 1 || count > kMostShards || index < 0 || index >= count)
    shard_options_refuse(word + ": shard " + std::to_string(index) + ", from 0, of " + std::to_string(count) +
                         " cannot be");
  return {static_cast<int>(index), static_cast<int>(count), false};
}

constexpr const char* kOfArrays = ": sbatch --array=1-N sets it";

// Tasks ID = MIN, MIN + STEP, ... MAX, all of them.
Shard of_slurm(const Environment& environment) {
  const long long id = required(environment, "slurm", "SLURM_ARRAY_TASK_ID", kOfArrays);
  const long long count = required(environment, "slurm", "SLURM_ARRAY_TASK_COUNT", kOfArrays);
  const long long first = required(environment, "slurm", "SLURM_ARRAY_TASK_MIN", kOfArrays);
  const long long step = number(environment, "slurm", "SLURM_ARRAY_TASK_STEP").value_or(1);
  const auto last = number(environment, "slurm", "SLURM_ARRAY_TASK_MAX");
  const std::string tasks = "from " + std::to_string(first) + (last ? " to " + std::to_string(*last) : "") +
                            " in steps of " + std::to_string(step);
  if (step < 1 || id < first || (last && id > *last) || (id - first) % step != 0)
    shard_options_refuse("slurm: SLURM_ARRAY_TASK_ID " + std::to_string(id) + " is no task " + tasks);
  if (last && (*last - first) / step + 1 != count)
    shard_options_refuse("slurm: SLURM_ARRAY_TASK_COUNT is " + std::to_string(count) + ", but tasks " + tasks +
                         " are " + std::to_string((*last - first) / step + 1) +
                         ": for some tasks of an array of 1 to N, give slurm/N");
  return checked("slurm", (id - first) / step, count);
}

// "slurm/16", "kubernetes/16": the number of shards is said, so that some of them can be started again alone.
long long stated_count(const std::string& text) {
  const auto count = parse_number<long long>(std::string_view(text).substr(text.find('/') + 1));
  if (!count || *count < 1 || *count > kMostShards)
    shard_options_refuse("'" + text + "' does not end in the number of shards, from 1 to " +
                         std::to_string(kMostShards));
  return *count;
}

Shard of_slurm_tasks(const Environment& environment, const std::string& text) {
  const long long count = stated_count(text);
  const long long id = required(environment, text, "SLURM_ARRAY_TASK_ID", kOfArrays);
  if (id < 1 || id > count)
    shard_options_refuse(text + ": SLURM_ARRAY_TASK_ID is " + std::to_string(id) + ", not 1 to " +
                         std::to_string(count));
  return checked(text, id - 1, count);
}

// JOB_COMPLETION_INDEX counts from 0; Kubernetes says nowhere of how many.
Shard of_kubernetes(const Environment& environment, const std::string& text) {
  const long long count = stated_count(text);
  return checked(text, required(environment, text, "JOB_COMPLETION_INDEX", ": jobs of completionMode Indexed have it"),
                 count);
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
  if (text.starts_with("slurm/")) return {of_slurm_tasks(environment, text), ""};
  if (text == "kubernetes") shard_options_refuse("kubernetes lacks the job's completions: kubernetes/N");
  if (text.starts_with("kubernetes/")) return {of_kubernetes(environment, text), ""};
  if (text == "gtest") return of_test_runner(environment, text, "GTEST_");
  if (text == "bazel") return of_test_runner(environment, text, "TEST_");
  if (text == "gitlab") return {of_gitlab(environment), ""};
  if (text.find('/') == std::string::npos)
    shard_options_refuse("'" + text + "' is none of I/N, slurm, slurm/N, kubernetes/N, gtest, bazel, gitlab");
  return {parse_shard(text, "--shard"), ""};
}

void touch(const std::string& path) {
  std::ofstream file(path, std::ios::app);
  if (!file) throw Error(ErrorKind::usage, "shard status file " + path + " cannot be written");
}

}  // namespace mxcheck
