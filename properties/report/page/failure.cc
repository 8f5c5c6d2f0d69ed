#include "properties/report/page/failure.h"

#include <algorithm>

#include <fmt/format.h>

#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/report/markup.h"
#include "properties/report/page/pictures.h"
#include "properties/report/report.h"

namespace mxcheck {
namespace {

// The tensor that the finding is about, or, where that does not differ from the reference's, the first that does.
std::optional<DifferingTensor> differing(const std::optional<ExampleTensors>& tensors, const std::string& wanted) {
  if (!tensors) return std::nullopt;
  std::optional<DifferingTensor> other;
  for (const ExpectedTensor& expected : tensors->expected) {
    for (const ExampleTensors::Observed& observed : tensors->observed) {
      const bool is_same = observed.info.name == expected.info.name && observed.bytes.size() == expected.bytes.size();
      if (!is_same || !compare(expected.info, expected.bytes, observed.bytes, kPoisons[0])) continue;
      DifferingTensor t{expected.info, expected.bytes, observed.bytes};
      if (expected.info.name == wanted) return t;
      if (!other) other = t;
    }
  }
  return other;
}

std::string size_of(const TensorInfo& info) {
  return fmt::format("{}, {} x {}", escaped_markup(info.name), info.rows, info.cols);
}

std::string map_of(const char* what, const DifferingTensor& t) {
  const std::optional<Difference> d = compare(t.info, t.expected, t.observed, kPoisons[0]);
  if (!d) return "";
  return fmt::format(
      "<div><h3>{}: {}</h3>\n<p class=\"note\">{} of {} elements differ{}</p>\n<div class=\"wide\">{}</div></div>\n",
      what, size_of(t.info), grouped(d->count), grouped(d->total),
      d->pattern.empty() ? "" : ": " + escaped_markup(d->pattern), wrong_map(t));
}

std::string pictures_of(const Counterexample& e, const ExamplePictures& pictures) {
  const std::string wanted = e.finding.difference ? e.finding.difference->tensor.name : "";
  const std::optional<DifferingTensor> minimal = differing(pictures.minimal, wanted);
  const std::optional<DifferingTensor> original = differing(pictures.original, wanted);
  std::string maps;
  if (original) maps += map_of("As it was found", *original);
  if (minimal) maps += map_of(original ? "The smallest case" : "The case", *minimal);
  if (e.finding.difference && !e.finding.difference->histogram.empty())
    maps += "<div><h3>Steps off, of the smallest case</h3>\n" + step_bars(*e.finding.difference) + "</div>\n";
  std::string out = maps.empty() ? "" : "<div class=\"pair\">\n" + maps + "</div>\n";
  if (minimal) {
    out +=
        "<h3>Bits around the first wrong element: expected above observed</h3>\n<p class=\"note\">Filled: 1. Gaps part "
        "sign, exponent and mantissa. Red: this bit differs.</p>\n<div class=\"wide\">" +
        block_bits(*minimal) + "</div>\n";
  }
  return out;
}

}  // namespace

std::string failure_section(const GateReport& report, const StatementResult& r, const ExamplePictures& pictures) {
  const Counterexample& e = *r.counterexample;
  std::string text = counterexample_text(report, r, pictures.saved);
  text.erase(0, text.find_first_not_of('\n'));
  std::string out = fmt::format(
      "<section class=\"failure\" id=\"{0}\"><h3 class=\"mono\">{0}</h3>\n<p>must hold: {1} <span "
      "class=\"soft\">({2})</span></p>\n"
      "<p><strong class=\"bad\">{3}</strong></p>\n",
      escaped_markup(r.statement->name), escaped_markup(r.statement->sentence), escaped_markup(r.statement->source),
      escaped_markup(e.finding.summary));
  if (!e.finding.matches.empty()) {
    out += "<p>the observed bytes are exactly those of <strong>" + escaped_markup(join(e.finding.matches)) +
           "</strong></p>\n";
  }
  out += pictures_of(e, pictures);
  out += "<h3>The counterexample</h3>\n<pre>" + escaped_markup(text) + "</pre>\n";
  if (const std::string why = not_reproduced(e); !why.empty()) out += "<p>" + escaped_markup(why) + "</p>\n";
  out += "<h3>Run it again</h3>\n<pre class=\"command\">" + escaped_markup(again_command(report, r)) + "</pre>\n";
  return out + "</section>\n";
}

}  // namespace mxcheck
