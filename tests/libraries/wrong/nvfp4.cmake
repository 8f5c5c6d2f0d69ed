# Edits of the library of NVFP4 (libmxcheck_cpu_nvfp4.so), as in cpu.cmake. A block's scale is computed in two places, one
# element at a time (levels.h) and SIMD (scales_inl.h); its codes follow from levels.h alone, by way of limits.

# Where the texts are: a file that moves is corrected here.
set(candidate cpu/nvfp4/candidate.cc)
set(codes cpu/nvfp4/codes_inl.h)
set(dequantize cpu/nvfp4/dequantize_inl.h)
set(levels cpu/nvfp4/levels.h)
set(quantize cpu/nvfp4/quantize_inl.h)
set(scalar_block cpu/nvfp4/scalar_block.h)
set(scales cpu/nvfp4/scales_inl.h)
set(value common/nvfp4/value.h)

# Texts that several faults change.
set(TENSOR_SCALE [[*static_cast<const float*>(tensor_scale.data)]])
set(FACTOR [[1.0F / (e4m3_value(byte) * decode)]])
set(OF_TE [[amax * encode_over_6]])
set(SIMD_OF_TE [[hn::Mul(q, hn::Set(d, levels.encode_over_6))]])
set(OF_SIX [[amax / 6.0F * encode * stretch]])
set(SIMD_OF_SIX [[hn::Mul(hn::Div(q, hn::Set(d, 6.0F)), encode)]])
set(SELECTED [[hn::IfThenElse(small, subnormal, normal)]])

# ---- block scales ----------------------------------------------------------------------------------------------------

mxcheck_edit(te_scale_as_in_2_8 ${levels} "${OF_TE}" [[amax / 6.0F * encode]]
  ${scales} "${SIMD_OF_TE}" [[hn::Mul(hn::Div(q, hn::Set(d, 6.0F)), encode)]])
mxcheck_edit(amax_times_a_sixth ${levels} "${OF_SIX}" [[amax * (1.0F / 6.0F) * encode * stretch]]
  ${scales} "${SIMD_OF_SIX}" [[hn::Mul(hn::Mul(q, hn::Set(d, 1.0F / 6.0F)), encode)]])
mxcheck_edit(amax_over_the_rounded_scale ${levels} "${OF_SIX}" [[amax / (6.0F * decode) * stretch]]
  ${scales} "${SIMD_OF_SIX}" [[hn::Div(q, hn::Set(d, 6.0F * levels.decode))]])
mxcheck_edit(subnormal_scales_flushed ${levels} [[(exponent + 6) * 8 + steps]]
  [[(exponent + 6) * 8 + steps < 8 ? 0 : (exponent + 6) * 8 + steps]]
  ${scales} "${SELECTED}" [[hn::IfThenElse(small, hn::And(subnormal, hn::Set(du, 8U)), normal)]])
mxcheck_edit(scale_overflow_becomes_nan ${levels} [[if (quotient >= 448) return kE4m3Largest;]]
  [[if (quotient >= 448) return quotient > 464 ? kE4m3Nan : kE4m3Largest;]]
  ${scales} "${SELECTED}" [[hn::IfThenElse(hn::RebindMask(du, hn::Gt(quotient, hn::Set(d, 464.0F))), hn::Set(du, 0x7FU),
                                           hn::IfThenElse(small, subnormal, normal))]])
mxcheck_edit(smallest_scale_is_2_to_minus_6 ${levels} [[if (quotient < 0x1p-11) return 0;]] [[if (quotient < 0x1p-6) return 8;]]
  ${scales} "${SELECTED}" [[hn::Max(hn::IfThenElse(small, subnormal, normal), hn::Set(du, 8U))]])
mxcheck_edit(scales_truncated ${levels} [[(scaled + 0x1p52) - 0x1p52]] [[static_cast<double>(static_cast<int>(scaled))]]
  ${scales} [[hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFFU)), odd)]] [[bits]]
  ${scales} [[hn::Sub(sum, hn::BitCast(du, hn::Set(d, 0x1p14F)))]]
  [[hn::BitCast(du, hn::ConvertTo(hn::RebindToSigned<D>(), hn::Mul(kept, hn::Set(d, 512.0F))))]])
mxcheck_edit(exact_quotient_rounded_first ${levels} [[e4m3_of(double{amax} / (6.0 * decode))]]
  [[e4m3_of(static_cast<float>(double{amax} / (6.0 * decode)))]]
  ${scales} [[hn::IfThenElse(is_exact, cut, hn::Or(cut, one))]] [[bits]])
mxcheck_edit(nan_counts_in_amax ${levels} [[recipe != Nvfp4Recipe::exact && recipe != Nvfp4Recipe::four_six]] [[false]])
mxcheck_edit(infinity_is_a_number ${levels} [[std::isinf(amax)]] [[false]])
mxcheck_edit(square_amax_over_15_rows ${quantize} [[column_amax(p.x, p.stride, p.rows, p.readable, column_amax_);]]
  [[column_amax(p.x, p.stride, std::min<std::int64_t>(p.rows, 15), p.readable, column_amax_);]])

# ---- codes -----------------------------------------------------------------------------------------------------------

mxcheck_edit(nibbles_exchanged ${codes} [[bits_of(low_nibble, hn::ShiftRight<12>(v), hn::ShiftRight<24>(v))]]
  [[hn::Or(hn::ShiftRight<28>(v), hn::And(hn::ShiftRight<8>(v), hn::Set(d32, 0xF0U)))]]
  ${scalar_block} [[row[c] | high << 4]] [[row[c] << 4 | high]])
mxcheck_edit(element_over_the_product ${levels} [[e2m1_of(x * factor_of(byte))]]
  [[e2m1_of(byte == 0 && recipe >= Nvfp4Recipe::vllm ? x * 0.0F : x / (e4m3_value(byte) * decode))]])
mxcheck_edit(factor_is_encode_over_scale ${levels} "${FACTOR}" [[encode / e4m3_value(byte)]])
mxcheck_edit(zero_scale_is_divided_by ${levels} [[byte == 0 && !is_te]] [[false]])
mxcheck_edit(factor_without_a_largest_float ${levels} [[is_te && !(factor < kLargest)]] [[false]])
mxcheck_edit(codes_of_the_unrounded_scale ${quantize} [[job_.levels.recipe != Nvfp4Recipe::four_six]] [[false]]
  ${scalar_block} [[  ScalarCodes codes;]] [[UNCHANGED
  const bool is_te = levels.recipe == Nvfp4Recipe::te;
  const float of_others = levels.recipe == Nvfp4Recipe::vllm ? amax * (1.0F / 6.0F) * levels.encode
                                                             : amax / 6.0F * levels.encode;
  const float unrounded = levels.recipe == Nvfp4Recipe::exact ? static_cast<float>(double{amax} / (6.0 * levels.decode))
                          : is_te                             ? amax * levels.encode_over_6
                                                              : of_others;
  const float divisor = unrounded * levels.decode;]]
  ${scalar_block} [[scalar_codes(levels, block, byte, codes);]]
  [[for (std::size_t i = 0; i < block.size(); ++i) codes[i] = e2m1_of(divisor == 0 ? 0 * block.x[i] : block.x[i] / divisor);]])
mxcheck_edit(ties_away_from_zero ${levels} [[m > 0.25]] [[m >= 0.25]] ${levels} [[m > 1.25]] [[m >= 1.25]]
  ${levels} [[m > 2.5]] [[m >= 2.5]] ${levels} [[m > 5]] [[m >= 5]])
mxcheck_edit(nan_code_with_sign ${levels} [[if (std::isnan(x) || byte == kE4m3Nan) return kE2m1Nan;]]
  [[if (std::isnan(x) || byte == kE4m3Nan) return static_cast<std::uint8_t>(kE2m1Nan | (std::signbit(x) ? 8 : 0));]])

# ---- the scale of the tensor -----------------------------------------------------------------------------------------

mxcheck_edit(tensor_scale_inverted ${candidate} "${TENSOR_SCALE}" [[1.0F / *static_cast<const float*>(tensor_scale.data)]])
mxcheck_edit(tensor_scale_without_the_6 ${candidate} "${TENSOR_SCALE}" [[6.0F * *static_cast<const float*>(tensor_scale.data)]])
mxcheck_edit(tensor_scale_read_as_bf16 ${candidate} "${TENSOR_SCALE}"
  [[[&] {
    auto bits = std::bit_cast<std::uint32_t>(*static_cast<const float*>(tensor_scale.data));
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
    return std::bit_cast<float>(bits);
  }()]])

# ---- Four Over Six ---------------------------------------------------------------------------------------------------

mxcheck_edit(choice_not_made ${scalar_block} [[levels.recipe == Nvfp4Recipe::four_six]] [[false]])
mxcheck_edit(equal_errors_take_four ${scalar_block}
  [[squared_error(levels, block, of_four, others) < squared_error(levels, block, byte, codes)]]
  [[squared_error(levels, block, of_four, others) <= squared_error(levels, block, byte, codes)]])
mxcheck_edit(error_by_the_decode_scale ${levels} [[e2m1_value(code) * e4m3_value(byte) * stored / 1536.0F]]
  [[e2m1_value(code) * e4m3_value(byte) * decode]])
mxcheck_edit(error_is_absolute ${scalar_block} [[error * error]] [[error]])

# ---- which scale, and where it lives ---------------------------------------------------------------------------------

mxcheck_edit(cut_block_left_out ${quantize} [[if (rest == 0) return;]] [[if (rest < kBlockCols) return;]])
mxcheck_edit(padding_not_written ${candidate} [[map.has_padding()]] [[false]])
mxcheck_edit(tiles_across_rounded_down cpu/quantize/scale_map.cc
  [[i / kTileRows * divide_up(scale_cols_, kTileCols) * kTileBytes]]
  [[i / kTileRows * std::max<std::int64_t>(1, scale_cols_ / kTileCols) * kTileBytes]])
mxcheck_edit(scale_of_the_next_block ${codes} [=[limits.of(bytes[i / 16])]=] [=[limits.of(bytes[i / 16 ^ 1])]=])
mxcheck_edit(odd_row_length_rounded_down ${quantize} [[return (job_.cols + 1) / 2;]] [[return job_.cols / 2;]])

# ---- values ----------------------------------------------------------------------------------------------------------

set(VALUE [[nvfp4_code_value(code) * nvfp4_scale_value(byte) * scale.times / scale.over]])
set(IS_NAN [[(byte & 0x7F) == 0x7F]])

mxcheck_edit(value_nibbles_exchanged ${dequantize} [[hn::InterleaveLower(d, hn::And(pairs, nibble), hn::And(high, nibble))]]
  [[hn::InterleaveLower(d, hn::And(high, nibble), hn::And(pairs, nibble))]]
  ${dequantize} [[codes[done / 2] >> (done % 2 * 4) & 0xFU]] [[codes[done / 2] >> ((1 - done % 2) * 4) & 0xFU]])
mxcheck_edit(values_divided_by_the_tensor_scale ${value} "${VALUE}"
  [[nvfp4_code_value(code) * nvfp4_scale_value(byte) * scale.over / scale.times]])
mxcheck_edit(values_by_the_rounded_tensor_scale ${value} "${VALUE}"
  [[nvfp4_code_value(code) * nvfp4_scale_value(byte) * static_cast<double>(static_cast<float>(scale.times / scale.over))]])
mxcheck_edit(product_of_scales_rounded_first ${value} "${VALUE}"
  [[nvfp4_code_value(code) * static_cast<double>(static_cast<float>(nvfp4_scale_value(byte) * scale.times / scale.over))]])
mxcheck_edit(values_of_46_as_of_448 ${value} [[return {s, 1536};]] [[return {s, 2688};]])
mxcheck_edit(values_rounded_to_fp32_first ${value} [[if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;]] [[]]
  ${value} [[if (static_cast<double>(nvfp4_bits_as<float>(bits)) != value) bits |= 1;]] [[]])
mxcheck_edit(values_truncated ${value} [[(bits + 0x7FFF + (bits >> 16 & 1)) >> 16]] [[bits >> 16]])
mxcheck_edit(value_scale_without_sign ${value} [[(byte & 0x80) != 0 ? -magnitude : magnitude]] [[magnitude]])
mxcheck_edit(value_scale_nan_is_480 ${value} "${IS_NAN}" [[false]])
mxcheck_edit(value_scale_ff_is_a_number ${value} "${IS_NAN}" [[byte == 0x7F]])
mxcheck_edit(value_scale_subnormal_flushed ${value} [[nvfp4_scaled(fraction, -9)]] [[0.0]])
mxcheck_edit(value_scale_of_the_next_block ${dequantize} [[planes_.of(bytes_[done / kValueBlock]), y + done, past_cache]]
  [[planes_.of(bytes_[(done / kValueBlock + (FAULT ? 1 : 0)) % (kValuePanel / kValueBlock)]), y + done, past_cache]])
mxcheck_edit(value_of_negative_zero_is_positive ${value} [[(code & 8) != 0 ? -magnitude : magnitude]]
  [[((code & 8) != 0 ? -magnitude : magnitude) + 0.0]])
mxcheck_edit(value_cut_block_left_out ${dequantize} [[for (; done < cols; ++done) {]]
  [[for (; done < (FAULT ? cols / kValueBlock * kValueBlock : cols); ++done) {]])
mxcheck_edit(value_row_length_rounded_down ${dequantize} [[row_bytes = (job_.cols + 1) / 2;]] [[row_bytes = (job_.cols + (FAULT ? 0 : 1)) / 2;]])
