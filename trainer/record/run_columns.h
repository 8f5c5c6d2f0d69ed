#pragma once
// Private to trainer/record: the columns of a run's file, which its writer and its reader go through.

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/record/run_record.h"

namespace mxcheck::run_columns {

using Words = std::vector<std::uint32_t>;
using Counts = std::vector<std::int64_t>;

// A column and the member of an entry that goes into it; the names are those of docs/parity.md.
template <class Entry, class T>
struct Column {
  const char* name;
  T Entry::*member;
};
inline constexpr std::array<Column<RecordedStep, std::uint32_t>, 4> kStepFloats{
    {{"loss", &RecordedStep::loss},
     {"balance_loss", &RecordedStep::balance_loss},
     {"gradient_norm", &RecordedStep::gradient_norm},
     {"rate", &RecordedStep::rate}}};
inline constexpr std::array<Column<RecordedEvaluation, std::uint32_t>, 2> kEvaluationFloats{
    {{"evaluation_loss_bf16", &RecordedEvaluation::loss_bf16}, {"evaluation_loss_own", &RecordedEvaluation::loss_own}}};
inline constexpr std::array<Column<OperandFacts, std::int64_t>, 4> kOperandCounts{
    {{"operand_elements", &OperandFacts::elements},
     {"operand_saturated", &OperandFacts::saturated},
     {"operand_flushed", &OperandFacts::flushed},
     {"operand_scales", &OperandFacts::scales}}};
inline constexpr std::array<Column<OperandFacts, std::int32_t>, 2> kOperandExponents{
    {{"operand_least_exponent", &OperandFacts::least_exponent},
     {"operand_largest_exponent", &OperandFacts::largest_exponent}}};

}  // namespace mxcheck::run_columns
