#include "kernels/cpu/route/rows.h"

#include <algorithm>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/route/sort.h"

namespace mxcheck_kernels::cpu {

void make_metadata(const MetadataJob& job) {
  ExpertSort sort(job.slot_experts, job.slots, job.experts, job.threads);
  job.offsets[0] = 0;
  for (std::int64_t e = 0; e < job.experts; ++e) {
    const std::int64_t count = sort.counts()[static_cast<std::size_t>(e)];
    const std::int64_t last = count % job.tile;
    job.counts[e] = static_cast<std::int32_t>(count);
    job.offsets[e + 1] = job.offsets[e] + count + (last == 0 ? 0 : job.tile - last);
  }
  const auto each = [&](std::int64_t items, const auto& work) {
    for_each_part(items, part_count(items, items * 16, job.threads), work);
  };
  each(job.capacity, [&](std::int64_t begin, std::int64_t end) {
    std::fill(job.row_slot + begin, job.row_slot + end, -1);
    std::fill(job.row_token + begin, job.row_token + end, -1);
    std::fill(job.row_expert + begin, job.row_expert + end, -1);
  });
  // Until the rows are placed, slot_row holds the slot's token.
  each(job.tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t first = job.top_k == 0 ? job.token_offsets[t] : t * job.top_k;
      const std::int64_t last = job.top_k == 0 ? job.token_offsets[t + 1] : first + job.top_k;
      for (std::int64_t slot = first; slot < last; ++slot) {
        job.slot_row[slot] = job.slot_experts[slot] < 0 ? -1 : static_cast<std::int32_t>(t);
      }
    }
  });
  sort.place(job.offsets, [&](std::int64_t slot, std::int32_t expert, std::int64_t row) {
    job.row_slot[row] = static_cast<std::int32_t>(slot);
    job.row_token[row] = job.slot_row[slot];
    job.row_expert[row] = expert;
    job.slot_row[slot] = static_cast<std::int32_t>(row);
  });
}

}  // namespace mxcheck_kernels::cpu
