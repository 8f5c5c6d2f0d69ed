#pragma once
// A gate's run as one page: verdict, statements by variants, what the domains' bins met, each counterexample with
// pictures of its wrong elements, times, and what was not tried. HTML that is well-formed XML; inline SVG and CSS, no
// script, nothing fetched. Every text is escaped, whoever it is from.

#include <map>
#include <optional>
#include <string>

#include "properties/gate/gate.h"
#include "properties/report/report.h"

namespace mxcheck {

// The tensors that pictures of a failure are drawn from; without them there is its text alone.
struct ExamplePictures {
  std::optional<ExampleTensors> minimal;
  std::optional<ExampleTensors> original;
  std::string saved;  // path of the saved tensors, or empty
};

// pictures: by the statement's name.
std::string gate_page(const GateReport& report, const std::map<std::string, ExamplePictures>& pictures);

}  // namespace mxcheck
