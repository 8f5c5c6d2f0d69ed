#!/usr/bin/env python3
"""Faults put into the Blackwell GEMM on purpose, one at a time.

A fault is a few texts replaced in headers of kernels/sm100, each of which must occur exactly once; the changed headers go
into a folder that comes before the source tree on the include path. "catalogue" names the public report that the fault
re-creates (REPORTS); "own" a fault that nobody has reported; "grey" what the PTX ISA does not decide; "allowed" a change
that is right, where a finding would be a false alarm.

    faults.py overlay FOLDER [--source ROOT]   writes FOLDER/NAME/kernels/... and FOLDER/faults.cmake
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
GEMM = "kernels/sm100/gemm/"
LAYER = "kernels/sm100/tcgen05/"

# Repository and number of the issue or pull request.
REPORTS = {
    "L1": "DeepGEMM #292; TIRx-kernels #7",
    "L2": "triton (Meta's fork) #1449",
    "L3": "TIRx-kernels #19",
    "L4": "triton #9413, #9498, #10656, #11731",
    "L5": "triton #9498",
    "L6": "openxla #40118",
    "L7": "tilelang #2644",
    "L8": "the rules of tcgen05.alloc",
    "T1": "vLLM flash-attention #182; FlashInfer #5334, #5335",
    "T2": "a loop of loads without its wait, in notes on a B200",
    "T3": "triton (Meta's fork) #1993, #2024, #3527",
    "T4": "TIRx-kernels #7",
    "T5": "CUTLASS #2995",
    "T6": "CUTLASS #2674",
    "T7": "the rules of enable-input-d",
    "T8": "TIRx-kernels #168",
    "P1": "CUTLASS #3643, #3647",
    "P2": "CUTLASS #3643; quack #63",
    "P3": "triton #9460",
    "P4": "triton #9460",
    "P5": "triton (Meta's fork) #783",
    "P6": "triton (Meta's fork) #3472",
    "P7": "tilelang #2644",
    "P8": "tilelang #2287",
    "P9": "tilelang #2274",
    "P10": "DeepGEMM #193, #415, #429",
    "P11": "humming #53, #54",
    "P12": "triton #10409",
    "C1": "triton #6050, #11633, #11635",
    "C2": "triton (Meta's fork) #1570, #1697",
    "C3": "tilelang #2644; TIRx-kernels #5",
    "C5": "TransformerEngine #1945, #3070; FlashInfer #3650",
    "C6": "FlashInfer #3604; Megatron-LM #6588",
    "C7": "vLLM #42089, #49335; FlashInfer #3882",
    "C8": "sglang #36237",
    "C9": "FlashInfer #4396, #4409",
    "C10": "TIRx-kernels #161, #202",
    "C11": "CUTLASS #3596",
    "S1": "tilelang #2134, #2379, #2391; Fuser #4096",
    "S2": "CUTLASS #2968",
    "S3": "a swizzle of TMA that is not the descriptor's, in notes on a B200",
    "S4": "tilelang #2324; TVM",
    "S6": "TransformerEngine #3483",
    "S7": "triton #7385; torchao #2877; DeepGEMM #237, #405",
    "S8": "TIRx-kernels #202",
    "B1": "TIRx-kernels #6, #9",
    "B2": "TIRx-kernels #42, #161",
    "B6": "marin #8870",
    "order": "what tcgen05 keeps in order: PTX ISA 9.0, 9.7.16.6",
}


class Fault:
    def __init__(self, name, catalogue, sentence, tile, cases, edits, compiles=True):
        self.name = name
        self.catalogue = catalogue
        self.sentence = sentence
        self.tile = tile
        self.cases = cases
        self.edits = edits  # (file, text, replacement)
        self.compiles = compiles  # False: a static_assert is what finds it


FAULTS = []


def fault(name, catalogue, sentence, *edits, tile="Single128", cases="dense", compiles=True):
    """Edits are file, text, replacement, one after the other. A file without an ending is a section of kernel.h."""
    if len(edits) % 3 != 0 or not edits or catalogue not in (*REPORTS, "own", "grey", "allowed"):
        raise ValueError(name)
    triples = []
    for i in range(0, len(edits), 3):
        file = edits[i] if edits[i].startswith("kernels/") else GEMM + edits[i]
        if "." not in edits[i]:
            file = f"{GEMM}kernel.h#{edits[i]}"
        triples.append((file, edits[i + 1], edits[i + 2]))
    FAULTS.append(Fault(name, catalogue, sentence, tile, cases, triples, compiles))


def control(tile, cases):
    FAULTS.append(Fault(f"control_{tile.lower()}_{cases}", "-", "nothing is changed", tile, cases, []))


# Texts that several faults change.
SYNC_AFTER_ALLOC = """  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  const TmemAddress tmem"""
END_SYNC = """  fence_before_thread_sync();
  sync_all<T>();
  fence_after_thread_sync();
  if (warp == 1) tmem_dealloc"""
ALLOC = """    tmem_alloc<T::kCtaGroup, T::kColumns>(base + T::kSlot);
    tmem_relinquish<T::kCtaGroup>();"""
DEALLOC = "if (warp == 1) tmem_dealloc<T::kCtaGroup, T::kColumns>(tmem);"
WIDTH_ASSERT = "static_assert(kScaleColumn + kStages * kSlotColumns <= kColumns);"
WAIT_DRAINED = """    barrier_wait<kScope>(base + T::kDrained + 8 * accumulator.stage, accumulator.round ^ 1);
    fence_after_thread_sync();"""
WAIT_FULL = """      barrier_wait<kScope>(base + T::kFull + 8 * ring.stage, ring.round);
      fence_after_thread_sync();"""
WAIT_EMPTY = (
    "barrier_wait<T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>(base + T::kEmpty + 8 * ring.stage, ring.round ^ 1);"
)
WAIT_SUMS = """    } else if (sums_exist) {
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
      fence_after_thread_sync();"""
LD = "tmem_ld<TmemShape::lanes32x32b, 32>(\n            sums, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));"
LD_PARTIAL = (
    "tmem_ld<TmemShape::lanes32x32b, 32>(partial, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));"
)
DRAINED = """    if (T::kPromoted || !sums_exist) continue;
    drained<T>(base, accumulator.stage);
    accumulator.step();"""
COMMIT_EMPTY = "done(base + T::kEmpty + 8 * ring.stage);"
COMMIT_SUMS = "done(base + T::kAccumulated + 8 * accumulator.stage);"
CP_A = """cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_a,"""
CP_B = """cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_b + static_cast<unsigned>(4 * c),"""
MMA = "mma_block_scaled<T::kCtaGroup>(d, step_a, step_b, with_scale_ids(p.instruction, id, id), scales_a, rows_b,"
EXPECT = "if (rank == 0) barrier_arrive_expect<Scope::cta>(full, T::kCtaGroup * T::kStageBytes);"
COUNTS = "const SharedAddress counts = T::kCtaGroup == 2 ? map_to_rank(full, 0) : full;"
LOAD_ELECT = "if (elect()) load<T, kGrouping>(p, base, unit, units);"
MULTIPLY_ELECT = (
    "if ((T::kCtaGroup == 1 || cluster_rank() == 0) && elect()) multiply<T, kGrouping>(p, base, tmem, unit, units);"
)
ROW_IN_TILE = "const std::int64_t row_in_tile = T::kRows * rank + slab + lane_index();"
GATHERED_ROW = "p.gathered_rows[work.row + row_in_tile]"
CHUNK_A = "work.chunk_a = chunk_m_ + tile_m * (kM / 128);"

for tile, cases in (
    ("Single64", "dense"),
    ("Single128", "dense"),
    ("Single128", "rows"),
    ("Single128", "depth"),
    ("Single128", "tall"),
    ("Single192", "dense"),
    ("Single256", "dense"),
    ("Pair128", "dense"),
    ("Pair128", "rows"),
    ("Pair128", "depth"),
    ("Pair256", "dense"),
    ("HalfSingle128", "dense"),
    ("PromotedSingle128", "dense"),
    ("PromotedSingle128", "rows"),
    ("PromotedPair128", "dense"),
    ("Single128", "gathered"),
    ("Pair128", "gathered"),
    ("HalfSingle128", "gathered"),
    ("PromotedSingle128", "gathered"),
):
    control(tile, cases)

# --- allocation and lifetime

fault(
    "alloc_address_read_early", "L1", "the address of the allocation is read with no barrier after the alloc",
    "kernel", SYNC_AFTER_ALLOC, "  const TmemAddress tmem",
)  # fmt: skip
fault(
    "slot_in_a_stage", "L2", "the word of the alloc lies in the first stage of A",
    "tile.h", "kSlot = kDrained + 8 * kAccumulators;", "kSlot = 0;",
    "tile.h", "kSharedBytes = kSlot + 16;", "kSharedBytes = kDrained + 8 * kAccumulators + 16;",
)  # fmt: skip
fault(
    "slot_in_a_barrier", "L2", "the word of the alloc lies in the first barrier",
    "tile.h", "kSlot = kDrained + 8 * kAccumulators;", "kSlot = kFull;",
    "tile.h", "kSharedBytes = kSlot + 16;", "kSharedBytes = kDrained + 8 * kAccumulators + 16;",
)  # fmt: skip
fault(
    "dealloc_after_own_loop", "L3", "the multiplying warp frees its columns at the end of its own loop",
    "kernel", END_SYNC, "  " + DEALLOC + "\n  fence_before_thread_sync();\n  sync_all<T>();\n  if (false) tmem_dealloc",
)  # fmt: skip
fault(
    "dealloc_after_own_loop_pair", "L3", "the multiplying warps free their columns at the end of their own loops",
    "kernel", END_SYNC, "  " + DEALLOC + "\n  fence_before_thread_sync();\n  sync_all<T>();\n  if (false) tmem_dealloc",
    tile="Pair128",
)  # fmt: skip
fault(
    "last_cluster_sync_dropped", "L4", "no barrier of the cluster at the end",
    "kernel", END_SYNC, "  if (warp == 1) tmem_dealloc", tile="Pair128",
)  # fmt: skip
fault(
    "last_sync_of_the_cta_alone", "L4", "a barrier of each CTA at the end, in place of the cluster's",
    "kernel", END_SYNC, END_SYNC.replace("sync_all<T>()", "sync_block()"), tile="Pair128",
)  # fmt: skip
fault(
    "peer_leaves_before_the_last_sync", "P12", "the peer does not wait at the last barrier of the cluster",
    "kernel", END_SYNC,
    "  fence_before_thread_sync();\n  if (cluster_rank() == 0) cluster_sync();\n  fence_after_thread_sync();\n"
    "  if (warp == 1) tmem_dealloc",
    tile="Pair128",
)  # fmt: skip
fault(
    "arrival_of_all_lanes", "L5", "drained counts a warp once, and all its lanes arrive",
    "kernel", "128 * T::kCtaGroup);", "4 * T::kCtaGroup);",
)  # fmt: skip
fault(
    "columns_past_the_allocation", "L6", "256 columns are allocated, and the scales lie past them",
    "tile.h", "kColumns = 512;", "kColumns = 256;",
    "tile.h", WIDTH_ASSERT, "",
)  # fmt: skip
fault(
    "columns_past_512", "L6", "the scales of the last stages lie past column 512",
    "tile.h", "kScaleColumn = kAccumulators * kN;", "kScaleColumn = 488;",
    "tile.h", WIDTH_ASSERT, "",
)  # fmt: skip
fault(
    "pair_allocates_before_both_are_there", "L7", "no barrier of the cluster before a pair's alloc",
    "kernel", "  sync_all<T>();\n  if (warp == 1) {\n", "  sync_block();\n  if (warp == 1) {\n", tile="Pair128",
)  # fmt: skip
fault("sync_after_alloc_of_the_cta_alone", "grey", "a barrier of each CTA after a pair's alloc, in place of the cluster's",
      "kernel", SYNC_AFTER_ALLOC, SYNC_AFTER_ALLOC.replace("sync_all<T>()", "sync_block()"), tile="Pair128")  # fmt: skip
fault("dealloc_missing", "L8", "the columns are never freed", "kernel", DEALLOC, "")
fault("relinquish_missing", "L8", "the permit to allocate is not given up",
      "kernel", "\n    tmem_relinquish<T::kCtaGroup>();", "")  # fmt: skip
fault("dealloc_of_half_the_width", "L8", "512 columns are allocated, 256 freed",
      "kernel", DEALLOC, DEALLOC.replace("T::kColumns", "256"))  # fmt: skip
fault("dealloc_by_half_a_warp", "L8", "16 lanes free the columns",
      "kernel", DEALLOC, DEALLOC.replace("warp == 1", "warp == 1 && lane_index() < 16"))  # fmt: skip
fault("dealloc_of_another_address", "L8", "column 32 is freed where 0 was allocated",
      "kernel", DEALLOC, DEALLOC.replace("(tmem)", "(tmem + 32)"))  # fmt: skip
fault("alloc_of_48_columns", "L8", "an alloc whose width is no power of two",
      "kernel", ALLOC, ALLOC.replace("T::kColumns", "48"), compiles=False)  # fmt: skip
fault("alloc_of_48_columns_at_run_time", "L8", "an alloc whose width is no power of two, past the layer",
      "kernel", ALLOC, "    emulation::sm100::tmem_alloc(T::kCtaGroup, base + T::kSlot, 48);")  # fmt: skip
fault("alloc_after_relinquish", "L8", "the permit is given up before the alloc",
      "kernel", ALLOC, "\n".join(reversed(ALLOC.split("\n"))))  # fmt: skip
fault("second_alloc_is_larger", "own", "256 columns, then 512",
      "kernel", ALLOC, "    tmem_alloc<T::kCtaGroup, 256>(base + T::kSlot);\n" + ALLOC)  # fmt: skip
fault("alloc_by_the_leader_alone", "L8", "the peer of a pair does not allocate",
      "kernel", "  if (warp == 1) {\n    role", "  if (warp == 1 && cluster_rank() == 0) {\n    role",
      tile="Pair128")  # fmt: skip
fault("alloc_by_another_warp_in_the_peer", "grey", "warp 1 of the leader allocates and warp 2 of the peer",
      "kernel", "  if (warp == 1) {\n    role", "  if (warp == 1 + cluster_rank()) {\n    role",
      tile="Pair128")  # fmt: skip
fault("address_of_the_alloc_ignored", "own", "column 0 is taken for the address of an allocation of 256",
      "tile.h", "kColumns = 512;", "kColumns = 256;",
      "kernel", "tmem = load_shared<std::uint32_t>(base + T::kSlot);", "tmem = 0;", tile="Single64")  # fmt: skip

# --- tensor memory's order

fault("wait_ld_dropped", "T1", "loads of tensor memory are not waited for",
      "epilogue", "tmem_wait_ld(sums);", "")  # fmt: skip
fault("wait_ld_dropped_pair", "T1", "loads of tensor memory are not waited for, in a pair",
      "epilogue", "tmem_wait_ld(sums);", "", tile="Pair128")  # fmt: skip
fault("wait_ld_dropped_promoted", "T1", "loads of partial sums are not waited for",
      "epilogue", "tmem_wait_ld(partial);", "", tile="PromotedSingle128")  # fmt: skip
fault("wait_ld_after_the_use", "T1", "a load is waited for after its registers are used",
      "epilogue", "tmem_wait_ld(sums);", "const Fragment<32> used = sums;\n        tmem_wait_ld(sums);\n        sums = used;",
      )  # fmt: skip
fault("sums_not_waited_for", "T2", "accumulators are read without the wait for their commit",
      "epilogue", WAIT_SUMS, "    } else if (sums_exist) {\n      fence_after_thread_sync();")  # fmt: skip
fault("sums_waited_for_by_one_lane", "T2", "one lane of a warp waits for the commit",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("barrier_wait<", "if (lane_index() == 0) barrier_wait<"))  # fmt: skip
fault("sums_waited_for_by_all_lanes_but_one", "T2", "lane 5 of a warp does not wait for the commit",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("barrier_wait<", "if (lane_index() != 5) barrier_wait<"))  # fmt: skip
fault("fence_after_by_all_lanes_but_one", "T2", "lane 5 of a warp has no fence::after_thread_sync before its loads",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("fence_after", "if (lane_index() != 5) fence_after"))  # fmt: skip
fault("wait_of_the_last_columns_alone", "T1", "a load of 32 columns is waited for after the next has been issued, and used before",
      "epilogue", "tmem_wait_ld(sums);", "if (n + 32 == T::kN) tmem_wait_ld(sums);")  # fmt: skip
fault("first_accumulator_alone_waited_for", "T2", "the wait is for the first accumulator's barrier, whichever it is",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("8 * accumulator.stage", "0"))  # fmt: skip
fault("fence_after_dropped_in_the_epilogue", "T2", "no fence::after_thread_sync between the wait and the loads",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("\n      fence_after_thread_sync();", ""))  # fmt: skip
fault("fence_after_before_the_wait", "T2", "fence::after_thread_sync comes before the wait that it is to follow",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("\n      fence_after_thread_sync();", "")
      .replace("      barrier_wait", "      fence_after_thread_sync();\n      barrier_wait"))  # fmt: skip
fault("fence_before_after_the_arrival", "T1", "fence::before_thread_sync comes after the arrival that it is to precede",
      "epilogue", "  fence_before_thread_sync();\n  const SharedAddress barrier", "  const SharedAddress barrier",
      "epilogue", "    barrier_arrive<Scope::cta>(barrier);\n", "    barrier_arrive<Scope::cta>(barrier);\n    fence_before_thread_sync();\n")  # fmt: skip
fault("fence_before_before_wait_ld", "T1", "fence::before_thread_sync comes before the wait::ld that it is to follow",
      "epilogue", "  fence_before_thread_sync();\n  const SharedAddress barrier", "  const SharedAddress barrier",
      "epilogue", "tmem_wait_ld(sums);", "fence_before_thread_sync();\n        tmem_wait_ld(sums);")  # fmt: skip
fault("fence_after_dropped_in_the_peers_epilogue", "T2", "as before, in the peer of a pair alone",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("fence_after", "if (rank == 0) fence_after"), tile="Pair128")  # fmt: skip
fault("fence_after_dropped_promoted", "T2", "no fence::after_thread_sync before partial sums are loaded",
      "epilogue", "accumulator.round);\n    fence_after_thread_sync();", "accumulator.round);",
      tile="PromotedSingle128")  # fmt: skip
fault("fence_before_dropped_in_the_epilogue", "T1", "no fence::before_thread_sync between the loads and the arrival",
      "epilogue", "  fence_before_thread_sync();\n  const SharedAddress barrier", "  const SharedAddress barrier",
      )  # fmt: skip
fault("fence_before_dropped_in_a_pair", "T1", "as before, in a pair",
      "epilogue", "  fence_before_thread_sync();\n  const SharedAddress barrier", "  const SharedAddress barrier",
      tile="Pair128")  # fmt: skip
fault("both_fences_after_dropped", "T1", "no fence::after_thread_sync in the thread that multiplies",
      "multiply", WAIT_DRAINED, WAIT_DRAINED.replace("\n    fence_after_thread_sync();", ""),
      "multiply", WAIT_FULL, WAIT_FULL.replace("\n      fence_after_thread_sync();", ""))  # fmt: skip
fault("drained_not_waited_for", "T1", "an accumulator is overwritten without a wait for its readers",
      "multiply", WAIT_DRAINED, "    fence_after_thread_sync();")  # fmt: skip
fault("drained_not_waited_for_in_a_pair", "T1", "as before, in a pair",
      "multiply", WAIT_DRAINED, "    fence_after_thread_sync();", tile="Pair128")  # fmt: skip
fault("drained_not_waited_for_promoted", "T1", "partial sums are overwritten without a wait for their readers",
      "multiply", WAIT_DRAINED, "    fence_after_thread_sync();", tile="PromotedSingle128")  # fmt: skip
fault("next_accumulator_begun_early", "T5", "the wait for a drained accumulator comes after the first 128 of k",
      "multiply", "if constexpr (!T::kPromoted) begin();", "",
      "multiply", "if constexpr (T::kPromoted) end();", "if (k == 0) begin();")  # fmt: skip
fault("drained_before_the_last_columns", "T5", "an accumulator is given back before its last 32 columns are loaded",
      "epilogue", "      Fragment<32> sums;\n",
      "      Fragment<32> sums;\n      if (sums_exist && n + 32 == T::kN) drained<T>(base, accumulator.stage);\n",
      "epilogue", DRAINED, DRAINED.replace("    drained<T>(base, accumulator.stage);\n", ""))  # fmt: skip
fault("drained_before_the_last_columns_pair", "T5", "as before, in a pair that has one accumulator",
      "epilogue", "      Fragment<32> sums;\n",
      "      Fragment<32> sums;\n      if (sums_exist && n + 32 == T::kN) drained<T>(base, accumulator.stage);\n",
      "epilogue", DRAINED, DRAINED.replace("    drained<T>(base, accumulator.stage);\n", ""), tile="Pair256")  # fmt: skip
fault("accumulators_overlap", "T3", "the second accumulator begins in the middle of the first",
      "multiply", "static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);", "static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN / 2);",
      "epilogue", LD, LD.replace("static_cast<int>(accumulator.stage) * T::kN", "static_cast<int>(accumulator.stage) * T::kN / 2"))  # fmt: skip
fault("accumulator_on_the_scales", "T3", "the scales lie in the second accumulator",
      "tile.h", "kScaleColumn = kAccumulators * kN;", "kScaleColumn = kN;")  # fmt: skip
fault("scales_overwritten_early", "T4", "one slot of scales for all stages",
      "multiply", "stage * T::kSlotColumns", "0 * T::kSlotColumns")  # fmt: skip
fault("scales_overwritten_early_pair", "T4", "two slots of scales for eight stages, in a pair",
      "multiply", "stage * T::kSlotColumns", "stage % 2 * T::kSlotColumns", tile="Pair128")  # fmt: skip
fault("empty_group_takes_the_last_sums", "T6", "a group with no k writes the accumulator of the group before",
      "epilogue", "      } else if (sums_exist) {\n        tmem_ld", "      } else if (true) {\n        tmem_ld", cases="depth")  # fmt: skip
fault("empty_group_waits", "T6", "the epilogue waits for the sums of a group with no k",
      "epilogue", "const bool sums_exist = work.depth > 0;", "const bool sums_exist = true;", cases="depth")  # fmt: skip
fault("empty_group_is_committed", "T6", "a group with no k is committed all the same",
      "multiply", "if (work.depth == 0) continue;", "", cases="depth")  # fmt: skip
fault("empty_group_arrives", "T6", "the epilogue arrives for a group with no k",
      "epilogue", "if (T::kPromoted || !sums_exist) continue;", "if (T::kPromoted) continue;", cases="depth")  # fmt: skip
fault("accumulates_from_the_first_k", "T7", "the first mma of a tile adds to what is there",
      "multiply", "(k > 0 && !T::kPromoted) || i > 0;", "true;")  # fmt: skip
fault("restarts_at_every_stage", "T7", "the first mma of each 128 of k overwrites the sums",
      "multiply", "(k > 0 && !T::kPromoted) || i > 0;", "i > 0;")  # fmt: skip
fault("restarts_within_the_first_stage", "T7", "all mma of the first 128 of k overwrite the sums",
      "multiply", "(k > 0 && !T::kPromoted) || i > 0;", "k > 0;")  # fmt: skip
fault("promoted_goes_on_adding", "T7", "partial sums are not begun anew for every 128 of k",
      "multiply", "(k > 0 && !T::kPromoted) || i > 0;", "k > 0 || i > 0;", tile="PromotedSingle128")  # fmt: skip
fault("address_differs_by_lane", "T8", "lanes of a warp pass different addresses to tcgen05.ld",
      "epilogue", LD, LD.replace("lanes + ", "lanes + lane_index() % 2 + "))  # fmt: skip
fault("lanes_of_another_warp", "own", "warp 2 reads lanes 0 to 31: warp - 2 in place of warp % 4",
      "epilogue", "warp_index() % 4 * 32;", "(warp_index() - 2) * 32;")  # fmt: skip
fault("lanes_dropped", "own", "every warp reads the lanes of the first",
      "epilogue", "const TmemAddress lanes = tmem + (slab << 16);", "const TmemAddress lanes = tmem;")  # fmt: skip
fault("rows_of_another_warp", "own", "each warp's rows are written where those of another belong",
      "epilogue", ROW_IN_TILE, ROW_IN_TILE.replace("slab", "(warp_index() - 2) * 32"))  # fmt: skip
fault("last_step_of_another_n", "order", "the last mma of every 128 of k has half the columns",
      "multiply", MMA, MMA.replace("p.instruction",
      "(i == 3 ? InstructionDescriptor{(p.instruction.bits & ~(63u << 17)) | std::uint32_t(T::kN / 16) << 17} : p.instruction)"))  # fmt: skip
fault("fence_after_the_end_dropped", "L3", "no fence::after_thread_sync before the dealloc",
      "kernel", END_SYNC, END_SYNC.replace("  fence_after_thread_sync();\n", ""))  # fmt: skip

# --- phases and barriers

fault("rings_never_turn", "own", "a ring's round is not flipped, in any role",
      "load", "      round ^= 1;\n", "")  # fmt: skip
fault("round_of_the_loader_stands", "own", "the loader's round is not flipped",
      "load", "      ring.step();\n", "      ring.step();\n      ring.round = 0;\n")  # fmt: skip
fault("round_of_the_multiplier_stands", "own", "the multiplier's round of stages is not flipped",
      "multiply", "      ring.step();\n", "      ring.step();\n      ring.round = 0;\n")  # fmt: skip
fault("round_of_accumulators_stands", "own", "the multiplier's round of accumulators is not flipped",
      "multiply", "    accumulator.step();\n", "    accumulator.step();\n    accumulator.round = 0;\n")  # fmt: skip
fault("round_of_the_epilogue_stands", "own", "the epilogue's round is not flipped",
      "epilogue", DRAINED, DRAINED.replace("step();", "step();\n    accumulator.round = 0;"))  # fmt: skip
fault("parity_of_empty", "own", "the loader waits for the other parity",
      "load", "ring.round ^ 1);", "ring.round);")  # fmt: skip
fault("parity_of_full", "own", "the multiplier waits for the other parity of a stage",
      "multiply", "8 * ring.stage, ring.round);", "8 * ring.stage, ring.round ^ 1);")  # fmt: skip
fault("parity_of_drained", "own", "the multiplier waits for the other parity of an accumulator",
      "multiply", "accumulator.round ^ 1);", "accumulator.round);")  # fmt: skip
fault("parity_of_accumulated", "own", "the epilogue waits for the other parity",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("accumulator.round);", "accumulator.round ^ 1);"))  # fmt: skip
fault("full_not_waited_for", "own", "a stage is used without a wait for its bytes",
      "multiply", WAIT_FULL, "      fence_after_thread_sync();")  # fmt: skip
fault("full_not_waited_for_in_a_pair", "P1", "as before, in a pair",
      "multiply", WAIT_FULL, "      fence_after_thread_sync();", tile="Pair128")  # fmt: skip
fault("empty_not_waited_for", "own", "a stage is filled again without a wait for its readers",
      "load", WAIT_EMPTY, "")  # fmt: skip
fault("empty_not_waited_for_by_the_peer", "P11", "the peer of a pair fills its stages without a wait for their readers",
      "load", WAIT_EMPTY, "if (rank == 0) " + WAIT_EMPTY, tile="Pair128")  # fmt: skip
fault("one_empty_barrier_for_all_stages", "P6", "one barrier says of all stages that they are empty",
      "load", WAIT_EMPTY, WAIT_EMPTY.replace("8 * ring.stage", "0"),
      "multiply", COMMIT_EMPTY, "done(base + T::kEmpty);")  # fmt: skip
fault("commit_of_a_stage_missing", "own", "no commit says that a stage is empty",
      "multiply", COMMIT_EMPTY, "")  # fmt: skip
fault("commit_of_the_sums_missing", "own", "no commit says that a tile is accumulated",
      "multiply", COMMIT_SUMS, "")  # fmt: skip
fault("commit_of_a_stage_before_its_mma", "own", "a stage is committed before the mma that read it",
      "multiply", COMMIT_EMPTY, "",
      "multiply", "      for (int i = 0; i < steps; ++i) {\n", "      " + COMMIT_EMPTY + "\n      for (int i = 0; i < steps; ++i) {\n")  # fmt: skip
fault("commit_of_a_stage_before_its_last_mma", "own", "a stage is committed before the last mma that reads it",
      "multiply", COMMIT_EMPTY, "",
      "multiply", "        const auto id = static_cast<unsigned>(i);\n",
      "        const auto id = static_cast<unsigned>(i);\n        if (i + 1 == steps) " + COMMIT_EMPTY + "\n")  # fmt: skip
fault("commit_of_the_sums_before_the_last_k", "own", "a tile is committed before its last 128 of k",
      "multiply", COMMIT_SUMS, "",
      "multiply", WAIT_FULL, WAIT_FULL + "\n      if (k + T::kDepth >= work.depth) " + COMMIT_SUMS)  # fmt: skip
fault("commit_on_full", "own", "the commit of a stage arrives at the barrier that counts its bytes",
      "multiply", COMMIT_EMPTY, "done(base + T::kFull + 8 * ring.stage);")  # fmt: skip
fault("commits_exchanged", "own", "the commit of a tile arrives at the barrier of its readers",
      "multiply", COMMIT_SUMS, "done(base + T::kDrained + 8 * accumulator.stage);")  # fmt: skip
fault("commit_by_another_thread", "own", "another lane than the one that issued commits a tile",
      "kernel", MULTIPLY_ELECT,
      MULTIPLY_ELECT + "\n    if (T::kCtaGroup == 1 && lane_index() == 1) commit<1>(base + T::kAccumulated);",
      "multiply", COMMIT_SUMS, "")  # fmt: skip
fault("expects_too_few_bytes", "C9", "the bytes of the scales of A are not expected",
      "load", EXPECT, EXPECT.replace("T::kStageBytes", "(T::kStageBytes - kChunkBytes)"))  # fmt: skip
fault("expects_nothing", "C9", "the loader arrives at a stage's barrier and expects no bytes",
      "load", EXPECT, "if (rank == 0) barrier_arrive<Scope::cta>(full);")  # fmt: skip
fault("expects_no_scales", "C9", "the bytes of the scales are not expected, in a pair",
      "load", EXPECT, EXPECT.replace("T::kStageBytes", "(T::kBytesA + T::kBytesB)"), tile="Pair128")  # fmt: skip
fault("expects_too_many_bytes", "P7", "16 bytes more are expected than arrive",
      "load", EXPECT, EXPECT.replace("T::kStageBytes", "T::kStageBytes + 16"))  # fmt: skip
fault("expects_four_ctas", "P7", "the bytes of four CTAs are expected of a pair",
      "load", EXPECT, EXPECT.replace("T::kCtaGroup *", "2 * T::kCtaGroup *"), tile="Pair128")  # fmt: skip
fault("expects_one_cta", "P7", "the bytes of one CTA are expected of a pair",
      "load", EXPECT, EXPECT.replace("T::kCtaGroup * ", ""), tile="Pair128")  # fmt: skip
fault("both_ctas_expect", "P7", "the peer expects bytes at its own barrier too",
      "load", EXPECT, EXPECT.replace("if (rank == 0) ", ""), tile="Pair128")  # fmt: skip
fault("allowed_expectation_after_the_loads", "allowed", "bytes are expected after the loads that bring them",
      "load", EXPECT, "",
      "load", "      ring.step();\n", "      " + EXPECT + "\n      ring.step();\n")  # fmt: skip
fault("full_counts_two", "own", "the barrier of a stage waits for two arrivals",
      "kernel", "T::kFull + 8 * s, 1);", "T::kFull + 8 * s, 2);")  # fmt: skip
fault("empty_counts_two", "own", "two commits are to empty a stage",
      "kernel", "T::kEmpty + 8 * s, 1);", "T::kEmpty + 8 * s, 2);")  # fmt: skip
fault("accumulated_counts_two", "own", "two commits are to end a tile",
      "kernel", "T::kAccumulated + 8 * s, 1);", "T::kAccumulated + 8 * s, 2);")  # fmt: skip
fault("drained_counts_a_warp", "own", "an accumulator is drained when 32 of 128 threads have read it",
      "kernel", "128 * T::kCtaGroup);", "32 * T::kCtaGroup);")  # fmt: skip
fault("drained_counts_one_cta", "own", "a pair's accumulator is drained when one CTA has read it",
      "kernel", "128 * T::kCtaGroup);", "128);", tile="Pair128")  # fmt: skip
fault("drained_counts_too_many", "own", "160 arrivals are to drain an accumulator that 128 threads read",
      "kernel", "128 * T::kCtaGroup);", "160 * T::kCtaGroup);")  # fmt: skip
fault("barrier_of_zero", "own", "a barrier of no arrivals",
      "kernel", "T::kEmpty + 8 * s, 1);", "T::kEmpty + 8 * s, 0);")  # fmt: skip
fault("barrier_not_initialized", "own", "the barrier of the last stage is not initialized",
      "kernel", "s < T::kStages; ++s", "s + 1 < T::kStages; ++s")  # fmt: skip
fault("barriers_overlap", "own", "drained of one accumulator is accumulated of the other",
      "tile.h", "kDrained = kAccumulated + 8 * kAccumulators;", "kDrained = kAccumulated + 8;")  # fmt: skip
fault("barriers_at_four", "own", "the barriers are at a multiple of 4",
      "tile.h", "kFull = kScalesB + kStages * kChunkBytes * kChunksB;", "kFull = kScalesB + kStages * kChunkBytes * kChunksB + 4;")  # fmt: skip
fault("barriers_in_the_scales", "own", "the barriers lie in the scales of B: their second chunk is forgotten",
      "tile.h", "kFull = kScalesB + kStages * kChunkBytes * kChunksB;", "kFull = kScalesB + kStages * kChunkBytes;", tile="Single256")  # fmt: skip
fault("fence_of_the_barriers_dropped", "B1", "no fence.mbarrier_init",
      "kernel", "  fence_barrier_init();\n", "")  # fmt: skip
fault("two_warps_initialize", "B1", "warp 1 initializes the barriers too",
      "kernel", "  // A pair's allocation", "  if (warp == 1 && elect()) initialize<T>(base);\n  // A pair's allocation")  # fmt: skip
fault("all_lanes_initialize", "B1", "32 lanes initialize the barriers",
      "kernel", "    if (elect()) {\n      prefetch_map(&p.a);", "    if (true) {\n      prefetch_map(&p.a);")  # fmt: skip
fault("barriers_used_before_a_barrier", "B1", "no barrier between the initialization and the first use",
      "kernel", "  sync_all<T>();\n  if (warp == 1) {\n", "  if (warp == 1) {\n",
      "kernel", SYNC_AFTER_ALLOC, "  const TmemAddress tmem")  # fmt: skip
fault("leader_waits_at_the_peers_barrier", "own", "the peer waits for the sums at the leader's barrier",
      "epilogue", WAIT_SUMS, WAIT_SUMS.replace("base + T::kAccumulated + 8 * accumulator.stage",
      "map_to_rank(base + T::kAccumulated + 8 * accumulator.stage, 0)"), tile="Pair128")  # fmt: skip
fault("generic_store_into_a_stage", "B2", "a stage is cleared by a store before TMA fills it, with no fence.proxy.async",
      "load", EXPECT, "store_shared<std::uint32_t>(base + T::kA + stage * T::kBytesA, 0U);\n      " + EXPECT)  # fmt: skip

# --- who issues

fault("all_lanes_multiply", "own", "32 lanes issue the mma", "kernel", MULTIPLY_ELECT, MULTIPLY_ELECT.replace("elect()", "true"))  # fmt: skip
fault("two_lanes_multiply", "own", "two lanes issue the mma",
      "kernel", MULTIPLY_ELECT, MULTIPLY_ELECT.replace("elect()", "lane_index() < 2"))  # fmt: skip
fault("all_lanes_load", "S8", "32 lanes issue the loads", "kernel", LOAD_ELECT, LOAD_ELECT.replace("elect()", "true"))  # fmt: skip
fault("both_ctas_multiply", "P3", "both CTAs of a pair issue the mma",
      "kernel", MULTIPLY_ELECT, MULTIPLY_ELECT.replace("(T::kCtaGroup == 1 || cluster_rank() == 0) && ", ""), tile="Pair128")  # fmt: skip
fault("the_peer_multiplies", "P3", "the CTA of odd rank issues a pair's mma",
      "kernel", MULTIPLY_ELECT, MULTIPLY_ELECT.replace("cluster_rank() == 0", "cluster_rank() == 1"), tile="Pair128")  # fmt: skip
fault("elect_by_some_lanes", "own", "elect.sync is reached by half a warp",
      "kernel", LOAD_ELECT, LOAD_ELECT.replace("elect()", "lane_index() < 16 && elect()"))  # fmt: skip
fault("two_warps_multiply", "order", "warps 0 and 1 take mma in turn: their order is nobody's",
      "kernel", LOAD_ELECT, LOAD_ELECT + "\n    if (lane_index() == 1) multiply<T, kGrouping>(p, base, tmem, unit, units);")  # fmt: skip

# --- two CTAs

fault("scales_of_the_peer_not_waited_for", "P1", "the scales of B in the peer count at the peer's barrier, which the leader does not see",
      "load", "&p.scales_b, counts,", "&p.scales_b, full,",
      "load", EXPECT, EXPECT.replace("T::kStageBytes", "T::kStageBytes - kChunkBytes * T::kChunksB"), tile="Pair128")  # fmt: skip
fault("remote_arrival_at_cta_scope", "P2", "the peer arrives at the leader's barrier with .release.cta",
      "epilogue", "barrier_arrive<Scope::cluster>", "barrier_arrive<Scope::cta>", tile="Pair128")  # fmt: skip
fault("wait_at_cta_scope_in_the_multiplier", "P2", "the leader waits for the peer's arrivals with .acquire.cta",
      "multiply", "T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;", "Scope::cta;", tile="Pair128")  # fmt: skip
fault("wait_at_cta_scope_for_a_stage", "P1", "the leader waits for the bytes of both CTAs with .acquire.cta",
      "multiply", WAIT_FULL, WAIT_FULL.replace("kScope", "Scope::cta"), tile="Pair128")  # fmt: skip
fault("wait_at_cta_scope_in_the_epilogue", "P2", "the peer waits for the leader's commit with .acquire.cta",
      "epilogue", "                                   std::int64_t units) {\n  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;",
      "                                   std::int64_t units) {\n  constexpr Scope kScope = Scope::cta;", tile="Pair128")  # fmt: skip
fault("wait_at_cta_scope_in_the_loader", "P2", "the peer waits for the leader's commit of a stage with .acquire.cta",
      "load", "T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>", "Scope::cta>", tile="Pair128")  # fmt: skip
fault("peer_signals_itself", "P3", "the peer's loads count at its own barrier",
      "load", COUNTS, "const SharedAddress counts = full;", tile="Pair128")  # fmt: skip
fault("loads_without_the_pair", "P3", "loads of a pair name the leader's barrier without cta_group::2",
      "load", "tma_load<T::kCtaGroup>(base + T::kA ", "tma_load<1>(base + T::kA ", tile="Pair128")  # fmt: skip
fault("m_of_one_cta", "P4", "M is 128 in the instruction of a pair",
      "params.h", "ScaledInstruction{\n        .m = T::kM,", "ScaledInstruction{\n        .m = T::kRows,", tile="Pair128")  # fmt: skip
fault("m_of_one_cta_promoted", "P4", "M is 128 in the instruction of a pair, kind::f8f6f4",
      "params.h", "ByteInstruction{\n        .m = T::kM,", "ByteInstruction{\n        .m = T::kRows,", tile="PromotedPair128")  # fmt: skip
fault("commit_to_the_leader_alone", "P5", "commits of a pair are not multicast",
      "multiply", "commit_multicast<2>(barrier, pair_mask(0));", "commit<2>(barrier);", tile="Pair128")  # fmt: skip
fault("commit_mask_of_one", "P5", "commits of a pair have the mask 0b01",
      "multiply", "pair_mask(0)", "std::uint16_t{1}", tile="Pair128")  # fmt: skip
fault("commit_mask_of_four", "P5", "commits of a pair have the mask of four CTAs",
      "multiply", "pair_mask(0)", "multicast_mask(0, 4)", tile="Pair128")  # fmt: skip
fault("commit_of_the_other_group", "P8", "mma of cta_group::2, commit of cta_group::1",
      "multiply", "commit_multicast<2>", "commit_multicast<1>", tile="Pair128")  # fmt: skip
fault("copy_of_the_other_group", "P8", "mma of cta_group::2, the copy of the scales of A of cta_group::1",
      "multiply", CP_A, CP_A.replace("T::kCtaGroup", "1"), tile="Pair128")  # fmt: skip
fault("mma_of_the_other_group", "P8", "mma of cta_group::1 with a pair's descriptor",
      "multiply", MMA, MMA.replace("T::kCtaGroup", "1"), tile="Pair128")  # fmt: skip
fault("both_ctas_write_the_same_rows", "P9", "the rank is forgotten in the rows of D",
      "epilogue", ROW_IN_TILE, ROW_IN_TILE.replace("T::kRows * rank + ", ""), tile="Pair128")  # fmt: skip
fault("both_ctas_load_the_same_rows", "own", "the rank is forgotten in the rows of A",
      "load", "work.row + T::kRows * rank", "work.row", tile="Pair128")  # fmt: skip
fault("wrong_half_of_b", "own", "each CTA of a pair loads the other's half of B",
      "load", "T::kRowsB * rank", "T::kRowsB * (rank ^ 1U)", tile="Pair128")  # fmt: skip
fault("same_half_of_b", "own", "both CTAs of a pair load the first half of B",
      "load", "work.row_b + T::kRowsB * rank", "work.row_b", tile="Pair128")  # fmt: skip
fault("tile_of_each_cta", "P10", "the CTAs of a pair take different tiles",
      "kernel", "unit = block_index() / T::kCtaGroup;", "unit = block_index();", tile="Pair128")  # fmt: skip
fault("tiles_of_half_the_units", "P10", "the number of CTAs is taken for that of pairs",
      "kernel", "units = grid_blocks() / T::kCtaGroup;", "units = grid_blocks();", tile="Pair128")  # fmt: skip
fault("arrival_at_the_own_cta", "P3", "the peer says drained to its own barrier",
      "epilogue", "map_to_rank(barrier, 0)", "barrier", tile="Pair128")  # fmt: skip

# --- scales

fault("stride_of_the_scale_columns", "C1", "the chunks of the scales of B are two columns apart in tensor memory",
      "multiply", "static_cast<unsigned>(4 * c)", "static_cast<unsigned>(2 * c)", tile="Single256")  # fmt: skip
fault("scales_of_b_transposed", "C2", "chunks of the scales of B along n and along k are exchanged",
      "load", "(work.chunk_b + c) * p.chunks_k + chunk_k", "chunk_k * p.chunks_k + work.chunk_b + c")  # fmt: skip
fault("scale_id_zero", "C3", "all four steps of 128 have the scales of the first", "multiply", "(p.instruction, id, id)", "(p.instruction, 0, 0)")  # fmt: skip
fault("scale_id_of_b_zero", "C3", "the scales of B are those of the first step", "multiply", "(p.instruction, id, id)", "(p.instruction, id, 0)")  # fmt: skip
fault("scale_id_of_a_differs", "C3", "the scales of A are those of the neighbouring step",
      "multiply", "(p.instruction, id, id)", "(p.instruction, id ^ 1U, id)")  # fmt: skip
fault("scale_chunk_stands", "C3", "the chunk of scales does not advance along k",
      "load", "work.chunk_k + k / kTileK;", "work.chunk_k;")  # fmt: skip
fault("padding_is_multiplied", "C5", "all four steps of the last 128 of k are taken, into padding",
      "multiply", "left < T::kDepth ? static_cast<int>((left + T::kStep - 1) / T::kStep)", "left < 0 ? 0", cases="depth")  # fmt: skip
fault("last_step_dropped", "own", "a k that is no multiple of 32 ends early",
      "multiply", "(left + T::kStep - 1) / T::kStep", "left / T::kStep")  # fmt: skip
fault("groups_padded_as_a_whole", "C6", "scale chunks of groups follow from the row in the whole batch",
      "schedule", CHUNK_A, "work.chunk_a = work.row / 128;", cases="rows")  # fmt: skip
fault("chunks_of_a_group_rounded_down", "C6", "groups of 130 rows are taken to have one chunk of scales",
      "schedule", "chunk_m_ += (extent_ + 127) / 128;", "chunk_m_ += extent_ / 128;", cases="rows")  # fmt: skip
fault("chunks_of_groups_do_not_advance", "C6", "every group of rows has the scales of the first",
      "schedule", "if constexpr (kGrouping == Grouping::rows) chunk_m_ += (extent_ + 127) / 128;", "", cases="rows")  # fmt: skip
fault("chunks_of_depth_rounded_down", "C6", "groups along k are taken to have whole chunks of scales",
      "schedule", "chunk_k_ += (depth_ + 127) / 128;", "chunk_k_ += depth_ / 128;", cases="depth")  # fmt: skip
fault("scales_not_swizzled", "C7", "a chunk is read as 16 rows of 32 bytes apart: another stride of its descriptor",
      LAYER + "descriptor.h", "return {Swizzle::none, 0, 128};", "return {Swizzle::none, 0, 256};")  # fmt: skip
fault("packed_stride_of_the_scales", "C8", "the chunks along k are rounded down", "params.h", "params.chunks_k = g.chunks_k;", "params.chunks_k = g.k / 128;")  # fmt: skip
fault("scales_of_the_first_rows", "C11", "every tile of rows has the scales of the first", "schedule", CHUNK_A, "work.chunk_a = chunk_m_;")  # fmt: skip
fault("rank_forgotten_in_the_scales", "own", "both CTAs of a pair load the scales of the first 128 rows",
      "load", "(work.chunk_a + rank)", "work.chunk_a", tile="Pair128")  # fmt: skip
fault("chunk_of_one_cta", "own", "a pair's tile of rows is taken to have one chunk of scales",
      "schedule", CHUNK_A, "work.chunk_a = chunk_m_ + tile_m;", tile="Pair128")  # fmt: skip
fault("half_chunk_ignored", "own", "every tile of 64 columns has the scales of a chunk's first half",
      "multiply", "static_cast<unsigned>(work.column % 128 / 32);", "0U;", tile="Single64")  # fmt: skip
fault("half_chunk_ignored_192", "own", "every tile of 192 columns begins a chunk of scales",
      "multiply", "static_cast<unsigned>(work.column % 128 / 32);", "0U;", tile="Single192")  # fmt: skip
fault("scales_of_b_differ_in_the_peer", "own", "the peer loads the chunks of the scales of B in the other order",
      "load", "(work.chunk_b + c) * p.chunks_k", "(work.chunk_b + (c ^ static_cast<int>(rank))) * p.chunks_k", tile="Pair256")  # fmt: skip
fault("copy_of_the_second_chunk_skipped", "own", "the second chunk of the scales of B is not copied",
      "multiply", "c < T::kChunksB", "c + 1 < T::kChunksB", tile="Single256")  # fmt: skip
fault("scales_copied_once", "own", "scales are copied in the first round alone",
      "multiply", "      if constexpr (T::kScaled) {\n        cp<", "      if (ring.round == 0) {\n        cp<")  # fmt: skip
fault("copy_to_the_next_columns", "own", "the scales of A are copied four columns further on",
      "multiply", CP_A, CP_A.replace("scales_a,", "scales_a + 4,"))  # fmt: skip
fault("copy_before_the_wait", "own", "the scales are copied before the wait for the stage",
      "multiply", WAIT_FULL, "",
      "multiply", "      const SharedDescriptor a = shared", WAIT_FULL + "\n      const SharedDescriptor a = shared")  # fmt: skip
fault("copy_into_one_partition", "own", "the scales of A are copied as 128 rows, each into its own lane",
      "multiply", CP_A, CP_A.replace("rows32x128b_warpx4", "rows128x128b"))  # fmt: skip
fault("copy_into_two_partitions", "own", "the scales of A are copied as 64 rows, into two partitions each",
      "multiply", CP_A, CP_A.replace("rows32x128b_warpx4", "rows64x128b_02_13"))  # fmt: skip
fault("scales_exchanged", "own", "the scales of A are those of B and the other way round",
      "multiply", MMA, MMA.replace("scales_a, rows_b", "rows_b, scales_a"))  # fmt: skip
fault("scale_slot_too_narrow", "own", "a stage's slot of scales is 8 columns where it takes 12",
      "tile.h", "kSlotColumns = 4 * (kChunksA + kChunksB);", "kSlotColumns = 8;", tile="Single256")  # fmt: skip
fault("factor_of_the_block_before", "own", "promoted sums have the scale of A of the 128 of k before",
      "epilogue", "p.factors_a[row * p.chunks_k + block]", "p.factors_a[row * p.chunks_k + (k > 0 ? block - 1 : block)]", tile="PromotedSingle128")  # fmt: skip
fault("factors_of_the_first_expert", "own", "every group has the first one's scales of B",
      "epilogue", "work.row_b / p.n : 0;", "0 * work.row_b / p.n : 0;", tile="PromotedSingle128", cases="rows")  # fmt: skip

# --- descriptors, TMA, shared memory

fault("tile_not_at_1024", "S1", "the stages of A begin at a multiple of 128",
      "tile.h", "kA = 0;", "kA = 128;")  # fmt: skip
fault("stage_not_at_1024", "S1", "the descriptor of B begins 128 bytes into the tile",
      "multiply", "(base + T::kB + stage * T::kBytesB)", "(base + T::kB + stage * T::kBytesB + 128)")  # fmt: skip
fault("start_inside_an_atom", "S2", "the descriptor of A begins 16 bytes on",
      "multiply", "advance(a, kStepK * id)", "advance(a, kStepK * id + 16)")  # fmt: skip
fault("tma_without_swizzle", "S3", "TMA writes no swizzle, the descriptor has 128 bytes",
      "params.h", "d.swizzle = Swizzle::b128;", "d.swizzle = Swizzle::none;")  # fmt: skip
fault("tma_with_swizzle_64", "S3", "TMA's boxes are longer than their swizzle",
      "params.h", "d.swizzle = Swizzle::b128;", "d.swizzle = Swizzle::b64;")  # fmt: skip
fault("descriptor_with_swizzle_64", "S3", "TMA writes the swizzle of 128 bytes, the descriptor has that of 64",
      "multiply", "k_major(Swizzle::b128)", "k_major(Swizzle::b64)")  # fmt: skip
fault("descriptor_without_swizzle", "S3", "TMA writes the swizzle of 128 bytes, the descriptor has none",
      "multiply", "k_major(Swizzle::b128)", "k_major_unswizzled(128, 1024)")  # fmt: skip
fault("a_transposed", "S3", "the instruction takes A as M-major",
      "params.h", "ScaledInstruction{\n        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();",
      "ScaledInstruction{\n        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB, .a_major = Major::mn}>();")  # fmt: skip
fault("lbo_and_sbo_exchanged", "S4", "LBO and SBO of the swizzled layout are exchanged",
      LAYER + "descriptor.h", "return {swizzle, 16, swizzle_pattern(swizzle)};", "return {swizzle, swizzle_pattern(swizzle), 16};", compiles=False)  # fmt: skip
fault("sbo_twice", "S4", "SBO steps over 16 rows in place of 8",
      LAYER + "descriptor.h", "return {swizzle, 16, swizzle_pattern(swizzle)};", "return {swizzle, 16, 2 * swizzle_pattern(swizzle)};")  # fmt: skip
fault("version_bits_zero", "C10", "a descriptor of Hopper: bits 48:46 are 0",
      LAYER + "descriptor.h", "std::uint64_t{1} << 46", "std::uint64_t{0} << 46")  # fmt: skip
fault("scale_format_of_nvfp4", "own", "the instruction's scale format is UE4M3",
      LAYER + "descriptor.h", "kUe8m0 = 1u << 23;", "kUe8m0 = 0u << 23;")  # fmt: skip
fault("n_of_half_the_tile", "own", "N is half the tile's in the instruction",
      "params.h", "ScaledInstruction{\n        .m = T::kM, .n = T::kN,", "ScaledInstruction{\n        .m = T::kM, .n = T::kN / 2,")  # fmt: skip
fault("n_of_264", "S7", "N past 256 in the instruction",
      "params.h", "ScaledInstruction{\n        .m = T::kM, .n = T::kN,", "ScaledInstruction{\n        .m = T::kM, .n = 264,", compiles=False)  # fmt: skip
fault("formats_exchanged", "own", "the formats of A and B are exchanged",
      "params.h", "ScaledInstruction{\n        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();",
      "ScaledInstruction{\n        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kB, .b = kA}>();")  # fmt: skip
fault("half_as_fp16", "own", "BF16 is multiplied as FP16",
      "params.h", "HalfInstruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup}",
      "HalfInstruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = HalfFormat::f16, .b = HalfFormat::f16}",
      tile="HalfSingle128")  # fmt: skip
fault("k_of_a_stands", "own", "all steps of 128 read the first 32 of A", "multiply", "advance(a, kStepK * id)", "advance(a, 0 * id)")  # fmt: skip
fault("k_of_b_stands", "own", "all steps of 128 read the first 32 of B", "multiply", "advance(b, kStepK * id)", "advance(b, 0 * id)")  # fmt: skip
fault("k_of_half_steps", "own", "steps of 16 elements of BF16 are 16 bytes apart",
      "multiply", "advance(a, kStepK * id)", "advance(a, T::kStep * id)", tile="HalfSingle128")  # fmt: skip
fault("stage_of_b_stands", "own", "B is always read from the first stage",
      "multiply", "base + T::kB + stage * T::kBytesB", "base + T::kB + 0 * stage * T::kBytesB")  # fmt: skip
fault("stages_overlap", "own", "the stages of B are half as far apart as they are long",
      "load", "base + T::kB + stage * T::kBytesB", "base + T::kB + stage * T::kBytesB / 2",
      "multiply", "base + T::kB + stage * T::kBytesB", "base + T::kB + stage * T::kBytesB / 2")  # fmt: skip
fault("box_of_64_rows", "own", "a box of A has 64 rows: fewer bytes than are expected",
      "params.h", "gathers ? 1 : T::kRows;", "gathers ? 1 : 64;")  # fmt: skip
fault("depth_starts_at_zero", "own", "every group along k loads the first", "schedule", "work.k = by_depth ? begin_ : 0;", "work.k = 0;", cases="depth")  # fmt: skip
fault("scales_past_shared_memory", "own", "the launch has 512 bytes less than the tile", "tile.h", "kSharedBytes = kSlot + 16;", "kSharedBytes = kFull;")  # fmt: skip

# --- which tile, and what is written

fault("rows_past_the_groups_end", "S6", "a tile writes the rows of the group after it", "epilogue", "writes = row_in_tile < work.rows;", "writes = true;", cases="rows")  # fmt: skip
fault("rows_of_the_next_group", "S6", "as before, up to D's end", "epilogue", "writes = row_in_tile < work.rows;",
      "writes = work.row_d + row_in_tile < p.m;", cases="rows")  # fmt: skip
fault("rows_past_the_end", "own", "a tile writes rows past D's last", "epilogue", "writes = row_in_tile < work.rows;", "writes = true;")  # fmt: skip
fault("rows_left_of_the_first_tile", "own", "rows that are left are counted from the group's first tile",
      "schedule", "work.rows = extent_ - tile_m * kM;", "work.rows = extent_;", cases="rows")  # fmt: skip
fault("columns_past_the_end", "own", "a tile writes columns past D's last", "epilogue", "(p.n - column < 32 ? p.n - column : 32)", "(32)")  # fmt: skip
fault("rows_of_the_first_group", "own", "the first row of a group is forgotten for A",
      "schedule", "work.row = begin_ * (by_depth ? 0 : 1) + tile_m * kM;", "work.row = tile_m * kM;", cases="rows")  # fmt: skip
fault("d_of_the_first_group", "own", "the first row of a group is forgotten for D",
      "schedule", "(by_depth ? group_ * p_.m : begin_)", "(by_depth ? group_ * p_.m : 0)", cases="rows")  # fmt: skip
fault("d_of_the_first_depth", "own", "all groups along k write the first one's D",
      "schedule", "(by_depth ? group_ * p_.m : begin_)", "(by_depth ? 0 : begin_)", cases="depth")  # fmt: skip
fault("weights_of_the_first_group", "own", "all groups have the first one's B",
      "schedule", "(kGrouping == Grouping::rows ? group_ * p_.n : 0) + work.column;", "work.column;", cases="rows")  # fmt: skip
fault("scales_of_the_first_weights", "own", "all groups have the first one's scales of B",
      "schedule", "(kGrouping == Grouping::rows ? group_ * ((p_.n + 127) / 128) : 0) + work.column / 128;", "work.column / 128;", cases="rows")  # fmt: skip
fault("last_tile_of_rows_dropped", "own", "rows of the last tile are left out", "schedule", "rows_ = (extent_ + kM - 1) / kM;", "rows_ = extent_ / kM;")  # fmt: skip
fault("last_tile_of_columns_dropped", "own", "columns of the last tile are left out",
      "schedule", "columns_ = (p_.n + kN - 1) / kN;", "columns_ = p_.n / kN;")  # fmt: skip
fault("last_band_as_high_as_others", "own", "the last band of tiles is taken to have eight rows of them",
      "schedule", "rows_ - band * kBand < kBand ? rows_ - band * kBand : kBand;", "kBand;", cases="tall")  # fmt: skip
fault("roles_walk_different_lists", "B6", "the epilogue walks the tiles with rows and columns exchanged",
      "epilogue", "Schedule<kGrouping, T::kM, T::kN> schedule(p, unit, units);",
      "Schedule<kGrouping, T::kN, T::kM> schedule(p, unit, units);", tile="Single256")  # fmt: skip
fault("last_k_dropped", "own", "the last 128 of k are left out by both roles where they are not whole",
      "load", "k < work.depth; k += T::kDepth", "k + T::kDepth <= work.depth; k += T::kDepth",
      "multiply", "k < work.depth; k += T::kDepth", "k + T::kDepth <= work.depth; k += T::kDepth")  # fmt: skip
fault("loader_stops_early", "own", "the loader leaves the last 128 of k out, the multiplier does not",
      "load", "k < work.depth; k += T::kDepth", "k + T::kDepth <= work.depth; k += T::kDepth")  # fmt: skip
fault("accumulator_of_the_first_tile", "own", "the multiplier always takes the first accumulator",
      "multiply", "static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);", "0U;")  # fmt: skip
fault("alpha_times_the_whole", "own", "C is multiplied by alpha too",
      "epilogue", "const float product = alpha * sum;\n  const float value = adds ? product + c : product;", "const float value = alpha * (adds ? sum + c : sum);")  # fmt: skip
fault("alpha_and_c_fused", "own", "alpha * sum + C is rounded once",
      "epilogue", "const float product = alpha * sum;\n  const float value = adds ? product + c : product;", "const float value = adds ? std::fma(alpha, sum, c) : alpha * sum;")  # fmt: skip
fault("alpha_ignored", "own", "alpha is 1", "epilogue", "const float product = alpha * sum;", "const float product = sum;")  # fmt: skip
fault("c_ignored", "own", "C is not added", "epilogue", "const float value = adds ? product + c : product;", "const float value = product;")  # fmt: skip
fault("bf16_cut", "own", "D in BF16 is cut", "epilogue", "(bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16", "bits >> 16", cases="rows")  # fmt: skip
fault("bf16_nan_lost", "own", "a NaN is rounded as a number", "epilogue",
      "  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;\n", "", cases="rows")  # fmt: skip
fault("bf16_half_up", "own", "ties of BF16 are rounded up", "epilogue", "(bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16", "(bits + 0x8000U) >> 16", cases="rows")  # fmt: skip
fault("promoted_without_fma", "own", "partial sums are multiplied, rounded and added",
      "epilogue", "const float value = std::fma(a, b, c);", "const float value = finish(a, b, true, c);", tile="PromotedSingle128")  # fmt: skip

# --- rows of A gathered by its loads

fault("gathered_rows_four_off", "own", "the first four rows of a gathered tile lie where the next four belong, and so on",
      "load", "to + static_cast<unsigned>(i * kTileK),", "to + static_cast<unsigned>((i + 4) % T::kRows * kTileK),", cases="gathered")  # fmt: skip
fault("gathered_rows_reversed", "own", "the four rows of a load are named from the last to the first",
      "load", "row_of(i), row_of(i + 1),\n                              row_of(i + 2), row_of(i + 3)", "row_of(i + 3), row_of(i + 2), row_of(i + 1), row_of(i)", cases="gathered")  # fmt: skip
fault("gathered_rows_of_the_first_group", "own", "every group gathers by the index of the first tile",
      "load", GATHERED_ROW, "p.gathered_rows[row_in_tile]", cases="gathered")  # fmt: skip
fault("gathered_rows_of_the_leader", "own", "the peer gathers the leader's half of a pair's rows",
      "load", "static_cast<std::int64_t>(T::kRows * rank) + i;", "static_cast<std::int64_t>(i);", tile="Pair128", cases="gathered")  # fmt: skip
fault("index_not_used", "own", "rows are loaded one by one, and their index is forgotten",
      "load", GATHERED_ROW, "static_cast<int>(work.row + row_in_tile)", cases="gathered")  # fmt: skip
fault("one_gather_fewer", "own", "the last four rows of a gathered tile are not loaded, and expected",
      "load", "i < T::kRows; i += 4", "i < T::kRows - 4; i += 4", cases="gathered")  # fmt: skip
fault("one_gather_not_expected", "own", "of a gathered tile four rows' bytes are not expected",
      "load", EXPECT, EXPECT.replace("T::kStageBytes", "T::kStageBytes - (p.gathered_rows != nullptr ? 4 * kTileK : 0)"), cases="gathered")  # fmt: skip
fault("gathers_of_the_cta_alone", "own", "the peer's gathers are not of the pair, and count at the leader",
      "load", "tma_gather4<T::kCtaGroup>", "tma_gather4<1>", tile="Pair128", cases="gathered")  # fmt: skip
fault("gathers_in_a_box_of_128_rows", "own", "gathers are given the tensor map of whole boxes",
      "params.h", "gathers ? 1 : T::kRows;", "T::kRows;", cases="gathered")  # fmt: skip
fault("gathers_of_the_products_rows", "own", "A is taken to have as many rows as the product: those past them are zeros",
      "params.h", "gathers ? g.rows_a : g.m;", "g.m;", cases="gathered")  # fmt: skip
fault("factors_of_the_products_rows", "own", "FP32 scales of gathered rows are those of the product's rows",
      "epilogue", "gathers ? p.gathered_rows[row_of_product] : row_of_product;", "row_of_product;",
      tile="PromotedSingle128", cases="gathered")  # fmt: skip

# --- what is allowed: findings here would be false alarms

fault("allowed_commit_on_the_next_stage", "allowed", "the commit of a stage arrives at the barrier of the next: later ones say the same, more slowly",
      "multiply", COMMIT_EMPTY, "done(base + T::kEmpty + 8 * ((ring.stage + 1) % T::kStages));")  # fmt: skip
fault("allowed_one_fence_before_the_last_barrier", "allowed", "the fence of the last arrival is that of the last barrier too",
      "kernel", END_SYNC, END_SYNC.replace("  fence_before_thread_sync();\n", ""))  # fmt: skip
fault("allowed_one_fence_after_two_waits", "allowed", "the fence after the wait for a stage is that after the wait for an accumulator too",
      "multiply", WAIT_DRAINED, WAIT_DRAINED.replace("\n    fence_after_thread_sync();", ""))  # fmt: skip
fault("allowed_no_fence_after_tma", "allowed", "no fence after the wait for a stage: TMA's bytes need none",
      "multiply", WAIT_FULL, WAIT_FULL.replace("\n      fence_after_thread_sync();", ""))  # fmt: skip
fault("allowed_no_fence_after_alloc", "allowed", "no tcgen05.fence on either side of the barrier after the alloc, which is synchronous",
      "kernel", SYNC_AFTER_ALLOC, "  sync_all<T>();\n  const TmemAddress tmem")  # fmt: skip
fault("allowed_start_off_by_8", "allowed", "the descriptor of A begins 8 bytes on: its field counts 16 bytes, and they are lost",
      "multiply", "(base + T::kA + stage * T::kBytesA)", "(base + T::kA + stage * T::kBytesA + 8)")  # fmt: skip
fault("allowed_one_arrival_a_warp", "allowed", "one lane of each warp says drained, and the barrier counts warps",
      "kernel", "128 * T::kCtaGroup);", "4 * T::kCtaGroup);",
      "epilogue", "    barrier_arrive<Scope::cta>(barrier);", "    if (lane_index() == 7) barrier_arrive<Scope::cta>(barrier);")  # fmt: skip
fault("allowed_warps_not_gathered", "allowed", "no __syncwarp behind the roles of one thread: the barriers are not .aligned",
      "kernel", LOAD_ELECT + "\n    sync_warp();", LOAD_ELECT,
      "kernel", MULTIPLY_ELECT + "\n    sync_warp();", MULTIPLY_ELECT)  # fmt: skip
fault("allowed_one_barrier_at_the_start", "allowed", "the barrier after the alloc is that after the initialization too",
      "kernel", "  sync_all<T>();\n  if (warp == 1) {\n", "  if (warp == 1) {\n")  # fmt: skip
fault("allowed_relinquish_at_the_end", "allowed", "the permit is given up before the dealloc",
      "kernel", "\n    tmem_relinquish<T::kCtaGroup>();", "",
      "kernel", DEALLOC, DEALLOC.replace("tmem_dealloc", "tmem_relinquish<T::kCtaGroup>(), tmem_dealloc"))  # fmt: skip
fault("allowed_dealloc_by_another_warp", "allowed", "warp 1 allocates, warp 3 frees",
      "kernel", DEALLOC, DEALLOC.replace("warp == 1", "warp == 3"))  # fmt: skip
fault("allowed_commit_of_a_pair_to_one", "allowed", "the commit of the sums is multicast as two commits, one to each CTA",
      "multiply", COMMIT_SUMS, "if constexpr (T::kCtaGroup == 2) {\n      commit_multicast<2>(base + T::kAccumulated + 8 * accumulator.stage, 1);\n"
      "      commit_multicast<2>(base + T::kAccumulated + 8 * accumulator.stage, 2);\n    }", tile="Pair128")  # fmt: skip
fault("allowed_loads_in_another_order", "allowed", "B and the scales are loaded before A",
      "load", "      tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);\n", "",
      "load", "      ring.step();\n", "      tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);\n      ring.step();\n",
      tile="Pair128")  # fmt: skip
fault("allowed_rows_past_the_end_gathered", "allowed", "rows past a group's end are its first: nobody writes them",
      "load", GATHERED_ROW + " : -1;", GATHERED_ROW + " : p.gathered_rows[work.row];", cases="gathered")  # fmt: skip
fault("allowed_gathers_in_another_order", "allowed", "a tile's rows are gathered from the last four to the first",
      "load", "for (int i = 0; i < T::kRows; i += 4) {", "for (int i = T::kRows - 4; i >= 0; i -= 4) {", tile="Pair128", cases="gathered")  # fmt: skip
fault("allowed_lower_stages", "allowed", "a ring of two stages", "tile.h", "kStages = kStages_;", "kStages = 2;", tile="Pair128")  # fmt: skip
fault("allowed_one_stage", "allowed", "a ring of one stage", "tile.h", "kStages = kStages_;", "kStages = 1;")  # fmt: skip
fault("allowed_one_accumulator", "allowed", "one accumulator", "tile.h", "kAccumulators = kN <= 192 ? 2 : 1;", "kAccumulators = 1;")  # fmt: skip


def section_of(text, section):
    """What is before it, it and what is after it; of an empty name all is it. It begins at "// --- NAME"."""
    if not section:
        return "", text, ""
    begin = text.index(f"// --- {section}\n")
    end = text.find("// --- ", begin + 1)
    end = len(text) if end < 0 else end
    return text[:begin], text[begin:end], text[end:]


def changed(f, source):
    """{path: text} of the fault's overlay; ValueError names a text that does not occur once."""
    texts = {}
    for place, old, new in f.edits:
        path, _, section = place.partition("#")
        if path not in texts:
            texts[path] = (source / path).read_text()
        before, here, after = section_of(texts[path], section)
        found = here.count(old)
        if found != 1:
            raise ValueError(f"{f.name}: found {found} times in {place}: {old!r}")
        texts[path] = before + here.replace(old, new) + after
    return texts


def write_overlay(folder, source):
    """Writes what changed alone, so that nothing is built again for nothing. The complaints."""
    complaints = []
    lines = []
    for f in FAULTS:
        try:
            texts = changed(f, source)
        except (ValueError, OSError) as error:
            complaints.append(str(error))
            continue
        root = folder / f.name
        wanted = {root / path for path in texts}
        if root.is_dir():
            for stale in root.rglob("*"):
                if stale.is_file() and stale not in wanted:
                    stale.unlink()
        root.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            to = root / path
            if not to.is_file() or to.read_text() != text:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(text)
        lines.append(f"mxcheck_sm100_fault({f.name} {f.tile} {f.cases} {'ON' if f.compiles else 'OFF'})\n")
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "faults.cmake"
    if not table.is_file() or table.read_text() != "".join(lines):
        table.write_text("".join(lines))
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    overlay = commands.add_parser("overlay")
    overlay.add_argument("folder", type=pathlib.Path)
    overlay.add_argument("--source", type=pathlib.Path, default=ROOT)
    arguments = parser.parse_args()
    complaints = write_overlay(arguments.folder, arguments.source)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
