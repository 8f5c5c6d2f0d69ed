#pragma once
// Ways to make a good call one that must be refused: those that every operation has, and those that operations choose
// from for Operation::invalid_calls.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "properties/core/operation.h"

namespace mxcheck {

// The invalid calls of every operation: null pointers, too many and too few tensors, extents of the policy.
std::vector<InvalidCall> common_invalid_calls();

// A tensor of a call, and what the operation leaves open about it.
struct TensorPlace {
  bool is_output = false;
  std::size_t number = 0;            // among inputs or outputs
  bool may_have_row_stride = false;  // gaps between its rows
  bool may_have_any_rows = false;    // rows are taken from it by index
  bool may_have_any_cols = false;    // offsets of experts
  bool may_have_col_stride = false;  // gaps between the elements of a row
};

// Ways to make one tensor of a good call, whichever, one that the call must be refused for.
struct InvalidTensor {
  const char* how;
  std::function<bool(Call&, CallTensor&, const TensorPlace&)> make;  // false: not applicable to this tensor
};
std::vector<InvalidTensor> invalid_tensors();

// The tensors of a call, inputs first; the tensor at a place.
std::vector<TensorPlace> tensor_places(const Call& call, const Operation& operation, bool takes_col_stride = false);
CallTensor& tensor_at(Call& call, const TensorPlace& place);

void add_invalid(std::vector<InvalidCall>& to, std::initializer_list<std::vector<InvalidCall>> families);

// Rows and columns of the policy that are not the tensors', before others: where the tensors have both.
std::vector<InvalidCall> disagreeing_extents(std::vector<InvalidCall> others);
InvalidCall unknown_format();
InvalidCall unknown_recipe();
InvalidCall unknown_layout();
InvalidCall negative_layout();
// Blocks of no shape that an operation has.
std::vector<InvalidCall> invalid_blocks();
// An input that the operation has not, of the type of offsets and of a row index.
InvalidCall unwanted_offsets();
InvalidCall unwanted_row_index();
// Expert offsets that are not sorted, do not start at 0, do not end where `end` says.
std::vector<InvalidCall> invalid_offsets(const std::function<std::int64_t(const Call&)>& end);
// Offsets of a list that the call has, changed at a place that is drawn: of experts, or of tokens' slots.
std::vector<InvalidCall> misplaced_offsets(std::uint64_t drawn);
// A row index below 0 or past the last row.
std::vector<InvalidCall> invalid_row_index();

// An InvalidCall that changes the fields of a policy struct: change(Struct&) returns false where it does not apply.
template <class Struct, class Change>
InvalidCall invalid_policy(const char* how, Change change) {
  return {how, [change](Call& call) {
            bool applies = false;
            edit<Struct>(call.policy, [&](Struct& policy) { applies = change(policy); });
            return applies;
          }};
}

template <class Struct, class Change>
InvalidCall wrapping_policy(const char* how, Change change) {
  InvalidCall invalid = invalid_policy<Struct>(how, change);
  invalid.wraps = true;
  return invalid;
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

// A number that tells lists of integers apart.
std::uint64_t hash_of_bytes(const CallTensor& input);

// One of the integers of an input changed: the first, the last or the one in the middle, by what the input holds.
template <class T>
bool change_one(Call& call, CallTensor& input, T value) {
  const std::size_t count = input.bytes / sizeof(T);
  if (count == 0) return false;
  const std::size_t places[] = {0, count / 2, count - 1};
  return change_value(call, input, places[hash_of_bytes(input) % std::size(places)], value);
}

}  // namespace mxcheck
