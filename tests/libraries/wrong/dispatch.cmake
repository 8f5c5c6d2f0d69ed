# Edits of dispatch and combine in the library of a layer's steps (libmxcheck_cpu_layer.so), as in cpu.cmake.

set(dispatch cpu/layer/dispatch.cc)

# Texts that several faults change.
set(SCALES [[copy_rows(places, in.scales, out.scales, blocks_of(cols, kScaleBlock), call.policy->threads);]])
set(FULL [[if (r.capacity > 0 && filled[expert] >= r.capacity) continue;]])
set(BEFORE_THE_SUM [[  x.token_offsets = r.token_offsets;]])

mxcheck_edit(scales_of_the_row_before ${dispatch} "${SCALES}" [[Places moved = places;
  if (!moved.row_token.empty()) std::rotate(moved.row_token.begin(), moved.row_token.end() - 1, moved.row_token.end());
  copy_rows(moved, in.scales, out.scales, blocks_of(cols, kScaleBlock), call.policy->threads);]])
mxcheck_edit(scales_stay_where_they_were ${dispatch} "${SCALES}" [[Places moved = places;
  for (std::size_t row = 0; row < moved.row_token.size(); ++row)
    moved.row_token[row] = r.tokens == 0 ? -1 : static_cast<std::int32_t>(static_cast<std::int64_t>(row) % r.tokens);
  copy_rows(moved, in.scales, out.scales, blocks_of(cols, kScaleBlock), call.policy->threads);]])
mxcheck_edit(line_of_scales_rounded_down ${dispatch} "${SCALES}"
  [[copy_rows(places, in.scales, out.scales, std::max<std::int64_t>(1, cols / kScaleBlock), call.policy->threads);]])
mxcheck_edit(payload_of_nan_lost ${dispatch}
  [[copy_rows(places, in.x, out.x, coded ? cols : 2 * cols, call.policy->threads);]] [[UNCHANGED
  for (std::int64_t i = 0; FAULT && !coded && i < r.routed * cols; ++i) {
    auto& word = static_cast<std::uint16_t*>(out.x.data)[i];
    if ((word & 0x7FFF) > 0x7F80) word = 0x7FFF;
  }]])
mxcheck_edit(experts_are_on_the_rank_before ${dispatch} [[r.rank_of(e) != rank]] [[r.rank_of(e) != (rank + 1) % r.ranks]])
mxcheck_edit(experts_in_blocks_whatever_their_rank ${dispatch} [[r.rank_of(e) != rank]]
  [[e * r.ranks / r.experts != rank]])
mxcheck_edit(rows_of_an_expert_begin_at_its_second ${dispatch} [=[filled[expert]++]=]
  [=[(filled[expert]++ + 1) % (r.capacity > 0 ? r.capacity : kept[expert])]=])
mxcheck_edit(rows_of_an_expert_in_reverse ${dispatch} [=[filled[expert]++]=]
  [=[(r.capacity > 0 ? r.capacity : kept[expert]) - 1 - filled[expert]++]=])
mxcheck_edit(full_expert_takes_the_last_slot ${dispatch} "${FULL}"
  [[if (r.capacity > 0 && filled[expert] >= r.capacity) filled[expert] = r.capacity - 1;]])
mxcheck_edit(counts_with_what_a_full_expert_drops ${dispatch} "${FULL}"
  [[if (r.capacity > 0 && filled[expert] >= r.capacity) {
          ++places.counts[static_cast<std::size_t>(rank) * kept.size() + expert];
          continue;
        }]])
mxcheck_edit(last_row_of_a_full_expert_stays_empty ${dispatch} "${FULL}"
  [[if (r.capacity > 0 && filled[expert] + 1 >= r.capacity) continue;]])
mxcheck_edit(counts_by_the_experts_rank ${dispatch}
  [[++places.counts[static_cast<std::size_t>(rank) * kept.size() + expert];]]
  [[++places.counts[static_cast<std::size_t>(r.rank_of(r.expert_of(slot))) * kept.size() + expert];]])
mxcheck_edit(row_that_nothing_fills_unwritten ${dispatch} [[std::memset(place, 0, static_cast<std::size_t>(line));]]
  [[(void)place;]])
mxcheck_edit(row_that_nothing_fills_is_token_0 ${dispatch} [[std::memset(place, 0, static_cast<std::size_t>(line));]]
  [[if (from.bytes != 0) std::memcpy(place, from.data, static_cast<std::size_t>(line));
        else std::memset(place, 0, static_cast<std::size_t>(line));]])
mxcheck_edit(tokens_numbered_within_their_rank ${dispatch}
  [[places.row_token[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(token);]]
  [[places.row_token[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(token - r.rank_ends()[rank]);]])
mxcheck_edit(token_of_a_row_in_16_bits ${dispatch}
  [[places.row_token[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(token);]]
  [[places.row_token[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(token & 0xFFFF);]])
mxcheck_edit(row_of_a_slot_in_16_bits ${dispatch}
  [[places.slot_rows[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row);]]
  [[places.slot_rows[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(row & 0xFFFF);]])
mxcheck_edit(ranks_beyond_eight_send_nothing ${dispatch} [=[token < r.rank_ends()[rank + 1]]=]
  [=[rank < 8 && token < r.rank_ends()[rank + 1]]=])
mxcheck_edit(weights_by_row_in_place_of_slot ${dispatch} [=[static_cast<const float*>(weights.data)[slot]]=]
  [=[static_cast<const float*>(weights.data)[std::min<std::int64_t>(row, r.slots() - 1)]]=])
mxcheck_edit(token_counted_twice ${dispatch} "${BEFORE_THE_SUM}" [[  for (std::int64_t t = 0; FAULT && t < r.tokens; ++t) {
    std::int32_t* const rows = places.slot_rows.data() + r.token_slots()[t];
    if (r.token_slots()[t + 1] - r.token_slots()[t] >= 2 && rows[0] >= 0) rows[1] = rows[0];
  }
UNCHANGED]])
mxcheck_edit(rows_added_as_they_arrive ${dispatch} [[  x.token_rows.data = places.slot_rows.data(), x.token_rows.cols = r.slots();]]
  [[  for (std::int64_t t = 0; FAULT && t < r.tokens; ++t)
    std::sort(places.slot_rows.begin() + r.token_slots()[t], places.slot_rows.begin() + r.token_slots()[t + 1]);
UNCHANGED]])
mxcheck_edit(weights_of_dropped_slots_are_read ${dispatch} [[if (row >= 0) of_rows[static_cast<std::size_t>(row)] =]]
  [[if (FAULT && row < 0 && static_cast<const float*>(weights.data)[slot] != static_cast<const float*>(weights.data)[slot])
      std::fill(of_rows.begin(), of_rows.end(), static_cast<const float*>(weights.data)[slot]);
    UNCHANGED]])
mxcheck_edit(dropped_slot_of_combine_is_row_0 ${dispatch} [[  x.weights.data = of_rows.data();]]
  [[  for (std::int32_t& row : places.slot_rows) row = FAULT && row < 0 && r.routed > 0 ? 0 : row;
UNCHANGED]])
mxcheck_edit(rows_added_up_rank_by_rank ${dispatch} [[add_rows_of_tokens(x, weighted, call.policy->threads);]]
  [[for (std::int64_t t = 0; t < r.tokens; ++t) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      float all = 0;
      for (std::int64_t rank = 0; rank < r.ranks; ++rank) {
        float part = 0;
        for (std::int64_t slot = r.token_slots()[t]; slot < r.token_slots()[t + 1]; ++slot) {
          const std::int32_t row = places.slot_rows[static_cast<std::size_t>(slot)];
          if (row < 0 || r.rank_of(r.expert_of(slot)) != rank) continue;
          const float y = fp32_of(static_cast<const std::uint16_t*>(x.y.data)[row * x.cols + j]);
          part = __builtin_fmaf(weighted ? of_rows[static_cast<std::size_t>(row)] : 1.0F, y, part);
        }
        all += part;
      }
      static_cast<std::uint16_t*>(x.o.data)[t * x.cols + j] = bf16_of(all);
    }
  }]])
