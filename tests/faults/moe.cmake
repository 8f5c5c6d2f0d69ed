# Faults of whole layers: the reference's parts put together wrongly (tests/faults/moe), as a kernel's author does that
# fuses or reorders steps. One library has all of them; the fault is a copy of a small one that is stamped (stamp.h).
#
# mxcheck_moe_fault(NAME KIND "what is wrong"): kinds are those of layer.cmake, and "recipe" (another operand, scale or
# contract than the recipe's), "state" (what an earlier call left), "width" (of an index).
add_library(mxcheck_faulty_layers SHARED moe/indices.cc moe/library.cc moe/passes.cc moe/products.cc moe/routes.cc
                                         ${PROJECT_SOURCE_DIR}/tests/candidates/reference/call.cc)
target_link_libraries(mxcheck_faulty_layers PRIVATE mxcheck_options mxcheck_properties mxcheck::dlpack)
set_target_properties(mxcheck_faulty_layers PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                       LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
mxcheck_begin_faults(moe_fault "" ${CMAKE_CURRENT_BINARY_DIR})

macro(mxcheck_moe_fault NAME KIND WHAT)
  list(APPEND fault_names ${NAME})
  mxcheck_fault_line(${NAME} "${KIND}" "${WHAT}")
endmacro()

# ---- the recipe's operands and contracts -----------------------------------------------------------------------------

mxcheck_moe_fault(x_scales_floor recipe "scales of X in up are rounded down")
mxcheck_moe_fault(a_scales_floor recipe "scales of A in down are rounded down")
mxcheck_moe_fault(w2_scales_floor_in_d_down recipe "scales of W2 in d_down are rounded down, in down they are not")
mxcheck_moe_fault(dh_scales_floor recipe "scales of dH in d_up are rounded down")
mxcheck_moe_fault(scaled_a_scales_floor_along_tokens recipe "scales of A' in d_w2 are rounded down")
mxcheck_moe_fault(dh_scales_floor_along_tokens recipe "scales of dH in d_w1 are rounded down")
mxcheck_moe_fault(kept_h_scales_floor recipe "scales of H as it is kept in E5M6 are rounded down")
mxcheck_moe_fault(fp32_scales_are_powers_of_two recipe "d_up of dsv3 has scales that are powers of two")
mxcheck_moe_fault(kept_x_not_requantized recipe "d_w1 takes X in BF16, rounded from the codes that were kept")
mxcheck_moe_fault(do_along_tokens_requantized recipe "d_w2 takes dO as d_down's codes left it")
mxcheck_moe_fault(dh_along_tokens_requantized recipe "d_w1 takes dH as d_up's codes left it")
mxcheck_moe_fault(a_in_blocks_of_128 recipe "A of down has blocks of 1x128 in place of 1x32")
mxcheck_moe_fault(dh_in_e4m3_where_e5m2_is_meant recipe "dH of d_up is in E4M3")
mxcheck_moe_fault(scaled_a_along_tokens_in_e5m2 recipe "A' of d_w2 is in E5M2")
mxcheck_moe_fault(up_summed_exactly recipe "up sums as if exact")
mxcheck_moe_fault(d_w1_summed_from_the_last_token order "d_w1 takes its steps from the last token to the first")
mxcheck_moe_fault(d_up_promoted_from_the_last_block order "d_up promotes its blocks of 128 from the last to the first")
mxcheck_moe_fault(scales_of_d_w2_multiplied_one_after_another order "d_w2 multiplies its sums by one scale, then by the other")
mxcheck_moe_fault(k_of_d_down_split_in_two order "d_down sums two halves of k apart and adds them")

# ---- forward ---------------------------------------------------------------------------------------------------------

mxcheck_moe_fault(gate_and_up_exchanged tiles "silu is that of the up value")
mxcheck_moe_fault(silu_rounded_to_bf16_first fused "silu(g) is rounded to BF16 before it multiplies u")
mxcheck_moe_fault(gate_times_the_product_of_q_and_u formula "a = g * (q * u)")
mxcheck_moe_fault(a_not_rounded_to_bf16 fused "A is quantized from FP32")
mxcheck_moe_fault(nan_gates_are_zero range "a NaN gate gives 0")
mxcheck_moe_fault(w2_not_transposed_where_square tiles "W2 is taken for its transpose where n = d")
mxcheck_moe_fault(empty_experts_not_counted_in_weights tiles "weights are those of the filled experts, one after another")
mxcheck_moe_fault(last_row_of_an_expert_is_another_token_s tiles "an expert's last row of H is the row before it")
mxcheck_moe_fault(e5m6_words_are_big_endian tiles "words of packed E5M6 codes are big-endian")

# ---- sums over a token's rows ----------------------------------------------------------------------------------------

mxcheck_moe_fault(rows_of_a_token_in_their_order order "rows of a token are added in the order of experts")
mxcheck_moe_fault(slots_from_the_last_to_the_first_in_dx order "dX adds a token's rows from the last slot to the first")
mxcheck_moe_fault(dropped_slot_is_row_0 tiles "a dropped slot adds row 0")
mxcheck_moe_fault(slots_after_a_dropped_one_left_out tiles "slots after a dropped one are left out")
mxcheck_moe_fault(slots_beyond_two_left_out tiles "of a token's slots the first two are added")
mxcheck_moe_fault(weight_applied_twice_in_o operator "O has the square of each weight")
mxcheck_moe_fault(o_is_not_weighted operator "O has no weights")
mxcheck_moe_fault(weight_rounded_to_bf16 fused "weights of O are rounded to BF16")
mxcheck_moe_fault(dx_weighted_again operator "dX has the weights once more")
mxcheck_moe_fault(product_and_sum_of_o_rounded_apart fused "the weighted row is rounded before it is added")
mxcheck_moe_fault(o_summed_in_bf16 fused "O and dX are summed in BF16")
mxcheck_moe_fault(o_summed_in_fp64 fused "O and dX are summed in FP64")
mxcheck_moe_fault(token_without_slots_unwritten tiles "O and dX of a token without slots keep what was there")

# ---- backward --------------------------------------------------------------------------------------------------------

mxcheck_moe_fault(kept_h_of_an_earlier_call state "H is that of an earlier call of this size")
mxcheck_moe_fault(h_kept_in_the_other_order tiles "H is in halves for the backward pass where it is interleaved, and the other way")
mxcheck_moe_fault(p_rounded_to_bf16 fused "P is rounded to BF16")
mxcheck_moe_fault(weight_applied_twice_in_dh operator "dH and dS have the weight once more")
mxcheck_moe_fault(dh_is_not_weighted operator "dH has no weight")
mxcheck_moe_fault(ds_from_y formula "dS is the product of dO and Y")
mxcheck_moe_fault(ds_from_the_weighted_a formula "dS is the product of P and A'")
mxcheck_moe_fault(ds_from_a_that_is_not_rounded fused "dS is the product of P and A in FP32")
mxcheck_moe_fault(ds_summed_from_left_to_right order "dS is summed from left to right")
mxcheck_moe_fault(a_in_place_of_scaled_a_in_dw2 formula "dW2 is of A, without weights")
mxcheck_moe_fault(blocks_along_tokens_cross_experts tiles "blocks of A' along tokens cross the ends of experts")
mxcheck_moe_fault(blocks_of_dh_along_tokens_cross_experts tiles "blocks of dH along tokens cross the ends of experts")
mxcheck_moe_fault(scaled_a_along_tokens_has_scales_of_rows tiles "A' of d_w2 is quantized along its rows first")
mxcheck_moe_fault(dh_along_tokens_has_scales_of_rows tiles "dH of d_w1 is quantized along its rows first")
mxcheck_moe_fault(tail_of_32_left_out_in_dw2 tiles "rows of an expert past the last multiple of 32 are left out in dW2")
mxcheck_moe_fault(tail_of_128_left_out_in_dw1 tiles "rows of an expert past the last multiple of 128 are left out in dW1")
mxcheck_moe_fault(rows_beyond_128_left_out_in_dw1 tiles "dW1 sums over 128 rows of an expert at most")
mxcheck_moe_fault(next_expert_s_row_in_dw1 tiles "dW1 sums from an expert's second row to the next one's first")
mxcheck_moe_fault(next_expert_s_row_in_dw2 tiles "dW2 sums from an expert's second row to the next one's first")
mxcheck_moe_fault(dw1_of_an_empty_expert_unwritten tiles "dW1 of an expert without rows keeps what was there")

# ---- indices of too few bits, where a layer has more than 2^16 tokens or rows -----------------------------------------

mxcheck_moe_fault(row_token_read_as_16_bits width "rows of X and dO are gathered by 16 bits of row_token")
mxcheck_moe_fault(token_rows_read_as_16_bits width "O and dX take rows by 16 bits of token_rows")
mxcheck_moe_fault(token_offsets_read_as_16_bits width "a token's slots begin at 16 bits of its offset")
mxcheck_moe_fault(offsets_read_as_16_bits width "GEMMs of rows have experts that begin at 16 bits of their offset")
mxcheck_moe_fault(rows_of_an_expert_counted_in_16_bits width "dW1 sums over 16 bits of the number of an expert's rows")
mxcheck_moe_fault(elements_of_o_and_dx_counted_in_20_bits width "an element of O or dX is stored at 20 bits of its index")

add_library(mxcheck_moe_fault_family MODULE moe/one_fault.cc $<TARGET_OBJECTS:mxcheck_stamp>)
target_link_libraries(mxcheck_moe_fault_family PRIVATE mxcheck_options mxcheck_faulty_layers mxcheck::dlpack)
set_target_properties(mxcheck_moe_fault_family PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
mxcheck_fault_family_end()
# The whole suite of the control alone: it takes half a minute of two cores, and has the statement that catches each.
mxcheck_fault_tests(moe ${CMAKE_CURRENT_SOURCE_DIR}/moe_caught_by.tsv)

# Cosine, SQNR and calc_diff of the faulty whole layers: ninja moe_field_measures.
add_executable(mxcheck_moe_field_measures EXCLUDE_FROM_ALL moe_field_measures.cc)
target_link_libraries(mxcheck_moe_field_measures PRIVATE mxcheck_options mxcheck_reference mxcheck::dlpack ${CMAKE_DL_LIBS})
add_custom_target(
  moe_field_measures
  COMMAND mxcheck_moe_field_measures ${faults_tsv}
  DEPENDS mxcheck_moe_faults
  USES_TERMINAL)
