# Edits of the library of NVFP4 (libmxcheck_cpu_nvfp4.so), as in cpu.cmake. A block's scale is computed in two places, one
# element at a time (levels.h) and SIMD (scales_inl.h); its codes follow from levels.h alone, by way of limits.

# Where the texts are: a file that moves is corrected here.
set(candidate cpu/nvfp4/candidate.cc)
set(arguments cpu/quantize/arguments.cc)
set(codes cpu/nvfp4/codes_inl.h)
set(job cpu/nvfp4/quantize.h)
set(dequantize cpu/nvfp4/dequantize_inl.h)
set(levels cpu/nvfp4/levels.h)
set(options cpu/nvfp4/options_inl.h)
set(read_options common/nvfp4/options.cc)
set(words common/nvfp4/options.h)
set(quantize cpu/nvfp4/quantize_inl.h)
set(scalar_block cpu/nvfp4/scalar_block.h)
set(scales cpu/nvfp4/scales_inl.h)
set(value common/nvfp4/value.h)

# Texts that several faults change.
set(TENSOR_SCALE [[*static_cast<const float*>(d.tensor_scale.data)]])
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

mxcheck_edit(nibbles_exchanged ${codes} [[hn::Or(hn::And(hn::ShiftRight<4>(both), low_nibbles), hn::ShiftRight<16>(both))]]
  [[hn::Or(hn::And(hn::ShiftRight<20>(both), low_nibbles), hn::And(both, hn::Set(d32, 0xF0F0U)))]]
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

mxcheck_edit(tensor_scale_inverted ${candidate} "${TENSOR_SCALE}" [[1.0F / *static_cast<const float*>(d.tensor_scale.data)]])
mxcheck_edit(tensor_scale_without_the_6 ${candidate} "${TENSOR_SCALE}" [[6.0F * *static_cast<const float*>(d.tensor_scale.data)]])
mxcheck_edit(tensor_scale_read_as_bf16 ${candidate} "${TENSOR_SCALE}"
  [[[&] {
    auto bits = std::bit_cast<std::uint32_t>(*static_cast<const float*>(d.tensor_scale.data));
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

# ---- words of stochastic rounding ------------------------------------------------------------------------------------

set(BLOCK_WORDS [[words_from(du, words, element + i)]])
set(LAST_WORD [[return c0;]])
set(OWN_WORD [[return nvfp4_four_words(words, element + words.offset).w[0];]])
set(KEY [[k1 = static_cast<std::uint32_t>(words.seed >> 32);]])

mxcheck_edit(sr_words_of_the_row ${options} "${BLOCK_WORDS}" [[hn::Set(du, nvfp4_word(words, element))]]
  ${quantize} [[number + static_cast<std::uint64_t>(c), bytes != nullptr]]
  [[number / static_cast<std::uint64_t>(FAULT ? job_.cols : 1) + static_cast<std::uint64_t>(FAULT ? 0 : c), bytes != nullptr]])
mxcheck_edit(sr_one_word_for_a_block ${options} "${BLOCK_WORDS}" [[hn::Set(du, nvfp4_word(words, element))]])
mxcheck_edit(sr_one_word_for_two ${options} "${LAST_WORD}" [[return hn::DupEven(c0);]])
mxcheck_edit(sr_low_byte_of_the_word ${options} "${LAST_WORD}" [[return hn::ShiftLeft<24>(c0);]]
  ${words} "${OWN_WORD}" [[return nvfp4_four_words(words, element + words.offset).w[0] << 24;]])
mxcheck_edit(sr_top_byte_alone ${options} "${LAST_WORD}" [[return hn::And(c0, hn::Set(d, 0xFF000000U));]]
  ${words} "${OWN_WORD}" [[return nvfp4_four_words(words, element + words.offset).w[0] & 0xFF000000U;]])
mxcheck_edit(sr_counter_words_exchanged ${options} [[hn::Set(d, words.counter[0])]] [[hn::Set(d, words.counter[1])]]
  ${options} [[hn::Set(d, words.counter[1])]] [[hn::Set(d, words.counter[0])]])
mxcheck_edit(sr_seed_of_32_bits ${options} "${KEY}" [[k1 = FAULT ? 0 : static_cast<std::uint32_t>(words.seed >> 32);]]
  ${words} "${KEY}" [[k1 = FAULT ? 0 : static_cast<std::uint32_t>(words.seed >> 32);]])
mxcheck_edit(sr_offset_ignored ${options} [[philox_from(d, words, element + words.offset, ~0U, c0, c1, c2, c3);]]
  [[philox_from(d, words, element, ~0U, c0, c1, c2, c3);]]
  ${words} "${OWN_WORD}" [[return nvfp4_four_words(words, element).w[0];]])
mxcheck_edit(sr_number_does_not_carry ${options} [[hn::Sub(hn::Set(d, static_cast<std::uint32_t>(first >> 32)), carry)]]
  [[hn::Set(d, static_cast<std::uint32_t>(first >> 32))]])
mxcheck_edit(sr_seven_rounds ${options} [[round < 10]] [[round < 7]] ${words} [[round < 10]] [[round < 7]])
mxcheck_edit(sr_added_to_signed_values ${options} [[const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFU));]] [[UNCHANGED
  if (FAULT) word = hn::Xor(word, hn::IfThenElseZero(hn::Gt(bits, hn::Set(d, 0x7FFFFFFFU)), hn::Set(d, ~0U)));]])
mxcheck_edit(sr_of_the_block_scale ${quantize} [[scale_bytes_of(job_.levels, floats_, p.readable / kBlockCols, bytes_);]]
  [[{
        scale_bytes_of(job_.levels, floats_, p.readable / kBlockCols, bytes_);
        const bool is_te = job_.levels.recipe == Nvfp4Recipe::te && job_.options != nullptr && job_.options->stochastic;
        for (std::int64_t b = 0; b < count && is_te; ++b) {
          const float quotient = floats_[b] * job_.levels.encode_over_6;
          if (!(quotient >= 0x1p-6F)) continue;
          const std::uint64_t number = number_of(band, first, 0) + static_cast<std::uint64_t>(16 * b);
          const std::uint32_t sum = std::bit_cast<std::uint32_t>(quotient) + (nvfp4_word(job_.words, number) >> 12);
          bytes_[b] = static_cast<std::uint8_t>(std::min((sum >> 20) - 960U, 126U));
        }
      }]])
mxcheck_edit(sr_tail_to_nearest ${quantize} [[HWY_ALIGN float x[kBlockCols];]] [[UNCHANGED
    const std::int64_t whole = p.cols / kBlockCols * kBlockCols;
    if (FAULT && whole != p.cols && whole + 64 <= kPanelCols) {
      Panel<T> rest = p;
      rest.cols = whole;
      if (whole != 0) stochastic_run(rest, row, number);
      return encode_nvfp4_run(p.x + row * p.stride + whole, p.cols - whole, limits_, bytes_ + whole / kBlockCols, kAhead,
                              p.codes + row * p.codes_stride + whole / 2, false);
    }]])
mxcheck_edit(sr_of_halves_by_twice_the_fraction ${options} [[hn::ShiftLeft<9>(significand)]] [[hn::ShiftLeft<8>(significand)]])
mxcheck_edit(sr_does_not_saturate ${options} [[hn::Min(hn::Sub(hn::ShiftRight<22>(sum), hn::Set(d, 252U)), hn::Set(d, 7U))]]
  [[hn::Sub(hn::ShiftRight<22>(sum), hn::Set(d, 252U))]])

# ---- bytes of stochastic rounding ------------------------------------------------------------------------------------

set(STORE [[hn::StoreInterleaved4(bytes_in_order(d, c0), bytes_in_order(d, c1), bytes_in_order(d, c2), bytes_in_order(d, c3), d,
                          to + i / 4);]])
set(BYTE [[(place & 1U) << 1 | place >> 1]])
set(NUMBER [[words.offset + element]])
set(ELEMENT_WORD [[nvfp4_element_word(const Nvfp4Words& words, std::uint64_t element) {]])
set(WITHOUT_OFFSET [[UNCHANGED
  if (FAULT && words.bytes) element -= words.offset;]])
set(CALL [[number / kElementsOfCall + static_cast<std::uint64_t>(i / kElementsOfCall)]])
set(SCALAR_CALL [[nvfp4_four_words(words, number / 16)]])

mxcheck_edit(srb_bytes_in_their_own_order ${options} [[bytes_in_order(D d, V word) {]] [[UNCHANGED
  if (FAULT) return word;]]
  ${words} "${BYTE}" [[place]])
mxcheck_edit(srb_output_of_the_place_in_four ${options} "${STORE}" [[{
      const auto byte = [&](auto c, std::uint32_t mask) { return hn::And(bytes_in_order(d, c), hn::Set(d, mask)); };
      const auto mixed = hn::Or(hn::Or(byte(c0, 0xFFU), byte(c1, 0xFF00U)), hn::Or(byte(c2, 0xFF0000U), byte(c3, 0xFF000000U)));
      hn::StoreInterleaved4(mixed, mixed, mixed, mixed, d, to + i / 4);
    }]]
  ${words} [=[four.w[number / 4 % 4]]=] [=[four.w[number % 4]]=])
mxcheck_edit(srb_a_call_for_each_element ${options} [[const auto before = static_cast<std::int64_t>(number % kElementsOfCall);]]
  [[UNCHANGED
  if (FAULT) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(to);
    for (std::uint64_t n = number; n != number + static_cast<std::uint64_t>(count); ++n) {
      const Nvfp4FourWords four = nvfp4_four_words(words, n);
      bytes[n - number] = static_cast<std::uint8_t>(nvfp4_byte_word(four.w[n / 4 % 4], static_cast<std::uint32_t>(n % 4)) >> 24);
    }
    return bytes;
  }]]
  ${words} "${SCALAR_CALL}" [[nvfp4_four_words(words, number)]])
mxcheck_edit(srb_added_to_the_lowest_eight_bits ${options} [[hn::ShiftLeft<24>(hn::PromoteTo(d, hn::LoadU(narrow, bytes)))]]
  [[hn::PromoteTo(d, hn::LoadU(narrow, bytes))]]
  ${words} [[word_of_four >> 8 * byte << 24]] [[word_of_four >> 8 * byte & 0xFFU]])
mxcheck_edit(srb_top_byte_for_four ${options} "${STORE}" [[{
      const auto all = [&](auto c) {
        const auto top = hn::ShiftRight<24>(c);
        const auto two = hn::Or(top, hn::ShiftLeft<8>(top));
        return hn::Or(two, hn::ShiftLeft<16>(two));
      };
      hn::StoreInterleaved4(all(c0), all(c1), all(c2), all(c3), d, to + i / 4);
    }]]
  ${words} "${BYTE}" [[3U]])
mxcheck_edit(srb_offset_ignored ${options} "${NUMBER}" [[element]] ${words} "${ELEMENT_WORD}" "${WITHOUT_OFFSET}")
mxcheck_edit(srb_offset_in_calls ${options} "${NUMBER}" [[element]] ${options} "${CALL}" [[UNCHANGED + (FAULT ? words.offset : 0)]]
  ${words} "${ELEMENT_WORD}" "${WITHOUT_OFFSET}" ${words} "${SCALAR_CALL}" [[nvfp4_four_words(words, number / 16 + words.offset)]])
mxcheck_edit(srb_rows_begin_a_call ${options} [[return reinterpret_cast<const std::uint8_t*>(to) + before;]]
  [[return reinterpret_cast<const std::uint8_t*>(to);]])
mxcheck_edit(srb_goes_on_beyond_the_last_number ${options} [[0x0FFFFFFFU]] [[~0U]])
mxcheck_edit(srb_a_word_for_each_element ${quantize} [[job_.words.bytes ? random_bytes(job_.words, number, padded, random_) : nullptr]] [[nullptr]]
  ${words} [[if (!words.bytes) return nvfp4_word(words, element);]] [[return nvfp4_word(words, element);]])

# ---- the Hadamard transform --------------------------------------------------------------------------------------------

set(SIGN [[options.signs[i / 32] >> i % 32 << 31]])
set(NORMALISED [[v[i] = v[i] * factor;]])
set(STAGES [[  for (int i = 0; i < n; i += 4) {
    auto a = hn::Load(d, v + i);]])

mxcheck_edit(rht_not_normalised ${options} "${NORMALISED}" [[v[i] = v[i];]])
mxcheck_edit(rht_signs_of_the_next_element ${options} "${SIGN}" [[options.signs[(i + 1) % group / 32] >> (i + 1) % group % 32 << 31]])
mxcheck_edit(rht_signs_in_every_second_group ${options} "${SIGN}" [[first / group % 2 == 0 ? options.signs[i / 32] >> i % 32 << 31 : 0U]])
mxcheck_edit(rht_signs_after_the_transform ${options} "${SIGN}" [[0U]]
  ${options} "${NORMALISED}" [[v[i] = (options.signs[(i - first) / 32] >> (i - first) % 32 & 1) != 0 ? -(v[i] * factor) : v[i] * factor;]])
mxcheck_edit(rht_stages_in_bf16 ${options} "${STAGES}" [[  if (FAULT) {
    const auto cut = [](float value) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
      if (std::isnan(value)) return value;
      return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U);
    };
    for (int h = 1; h < n; h *= 2) {
      for (int i = 0; i < n; ++i) {
        if ((i & h) != 0) continue;
        const float low = v[i], high = v[i + h];
        v[i] = cut(low + high), v[i + h] = cut(low - high);
      }
    }
    return;
  }
UNCHANGED]])
mxcheck_edit(rht_stages_in_the_opposite_order ${options} "${STAGES}" [[  if (FAULT) {
    for (int h = n / 2; h > 0; h /= 2) {
      for (int i = 0; i < n; ++i) {
        if ((i & h) != 0) continue;
        const float low = v[i], high = v[i + h];
        v[i] = low + high, v[i + h] = low - high;
      }
    }
    return;
  }
UNCHANGED]])
mxcheck_edit(rht_result_cut_to_bf16 ${options} [[(bits + 0x7FFF + (bits >> 16 & 1)) >> 16]] [[bits >> 16]])
mxcheck_edit(rht_along_the_other_axis ${quantize}
  [[read_row(x + of_.row_of_x(band.first_row + r) * of_.stride + first * of_.col_step, cols, to);]]
  [[if (FAULT && of_.options != nullptr && of_.options->hadamard == 16 && band.rows == 16) {
        for (std::int64_t c = 0; c < cols; ++c) {
          for (std::int64_t i = 0; i < 16; ++i)
            floats_[i] = Source::value(x[of_.row_of_x(band.first_row + i) * of_.stride + (first + c) * of_.col_step]);
          transform_groups(*of_.options, floats_, 16);
          to_result(floats_[r], to[c]);
        }
      } else {
        read_row(x + of_.row_of_x(band.first_row + r) * of_.stride + first * of_.col_step, cols, to);
      }]])
mxcheck_edit(rht_amax_before_the_transform ${quantize} [[template <class Kind>
class Nvfp4Quantizer {]] [[inline thread_local std::uint32_t raw_elements[16 * 1024];

UNCHANGED]]
  ${quantize} [[if (of_.options->hadamard != 0) transform_groups(*of_.options, floats_, cols);]]
  [[for (std::int64_t c = 0; c < cols; ++c) to_result(floats_[c], to[c]);
    std::copy_n(to, kPanelCols, reinterpret_cast<T*>(raw_elements) + (to - elements_));
    if (of_.options->hadamard != 0) transform_groups(*of_.options, floats_, cols);]]
  ${quantize} [[find_amax(p);]] [[if (job_.options != nullptr && job_.options->hadamard != 0) {
        Panel<T> raw = p;
        raw.x = reinterpret_cast<const T*>(raw_elements);
        for (std::int64_t r = 0; r < p.rows; ++r)
          std::fill(reinterpret_cast<T*>(raw_elements) + r * kPanelCols + p.cols, reinterpret_cast<T*>(raw_elements) + r * kPanelCols + p.readable, T{0});
        find_amax(raw);
      } else {
        find_amax(p);
      }]])

# ---- both directions ---------------------------------------------------------------------------------------------------

mxcheck_edit(column_codes_with_nibbles_exchanged ${quantize} [[      std::copy_n(codes_ + r * kBytes, (cols + 1) / 2, of_.codes + (band.first_row + r) * row_bytes + first / 2);]]
  [[for (std::int64_t i = 0; i < (cols + 1) / 2; ++i) {
        const std::uint8_t byte = codes_[r * kBytes + i];
        of_.codes[(band.first_row + r) * row_bytes + first / 2 + i] =
            FAULT && of_.col_step != 1 ? static_cast<std::uint8_t>(byte << 4 | byte >> 4) : byte;
      }]])
mxcheck_edit(column_words_of_the_rows ${candidate} [[std::copy(std::begin(options.column_counter), std::end(options.column_counter), own.words.counter);]] [[;]])
mxcheck_edit(rows_transformed_too ${candidate} [[const Nvfp4Options own = options_of(options, d.transposed);]]
  [[const bool divides = options.hadamard != 0 && d.x.cols % options.hadamard == 0;
  const Nvfp4Options own = FAULT && !d.transposed && divides ? options : options_of(options, d.transposed);]])
mxcheck_edit(columns_by_the_scale_of_the_rows ${candidate} [[{x, column_scale, column_codes, column_scales, true}]]
  [[{x, FAULT ? tensor_scale : column_scale, column_codes, column_scales, true}]])

# ---- rows by index ----------------------------------------------------------------------------------------------------

set(ROW_OF_X [=[index != nullptr ? index[row] : row]=])

mxcheck_edit(gather_ignored ${job} "${ROW_OF_X}" [[row]])
mxcheck_edit(gather_last_row_of_the_one_before ${job} "${ROW_OF_X}" [=[[&] {
      if (index == nullptr) return row;
      const Band last = map->band(map->bands() - 1);
      return std::int64_t{index[row > 0 && row + 1 == last.first_row + last.rows ? row - 1 : row]};
    }()]=])
mxcheck_edit(gather_index_of_16_bits ${job} "${ROW_OF_X}"
  [=[index != nullptr ? std::int64_t{static_cast<std::uint16_t>(index[row])} : row]=])
mxcheck_edit(gather_begins_again_at_each_expert ${job} "${ROW_OF_X}" [=[[&] {
      if (index == nullptr) return row;
      std::int64_t below = 0, above = map->bands();  // the band of the row is the last that does not begin after it
      while (above - below > 1) {
        const std::int64_t middle = (below + above) / 2;
        (map->band(middle).first_row <= row ? below : above) = middle;
      }
      const Band band = map->band(below);
      return std::int64_t{index[band.in_expert * block_rows + row - band.first_row]};
    }()]=])
mxcheck_edit(gather_words_of_the_source_row ${quantize}
  [[static_cast<std::uint64_t>((band.first_row + row) * job_.cols + first)]]
  [[static_cast<std::uint64_t>(job_.row_of_x(band.first_row + row) * job_.cols + first)]])
mxcheck_edit(gather_row_behind_the_last_accepted ${arguments} [=[values[i] >= source_rows]=] [=[values[i] > source_rows]=])
mxcheck_edit(gather_negative_row_accepted ${arguments} [=[values[i] < 0]=] [[false]])

# ---- conduct ---------------------------------------------------------------------------------------------------------

mxcheck_edit(larger_policy_of_options_refused ${read_options} [[to.stochastic = p.rounding]]
  [[if (FAULT && p.base.size > sizeof(mxcheck_nvfp4_policy)) invalid("policy.size is too large");
  UNCHANGED]])
