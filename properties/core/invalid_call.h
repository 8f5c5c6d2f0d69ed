#pragma once
// Ways to make a good call one that must be refused: those that every operation has, and those that operations choose
// from for Operation::invalid_calls.

#include <cstdint>
#include <functional>
#include <vector>

#include "properties/core/operation.h"

namespace mxcheck {

// Of every operation: null pointers, missing and misshapen tensors, another dtype, negative extents.
std::vector<InvalidCall> common_invalid_calls();

InvalidCall disagreeing_cols();
InvalidCall unknown_format();
InvalidCall unknown_recipe();
InvalidCall unknown_layout();
InvalidCall negative_block();
// Expert offsets that are not sorted, do not start at 0, do not end where `end` says.
std::vector<InvalidCall> invalid_offsets(const std::function<std::int64_t(const Call&)>& end);
// A row index below 0 or past the last row.
std::vector<InvalidCall> invalid_row_index();

// What an InvalidCall of the struct's fields does: change(Struct&) returns false where it does not apply.
template <class Struct, class Change>
InvalidCall invalid_policy(const char* how, Change change) {
  return {how, [change](Call& call) {
            bool applies = false;
            edit<Struct>(call.policy, [&](Struct& policy) { applies = change(policy); });
            return applies;
          }};
}

// The integers of an input with the one at a place changed; false where there is none. The call owns the copy.
template <class T>
bool change_value(Call& call, CallTensor& input, std::size_t at, T value) {
  std::vector<std::byte> bytes(input.data, input.data + input.bytes);
  if ((at + 1) * sizeof(T) > bytes.size()) return false;
  std::memcpy(bytes.data() + at * sizeof(T), &value, sizeof(T));
  input.data = call.own(std::move(bytes));
  return true;
}

}  // namespace mxcheck
