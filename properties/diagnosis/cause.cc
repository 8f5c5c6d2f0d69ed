#include "properties/diagnosis/cause.h"

namespace mxcheck {

namespace {

AnswerTensor tensor_of(const Observed& data) {
  TensorInfo info;
  info.integer_bits = data.width >= 4 ? static_cast<int>(8 * data.width) : 0;
  info.format = data.width == 2 ? Format::bf16 : Format::e8m0;
  return {info, data.expected, data.observed};
}

}  // namespace

std::vector<std::string> likeliest_causes(const Observed& data, const std::vector<Hypothesis>& hypotheses,
                                          const std::string& unit, std::size_t most) {
  Table table;
  for (const Hypothesis& h : hypotheses) table.push_back(definition_of_output(0, h.text, h.bytes, "", h.derived));
  return likeliest_causes(tensor_of(data), table, 0, unit, most);
}

std::vector<std::string> constant_tail(const Observed& data, const std::string& unit) {
  return constant_tail(tensor_of(data), unit);
}

}  // namespace mxcheck
