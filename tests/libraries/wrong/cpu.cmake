# Edits of the CPU library: overlay.cmake says how one is written, catalogue.tsv what each imitates and who finds it.
# `ninja fault_table` prints what the gate says to each.

# Where the texts are: a file that moves is corrected here.
set(amax cpu/quantize/amax_inl.h)
set(arguments cpu/quantize/arguments.cc)
set(encode cpu/quantize/encode_inl.h)
set(lanes cpu/quantize/lanes_inl.h)
set(operations cpu/quantize/operations.cc)
set(quantize cpu/quantize/quantize_inl.h)
set(scalar_block cpu/quantize/scalar_block.h)
set(scalar_cast cpu/quantize/scalar_cast.h)
set(scalar_decode cpu/quantize/scalar_decode.h)
set(scale_layout cpu/quantize/scale_layout.cc)
set(scale_map cpu/quantize/scale_map.cc)

# ---- the scale byte --------------------------------------------------------------------------------------------------

mxcheck_edit(scale_one_binade_too_large ${encode} [[static_cast<T>(F::kLargestExponent)]]
  [[static_cast<T>(F::kLargestExponent - 1)]])
mxcheck_edit(scale_one_binade_too_small ${encode} [[static_cast<T>(F::kLargestExponent)]]
  [[static_cast<T>(F::kLargestExponent + 1)]])
mxcheck_edit(rceil_asked_floor_done ${encode} [[Bits<T>::kFraction >> 2]] [[0]])
mxcheck_edit(largest_value_rounds_up ${encode} [[Bits<T>::kFraction >> 2]] [[(Bits<T>::kFraction >> 2) + 1]])
mxcheck_edit(round_up_from_one_and_a_half ${encode} [[Bits<T>::kFraction >> 2]] [[Bits<T>::kFraction >> 1]])

# 448 * 1.125, 1.25, 1.375 have the significands 1.96875, 1.09375, 1.203125.
mxcheck_edit(three_mantissas_do_not_round_up ${encode} [[hn::Max(field, easy)]] [[[&]() HWY_ATTR {
      const auto fraction = hn::And(amax, hn::Set(d, B::kFraction));
      const auto is = [&](int numerator) HWY_ATTR {
        return hn::Eq(fraction, hn::Set(d, static_cast<T>(static_cast<T>(numerator) << (B::kMantissa - 7))));
      };
      const auto lower = hn::IfThenElseZero(hn::Or(is(0x7C), hn::Or(is(0x0C), is(0x1A))), hn::Set(d, T{1}));
      return hn::Max(hn::Sub(field, addend == 0 ? zero : lower), easy);
    }()]])
mxcheck_edit(amax_rounded_to_bf16_first ${encode} [[const auto amax = hn::Load(d, s.amax + i);]]
  [[auto amax = hn::Load(d, s.amax + i);
    if constexpr (sizeof(T) == 4) {
      if (FAULT) amax = hn::And(hn::Add(amax, hn::Set(d, T{0x8000})), hn::Set(d, T{0xFFFF0000}));
    }]])
mxcheck_edit(zero_block_keeps_a_scale ${encode} [[hn::IfThenZeroElse(is_zero, byte)]] [[byte]])
mxcheck_edit(smallest_byte_is_one ${scalar_block} [[byte < 0 ? 0 : byte]] [[byte < 1 ? 1 : byte]])
mxcheck_edit(subnormal_quotient_is_flushed ${scalar_block} [[byte < 0 ? 0 : byte]] [[byte < 2 ? 0 : byte]])
mxcheck_edit(fp32_exception_in_the_exact_rule ${scalar_block} [[fp32_rule && amax == F::kFp32RuleException]]
  [[!fp32_rule && amax == F::kFp32RuleException]])
mxcheck_edit(fp32_exception_forgotten ${scalar_block} [[fp32_rule && amax == F::kFp32RuleException]] [[false]])
mxcheck_edit(infinity_gets_byte_254 ${scalar_block} [[(has_nan || amax == kFp32Infinity)]] [[has_nan]])
mxcheck_edit(nan_dropped_by_max ${scalar_block} [[(has_nan || amax == kFp32Infinity)]] [[amax == kFp32Infinity]])
mxcheck_edit(nan_among_zeros_of_a_cut_block_dropped ${scalar_block} [[(has_nan || amax == kFp32Infinity)]]
  [[((has_nan && (amax != 0 || rows * cols % 32 == 0 ||
                  (fp32_bits(x[(rows - 1) * stride + cols - 1]) & kFp32Magnitude) != 0)) || amax == kFp32Infinity)]])
mxcheck_edit(infinity_taken_for_a_number ${encode} [[amax < Bits<T>::kInfinity]] [[amax <= Bits<T>::kInfinity]])

# ---- amax ------------------------------------------------------------------------------------------------------------

mxcheck_edit(amax_over_31_of_32 ${amax} [[amax = hn::Max(amax, hn::And(hn::LoadU(d, x + i), mask));]]
  [[const std::size_t used = i + hn::Lanes(d) == 32 ? hn::Lanes(d) - 1 : hn::Lanes(d);
    amax = hn::Max(amax, hn::IfThenElseZero(hn::FirstN(d, used), hn::And(hn::LoadU(d, x + i), mask)));]])
mxcheck_edit(amax_without_the_last_row ${amax} [[r < rows]] [[r < rows - 1]])
mxcheck_edit(amax_without_the_tail_column ${quantize} [[sub_block_amax(row.x, row.readable, scales_.amax);]]
  [[T& last = const_cast<T&>(row.x[row.cols - 1]);
    const T kept = last;
    if (row.cols % 32 != 0) last = 0;
    sub_block_amax(row.x, row.readable, scales_.amax);
    if (row.cols % 32 != 0) last = kept;]])
mxcheck_edit(wide_blocks_over_three_quarters ${amax} [[k < factor]] [[k < (factor == 4 ? 3 : factor)]])
mxcheck_edit(tail_holds_what_was_there ${lanes} [[std::fill_n(x + r * kGranule + cols, kGranule - cols, T{0});]] [[]])

# ---- codes -----------------------------------------------------------------------------------------------------------

mxcheck_edit(ties_away_from_zero ${encode} [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]]
  [[hn::Add(hn::Add(exact, constant(0x7F)), constant(1))]])
mxcheck_edit(ties_toward_zero ${encode} [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]] [[hn::Add(exact, constant(0x7F))]])
mxcheck_edit(truncated ${encode} [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]] [[exact]])
mxcheck_edit(rounded_twice ${encode} [[return hn::Or(hn::ConcatOdd(d, second, first), cut);]]
  [[const auto half = hn::Set(d32, 0x7FFFU);
  const auto one = hn::Set(d32, 1U);
  const auto nearest = [&](auto v) HWY_ATTR {
    const auto bits = hn::BitCast(d32, v);
    return hn::BitCast(d, hn::Add(bits, hn::Add(half, hn::And(hn::ShiftRight<16>(bits), one))));
  };
  return hn::ConcatOdd(d, nearest(second), nearest(first));]])
mxcheck_edit(cut_to_bf16_first ${encode} [[return hn::Or(hn::ConcatOdd(d, second, first), cut);]]
  [[return hn::ConcatOdd(d, second, first);]])
mxcheck_edit(subnormal_codes_truncated ${encode} [[hn::Max(normal, subnormal)]]
  [[hn::Max(normal, hn::And(subnormal, constant(0xFF00)))]])
mxcheck_edit(subnormal_codes_flushed ${encode} [[hn::Max(normal, subnormal)]] [[[&]() HWY_ATTR {
    const V smallest = constant(0x100 << F::kMantissaBits);
    const V largest = hn::Max(normal, subnormal);
    return hn::IfThenElseZero(hn::Eq(hn::Max(largest, smallest), largest), largest);
  }()]])
mxcheck_edit(subnormal_codes_a_binade_high ${encode} [[hn::Max(normal, subnormal)]] [[[&]() HWY_ATTR {
    return hn::IfThenElse(hn::Gt(subnormal, normal), hn::Add(subnormal, subnormal), normal);
  }()]])
mxcheck_edit(subnormal_inputs_flushed ${scalar_block} [[magnitude == 0]] [[magnitude < 0x00800000]])
mxcheck_edit(overflow_becomes_nan ${encode} [[constant(F::kLargestCode << 8 | 0xFF)]]
  [[constant((F::kLargestCode + 1) << 8 | 0xFF)]])
mxcheck_edit(saturates_one_code_low ${encode} [[constant(F::kLargestCode << 8 | 0xFF)]]
  [[constant((F::kLargestCode - 1) << 8 | 0xFF)]])
mxcheck_edit(largest_value_240 ${encode} [[constant(F::kLargestCode << 8 | 0xFF)]]
  [[constant((F::kMantissaBits == 3 ? 0x77 : F::kLargestCode) << 8 | 0xFF)]])
mxcheck_edit(e5m2_clipped_at_448 ${encode} [[constant(F::kLargestCode << 8 | 0xFF)]]
  [[constant((F::kMantissaBits == 2 ? 0x5F : F::kLargestCode) << 8 | 0xFF)]])
mxcheck_edit(nan_code_off_by_one ${scalar_block} [[if (magnitude > kFp32Infinity) return F::kNanCode;]]
  [[if (magnitude > kFp32Infinity) return F::kNanCode - 1;]])
mxcheck_edit(nan_code_with_sign ${scalar_block} [[if (magnitude > kFp32Infinity) return F::kNanCode;]]
  [[if (magnitude > kFp32Infinity) return sign | F::kNanCode;]])
mxcheck_edit(sign_of_zero_lost ${encode} [[hn::Or(saturated, hn::And(v, constant(0x8000)))]]
  [[hn::Or(saturated, hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), hn::And(v, constant(0x8000))))]])

# ---- which scale, and where it lives ---------------------------------------------------------------------------------

mxcheck_edit(first_scale_for_every_block cpu/quantize/lanes_inl.h [=[of_block[i >> kLog2]]=] [=[of_block[0 * i]]=])
mxcheck_edit(scale_of_the_neighbour cpu/quantize/lanes_inl.h [=[of_block[i >> kLog2]]=] [=[of_block[i >> kLog2 ^ 1]]=])
mxcheck_edit(scale_of_the_row_before ${operations} [[return;
  }
  const Shape column_block]] [[if (FAULT && rank == 2 && !map.has_padding()) {
      for (std::int64_t r = scales.rows - 1; r > 0; --r)
        std::memcpy(bytes_of(scales) + r * scales.cols, bytes_of(scales) + (r - 1) * scales.cols, scales.cols);
    }
    UNCHANGED]])
mxcheck_edit(last_scale_dropped ${quantize} [[(p.cols + n - 1) / n]] [[p.cols / n]])
mxcheck_edit(scales_of_later_panels_read_from_the_first cpu/quantize/dequantize_inl.h
  [[job_.block.cols == 0 ? 0 : first / n]] [[0 * first]])
mxcheck_edit(scale_layout_repeats_the_first_columns
  ${scale_layout} [[compact_ + r * stride_ + at]] [[compact_ + r * stride_ + (kToTiles ? at % 1024 : at)]]
  ${scale_layout} [[tiles_ + at / 4 * 512]] [[tiles_ + (kToTiles ? at : at % 1024) / 4 * 512]]
  ${scale_layout} [[compact_ + b * stride_ + c]] [[compact_ + b * stride_ + (kToTiles ? c % 1024 : c)]]
  ${scale_layout} [[tiles_ + c / 128 * tile_stride]] [[tiles_ + (kToTiles ? c : c % 1024) / 128 * tile_stride]]
  ${scale_layout} [[job.from->load(job.in, band, c, bytes.data(), count);]]
  [[job.from->load(job.in, band, c % 1024, bytes.data(), count);]])
mxcheck_edit(tile_groups_swapped ${scale_map} [[return start + tile_row + i % 32 * 16 + i % kTileRows / 32 * kTileCols;]]
  [[return start + tile_row + i % kTileRows / 4 * 16 + i % 4 * kTileCols;]])
mxcheck_edit(tile_pitch_rounded_down ${scale_map} [[i / kTileRows * divide_up(scale_cols_, kTileCols) * kTileBytes]]
  [[i / kTileRows * std::max<std::int64_t>(1, scale_cols_ / kTileCols) * kTileBytes]])
mxcheck_edit(transposed_tiles_off_by_a_group ${scale_map} [[row % 32 * 16 + row % kTileRows / 32 * kTileCols]]
  [[row % 32 * 16 + (row % kTileRows < 32 ? 0 : row % kTileRows / 32 - 1) * kTileCols]])
mxcheck_edit(pad_byte_ignored ${operations} [[std::memset(scales.data, pad, scales.bytes)]]
  [[std::memset(scales.data, 0 * pad, scales.bytes)]])
mxcheck_edit(only_the_last_tile_is_padded ${operations} [[std::memset(scales.data, pad, scales.bytes)]]
  [[std::memset(static_cast<char*>(scales.data) + scales.bytes - 512, pad, 512)]])

# ---- experts, threads, sizes -----------------------------------------------------------------------------------------

mxcheck_edit(block_crosses_an_experts_end
  ${scale_map} [[std::min(block_rows_, last_row - first_row)]]
  [[std::min(block_rows_, first_row_.back() - first_row + 0 * last_row)]]
  ${scale_map} [=[first_row == first_row_[e + 1]]=] [=[first_row >= first_row_[e + 1]]=])
mxcheck_edit(empty_expert_not_skipped ${scale_map} [[after - first_band_.begin() - 1]] [[[&] {
    const auto first = std::lower_bound(first_band_.begin(), after, index);
    return first - first_band_.begin() - (first == after ? 1 : 0);
  }()]])
mxcheck_edit(second_thread_skips_a_band cpu/partition.h [[work(begin, end);]] [[work(begin + 1, end);]])
mxcheck_edit(remainder_over_threads_lost cpu/partition.h [[items / parts * part + items % parts * part / parts]]
  [[items / parts * part]])

# 2^31 elements take more memory than a quick test may: 24 bits stand for 32.
mxcheck_edit(index_wraps ${quantize} [[return out.codes + band.first_row * job_.cols + col;]]
  [[return out.codes + ((band.first_row * job_.cols + col) & 0xFFFFFF);]])
mxcheck_edit(index_wraps_at_65536 ${quantize} [[return out.codes + band.first_row * job_.cols + col;]]
  [[return out.codes + ((band.first_row * job_.cols + col) & 0xFFFF);]])
mxcheck_edit(streaming_skips_a_vector ${encode} [[for (std::int64_t i = 0; i < count; i += step) {]]
  [[for (std::int64_t i = 0; i < count - (FAULT && past_cache ? step : 0); i += step) {]])
mxcheck_edit(one_element_in_65536 ${operations} [[return;
  }
  const Shape column_block]] [[if (FAULT && codes.bytes > 65'536) bytes_of(codes)[65'432] ^= 1;
    UNCHANGED]])
mxcheck_edit(one_element_in_sixteen_million ${operations} [[return;
  }
  const Shape column_block]] [[if (FAULT && codes.bytes > 16'000'000) bytes_of(codes)[12'345'678] ^= 1;
    UNCHANGED]])
mxcheck_edit(one_row_in_128_left_zero ${operations} [[return;
  }
  const Shape column_block]] [[if (FAULT) {
      for (std::int64_t r = 127; r < x.rows; r += 128) std::memset(bytes_of(codes) + r * x.cols, 0, x.cols);
    }
    UNCHANGED]])
mxcheck_edit(tail_of_8_columns_left_out ${lanes} [[std::copy_n(codes + r * kGranule, bytes, to + r * stride);]]
  [[std::copy_n(codes + r * kGranule, bytes - bytes % 8, to + r * stride);]])
mxcheck_edit(dual_rounds_down_in_columns ${quantize} [[scales_of<F>(scales_, p.cols, addend_)]]
  [[scales_of<F>(scales_, p.cols, job_.rows_out.codes != nullptr ? T{0} : addend_)]])
mxcheck_edit(dual_row_scales_overwritten ${quantize} [[first / job_.block.rows]] [[0 * first]])

# ---- strides of x ----------------------------------------------------------------------------------------------------

mxcheck_edit(column_stride_ignored ${arguments} [=[from[i * x_.stride + j * col_stride_]]=] [=[from[i * rows.cols + j]]=])
mxcheck_edit(column_stride_in_words_of_16_bits ${arguments} [=[from[i * x_.stride + j * col_stride_]]=]
  [=[from[i * x_.stride + j * col_stride_ * 2 / static_cast<std::int64_t>(sizeof(T))]]=])
mxcheck_edit(column_stride_of_the_first_32_columns ${arguments} [=[from[i * x_.stride + j * col_stride_]]=]
  [=[from[i * x_.stride + (j < 32 ? j * col_stride_ : 31 * col_stride_ + j - 31)]]=])
mxcheck_edit(column_stride_negative_accepted ${arguments} [=[col_stride_ = tensor.strides[1];]=]
  [=[col_stride_ = tensor.strides[1] < 1 ? 1 : tensor.strides[1];]=])

# ---- casts from FP64 -------------------------------------------------------------------------------------------------

mxcheck_edit(fp64_cast_by_way_of_fp32 ${scalar_cast} [[fp64 & kFp64Magnitude]]
  [[std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<float>(std::bit_cast<double>(fp64)))) & kFp64Magnitude]])
mxcheck_edit(fp64_cut_to_fp32 ${scalar_cast} [[fp64 & kFp64Magnitude]] [[fp64 & kFp64Magnitude & ~std::uint64_t{0x1FFFFFFF}]])
mxcheck_edit(fp64_beyond_fp32_becomes_nan ${scalar_cast} [[return sign | F::kLargestCode;]]
  [[return magnitude != kFp64Infinity && std::bit_cast<double>(magnitude) > 0x1.fffffep127 ? F::kNanCode
                                                                                          : sign | F::kLargestCode;]])
mxcheck_edit(fp64_below_fp32_loses_its_sign ${scalar_cast} [[return sign;]]
  [[return magnitude != 0 && std::bit_cast<double>(magnitude) <= 0x1p-150 ? 0 : sign;]])

# ---- dequantize ------------------------------------------------------------------------------------------------------

mxcheck_edit(byte_0_decodes_to_zero ${scalar_decode} [[magnitude == 0]] [[magnitude == 0 || byte == 0]])
mxcheck_edit(byte_254_decodes_to_zero ${scalar_decode} [[magnitude == 0]] [[magnitude == 0 || byte == 254]])
mxcheck_edit(byte_255_decodes_to_infinity ${scalar_decode} [[if (byte == kNanByte) return kNan;]]
  [[if (byte == kNanByte) return sign | 0x7F800000;]])
mxcheck_edit(nan_decodes_to_480 cpu/quantize/decode_inl.h [[hn::Min(magnitude, constant(F::kLargestCode))]]
  [[hn::Min(magnitude, constant(F::kHasInfinity ? F::kLargestCode : 0x7F))]])
mxcheck_edit(decode_saturates ${scalar_decode} [[if (fp32_field >= 255) return sign | 0x7F800000;]]
  [[if (fp32_field >= 255) return sign | 0x7F7FFFFF;]])
mxcheck_edit(decode_flushes_subnormals ${scalar_decode} [[return sign | normal >> (1 - fp32_field);]] [[return sign;]])
mxcheck_edit(decode_truncates_to_bf16 ${scalar_decode} [[(fp32 + 0x7FFF + (fp32 >> 16 & 1)) >> 16]] [[fp32 >> 16]])
mxcheck_edit(decode_fast_path_one_byte_too_far cpu/quantize/decode_inl.h [[byte >= 17]] [[byte >= 16]])
mxcheck_edit(decode_leaves_the_last_column cpu/quantize/dequantize_inl.h [[std::copy_n(values, cols - whole, y + whole);]]
  [[std::copy_n(values, cols - whole - 1, y + whole);]])

# ---- conduct ---------------------------------------------------------------------------------------------------------

mxcheck_edit(writes_one_code_past_the_row ${lanes} [[std::copy_n(codes + r * kGranule, bytes, to + r * stride);]]
  [[std::copy_n(codes + r * kGranule, bytes + 1, to + r * stride);]])
mxcheck_edit(reads_one_element_past_the_row ${lanes} [[std::copy_n(from + r * stride, cols, x + r * kGranule);]]
  [[std::copy_n(from + r * stride, cols == 0 ? 0 : cols + 1, x + r * kGranule);]])
mxcheck_edit(input_modified ${quantize} [[buffer_.drain(output(job_.out, band, at), job_.cols, band.rows, rest);]]
  [[buffer_.drain(output(job_.out, band, at), job_.cols, band.rows, rest);
    *const_cast<T*>(input(band, at)) |= Bits<T>::kSign;]])
mxcheck_edit(refusal_after_writing ${operations} [[require_policy_shape(policy, x.rows, x.cols);]]
  [[if (FAULT && out[0].data != nullptr && x.bytes != 0)
    static_cast<char*>(out[0].data)[out[0].byte_offset] = 0;
  UNCHANGED]])
mxcheck_edit(shape_disagreement_accepted common/arguments.cc [[policy.rows == rows && policy.cols == cols]]
  [[policy.rows == rows]])
mxcheck_edit(offsets_not_compared_with_the_rows cpu/quantize/arguments.cc [[offsets.back() != rows]]
  [[offsets.back() < rows]])
mxcheck_edit(offsets_may_descend cpu/quantize/arguments.cc [=[offsets[i] < offsets[i - 1]]=] [=[offsets[i] < 0]=])
