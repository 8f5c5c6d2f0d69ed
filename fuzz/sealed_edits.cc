#include "fuzz/sealed_edits.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "fuzz/check.h"
#include "goldens/format/schema.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck::fuzz {
namespace {

std::size_t position(std::size_t end, Choices& choices) {
  const std::size_t high = choices.next();
  return (high << 8 | choices.next()) % end;
}

std::string number(Choices& choices) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t small = choices.next();
  return choices.mostly({std::to_string(small), std::to_string(-small), std::to_string(kLeast), std::to_string(kMost),
                         std::string("1e308"), std::string("nan"), std::string("inf")});
}

void edit_attribute(Attributes& attributes, Choices& choices) {
  if (attributes.empty()) return;
  const auto at = attributes.begin() + static_cast<std::ptrdiff_t>(choices.pick(attributes.size()));
  std::string& value = at->second;
  switch (choices.pick(5)) {
    case 0: value = choices.text(40); break;
    case 1: value = number(choices); break;
    case 2: attributes.erase(at); break;
    case 3: at->first = choices.text(8); break;
    default:
      if (!value.empty()) value.replace(position(value.size(), choices), choices.pick(4), choices.text(4));
  }
}

// Data as long as the shape calls for, what is new being zeros.
void reshape(DatasetInfo& set, std::vector<std::byte>& data, Choices& choices) {
  set.shape.resize(1 + choices.pick(2), 1);
  set.shape[choices.pick(set.shape.size())] = choices.next();
  std::uint64_t bytes = size_of(set.dtype);
  for (const std::int64_t extent : set.shape) bytes *= static_cast<std::uint64_t>(extent);
  data.resize(bytes);
}

void edit_dataset(UnverifiedGolden& contents, Choices& choices) {
  if (contents.data.empty()) return;
  const std::size_t at = choices.pick(contents.data.size());
  DatasetInfo& set = contents.info.datasets[at];
  std::vector<std::byte>& data = contents.data[at];
  switch (choices.pick(7)) {
    case 0: reshape(set, data, choices); break;
    case 1:
      set.dtype = choices.mostly({Format::uint32, Format::uint8, Format::uint16, Format::int32, Format::int64});
      reshape(set, data, choices);
      break;
    case 2:
      set.format = choices.mostly<const char*>({"float32", "uint32", "uint8", "int64", "int32", "bfloat16"});
      break;
    case 3: set.role = Role::input; break;
    case 4: set.name = choices.text(6); break;
    case 5:
      contents.info.datasets.erase(contents.info.datasets.begin() + static_cast<std::ptrdiff_t>(at));
      contents.data.erase(contents.data.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    default:
      if (!data.empty()) data[position(data.size(), choices)] = std::byte{choices.next()};
  }
}

}  // namespace

UnverifiedGolden edited(UnverifiedGolden contents, Choices choices) {
  const UnverifiedGolden before = contents;
  const bool sealed = choices.mostly({true, false});
  for (std::size_t edits = choices.pick(8); edits > 0; --edits) {
    if (choices.pick(2) == 0) {
      edit_attribute(contents.info.attributes, choices);
    } else {
      edit_dataset(contents, choices);
    }
  }
  contents.kind = choices.mostly({before.kind, std::string("golden"), std::string("parity"), choices.text(4)});
  if (!objection(contents.info, contents.kind).empty()) return before;
  for (auto& [key, value] : contents.info.attributes) {
    if (sealed && key == "content_sha256") value = content_sha256(contents);
  }
  return contents;
}

const std::vector<std::byte>& data_of(const UnverifiedGolden& contents, const std::string& name) {
  const auto& sets = contents.info.datasets;
  const auto at = std::find_if(sets.begin(), sets.end(), [&](const DatasetInfo& set) { return set.name == name; });
  require(at != sets.end(), "the dataset is there");
  return contents.data[static_cast<std::size_t>(at - sets.begin())];
}

}  // namespace mxcheck::fuzz
