#include "tools/parallel/agreement.h"

#include <algorithm>
#include <map>

#include "kernels/parallel/parallel_error.h"
#include "kernels/parallel/rendezvous.h"
#include "numerics/text.h"

namespace mxcheck {

void require_agreement(mxcheck_kernels::parallel::Mesh& mesh, const SharedValues& mine) {
  using mxcheck_kernels::parallel::Fault;
  using mxcheck_kernels::parallel::ParallelError;
  std::string text;
  for (const auto& [name, value] : mine) text += name + "\t" + one_line(value) + "\n";
  const std::vector<std::string> all = mesh.all_gather("agreement", text);
  std::vector<std::vector<std::string_view>> lines;
  for (const std::string& of_rank : all) lines.push_back(split(of_rank, '\n'));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::map<std::string, std::vector<int>> values;
    for (std::size_t r = 0; r < lines.size(); ++r) {
      const std::string_view line = i < lines[r].size() ? lines[r][i] : "";
      values[std::string(line)].push_back(static_cast<int>(r));
    }
    if (values.size() == 1) continue;
    // Most ranks are right; of two as many, those with the lower ones.
    const auto usual = std::max_element(values.begin(), values.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second[0] > b.second[0];
    });
    const auto value_of = [](const std::string& line) {
      const std::size_t tab = line.find('\t');
      return tab == std::string::npos ? std::string("nothing") : line.substr(tab + 1);
    };
    for (const auto& [line, ranks] : values) {
      if (line == usual->first) continue;
      throw ParallelError(Fault::disagreement,
                          mxcheck_kernels::parallel::ranks_text(ranks) +
                              (ranks.size() == 1 ? " differs in " : " differ in ") + mine[i].first + ": " +
                              value_of(line) + ", and " + mxcheck_kernels::parallel::ranks_text(usual->second) +
                              (usual->second.size() == 1 ? " has " : " have ") + value_of(usual->first));
    }
  }
}

}  // namespace mxcheck
