# Edits of the Blackwell GEMM. Each is alone in a copy of the headers that it changes (sm100/CMakeLists.txt):
# overlay.cmake says how one is written, catalogue.tsv what each is.

# Where the texts are, with the section of kernel.h: a file that moves is corrected here.
set(descriptor sm100/tcgen05/descriptor.h)
set(epilogue sm100/gemm/kernel.h:epilogue)
set(kernel sm100/gemm/kernel.h:kernel)
set(load sm100/gemm/kernel.h:load)
set(multiply sm100/gemm/kernel.h:multiply)
set(params sm100/gemm/params.h)
set(schedule sm100/gemm/kernel.h:schedule)
set(tile sm100/gemm/tile.h)

# Texts that several faults change.
set(SYNC_AFTER_ALLOC [[  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  const TmemAddress tmem]])
set(END_SYNC [[  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  if (warp == 1) tmem_dealloc]])
set(ALLOC [[    tmem_alloc<T::kCtaGroup, T::kColumns>(base + T::kSlot);
    tmem_relinquish<T::kCtaGroup>();]])
set(DEALLOC [[if (warp == 1) tmem_dealloc<T::kCtaGroup, T::kColumns>(tmem);]])
set(WIDTH_ASSERT [[static_assert(kScaleColumn + kStages * kSlotColumns <= kColumns);]])
set(WAIT_DRAINED [[    barrier_wait<kScope>(base + T::kDrained + 8 * accumulator.stage, accumulator.round ^ 1);
    fence_after_thread_sync();]])
set(WAIT_FULL [[      barrier_wait<kScope>(base + T::kFull + 8 * ring.stage, ring.round);
      fence_after_thread_sync();]])
set(WAIT_EMPTY [[barrier_wait<T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>(base + T::kEmpty + 8 * ring.stage, ring.round ^ 1);]])
set(WAIT_SUMS [[    } else if (sums_exist) {
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
      fence_after_thread_sync();]])
set(LD [[tmem_ld<TmemShape::lanes32x32b, 32>(
            sums, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));]])
set(DRAINED [[    if (T::kPromoted || !sums_exist) continue;
    drained<T>(base, accumulator.stage);
    accumulator.step();]])
set(COMMIT_EMPTY [[done(base + T::kEmpty + 8 * ring.stage);]])
set(COMMIT_SUMS [[done(base + T::kAccumulated + 8 * accumulator.stage);]])
set(CP_A [[cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_a,]])
set(MMA [[mma_block_scaled<T::kCtaGroup>(d, step_a, step_b, with_scale_ids(p.instruction, id, id), scales_a, rows_b,]])
set(MMA_FP4 [[mma_fp4<MmaKind::mxf4nvf4_block16, T::kCtaGroup>(d, step_a, step_b, p.instruction, scales_a, rows_b,]])
set(FP4_INSTRUCTION [[Fp4Instruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup}]])
set(EXPECT [[if (rank == 0) barrier_arrive_expect<Scope::cta>(full, T::kCtaGroup * T::kStageBytes);]])
set(COUNTS [[const SharedAddress counts = T::kCtaGroup == 2 ? map_to_rank(full, 0) : full;]])
set(LOAD_ELECT [[if (elect()) load<T, kGrouping>(p, base, unit, units);]])
set(MULTIPLY_ELECT [[if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);]])
set(ROW_IN_TILE [[const std::int64_t row_in_tile = T::kRows * rank + slab + lane_index();]])
set(GATHERED_ROW [=[p.gathered_rows[work.row + row_in_tile]]=])
set(CHUNK_A [[work.chunk_a = chunk_m_ + tile_m * (kM / 128);]])

# ---- allocation and lifetime ------------------------------------------------------------------------------------------
mxcheck_edit(alloc_address_read_early ${kernel} "${SYNC_AFTER_ALLOC}" [[  const TmemAddress tmem]])
mxcheck_edit(slot_in_a_stage
  ${tile} [[kSlot = kDrained + 8 * kAccumulators;]] [[kSlot = 0;]]
  ${tile} [[kSharedBytes = kSlot + 16;]] [[kSharedBytes = kDrained + 8 * kAccumulators + 16;]])
mxcheck_edit(slot_in_a_barrier
  ${tile} [[kSlot = kDrained + 8 * kAccumulators;]] [[kSlot = kFull;]]
  ${tile} [[kSharedBytes = kSlot + 16;]] [[kSharedBytes = kDrained + 8 * kAccumulators + 16;]])
mxcheck_edit(dealloc_after_own_loop,dealloc_after_own_loop_pair ${kernel} "${END_SYNC}"
  [[  if (warp == 1) tmem_dealloc<T::kCtaGroup, T::kColumns>(tmem);
  fence_before_thread_sync();
  sync_all<T>();
  if (false) tmem_dealloc]])
mxcheck_edit(last_cluster_sync_dropped ${kernel} "${END_SYNC}" [[  if (warp == 1) tmem_dealloc]])
mxcheck_edit(last_sync_of_the_cta_alone ${kernel} IN "${END_SYNC}" [[sync_all<T>()]] [[sync_block()]])
mxcheck_edit(peer_leaves_before_the_last_sync ${kernel} "${END_SYNC}" [[  fence_before_thread_sync();
  if (cluster_rank() == 0) cluster_sync();
  fence_after_thread_sync();
  if (warp == 1) tmem_dealloc]])
mxcheck_edit(arrival_of_all_lanes ${kernel} [[128 * T::kCtaGroup);]] [[4 * T::kCtaGroup);]])
mxcheck_edit(columns_past_the_allocation ${tile} [[kColumns = 512;]] [[kColumns = 256;]] ${tile} "${WIDTH_ASSERT}" [[]])
mxcheck_edit(columns_past_512
  ${tile} [[kScaleColumn = kAccumulators * kN;]] [[kScaleColumn = 488;]]
  ${tile} "${WIDTH_ASSERT}" [[]])
mxcheck_edit(pair_allocates_before_both_are_there ${kernel} [[  sync_all<T>();
  if (warp == 1) {
]] [[  sync_block();
  if (warp == 1) {
]])
mxcheck_edit(sync_after_alloc_of_the_cta_alone ${kernel} IN "${SYNC_AFTER_ALLOC}" [[sync_all<T>()]] [[sync_block()]])
mxcheck_edit(dealloc_missing ${kernel} "${DEALLOC}" [[]])
mxcheck_edit(relinquish_missing ${kernel} [[

    tmem_relinquish<T::kCtaGroup>();]] [[]])
mxcheck_edit(dealloc_of_half_the_width ${kernel} IN "${DEALLOC}" [[T::kColumns]] [[256]])
mxcheck_edit(dealloc_by_half_a_warp ${kernel} IN "${DEALLOC}" [[warp == 1]] [[warp == 1 && lane_index() < 16]])
mxcheck_edit(dealloc_of_another_address ${kernel} IN "${DEALLOC}" [[(tmem)]] [[(tmem + 32)]])
mxcheck_edit(alloc_of_48_columns ${kernel} IN "${ALLOC}" [[T::kColumns]] [[48]])
mxcheck_edit(alloc_of_48_columns_at_run_time ${kernel} "${ALLOC}"
  [[    emulation::sm100::tmem_alloc(T::kCtaGroup, base + T::kSlot, 48);]])
mxcheck_edit(alloc_after_relinquish ${kernel} "${ALLOC}" [[    tmem_relinquish<T::kCtaGroup>();
    tmem_alloc<T::kCtaGroup, T::kColumns>(base + T::kSlot);]])
mxcheck_edit(second_alloc_is_larger ${kernel} "${ALLOC}" [[    tmem_alloc<T::kCtaGroup, 256>(base + T::kSlot);
UNCHANGED]])
mxcheck_edit(alloc_by_the_leader_alone ${kernel} [[  if (warp == 1) {
    role]] [[  if (warp == 1 && cluster_rank() == 0) {
    role]])
mxcheck_edit(alloc_by_another_warp_in_the_peer ${kernel} [[  if (warp == 1) {
    role]] [[  if (warp == 1 + cluster_rank()) {
    role]])
mxcheck_edit(address_of_the_alloc_ignored
  ${tile} [[kColumns = 512;]] [[kColumns = 256;]]
  ${kernel} [[tmem = load_shared<std::uint32_t>(base + T::kSlot);]] [[tmem = 0;]])

# ---- tensor memory's order --------------------------------------------------------------------------------------------
mxcheck_edit(wait_ld_dropped,wait_ld_dropped_pair ${epilogue} [[tmem_wait_ld(sums);]] [[]])
mxcheck_edit(wait_ld_dropped_promoted ${epilogue} [[tmem_wait_ld(partial);]] [[]])
mxcheck_edit(wait_ld_after_the_use ${epilogue} [[tmem_wait_ld(sums);]] [[const Fragment<32> used = sums;
        UNCHANGED
        sums = used;]])
mxcheck_edit(sums_not_waited_for ${epilogue} "${WAIT_SUMS}" [[    } else if (sums_exist) {
      fence_after_thread_sync();]])
mxcheck_edit(sums_waited_for_by_one_lane ${epilogue} IN "${WAIT_SUMS}" [[barrier_wait<]]
  [[if (lane_index() == 0) barrier_wait<]])
mxcheck_edit(sums_waited_for_by_all_lanes_but_one ${epilogue} IN "${WAIT_SUMS}" [[barrier_wait<]]
  [[if (lane_index() != 5) barrier_wait<]])
mxcheck_edit(fence_after_by_all_lanes_but_one ${epilogue} IN "${WAIT_SUMS}" [[fence_after]]
  [[if (lane_index() != 5) fence_after]])
mxcheck_edit(wait_of_the_last_columns_alone ${epilogue} [[tmem_wait_ld(sums);]] [[if (n + 32 == T::kN) UNCHANGED]])
mxcheck_edit(first_accumulator_alone_waited_for ${epilogue} IN "${WAIT_SUMS}" [[8 * accumulator.stage]] [[0]])
mxcheck_edit(fence_after_dropped_in_the_epilogue ${epilogue} IN "${WAIT_SUMS}" [[

      fence_after_thread_sync();]] [[]])
mxcheck_edit(fence_after_before_the_wait ${epilogue} "${WAIT_SUMS}" [[    } else if (sums_exist) {
      fence_after_thread_sync();
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);]])
mxcheck_edit(fence_before_after_the_arrival
  ${epilogue} [[  fence_before_thread_sync();
  const SharedAddress barrier]] [[  const SharedAddress barrier]]
  ${epilogue} [[    barrier_arrive<Scope::cta>(barrier);
]] [[UNCHANGED    fence_before_thread_sync();
]])
mxcheck_edit(fence_before_before_wait_ld
  ${epilogue} [[  fence_before_thread_sync();
  const SharedAddress barrier]] [[  const SharedAddress barrier]]
  ${epilogue} [[tmem_wait_ld(sums);]] [[fence_before_thread_sync();
        UNCHANGED]])
mxcheck_edit(fence_after_dropped_in_the_peers_epilogue ${epilogue} IN "${WAIT_SUMS}" [[fence_after]]
  [[if (rank == 0) fence_after]])
mxcheck_edit(fence_after_dropped_promoted ${epilogue} [[accumulator.round);
    fence_after_thread_sync();]] [[accumulator.round);]])
mxcheck_edit(fence_before_dropped_in_the_epilogue,fence_before_dropped_in_a_pair ${epilogue} [[  fence_before_thread_sync();
  const SharedAddress barrier]] [[  const SharedAddress barrier]])
mxcheck_edit(both_fences_after_dropped
  ${multiply} IN "${WAIT_DRAINED}" [[

    fence_after_thread_sync();]] [[]]
  ${multiply} IN "${WAIT_FULL}" [[

      fence_after_thread_sync();]] [[]])
mxcheck_edit(drained_not_waited_for,drained_not_waited_for_in_a_pair,drained_not_waited_for_promoted ${multiply}
  "${WAIT_DRAINED}" [[    fence_after_thread_sync();]])
mxcheck_edit(next_accumulator_begun_early
  ${multiply} [[if constexpr (!T::kPromoted) begin();]] [[]]
  ${multiply} [[if constexpr (T::kPromoted) end();]] [[if (k == 0) begin();]])
mxcheck_edit(drained_before_the_last_columns,drained_before_the_last_columns_pair
  ${epilogue} [[      Fragment<32> sums;
]] [[UNCHANGED      if (sums_exist && n + 32 == T::kN) drained<T>(base, accumulator.stage);
]]
  ${epilogue} IN "${DRAINED}" [[    drained<T>(base, accumulator.stage);
]] [[]])
mxcheck_edit(accumulators_overlap
  ${multiply} [[static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);]]
  [[static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN / 2);]]
  ${epilogue} IN "${LD}" [[static_cast<int>(accumulator.stage) * T::kN]]
  [[static_cast<int>(accumulator.stage) * T::kN / 2]])
mxcheck_edit(accumulator_on_the_scales ${tile} [[kScaleColumn = kAccumulators * kN;]] [[kScaleColumn = kN;]])
mxcheck_edit(scales_overwritten_early ${multiply} [[stage * T::kSlotColumns]] [[0 * T::kSlotColumns]])
mxcheck_edit(scales_overwritten_early_pair ${multiply} [[stage * T::kSlotColumns]] [[stage % 2 * T::kSlotColumns]])
mxcheck_edit(empty_group_takes_the_last_sums ${epilogue} [[      } else if (sums_exist) {
        tmem_ld]] [[      } else if (true) {
        tmem_ld]])
mxcheck_edit(empty_group_waits ${epilogue} [[const bool sums_exist = work.depth > 0;]] [[const bool sums_exist = true;]])
mxcheck_edit(empty_group_is_committed ${multiply} [[if (work.depth == 0) continue;]] [[]])
mxcheck_edit(empty_group_arrives ${epilogue} [[if (T::kPromoted || !sums_exist) continue;]] [[if (T::kPromoted) continue;]])
mxcheck_edit(accumulates_from_the_first_k ${multiply} [[(k > 0 && !T::kPromoted) || i > 0;]] [[true;]])
mxcheck_edit(restarts_at_every_stage ${multiply} [[(k > 0 && !T::kPromoted) || i > 0;]] [[i > 0;]])
mxcheck_edit(restarts_within_the_first_stage ${multiply} [[(k > 0 && !T::kPromoted) || i > 0;]] [[k > 0;]])
mxcheck_edit(promoted_goes_on_adding ${multiply} [[(k > 0 && !T::kPromoted) || i > 0;]] [[k > 0 || i > 0;]])
mxcheck_edit(address_differs_by_lane ${epilogue} IN "${LD}" [[lanes + ]] [[lanes + lane_index() % 2 + ]])
mxcheck_edit(lanes_of_another_warp ${epilogue} [[warp_index() % 4 * 32;]] [[(warp_index() - 2) * 32;]])
mxcheck_edit(lanes_dropped ${epilogue} [[const TmemAddress lanes = tmem + (slab << 16);]]
  [[const TmemAddress lanes = tmem;]])
mxcheck_edit(rows_of_another_warp ${epilogue} IN "${ROW_IN_TILE}" [[slab]] [[(warp_index() - 2) * 32]])
mxcheck_edit(last_step_of_another_n ${multiply} IN "${MMA}" [[p.instruction]]
  [[(i == 3 ? InstructionDescriptor{(p.instruction.bits & ~(63u << 17)) | std::uint32_t(T::kN / 16) << 17} : p.instruction)]])
mxcheck_edit(fence_after_the_end_dropped ${kernel} IN "${END_SYNC}" [[  fence_after_thread_sync();
]] [[]])

# ---- phases and barriers ----------------------------------------------------------------------------------------------
mxcheck_edit(rings_never_turn ${load} [[      round ^= 1;
]] [[]])
mxcheck_edit(round_of_the_loader_stands ${load} [[      ring.step();
]] [[UNCHANGED      ring.round = 0;
]])
mxcheck_edit(round_of_the_multiplier_stands ${multiply} [[      ring.step();
]] [[UNCHANGED      ring.round = 0;
]])
mxcheck_edit(round_of_accumulators_stands ${multiply} [[    accumulator.step();
]] [[UNCHANGED    accumulator.round = 0;
]])
mxcheck_edit(round_of_the_epilogue_stands ${epilogue} IN "${DRAINED}" [[step();]] [[step();
    accumulator.round = 0;]])
mxcheck_edit(parity_of_empty ${load} [[ring.round ^ 1);]] [[ring.round);]])
mxcheck_edit(parity_of_full ${multiply} [[8 * ring.stage, ring.round);]] [[8 * ring.stage, ring.round ^ 1);]])
mxcheck_edit(parity_of_drained ${multiply} [[accumulator.round ^ 1);]] [[accumulator.round);]])
mxcheck_edit(parity_of_accumulated ${epilogue} IN "${WAIT_SUMS}" [[accumulator.round);]] [[accumulator.round ^ 1);]])
mxcheck_edit(full_not_waited_for,full_not_waited_for_in_a_pair ${multiply} "${WAIT_FULL}"
  [[      fence_after_thread_sync();]])
mxcheck_edit(empty_not_waited_for ${load} "${WAIT_EMPTY}" [[]])
mxcheck_edit(empty_not_waited_for_by_the_peer ${load} "${WAIT_EMPTY}" [[if (rank == 0) UNCHANGED]])
mxcheck_edit(one_empty_barrier_for_all_stages
  ${load} IN "${WAIT_EMPTY}" [[8 * ring.stage]] [[0]]
  ${multiply} "${COMMIT_EMPTY}" [[done(base + T::kEmpty);]])
mxcheck_edit(commit_of_a_stage_missing ${multiply} "${COMMIT_EMPTY}" [[]])
mxcheck_edit(commit_of_the_sums_missing ${multiply} "${COMMIT_SUMS}" [[]])
mxcheck_edit(commit_of_a_stage_before_its_mma
  ${multiply} "${COMMIT_EMPTY}" [[]]
  ${multiply} [[      for (int i = 0; i < steps; ++i) {
]] [[      done(base + T::kEmpty + 8 * ring.stage);
UNCHANGED]])
mxcheck_edit(commit_of_a_stage_before_its_last_mma
  ${multiply} "${COMMIT_EMPTY}" [[]]
  ${multiply} [[        const auto id = static_cast<unsigned>(i);
]] [[UNCHANGED        if (i + 1 == steps) done(base + T::kEmpty + 8 * ring.stage);
]])
mxcheck_edit(commit_of_the_sums_before_the_last_k
  ${multiply} "${COMMIT_SUMS}" [[]]
  ${multiply} "${WAIT_FULL}" [[UNCHANGED
      if (k + T::kDepth >= work.depth) done(base + T::kAccumulated + 8 * accumulator.stage);]])
mxcheck_edit(commit_on_full ${multiply} "${COMMIT_EMPTY}" [[done(base + T::kFull + 8 * ring.stage);]])
mxcheck_edit(commits_exchanged ${multiply} "${COMMIT_SUMS}" [[done(base + T::kDrained + 8 * accumulator.stage);]])
mxcheck_edit(commit_by_another_thread
  ${kernel} "${MULTIPLY_ELECT}" [[UNCHANGED
    if (T::kCtaGroup == 1 && lane_index() == 1) commit<1>(base + T::kAccumulated);]]
  ${multiply} "${COMMIT_SUMS}" [[]])
mxcheck_edit(expects_too_few_bytes ${load} IN "${EXPECT}" [[T::kStageBytes]] [[(T::kStageBytes - kChunkBytes)]])
mxcheck_edit(expects_nothing ${load} "${EXPECT}" [[if (rank == 0) barrier_arrive<Scope::cta>(full);]])
mxcheck_edit(expects_no_scales ${load} IN "${EXPECT}" [[T::kStageBytes]] [[(T::kBytesA + T::kBytesB)]])
mxcheck_edit(expects_too_many_bytes ${load} IN "${EXPECT}" [[T::kStageBytes]] [[T::kStageBytes + 16]])
mxcheck_edit(expects_four_ctas ${load} IN "${EXPECT}" [[T::kCtaGroup *]] [[2 * T::kCtaGroup *]])
mxcheck_edit(expects_one_cta ${load} IN "${EXPECT}" [[T::kCtaGroup * ]] [[]])
mxcheck_edit(both_ctas_expect ${load} IN "${EXPECT}" [[if (rank == 0) ]] [[]])
mxcheck_edit(allowed_expectation_after_the_loads
  ${load} "${EXPECT}" [[]]
  ${load} [[      ring.step();
]] [[      if (rank == 0) barrier_arrive_expect<Scope::cta>(full, T::kCtaGroup * T::kStageBytes);
UNCHANGED]])
mxcheck_edit(full_counts_two ${kernel} [[T::kFull + 8 * s, 1);]] [[T::kFull + 8 * s, 2);]])
mxcheck_edit(empty_counts_two ${kernel} [[T::kEmpty + 8 * s, 1);]] [[T::kEmpty + 8 * s, 2);]])
mxcheck_edit(accumulated_counts_two ${kernel} [[T::kAccumulated + 8 * s, 1);]] [[T::kAccumulated + 8 * s, 2);]])
mxcheck_edit(drained_counts_a_warp ${kernel} [[128 * T::kCtaGroup);]] [[32 * T::kCtaGroup);]])
mxcheck_edit(drained_counts_one_cta ${kernel} [[128 * T::kCtaGroup);]] [[128);]])
mxcheck_edit(drained_counts_too_many ${kernel} [[128 * T::kCtaGroup);]] [[160 * T::kCtaGroup);]])
mxcheck_edit(barrier_of_zero ${kernel} [[T::kEmpty + 8 * s, 1);]] [[T::kEmpty + 8 * s, 0);]])
mxcheck_edit(barrier_not_initialized ${kernel} [[s < T::kStages; ++s]] [[s + 1 < T::kStages; ++s]])
mxcheck_edit(barriers_overlap ${tile} [[kDrained = kAccumulated + 8 * kAccumulators;]] [[kDrained = kAccumulated + 8;]])
mxcheck_edit(barriers_at_four ${tile} [[kFull = kScalesB + kStages * kScaleBytes * kChunksB;]]
  [[kFull = kScalesB + kStages * kScaleBytes * kChunksB + 4;]])
mxcheck_edit(barriers_in_the_scales ${tile} [[kFull = kScalesB + kStages * kScaleBytes * kChunksB;]]
  [[kFull = kScalesB + kStages * kScaleBytes;]])
mxcheck_edit(fence_of_the_barriers_dropped ${kernel} [[  fence_barrier_init();
]] [[]])
mxcheck_edit(two_warps_initialize ${kernel} [[  // A pair's allocation]] [[  if (warp == 1 && elect()) initialize<T>(base);
UNCHANGED]])
mxcheck_edit(all_lanes_initialize ${kernel} [[    if (elect()) {
      prefetch_map(&p.a);]] [[    if (true) {
      prefetch_map(&p.a);]])
mxcheck_edit(barriers_used_before_a_barrier
  ${kernel} [[  sync_all<T>();
  if (warp == 1) {
]] [[  if (warp == 1) {
]]
  ${kernel} "${SYNC_AFTER_ALLOC}" [[  const TmemAddress tmem]])
mxcheck_edit(leader_waits_at_the_peers_barrier ${epilogue} IN "${WAIT_SUMS}"
  [[base + T::kAccumulated + 8 * accumulator.stage]] [[map_to_rank(base + T::kAccumulated + 8 * accumulator.stage, 0)]])
mxcheck_edit(generic_store_into_a_stage ${load} "${EXPECT}"
  [[store_shared<std::uint32_t>(base + T::kA + stage * T::kBytesA, 0U);
      UNCHANGED]])

# ---- who issues -------------------------------------------------------------------------------------------------------
mxcheck_edit(all_lanes_multiply ${kernel} IN "${MULTIPLY_ELECT}" [[elect()]] [[true]])
mxcheck_edit(two_lanes_multiply ${kernel} IN "${MULTIPLY_ELECT}" [[elect()]] [[lane_index() < 2]])
mxcheck_edit(all_lanes_load ${kernel} IN "${LOAD_ELECT}" [[elect()]] [[true]])
mxcheck_edit(both_ctas_multiply ${kernel} IN "${MULTIPLY_ELECT}" [[(T::kCtaGroup == 1 || cluster_rank() == 0) && ]] [[]])
mxcheck_edit(the_peer_multiplies ${kernel} IN "${MULTIPLY_ELECT}" [[cluster_rank() == 0]] [[cluster_rank() == 1]])
mxcheck_edit(elect_by_some_lanes ${kernel} IN "${LOAD_ELECT}" [[elect()]] [[lane_index() < 16 && elect()]])
mxcheck_edit(two_warps_multiply ${kernel} "${LOAD_ELECT}" [[UNCHANGED
    if (lane_index() == 1) multiply<T, kGrouping>(p, base, tmem, unit, units);]])

# ---- two CTAs ---------------------------------------------------------------------------------------------------------
mxcheck_edit(scales_of_the_peer_not_waited_for
  ${load} [[&p.scales_b, counts,]] [[&p.scales_b, full,]]
  ${load} IN "${EXPECT}" [[T::kStageBytes]] [[T::kStageBytes - kChunkBytes * T::kChunksB]])
mxcheck_edit(remote_arrival_at_cta_scope ${epilogue} [[barrier_arrive<Scope::cluster>]] [[barrier_arrive<Scope::cta>]])
mxcheck_edit(wait_at_cta_scope_in_the_multiplier ${multiply} [[T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;]]
  [[Scope::cta;]])
mxcheck_edit(wait_at_cta_scope_for_a_stage ${multiply} IN "${WAIT_FULL}" [[kScope]] [[Scope::cta]])
mxcheck_edit(wait_at_cta_scope_in_the_epilogue ${epilogue} [[                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;]]
  [[                                   std::int64_t units) {
  constexpr Scope kScope = Scope::cta;]])
mxcheck_edit(wait_at_cta_scope_in_the_loader ${load} [[T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>]] [[Scope::cta>]])
mxcheck_edit(peer_signals_itself ${load} "${COUNTS}" [[const SharedAddress counts = full;]])
mxcheck_edit(loads_without_the_pair ${load} [[tma_load<T::kCtaGroup>(base + T::kA ]] [[tma_load<1>(base + T::kA ]])
mxcheck_edit(m_of_one_cta ${params} [[ScaledInstruction{
        .m = T::kM,]] [[ScaledInstruction{
        .m = T::kRows,]])
mxcheck_edit(m_of_one_cta_promoted ${params} [[ByteInstruction{
        .m = T::kM,]] [[ByteInstruction{
        .m = T::kRows,]])
mxcheck_edit(commit_to_the_leader_alone ${multiply} [[commit_multicast<2>(barrier, pair_mask(0));]] [[commit<2>(barrier);]])
mxcheck_edit(commit_mask_of_one ${multiply} [[pair_mask(0)]] [[std::uint16_t{1}]])
mxcheck_edit(commit_mask_of_four ${multiply} [[pair_mask(0)]] [[multicast_mask(0, 4)]])
mxcheck_edit(commit_of_the_other_group ${multiply} [[commit_multicast<2>]] [[commit_multicast<1>]])
mxcheck_edit(copy_of_the_other_group ${multiply} IN "${CP_A}" [[T::kCtaGroup]] [[1]])
mxcheck_edit(mma_of_the_other_group ${multiply} IN "${MMA}" [[T::kCtaGroup]] [[1]])
mxcheck_edit(both_ctas_write_the_same_rows ${epilogue} IN "${ROW_IN_TILE}" [[T::kRows * rank + ]] [[]])
mxcheck_edit(both_ctas_load_the_same_rows ${load} [[work.row + T::kRows * rank]] [[work.row]])
mxcheck_edit(wrong_half_of_b ${load} [[T::kRowsB * rank]] [[T::kRowsB * (rank ^ 1U)]])
mxcheck_edit(same_half_of_b ${load} [[work.row_b + T::kRowsB * rank]] [[work.row_b]])
mxcheck_edit(tile_of_each_cta ${kernel} [[unit = block_index() / T::kCtaGroup;]] [[unit = block_index();]])
mxcheck_edit(tiles_of_half_the_units ${kernel} [[units = grid_blocks() / T::kCtaGroup;]] [[units = grid_blocks();]])
mxcheck_edit(arrival_at_the_own_cta ${epilogue} [[map_to_rank(barrier, 0)]] [[barrier]])

# ---- scales -----------------------------------------------------------------------------------------------------------
mxcheck_edit(stride_of_the_scale_columns ${multiply} [[static_cast<unsigned>(4 * c)]] [[static_cast<unsigned>(2 * c)]])
mxcheck_edit(scales_of_b_transposed ${load} [[(work.chunk_b + c) * p.chunks_k + chunk_k]]
  [[chunk_k * p.chunks_k + work.chunk_b + c]])
mxcheck_edit(scale_id_zero ${multiply} [[(p.instruction, id, id)]] [[(p.instruction, 0, 0)]])
mxcheck_edit(scale_id_of_b_zero ${multiply} [[(p.instruction, id, id)]] [[(p.instruction, id, 0)]])
mxcheck_edit(scale_id_of_a_differs ${multiply} [[(p.instruction, id, id)]] [[(p.instruction, id ^ 1U, id)]])
mxcheck_edit(scale_chunk_stands ${load} [[work.chunk_k + k / T::kChunkDepth;]] [[work.chunk_k;]])
mxcheck_edit(padding_is_multiplied ${multiply} [[left < T::kDepth ? static_cast<int>((left + T::kStep - 1) / T::kStep)]]
  [[left < 0 ? 0]])
mxcheck_edit(last_step_dropped ${multiply} [[(left + T::kStep - 1) / T::kStep]] [[left / T::kStep]])
mxcheck_edit(groups_padded_as_a_whole ${schedule} "${CHUNK_A}" [[work.chunk_a = work.row / 128;]])
mxcheck_edit(chunks_of_a_group_rounded_down ${schedule} [[chunk_m_ += (extent_ + 127) / 128;]]
  [[chunk_m_ += extent_ / 128;]])
mxcheck_edit(chunks_of_groups_do_not_advance ${schedule}
  [[if constexpr (kGrouping == Grouping::rows) chunk_m_ += (extent_ + 127) / 128;]] [[]])
mxcheck_edit(chunks_of_depth_rounded_down ${schedule} [[chunk_k_ += (depth_ + kChunkDepth - 1) / kChunkDepth;]]
  [[chunk_k_ += depth_ / kChunkDepth;]])
mxcheck_edit(scales_not_swizzled ${descriptor} [[return {Swizzle::none, 0, 128};]] [[return {Swizzle::none, 0, 256};]])
mxcheck_edit(packed_stride_of_the_scales ${params} [[params.chunks_k = g.chunks_k;]] [[params.chunks_k = g.k / 128;]])
mxcheck_edit(scales_of_the_first_rows ${schedule} "${CHUNK_A}" [[work.chunk_a = chunk_m_;]])
mxcheck_edit(rank_forgotten_in_the_scales ${load} [[(work.chunk_a + rank)]] [[work.chunk_a]])
mxcheck_edit(chunk_of_one_cta ${schedule} "${CHUNK_A}" [[work.chunk_a = chunk_m_ + tile_m;]])
mxcheck_edit(half_chunk_ignored,half_chunk_ignored_192,nvfp4_half_chunk_ignored ${multiply} [[static_cast<unsigned>(work.column % 128 / 32);]]
  [[0U;]])
mxcheck_edit(scales_of_b_differ_in_the_peer ${load} [[(work.chunk_b + c) * p.chunks_k]]
  [[(work.chunk_b + (c ^ static_cast<int>(rank))) * p.chunks_k]])
mxcheck_edit(copy_of_the_second_chunk_skipped,nvfp4_copy_of_the_second_half_skipped ${multiply} [[c < T::kChunksB]] [[c + 1 < T::kChunksB]])
mxcheck_edit(scales_copied_once ${multiply} "${CP_A}" [[if (ring.round == 0) UNCHANGED]])
mxcheck_edit(copy_to_the_next_columns ${multiply} IN "${CP_A}" [[scales_a,]] [[scales_a + 4,]])
mxcheck_edit(copy_before_the_wait,nvfp4_copy_before_the_wait
  ${multiply} "${WAIT_FULL}" [[]]
  ${multiply} [[      const SharedDescriptor a = shared]]
  [[      barrier_wait<kScope>(base + T::kFull + 8 * ring.stage, ring.round);
      fence_after_thread_sync();
UNCHANGED]])
mxcheck_edit(copy_into_one_partition ${multiply} IN "${CP_A}" [[rows32x128b_warpx4]] [[rows128x128b]])
mxcheck_edit(copy_into_two_partitions ${multiply} IN "${CP_A}" [[rows32x128b_warpx4]] [[rows64x128b_02_13]])
mxcheck_edit(scales_exchanged ${multiply} IN "${MMA}" [[scales_a, rows_b]] [[rows_b, scales_a]])
mxcheck_edit(scale_slot_too_narrow ${tile} [[kSlotColumns = kChunkColumns * kChunksK;]] [[kSlotColumns = 8;]])
mxcheck_edit(factor_of_the_block_before ${epilogue} [=[p.factors_a[row * p.chunks_k + block]]=]
  [=[p.factors_a[row * p.chunks_k + (k > 0 ? block - 1 : block)]]=])
mxcheck_edit(factors_of_the_first_expert ${epilogue} [[work.row_b / p.n : 0;]] [[0 * UNCHANGED]])

# ---- NVFP4: a chunk of scales for every mma ---------------------------------------------------------------------------
mxcheck_edit(nvfp4_scales_of_the_next_step ${multiply} [[slot + id / T::kStepsOfAChunk * T::kChunkColumns;]]
  [[slot + (id + 1) % 4 / T::kStepsOfAChunk * T::kChunkColumns;]])
mxcheck_edit(nvfp4_scales_of_the_first_step ${multiply} [[slot + id / T::kStepsOfAChunk * T::kChunkColumns;]] [[slot;]])
mxcheck_edit(nvfp4_two_steps_a_word ${tile} [[kStepsOfAChunk = kChunkDepth / kStep;]]
  [[kStepsOfAChunk = kChunkDepth / kStep * (kFp4 ? 2 : 1);]])
mxcheck_edit(nvfp4_blocks_of_32 ${multiply} [[mma_fp4<MmaKind::mxf4nvf4_block16,]] [[mma_fp4<MmaKind::mxf4nvf4_block32,]])
mxcheck_edit(nvfp4_as_mxfp4
  ${multiply} [[mma_fp4<MmaKind::mxf4nvf4_block16,]] [[mma_fp4<MmaKind::mxf4,]]
  ${params} IN "${FP4_INSTRUCTION}" [[.cta_group = T::kCtaGroup]] [[.cta_group = T::kCtaGroup, .scales = ScaleFormat::ue8m0]])
mxcheck_edit(nvfp4_scales_as_e8m0 ${params} IN "${FP4_INSTRUCTION}" [[.cta_group = T::kCtaGroup]]
  [[.cta_group = T::kCtaGroup, .scales = ScaleFormat::ue8m0]])
mxcheck_edit(nvfp4_scale_id_of_a_one_off ${multiply} IN "${MMA_FP4}" [[p.instruction]] [[with_scale_ids(p.instruction, 1, 0)]])
mxcheck_edit(nvfp4_scale_ids_of_the_step ${multiply} IN "${MMA_FP4}" [[p.instruction]]
  [[with_scale_ids(p.instruction, id, id)]])
mxcheck_edit(nvfp4_scales_of_the_other_half ${multiply} [[static_cast<unsigned>(work.column % 128 / 32);]]
  [[static_cast<unsigned>((work.column + 64) % 128 / 32);]])
mxcheck_edit(nvfp4_scales_exchanged ${multiply} IN "${MMA_FP4}" [[scales_a, rows_b]] [[rows_b, scales_a]])
mxcheck_edit(nvfp4_chunks_of_128 ${load} [[work.chunk_k + k / T::kChunkDepth;]] [[work.chunk_k + k / kTileK;]])
mxcheck_edit(nvfp4_groups_in_chunks_of_128 ${schedule} [[chunk_k_ += (depth_ + kChunkDepth - 1) / kChunkDepth;]]
  [[chunk_k_ += (depth_ + 127) / 128;]])
mxcheck_edit(nvfp4_one_chunk_a_load
  ${params} [[scales_map(g.scales_a, g.chunks_a, T::kChunksK,]] [[scales_map(g.scales_a, g.chunks_a, 1,]])
mxcheck_edit(nvfp4_stages_of_one_chunk
  ${load} [[base + T::kScalesA + stage * T::kScaleBytes]] [[base + T::kScalesA + stage * kChunkBytes]]
  ${multiply} [[base + T::kScalesA + stage * T::kScaleBytes]] [[base + T::kScalesA + stage * kChunkBytes]])
mxcheck_edit(nvfp4_slots_of_one_chunk ${tile} [[kSlotColumns = kChunkColumns * kChunksK;]] [[kSlotColumns = kChunkColumns;]])
mxcheck_edit(nvfp4_first_chunk_alone_copied ${multiply} [[q * T::kStepsOfAChunk < steps;]] [[q < 1;]])
mxcheck_edit(nvfp4_chunk_of_a_for_every_step ${multiply} [[stage * T::kScaleBytes + chunk * kChunkBytes));
        for]] [[stage * T::kScaleBytes));
        for]])
mxcheck_edit(nvfp4_coordinates_in_elements ${load} [[(T::kFp4 ? 2 : 1)]] [[1]])
mxcheck_edit(nvfp4_steps_of_64_bytes ${multiply} [[advance(b, kStepK * id)]] [[advance(b, T::kStep * id)]])
mxcheck_edit(nvfp4_of_bytes ${params} [[if (bits == 4) k /= 2;]] [[]])

# ---- descriptors, TMA, shared memory ----------------------------------------------------------------------------------
mxcheck_edit(tile_not_at_1024 ${tile} [[kA = 0;]] [[kA = 128;]])
mxcheck_edit(stage_not_at_1024 ${multiply} [[(base + T::kB + stage * T::kBytesB)]]
  [[(base + T::kB + stage * T::kBytesB + 128)]])
mxcheck_edit(start_inside_an_atom ${multiply} [[advance(a, kStepK * id)]] [[advance(a, kStepK * id + 16)]])
mxcheck_edit(tma_without_swizzle ${params} [[d.swizzle = Swizzle::b128;]] [[d.swizzle = Swizzle::none;]])
mxcheck_edit(tma_with_swizzle_64 ${params} [[d.swizzle = Swizzle::b128;]] [[d.swizzle = Swizzle::b64;]])
mxcheck_edit(descriptor_with_swizzle_64 ${multiply} [[k_major(Swizzle::b128)]] [[k_major(Swizzle::b64)]])
mxcheck_edit(descriptor_without_swizzle ${multiply} [[k_major(Swizzle::b128)]] [[k_major_unswizzled(128, 1024)]])
mxcheck_edit(a_transposed ${params} [[ScaledInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();]] [[ScaledInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB, .a_major = Major::mn}>();]])
mxcheck_edit(lbo_and_sbo_exchanged ${descriptor} [[return {swizzle, 16, swizzle_pattern(swizzle)};]]
  [[return {swizzle, swizzle_pattern(swizzle), 16};]])
mxcheck_edit(sbo_twice ${descriptor} [[return {swizzle, 16, swizzle_pattern(swizzle)};]]
  [[return {swizzle, 16, 2 * swizzle_pattern(swizzle)};]])
mxcheck_edit(version_bits_zero ${descriptor} [[std::uint64_t{1} << 46]] [[std::uint64_t{0} << 46]])
mxcheck_edit(scale_format_of_nvfp4 ${descriptor} [[kUe8m0 = 1u << 23;]] [[kUe8m0 = 0u << 23;]])
mxcheck_edit(n_of_half_the_tile ${params} [[ScaledInstruction{
        .m = T::kM, .n = T::kN,]] [[ScaledInstruction{
        .m = T::kM, .n = T::kN / 2,]])
mxcheck_edit(n_of_264 ${params} [[ScaledInstruction{
        .m = T::kM, .n = T::kN,]] [[ScaledInstruction{
        .m = T::kM, .n = 264,]])
mxcheck_edit(formats_exchanged ${params} [[ScaledInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();]] [[ScaledInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kB, .b = kA}>();]])
mxcheck_edit(half_as_fp16 ${params} [[HalfInstruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup}]]
  [[HalfInstruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = HalfFormat::f16, .b = HalfFormat::f16}]])
mxcheck_edit(k_of_a_stands ${multiply} [[advance(a, kStepK * id)]] [[advance(a, 0 * id)]])
mxcheck_edit(k_of_b_stands ${multiply} [[advance(b, kStepK * id)]] [[advance(b, 0 * id)]])
mxcheck_edit(k_of_half_steps ${multiply} [[advance(a, kStepK * id)]] [[advance(a, T::kStep * id)]])
mxcheck_edit(stage_of_b_stands ${multiply} [[base + T::kB + stage * T::kBytesB]] [[base + T::kB + 0 * stage * T::kBytesB]])
mxcheck_edit(stages_overlap
  ${load} [[base + T::kB + stage * T::kBytesB]] [[UNCHANGED / 2]]
  ${multiply} [[base + T::kB + stage * T::kBytesB]] [[UNCHANGED / 2]])
mxcheck_edit(box_of_64_rows ${params} [[gathers ? 1 : T::kRows;]] [[gathers ? 1 : 64;]])
mxcheck_edit(depth_starts_at_zero ${schedule} [[work.k = by_depth ? begin_ : 0;]] [[work.k = 0;]])
mxcheck_edit(scales_past_shared_memory ${tile} [[kSharedBytes = kSlot + 16;]] [[kSharedBytes = kFull;]])

# ---- which tile, and what is written ----------------------------------------------------------------------------------
mxcheck_edit(rows_past_the_groups_end,rows_past_the_end ${epilogue} [[writes = row_in_tile < work.rows;]]
  [[writes = true;]])
mxcheck_edit(rows_of_the_next_group ${epilogue} [[writes = row_in_tile < work.rows;]]
  [[writes = work.row_d + row_in_tile < p.m;]])
mxcheck_edit(rows_left_of_the_first_tile ${schedule} [[work.rows = extent_ - tile_m * kM;]] [[work.rows = extent_;]])
mxcheck_edit(columns_past_the_end ${epilogue} [[(p.n - column < 32 ? p.n - column : 32)]] [[(32)]])
mxcheck_edit(rows_of_the_first_group ${schedule} [[work.row = begin_ * (by_depth ? 0 : 1) + tile_m * kM;]]
  [[work.row = tile_m * kM;]])
mxcheck_edit(d_of_the_first_group ${schedule} [[(by_depth ? group_ * p_.m : begin_)]] [[(by_depth ? group_ * p_.m : 0)]])
mxcheck_edit(d_of_the_first_depth ${schedule} [[(by_depth ? group_ * p_.m : begin_)]] [[(by_depth ? 0 : begin_)]])
mxcheck_edit(weights_of_the_first_group ${schedule} [[(kGrouping == Grouping::rows ? group_ * p_.n : 0) + work.column;]]
  [[work.column;]])
mxcheck_edit(scales_of_the_first_weights ${schedule}
  [[(kGrouping == Grouping::rows ? group_ * ((p_.n + 127) / 128) : 0) + work.column / 128;]] [[work.column / 128;]])
mxcheck_edit(last_tile_of_rows_dropped ${schedule} [[rows_ = (extent_ + kM - 1) / kM;]] [[rows_ = extent_ / kM;]])
mxcheck_edit(last_tile_of_columns_dropped ${schedule} [[columns_ = (p_.n + kN - 1) / kN;]] [[columns_ = p_.n / kN;]])
mxcheck_edit(last_band_as_high_as_others ${schedule} [[rows_ - band * kBand < kBand ? rows_ - band * kBand : kBand;]]
  [[kBand;]])
mxcheck_edit(roles_walk_different_lists ${epilogue} [[Schedule<kGrouping, T::kM, T::kN, T::kChunkDepth> schedule(p, unit, units);]]
  [[Schedule<kGrouping, T::kN, T::kM, T::kChunkDepth> schedule(p, unit, units);]])
mxcheck_edit(last_k_dropped
  ${load} [[k < work.depth; k += T::kDepth]] [[k + T::kDepth <= work.depth; k += T::kDepth]]
  ${multiply} [[k < work.depth; k += T::kDepth]] [[k + T::kDepth <= work.depth; k += T::kDepth]])
mxcheck_edit(loader_stops_early ${load} [[k < work.depth; k += T::kDepth]] [[k + T::kDepth <= work.depth; k += T::kDepth]])
mxcheck_edit(accumulator_of_the_first_tile ${multiply}
  [[static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);]] [[0U;]])
mxcheck_edit(alpha_times_the_whole ${epilogue} [[const float product = alpha * sum;
  const float value = adds ? product + c : product;]] [[const float value = alpha * (adds ? sum + c : sum);]])
mxcheck_edit(alpha_and_c_fused ${epilogue} [[const float product = alpha * sum;
  const float value = adds ? product + c : product;]] [[const float value = adds ? std::fma(alpha, sum, c) : alpha * sum;]])
mxcheck_edit(alpha_ignored ${epilogue} [[const float product = alpha * sum;]] [[const float product = sum;]])
mxcheck_edit(c_ignored ${epilogue} [[const float value = adds ? product + c : product;]] [[const float value = product;]])
mxcheck_edit(bf16_cut ${epilogue} [[(bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16]] [[bits >> 16]])
mxcheck_edit(bf16_nan_lost ${epilogue} [[  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
]] [[]])
mxcheck_edit(bf16_half_up ${epilogue} [[(bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16]] [[(bits + 0x8000U) >> 16]])
mxcheck_edit(promoted_without_fma ${epilogue} [[const float value = std::fma(a, b, c);]]
  [[const float value = finish(a, b, true, c);]])

# ---- rows of A gathered by its loads ----------------------------------------------------------------------------------
mxcheck_edit(gathered_rows_four_off ${load} [[to + static_cast<unsigned>(i * kTileK),]]
  [[to + static_cast<unsigned>((i + 4) % T::kRows * kTileK),]])
mxcheck_edit(gathered_rows_reversed ${load} [[row_of(i), row_of(i + 1),
                              row_of(i + 2), row_of(i + 3)]] [[row_of(i + 3), row_of(i + 2), row_of(i + 1), row_of(i)]])
mxcheck_edit(gathered_rows_of_the_first_group ${load} "${GATHERED_ROW}" [=[p.gathered_rows[row_in_tile]]=])
mxcheck_edit(gathered_rows_of_the_leader ${load} [[static_cast<std::int64_t>(T::kRows * rank) + i;]]
  [[static_cast<std::int64_t>(i);]])
mxcheck_edit(index_not_used ${load} "${GATHERED_ROW}" [[static_cast<int>(work.row + row_in_tile)]])
mxcheck_edit(one_gather_fewer ${load} [[i < T::kRows; i += 4]] [[i < T::kRows - 4; i += 4]])
mxcheck_edit(one_gather_not_expected ${load} IN "${EXPECT}" [[T::kStageBytes]]
  [[T::kStageBytes - (p.gathered_rows != nullptr ? 4 * kTileK : 0)]])
mxcheck_edit(gathers_of_the_cta_alone ${load} [[tma_gather4<T::kCtaGroup>]] [[tma_gather4<1>]])
mxcheck_edit(gathers_in_a_box_of_128_rows ${params} [[gathers ? 1 : T::kRows;]] [[T::kRows;]])
mxcheck_edit(gathers_of_the_products_rows ${params} [[gathers ? g.rows_a : g.m;]] [[g.m;]])
mxcheck_edit(factors_of_the_products_rows ${epilogue} [[gathers ? p.gathered_rows[row_of_product] : row_of_product;]]
  [[row_of_product;]])

# ---- what is allowed: findings here would be false alarms -------------------------------------------------------------
mxcheck_edit(allowed_commit_on_the_next_stage ${multiply} "${COMMIT_EMPTY}"
  [[done(base + T::kEmpty + 8 * ((ring.stage + 1) % T::kStages));]])
mxcheck_edit(allowed_one_fence_before_the_last_barrier ${kernel} IN "${END_SYNC}" [[  fence_before_thread_sync();
]] [[]])
mxcheck_edit(allowed_one_fence_after_two_waits ${multiply} IN "${WAIT_DRAINED}" [[

    fence_after_thread_sync();]] [[]])
mxcheck_edit(allowed_no_fence_after_tma ${multiply} IN "${WAIT_FULL}" [[

      fence_after_thread_sync();]] [[]])
mxcheck_edit(allowed_no_fence_after_alloc ${kernel} "${SYNC_AFTER_ALLOC}" [[  sync_all<T>();
  const TmemAddress tmem]])
mxcheck_edit(allowed_start_off_by_8 ${multiply} [[(base + T::kA + stage * T::kBytesA)]]
  [[(base + T::kA + stage * T::kBytesA + 8)]])
mxcheck_edit(allowed_one_arrival_a_warp
  ${kernel} [[128 * T::kCtaGroup);]] [[4 * T::kCtaGroup);]]
  ${epilogue} [[    barrier_arrive<Scope::cta>(barrier);]]
  [[    if (lane_index() == 7) barrier_arrive<Scope::cta>(barrier);]])
mxcheck_edit(allowed_warps_not_gathered
  ${kernel} [[if (elect()) load<T, kGrouping>(p, base, unit, units);
    sync_warp();]] [[if (elect()) load<T, kGrouping>(p, base, unit, units);]]
  ${kernel} [[if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);
    sync_warp();]]
  [[if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);]])
mxcheck_edit(allowed_one_barrier_at_the_start ${kernel} [[  sync_all<T>();
  if (warp == 1) {
]] [[  if (warp == 1) {
]])
mxcheck_edit(allowed_relinquish_at_the_end
  ${kernel} [[

    tmem_relinquish<T::kCtaGroup>();]] [[]]
  ${kernel} IN "${DEALLOC}" [[tmem_dealloc]] [[tmem_relinquish<T::kCtaGroup>(), tmem_dealloc]])
mxcheck_edit(allowed_dealloc_by_another_warp ${kernel} IN "${DEALLOC}" [[warp == 1]] [[warp == 3]])
mxcheck_edit(allowed_commit_of_a_pair_to_one ${multiply} "${COMMIT_SUMS}" [[if constexpr (T::kCtaGroup == 2) {
      commit_multicast<2>(base + T::kAccumulated + 8 * accumulator.stage, 1);
      commit_multicast<2>(base + T::kAccumulated + 8 * accumulator.stage, 2);
    }]])
mxcheck_edit(allowed_loads_in_another_order
  ${load} [[      tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);
]] [[]]
  ${load} [[      ring.step();
]] [[      tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);
UNCHANGED]])
mxcheck_edit(allowed_rows_past_the_end_gathered ${load} [[p.gathered_rows[work.row + row_in_tile] : -1;]]
  [[p.gathered_rows[work.row + row_in_tile] : p.gathered_rows[work.row];]])
mxcheck_edit(allowed_gathers_in_another_order ${load} [[for (int i = 0; i < T::kRows; i += 4) {]]
  [[for (int i = T::kRows - 4; i >= 0; i -= 4) {]])
mxcheck_edit(allowed_lower_stages ${tile} [[kStages = kStages_;]] [[kStages = 2;]])
mxcheck_edit(allowed_one_stage ${tile} [[kStages = kStages_;]] [[kStages = 1;]])
mxcheck_edit(allowed_one_accumulator ${tile} [[kAccumulators = kN <= 192 ? 2 : 1;]] [[kAccumulators = 1;]])
