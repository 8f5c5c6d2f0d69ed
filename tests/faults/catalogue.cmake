# Faults put into the CPU library on purpose, each a replacement of text that occurs exactly once.
#
# mxcheck_fault(NAME REFERENCE "what it imitates" FILE SEARCH REPLACE [FILE SEARCH REPLACE ...])
#
# One library has all of them and runs the one that its file is stamped with (stamp.h), so SEARCH and REPLACE are two
# expressions, or two statements that end in ";". A REPLACE that says FAULT is the new text itself (overlay.cmake).
#
# REFERENCE says where the fault was met: the project that had it and the number of its report or fix, or "operator" for
# the generic mutation operators (a sign, a bound, a constant). `ninja fault_table` prints what the gate says to each.

# ---- the scale byte --------------------------------------------------------------------------------------------------

mxcheck_fault(
  scale_one_binade_too_large operator "the scale byte is one too large; codes follow it"
  cpu/quantize/encode_inl.h [[static_cast<T>(F::kLargestExponent)]] [[static_cast<T>(F::kLargestExponent - 1)]])

mxcheck_fault(
  scale_one_binade_too_small "vllm#43557" "the scale byte is one too small; codes saturate"
  cpu/quantize/encode_inl.h [[static_cast<T>(F::kLargestExponent)]] [[static_cast<T>(F::kLargestExponent + 1)]])

mxcheck_fault(
  rceil_asked_floor_done "torchao#3686" "the scale rule is not forwarded: rceil is asked, floor is done"
  cpu/quantize/encode_inl.h [[Bits<T>::kFraction >> 2]] [[0]])

mxcheck_fault(
  largest_value_rounds_up operator "round-up at a significand of 1.75 and above instead of above"
  cpu/quantize/encode_inl.h [[Bits<T>::kFraction >> 2]] [[(Bits<T>::kFraction >> 2) + 1]])

mxcheck_fault(
  round_up_from_one_and_a_half "aiter#3212" "round-up above a significand of 1.5, right for a largest value of 240"
  cpu/quantize/encode_inl.h [[Bits<T>::kFraction >> 2]] [[Bits<T>::kFraction >> 1]])

# 448 * 1.125, 1.25, 1.375 have the significands 1.96875, 1.09375, 1.203125.
mxcheck_fault(
  three_mantissas_do_not_round_up "onnx#7784" "mantissa mask 0x4FFFFF: amax of 1.125, 1.25, 1.375 times 448 * 2^k is not rounded up"
  cpu/quantize/encode_inl.h [[hn::Max(field, easy)]]
  [[[&]() HWY_ATTR {
      const auto fraction = hn::And(amax, hn::Set(d, B::kFraction));
      const auto is = [&](int numerator) HWY_ATTR {
        return hn::Eq(fraction, hn::Set(d, static_cast<T>(static_cast<T>(numerator) << (B::kMantissa - 7))));
      };
      const auto lower = hn::IfThenElseZero(hn::Or(is(0x7C), hn::Or(is(0x0C), is(0x1A))), hn::Set(d, T{1}));
      return hn::Max(hn::Sub(field, addend == 0 ? zero : lower), easy);
    }()]])

mxcheck_fault(
  amax_rounded_to_bf16_first "torchao#4725" "FP32 amax is rounded to BF16 before the scale rule"
  cpu/quantize/encode_inl.h [[const auto amax = hn::Load(d, s.amax + i);]]
  [[auto amax = hn::Load(d, s.amax + i);
    if constexpr (sizeof(T) == 4) {
      if (FAULT) amax = hn::And(hn::Add(amax, hn::Set(d, T{0x8000})), hn::Set(d, T{0xFFFF0000}));
    }]])

mxcheck_fault(
  zero_block_keeps_a_scale "torchao#4713" "a block of zeros gets the byte that the arithmetic left behind"
  cpu/quantize/encode_inl.h [[hn::IfThenZeroElse(is_zero, byte)]] [[byte]])

mxcheck_fault(
  smallest_byte_is_one "torchao#4725" "2^-127 is clamped to the smallest normal number: byte 1 instead of 0"
  cpu/quantize/scalar_block.h [[byte < 0 ? 0 : byte]] [[byte < 1 ? 1 : byte]])

mxcheck_fault(
  subnormal_quotient_is_flushed "TE with FTZ" "amax / 448 below 2^-126 is flushed to zero: byte 0 instead of 1"
  cpu/quantize/scalar_block.h [[byte < 0 ? 0 : byte]] [[byte < 2 ? 0 : byte]])

mxcheck_fault(
  fp32_exception_in_the_exact_rule "a finding of ours" "the exact rule treats 0x04600001 as FP32 arithmetic does, and the FP32 rules do not"
  cpu/quantize/scalar_block.h [[fp32_rule && amax == F::kFp32RuleException]]
  [[!fp32_rule && amax == F::kFp32RuleException]])

mxcheck_fault(
  fp32_exception_forgotten "a finding of ours" "the FP32 rules compute exactly: 0x04600001 gets byte 1"
  cpu/quantize/scalar_block.h [[fp32_rule && amax == F::kFp32RuleException]] [[false]])

mxcheck_fault(
  infinity_gets_byte_254 "torchao#4725" "an infinite amax gives byte 254, with saturated codes"
  cpu/quantize/scalar_block.h [[(has_nan || amax == kFp32Infinity)]] [[has_nan]])

mxcheck_fault(
  nan_dropped_by_max "torchao#4725" "NaN does not reach amax: only its own code is NaN"
  cpu/quantize/scalar_block.h [[(has_nan || amax == kFp32Infinity)]] [[amax == kFp32Infinity]])

mxcheck_fault(
  infinity_taken_for_a_number "torchao#4201" "the fast path takes a block with an infinity"
  cpu/quantize/encode_inl.h [[amax < Bits<T>::kInfinity]] [[amax <= Bits<T>::kInfinity]])

# ---- amax ------------------------------------------------------------------------------------------------------------

mxcheck_fault(
  amax_over_31_of_32 operator "the last element of 32 has no say in amax"
  cpu/quantize/amax_inl.h [[amax = hn::Max(amax, hn::And(hn::LoadU(d, x + i), mask));]]
  [[const std::size_t used = i + hn::Lanes(d) == 32 ? hn::Lanes(d) - 1 : hn::Lanes(d);
    amax = hn::Max(amax, hn::IfThenElseZero(hn::FirstN(d, used), hn::And(hn::LoadU(d, x + i), mask)));]])

mxcheck_fault(
  amax_without_the_last_row operator "the last row of an n x 1 block has no say in amax"
  cpu/quantize/amax_inl.h [[r < rows]] [[r < rows - 1]])

mxcheck_fault(
  amax_without_the_tail_column operator "the last column of a cut block has no say in amax"
  cpu/quantize/quantize_inl.h [[sub_block_amax(row.x, row.readable, scales_.amax);]]
  [[T& last = const_cast<T&>(row.x[row.cols - 1]);
    const T kept = last;
    if (row.cols % 32 != 0) last = 0;
    sub_block_amax(row.x, row.readable, scales_.amax);
    if (row.cols % 32 != 0) last = kept;]])

mxcheck_fault(
  wide_blocks_over_three_quarters operator "amax of a 128-wide block over its first 96 elements"
  cpu/quantize/amax_inl.h [[k < factor]] [[k < (factor == 4 ? 3 : factor)]])

mxcheck_fault(
  tail_holds_what_was_there "torchao#4186" "the buffer behind a cut row is not cleared: old values take part in amax"
  cpu/quantize/quantize_inl.h [[std::fill_n(x + r * kGranule + cols, kGranule - cols, T{0});]] [[]])

# ---- codes -----------------------------------------------------------------------------------------------------------

mxcheck_fault(
  ties_away_from_zero microxcaling "ties go away from zero"
  cpu/quantize/encode_inl.h [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]]
  [[hn::Add(hn::Add(exact, constant(0x7F)), constant(1))]])

mxcheck_fault(
  ties_toward_zero DeepGEMM "ties go toward zero, as in a comparison with > where >= is meant"
  cpu/quantize/encode_inl.h [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]]
  [[hn::Add(exact, constant(0x7F))]])

mxcheck_fault(
  truncated "triton#11753" "codes are truncated"
  cpu/quantize/encode_inl.h [[hn::Add(hn::Add(exact, constant(0x7F)), odd)]] [[exact]])

mxcheck_fault(
  rounded_twice "triton#2583" "an FP32 element is rounded to BF16, nearest even, then to a code"
  cpu/quantize/encode_inl.h [[return hn::Or(hn::ConcatOdd(d, second, first), cut);]]
  [[const auto half = hn::Set(d32, 0x7FFFU);
  const auto one = hn::Set(d32, 1U);
  const auto nearest = [&](auto v) HWY_ATTR {
    const auto bits = hn::BitCast(d32, v);
    return hn::BitCast(d, hn::Add(bits, hn::Add(half, hn::And(hn::ShiftRight<16>(bits), one))));
  };
  return hn::ConcatOdd(d, nearest(second), nearest(first));]])

mxcheck_fault(
  cut_to_bf16_first "triton#2583" "an FP32 element is cut to BF16, then rounded to a code: what was cut breaks no tie"
  cpu/quantize/encode_inl.h [[return hn::Or(hn::ConcatOdd(d, second, first), cut);]] [[return hn::ConcatOdd(d, second, first);]])

mxcheck_fault(
  subnormal_codes_truncated TileKernels "rounding of subnormal codes looks at the wrong bits: their remainder is lost"
  cpu/quantize/encode_inl.h [[hn::Max(normal, subnormal)]]
  [[hn::Max(normal, hn::And(subnormal, constant(0xFF00)))]])

mxcheck_fault(
  subnormal_codes_flushed operator "what lies below the smallest normal code becomes zero"
  cpu/quantize/encode_inl.h [[hn::Max(normal, subnormal)]]
  [[[&]() HWY_ATTR {
    const V smallest = constant(0x100 << F::kMantissaBits);
    const V largest = hn::Max(normal, subnormal);
    return hn::IfThenElseZero(hn::Eq(hn::Max(largest, smallest), largest), largest);
  }()]])

mxcheck_fault(
  subnormal_inputs_flushed "compilers' FTZ" "subnormal FP32 inputs count as zero"
  cpu/quantize/scalar_block.h [[magnitude == 0]] [[magnitude < 0x00800000]])

mxcheck_fault(
  overflow_becomes_nan "torchao#1912" "a non-saturating cast: NaN (E5M2: infinity) above the largest value"
  cpu/quantize/encode_inl.h [[constant(F::kLargestCode << 8 | 0xFF)]] [[constant((F::kLargestCode + 1) << 8 | 0xFF)]])

mxcheck_fault(
  largest_value_240 "sglang#30900" "codes saturate at 240, the largest value of the other E4M3"
  cpu/quantize/encode_inl.h [[constant(F::kLargestCode << 8 | 0xFF)]] [[constant((F::kMantissaBits == 3 ? 0x77 : F::kLargestCode) << 8 | 0xFF)]])

mxcheck_fault(
  e5m2_clipped_at_448 "flashinfer#2639" "E5M2 saturates at E4M3's largest value"
  cpu/quantize/encode_inl.h [[constant(F::kLargestCode << 8 | 0xFF)]] [[constant((F::kMantissaBits == 2 ? 0x5F : F::kLargestCode) << 8 | 0xFF)]])

mxcheck_fault(
  nan_code_with_sign gfloat "the NaN code keeps the sign: 0xFF"
  cpu/quantize/scalar_block.h [[if (magnitude > kFp32Infinity) return F::kNanCode;]]
  [[if (magnitude > kFp32Infinity) return sign | F::kNanCode;]])

mxcheck_fault(
  sign_of_zero_lost microxcaling "-0 becomes +0"
  cpu/quantize/encode_inl.h [[hn::Or(saturated, hn::And(v, constant(0x8000)))]]
  [[hn::Or(saturated, hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(d)), hn::And(v, constant(0x8000))))]])

# ---- which scale, and where it lives ---------------------------------------------------------------------------------

mxcheck_fault(
  first_scale_for_every_block "mlc-tirx#5" "every block is cast with the scale of the first"
  cpu/quantize/lanes_inl.h [=[of_block[i >> kLog2]]=] [=[of_block[0 * i]]=])

mxcheck_fault(
  scale_of_the_neighbour operator "codes are cast with the scale of the block next to theirs"
  cpu/quantize/lanes_inl.h [=[of_block[i >> kLog2]]=] [=[of_block[i >> kLog2 ^ 1]]=])

mxcheck_fault(
  last_scale_dropped "FBGEMM#6159" "the scale of a trailing partial block is not written"
  cpu/quantize/quantize_inl.h [[(p.cols + n - 1) / n]] [[p.cols / n]])

mxcheck_fault(
  scales_of_later_panels_read_from_the_first "mlc-tirx#5" "dequantize uses the scales of the first 1024 columns for all"
  cpu/quantize/dequantize_inl.h [[job_.block.cols == 0 ? 0 : first / n]] [[0 * first]])

mxcheck_fault(
  scale_layout_repeats_the_first_columns "torchao#3357" "scale_layout reads the first 1024 scale columns again and again"
  cpu/quantize/operations.cc [[from.load(bytes_of(in), band, c, bytes.data(), count);]]
  [[from.load(bytes_of(in), band, 0, bytes.data(), count);]])

mxcheck_fault(
  tile_groups_swapped "cutlass#3394" "in the 128 x 4 tiles, a row's group of 32 and its place in the group change roles"
  cpu/quantize/scale_map.cc [[return start + tile_row + i % 32 * 16 + i % kTileRows / 32 * kTileCols;]]
  [[return start + tile_row + i % kTileRows / 4 * 16 + i % 4 * kTileCols;]])

mxcheck_fault(
  tile_pitch_rounded_down "torchao#4229" "the pitch of tile rows is floor(columns / 4) tiles: right for multiples of 4"
  cpu/quantize/scale_map.cc [[i / kTileRows * divide_up(scale_cols_, kTileCols) * kTileBytes]]
  [[i / kTileRows * std::max<std::int64_t>(1, scale_cols_ / kTileCols) * kTileBytes]])

mxcheck_fault(
  transposed_tiles_off_by_a_group operator "tiles of n x 1 blocks: rows 32 and above land one group early"
  cpu/quantize/scale_map.cc [[row % 32 * 16 + row % kTileRows / 32 * kTileCols]]
  [[row % 32 * 16 + (row % kTileRows < 32 ? 0 : row % kTileRows / 32 - 1) * kTileCols]])

mxcheck_fault(
  pad_byte_ignored "TE#2905" "padding of the tiles is zero, whatever was asked"
  cpu/quantize/operations.cc [[std::memset(scales.data, pad, scales.bytes)]] [[std::memset(scales.data, 0 * pad, scales.bytes)]])

mxcheck_fault(
  only_the_last_tile_is_padded "TE#2547" "padding is written in the last tile only"
  cpu/quantize/operations.cc [[std::memset(scales.data, pad, scales.bytes)]]
  [[std::memset(static_cast<char*>(scales.data) + scales.bytes - 512, pad, 512)]])

# ---- experts, threads, sizes -----------------------------------------------------------------------------------------

mxcheck_fault(
  block_crosses_an_experts_end "torchao#3603" "the first block of an expert reaches into the next expert"
  cpu/quantize/scale_map.cc [[std::min(block_rows_, last_row - first_row)]] [[std::min(block_rows_, first_row_.back() - first_row + 0 * last_row)]]
  cpu/quantize/scale_map.cc [=[first_row == first_row_[e + 1]]=] [=[first_row >= first_row_[e + 1]]=])

mxcheck_fault(
  empty_expert_not_skipped "TE#2782" "an expert without rows takes the place of the one after it"
  cpu/quantize/scale_map.cc [[after - first_band_.begin() - 1]]
  [[[&] {
    const auto first = std::lower_bound(first_band_.begin(), after, index);
    return first - first_band_.begin() - (first == after ? 1 : 0);
  }()]])

mxcheck_fault(
  second_thread_skips_a_band operator "each thread but the first leaves out its first rows"
  cpu/partition.h [[work(begin, end);]] [[work(begin + 1, end);]])

mxcheck_fault(
  remainder_over_threads_lost operator "rows that do not divide by the number of threads are left out"
  cpu/partition.h [[items / parts * part + items % parts * part / parts]] [[items / parts * part]])

# 2^31 elements take more memory than a quick test may: 24 bits stand for 32.
mxcheck_fault(
  index_wraps "torchao#4016" "the index of an element wraps (at 2^24 here, at 2^31 in the field)"
  cpu/quantize/quantize_inl.h [[return out.codes + band.first_row * job_.cols + col;]]
  [[return out.codes + ((band.first_row * job_.cols + col) & 0xFFFFFF);]])

mxcheck_fault(
  index_wraps_at_65536 "torchao#4016" "the index of an element wraps at 2^16"
  cpu/quantize/quantize_inl.h [[return out.codes + band.first_row * job_.cols + col;]]
  [[return out.codes + ((band.first_row * job_.cols + col) & 0xFFFF);]])

mxcheck_fault(
  streaming_skips_a_vector operator "outputs of over 4 MiB: the path past the caches leaves out a vector"
  cpu/quantize/encode_inl.h [[for (std::int64_t i = 0; i < count; i += step) {]]
  [[for (std::int64_t i = 0; i < count - (FAULT && past_cache ? step : 0); i += step) {]])

mxcheck_fault(
  one_element_in_65536 operator "one code of a tensor of over 65,536 elements is wrong"
  cpu/quantize/operations.cc [[return;
  }
  const Shape column_block]]
  [[if (FAULT && codes.bytes > 65'536) bytes_of(codes)[65'432] ^= 1;
    UNCHANGED]])

mxcheck_fault(
  one_element_in_sixteen_million operator "one code of a tensor of over 16 million elements is wrong"
  cpu/quantize/operations.cc [[return;
  }
  const Shape column_block]]
  [[if (FAULT && codes.bytes > 16'000'000) bytes_of(codes)[12'345'678] ^= 1;
    UNCHANGED]])

mxcheck_fault(
  dual_rounds_down_in_columns operator "quantize_dual: the column side uses the floor rule"
  cpu/quantize/quantize_inl.h [[scales_of<F>(scales_, p.cols, addend_)]]
  [[scales_of<F>(scales_, p.cols, job_.rows_out.codes != nullptr ? T{0} : addend_)]])

mxcheck_fault(
  dual_row_scales_overwritten "torchao#3357" "quantize_dual: row scales of later panels land on those of the first"
  cpu/quantize/quantize_inl.h [[first / job_.block.rows]] [[0 * first]])

# ---- dequantize ------------------------------------------------------------------------------------------------------

mxcheck_fault(
  byte_0_decodes_to_zero "TE#3262" "the scale is byte << 23: byte 0 makes its block zero"
  cpu/quantize/scalar_decode.h [[magnitude == 0]] [[magnitude == 0 || byte == 0]])

mxcheck_fault(
  byte_254_decodes_to_zero "TE#2647" "byte 254 makes its block zero"
  cpu/quantize/scalar_decode.h [[magnitude == 0]] [[magnitude == 0 || byte == 254]])

mxcheck_fault(
  byte_255_decodes_to_infinity "TE#3262" "the scale is byte << 23: byte 255 makes its block infinite instead of NaN"
  cpu/quantize/scalar_decode.h [[if (byte == kNanByte) return kNan;]] [[if (byte == kNanByte) return sign | 0x7F800000;]])

mxcheck_fault(
  nan_decodes_to_480 "mlx#4164" "E4M3's NaN code is decoded as a number"
  cpu/quantize/decode_inl.h [[hn::Min(magnitude, constant(F::kLargestCode))]]
  [[hn::Min(magnitude, constant(F::kHasInfinity ? F::kLargestCode : 0x7F))]])

mxcheck_fault(
  decode_saturates operator "a value beyond FP32 becomes the largest finite value instead of infinity"
  cpu/quantize/scalar_decode.h [[if (fp32_field >= 255) return sign | 0x7F800000;]] [[if (fp32_field >= 255) return sign | 0x7F7FFFFF;]])

mxcheck_fault(
  decode_flushes_subnormals "compilers' FTZ" "values below 2^-126 become zero"
  cpu/quantize/scalar_decode.h [[return sign | normal >> (1 - fp32_field);]] [[return sign;]])

mxcheck_fault(
  decode_truncates_to_bf16 operator "values that BF16 cannot hold are truncated"
  cpu/quantize/scalar_decode.h [[(fp32 + 0x7FFF + (fp32 >> 16 & 1)) >> 16]] [[fp32 >> 16]])

mxcheck_fault(
  decode_fast_path_one_byte_too_far operator "the fast path takes byte 16, where one E5M2 code is subnormal"
  cpu/quantize/decode_inl.h [[byte >= 17]] [[byte >= 16]])

mxcheck_fault(
  decode_leaves_the_last_column "torchao#4186" "the last column of a cut row is not written"
  cpu/quantize/dequantize_inl.h [[std::copy_n(values, cols - whole, y + whole);]] [[std::copy_n(values, cols - whole - 1, y + whole);]])

# ---- conduct ---------------------------------------------------------------------------------------------------------

mxcheck_fault(
  writes_one_code_past_the_row "torchao#1516" "the store mask of the tail is <= where < is meant"
  cpu/quantize/quantize_inl.h [[std::copy_n(codes + r * kGranule, cols, to + r * stride);]]
  [[std::copy_n(codes + r * kGranule, cols + 1, to + r * stride);]])

mxcheck_fault(
  reads_one_element_past_the_row operator "the load mask of the tail is <= where < is meant; the value is not used"
  cpu/quantize/quantize_inl.h [[std::copy_n(from + r * stride, cols, x + r * kGranule);]]
  [[std::copy_n(from + r * stride, cols == 0 ? 0 : cols + 1, x + r * kGranule);]])

mxcheck_fault(
  input_modified operator "an element of x comes back changed"
  cpu/quantize/quantize_inl.h [[buffer_.drain(output(job_.out, band, at), job_.cols, band.rows, rest);]]
  [[buffer_.drain(output(job_.out, band, at), job_.cols, band.rows, rest);
    *const_cast<T*>(input(band, at)) |= Bits<T>::kSign;]])

mxcheck_fault(
  refusal_after_writing operator "an output is cleared before the arguments are checked"
  cpu/quantize/operations.cc [[require_policy_shape(policy, x.rows, x.cols);]]
  [[if (FAULT && out[0].data != nullptr && x.bytes != 0)
    static_cast<char*>(out[0].data)[out[0].byte_offset] = 0;
  UNCHANGED]])

mxcheck_fault(
  shape_disagreement_accepted operator "columns of the policy are not compared with the tensor's"
  common/arguments.cc [[policy.rows == rows && policy.cols == cols]] [[policy.rows == rows]])

mxcheck_fault(
  offsets_not_compared_with_the_rows "DeepGEMM#113" "offsets may end beyond the last row"
  cpu/quantize/arguments.cc [[offsets.back() != rows]] [[offsets.back() < rows]])

mxcheck_fault(
  offsets_may_descend operator "offsets may be in any order"
  cpu/quantize/arguments.cc [=[offsets[i] < offsets[i - 1]]=] [=[offsets[i] < 0]=])
