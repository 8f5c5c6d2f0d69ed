#include "properties/identify/report_json.h"

#include <fmt/format.h>

namespace mxcheck {
namespace {

Json word(const std::optional<Format>& format, std::uint32_t bits) {
  if (!format) return std::to_string(static_cast<std::int32_t>(bits));
  return fmt::format("0x{:0{}x}", bits, (spec(*format).bits + 3) / 4);
}

Json to_json(const Explained& e) {
  const ProbeDifference& d = e.first;
  Json first{{"probe", d.probe},
             {"part", d.part},
             {"row", d.row},
             {"column", d.col},
             {"expected", word(d.format, d.expected)},
             {"observed", word(d.format, d.observed)}};
  return {{"name", e.name}, {"equal", e.equal}, {"first", std::move(first)}, {"probes", e.probes}};
}

}  // namespace

Json to_json(const Match& match) {
  Json declared;
  if (!match.declared.empty()) {
    declared["name"] = match.declared;
    declared["holds"] = match.holds();
    declared["difference"] = match.not_declared ? to_json(*match.not_declared) : Json();
  }
  Json closest = Json::array();
  for (const Explained& e : match.closest) closest.push_back(to_json(e));
  return {{"explained", match.explained()},
          {"explaining", match.explaining},
          {"also", match.notes},
          {"declared", std::move(declared)},
          {"closest", std::move(closest)},
          {"compared", match.compared},
          {"probes", match.probes},
          {"tried", match.tried}};
}

Json to_json(const TreeReport& o) {
  return {{"tree", o.tree ? Json(o.tree->text()) : Json()},
          {"why_not", o.why_not},
          {"shape", o.shape ? Json(*o.shape) : Json()},
          {"arithmetic", o.arithmetic},
          {"closest", o.closest},
          {"closest_equal", o.closest_equal},
          {"compared", o.compared},
          {"keeps_more", o.keeps_more},
          {"masks", o.masks}};
}

Json to_json(const Match& match, const std::optional<TreeReport>& order) {
  Json json = to_json(match);
  json["order"] = order ? to_json(*order) : Json();
  return json;
}

}  // namespace mxcheck
