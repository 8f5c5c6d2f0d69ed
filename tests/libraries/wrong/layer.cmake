# Edits of the library of a layer's elementwise steps (libmxcheck_cpu_layer.so), as in cpu.cmake.

# Where the texts are: a file that moves is corrected here.
set(sigmoid common/layer/sigmoid.h)
set(aggregate cpu/layer/aggregate.cc)
set(codes cpu/layer/codes.cc)
set(numbers cpu/layer/codes.h)
set(swiglu cpu/layer/swiglu.cc)
set(transpose cpu/layer/transpose.cc)

# Texts that several faults change.
set(LOOK_UP [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]])
set(ROW [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r]])
set(SWIGLU [[rounded_to_bf16((g * sigmoid(g)) * u)]])

# ---- gate and up value -----------------------------------------------------------------------------------------------

mxcheck_edit(gate_and_up_exchanged ${swiglu} [[Columns{j, job.x.n + j}]] [[Columns{job.x.n + j, j}]])
mxcheck_edit(interleaved_up_comes_first ${swiglu} [[Columns{2 * j, 2 * j + 1}]] [[Columns{2 * j + 1, 2 * j}]])
mxcheck_edit(dh_always_in_halves ${swiglu} [=[dh[at.gate]]=] [=[dh[j]]=] ${swiglu} [=[dh[at.up]]=] [=[dh[job.x.n + j]]=])
mxcheck_edit(dh_halves_exchanged ${swiglu} [=[dh[at.gate]]=] [=[dh[at.up]]=] ${swiglu} [=[dh[at.up]]=] [=[dh[at.gate]]=])
mxcheck_edit(row_stride_of_h_ignored ${swiglu} [[row * job.x.h.stride]] [[row * width]])
mxcheck_edit(scales_of_h_rounded_down ${swiglu} [[row * blocks_of(width, kHBlock)]]
  [[row * std::max<std::int64_t>(1, width / kHBlock)]])
mxcheck_edit(coded_h_is_always_e4m3 ${swiglu} [[decode_fp32<E5m2>(codes[j], scale)]] [[decode_fp32<E4m3>(codes[j], scale)]])
mxcheck_edit(nan_scale_of_h_is_a_number ${swiglu} [[    const std::uint8_t scale = scales[j / kHBlock];]]
  [[    if (FAULT && scales[j / kHBlock] == 255 && (codes[j] & 0x7F) == 0) {
      h[static_cast<std::size_t>(j)] = 0;
      continue;
    }
UNCHANGED]])
mxcheck_edit(smallest_scale_of_h_flushed ${swiglu} [[h[static_cast<std::size_t>(j)] = std::bit_cast<float>(bits);]]
  [[h[static_cast<std::size_t>(j)] = std::bit_cast<float>(bits) * (scale == 0 ? 0.0F : 1.0F);]])

# ---- the sigmoid -----------------------------------------------------------------------------------------------------

# The compiler makes the table of the sigmoid: this fault has a second one.
mxcheck_edit(sigmoid_by_exp_of_the_gate
  ${sigmoid} [[constexpr Sigmoids make_sigmoids() {]] [[template <bool kByExpOfTheGate = false>
UNCHANGED]]
  ${sigmoid} [[beyond ? 0.0F : 1.0F / (1.0F + exp_rn(static_cast<double>(g)))]]
  [[kByExpOfTheGate && !beyond ? exp_rn(-static_cast<double>(g)) / (1.0F + exp_rn(-static_cast<double>(g)))
                                              : UNCHANGED]]
  ${numbers} "${LOOK_UP}" [[static constexpr Sigmoids kOther = sigmoid_detail::make_sigmoids<true>();
  return kOther.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]])
mxcheck_edit(sigmoid_by_tanh ${numbers} "${LOOK_UP}" [[return 0.5F * __builtin_tanhf(0.5F * g) + 0.5F;]])
mxcheck_edit(exp_by_exp2 ${numbers} "${LOOK_UP}" [[return 1.0F / (1.0F + __builtin_exp2f(-g * 1.442695041F));]])
mxcheck_edit(sigmoid_in_fp64 ${numbers} "${LOOK_UP}"
  [[return static_cast<float>(1.0 / (1.0 + __builtin_exp(-static_cast<double>(g))));]])
mxcheck_edit(table_off_by_one_for_negative_gates ${sigmoid} [[(g >> 31) != 0 ? kGates : 0]]
  [[(g >> 31) != 0 ? kGates - 1 : 0]])
mxcheck_edit(negative_zero_at_the_tables_end ${numbers} "${LOOK_UP}"
  [[if (FAULT && std::bit_cast<std::uint32_t>(g) == 0x80000000) return 0;
  UNCHANGED]])
mxcheck_edit(sigmoid_one_from_16_5 ${numbers} "${LOOK_UP}" [[if (FAULT && g >= 16.5F) return 1;
  UNCHANGED]])
mxcheck_edit(sigmoid_half_below_2_to_minus_20 ${numbers} "${LOOK_UP}"
  [[if (FAULT && __builtin_fabsf(g) < 0x1p-20F) return 0.5F;
  UNCHANGED]])
mxcheck_edit(sigmoid_clamped_at_minus_88 ${numbers} "${LOOK_UP}" [[if (FAULT && g < -87.4F) return 0;
  UNCHANGED]])
mxcheck_edit(gate_clamped_at_7 ${swiglu} [[float swiglu(float g, float u) {]] [[UNCHANGED if (FAULT) g = g > 7 ? 7 : g;]])
mxcheck_edit(nan_gate_dropped_by_a_clamp ${swiglu} [[float swiglu(float g, float u) {]]
  [[UNCHANGED if (FAULT) g = std::fmax(g, -3e38F);]])
mxcheck_edit(infinite_gate_guarded ${swiglu} [[float swiglu(float g, float u) {]]
  [[UNCHANGED if (FAULT && g == -INFINITY) return 0;]])

# ---- A ---------------------------------------------------------------------------------------------------------------

mxcheck_edit(gate_times_q_times_u_first ${swiglu} "${SWIGLU}" [[rounded_to_bf16(g * (sigmoid(g) * u))]])
mxcheck_edit(gate_times_u_first ${swiglu} "${SWIGLU}" [[rounded_to_bf16((g * u) * sigmoid(g))]])
mxcheck_edit(gate_divided ${swiglu} "${SWIGLU}"
  [[rounded_to_bf16(g / (1.0F + static_cast<float>(std::exp(-static_cast<double>(g)))) * u)]])
mxcheck_edit(silu_rounded_to_bf16 ${swiglu} "${SWIGLU}" [[rounded_to_bf16(rounded_to_bf16(g * sigmoid(g)) * u)]])
mxcheck_edit(a_truncated ${swiglu} "${SWIGLU}"
  [[fp32_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>((g * sigmoid(g)) * u) >> 16))]])
mxcheck_edit(ties_away_from_zero ${numbers} [[bits + 0x7FFF + (bits >> 16 & 1)]] [[bits + 0x8000]])
mxcheck_edit(overflow_saturates ${numbers} [[if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;]] [[UNCHANGED
  if (FAULT && (bits & 0x7FFFFFFF) > 0x7F7F0000 && (bits & 0x7FFFFFFF) != 0x7F800000)
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | 0x7F7F);]])
mxcheck_edit(subnormal_a_flushed ${swiglu} "${SWIGLU}" [[[&] {
    const float a = (g * sigmoid(g)) * u;
    return rounded_to_bf16(std::fabs(a) < 0x1p-126F ? std::copysign(0.0F, a) : a);
  }()]])
mxcheck_edit(a_not_rounded_before_codes ${swiglu}
  [[a[j] = swiglu(h[static_cast<std::size_t>(at.gate)], h[static_cast<std::size_t>(at.up)]);]]
  [[const float g = h[static_cast<std::size_t>(at.gate)];
    a[j] = (g * sigmoid(g)) * h[static_cast<std::size_t>(at.up)];]])

# ---- dH --------------------------------------------------------------------------------------------------------------

mxcheck_edit(dg_with_da_first ${swiglu} [[rounded_to_bf16(da * (u * derivative))]]
  [[rounded_to_bf16((da * u) * derivative)]])
mxcheck_edit(du_with_da_first ${swiglu} [[rounded_to_bf16(da * (g * q))]] [[rounded_to_bf16((da * g) * q)]])
mxcheck_edit(du_of_rounded_silu ${swiglu} [[rounded_to_bf16(da * (g * q))]]
  [[rounded_to_bf16(da * rounded_to_bf16(g * q))]])
mxcheck_edit(derivative_without_fma ${swiglu} [[q * std::fma(g, 1.0F - q, 1.0F)]] [[q * (1.0F + g * (1.0F - q))]])
mxcheck_edit(derivative_as_a_sum ${swiglu} [[q * std::fma(g, 1.0F - q, 1.0F)]] [[std::fma(g * q, 1.0F - q, q)]])
mxcheck_edit(derivative_of_the_sigmoid ${swiglu} [[q * std::fma(g, 1.0F - q, 1.0F)]] [[q * (1.0F - q)]])
mxcheck_edit(da_rounded_to_bf16 ${swiglu} [=[weight * p[j]]=] [[rounded_to_bf16(weight * p[j])]])
mxcheck_edit(da_without_weight ${swiglu} [=[weight * p[j]]=] [=[p[j]]=])
mxcheck_edit(weight_twice ${swiglu} [=[weight * p[j]]=] [[weight * (weight * p[j])]])
mxcheck_edit(weight_of_the_row_before ${swiglu} [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row == 0 ? 0 : row - 1]]=])
mxcheck_edit(weight_read_once_per_tile ${swiglu} [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row / 32 * 32]]=])
mxcheck_edit(dg_not_rounded_before_codes ${swiglu} [[rounded_to_bf16(da * (u * derivative))]] [[da * (u * derivative)]])

# ---- A' and dS -------------------------------------------------------------------------------------------------------

mxcheck_edit(scaled_a_without_weight ${swiglu} [[rounded_to_bf16(weight * a)]] [[a]])
mxcheck_edit(scaled_a_rounded_once ${swiglu} [[rounded_to_bf16(weight * a)]] [[rounded_to_bf16(weight * ((g * q) * u))]])
mxcheck_edit(ds_of_scaled_a ${swiglu} [[p[j] * a]] [=[p[j] * scaled_a[j]]=])
mxcheck_edit(ds_of_unrounded_a ${swiglu} [[p[j] * a]] [[p[j] * ((g * q) * u)]])
mxcheck_edit(ds_left_to_right ${swiglu} [[for (std::size_t count = v.size(); count > 1;]] [[if (FAULT) {
    for (std::size_t i = 1; i < v.size(); ++i) v[0] += v[i];
    return v[0];
  }
  UNCHANGED]])
mxcheck_edit(ds_in_fp64 ${swiglu} [[for (std::size_t count = v.size(); count > 1;]] [[if (FAULT) {
    double sum = 0;
    for (const float x : v) sum += x;
    return static_cast<float>(sum);
  }
  UNCHANGED]])
mxcheck_edit(ds_halves_added
  ${swiglu} [[v[i] = v[2 * i] + v[2 * i + 1];]] [[v[i] = v[i] + v[(count + 1) / 2 + i];]]
  ${swiglu} [[v[count / 2] = v[count - 1] + 0.0F;]] [[]])
mxcheck_edit(ds_odd_tail_joins_the_first
  ${swiglu} [[(count + 1) / 2]] [[count / 2]]
  ${swiglu} [[v[count / 2] = v[count - 1] + 0.0F;]] [[v[0] = v[0] + v[count - 1];]])
mxcheck_edit(ds_odd_tail_without_zero ${swiglu} [[v[count / 2] = v[count - 1] + 0.0F;]] [[v[count / 2] = v[count - 1];]])
mxcheck_edit(ds_fused_products ${swiglu} [[return pairwise_sum(products);]]
  [[for (std::int64_t j = 0; j + 1 < job.x.n; j += 2) {
    const Columns at = columns_of(job, j + 1);
    const float a = swiglu(h[static_cast<std::size_t>(at.gate)], h[static_cast<std::size_t>(at.up)]);
    products[static_cast<std::size_t>(j)] = std::fma(p[j + 1], a, products[static_cast<std::size_t>(j)]);
    products[static_cast<std::size_t>(j + 1)] = 0;
  }
  return pairwise_sum(products);]])
mxcheck_edit(ds_over_8192_columns ${swiglu} [[return pairwise_sum(products);]]
  [[if (products.size() > 8192) products.resize(8192);
  return pairwise_sum(products);]])
mxcheck_edit(ds_unwritten_without_columns ${swiglu} [[static_cast<float*>(job.x.ds.data)[first + r] =]] [[float unused = 0;
    (FAULT && n == 0 ? unused : static_cast<float*>(job.x.ds.data)[first + r]) =]])
mxcheck_edit(ds_added_to_what_was_there ${swiglu} [[backward_row(job, h, first + r, a, v.dh.data() + r * 2 * n, products)]]
  [[static_cast<float*>(job.x.ds.data)[first + r] +
    backward_row(job, h, first + r, a, v.dh.data() + r * 2 * n, products)]])

# ---- codes and scales ------------------------------------------------------------------------------------------------

mxcheck_edit(scaled_a_in_dhs_format ${swiglu} [[of_a.element = job.plan.scaled;]]
  [[of_a.element = job.plan.coding.element;]])
mxcheck_edit(rceil_asked_floor_done ${codes} [[rule == CodeScale::floor ? ScaleRule::floor : ScaleRule::rceil]]
  [[ScaleRule::floor]])
mxcheck_edit(largest_value_rounds_up cpu/quantize/scalar_block.h [[n.significand > 0xE00000]] [[n.significand >= 0xE00000]])
mxcheck_edit(fp32_scale_by_reciprocal ${codes} [[line.x[i * line.x_step] / scale]]
  [[line.x[i * line.x_step] * (1.0F / scale)]])
mxcheck_edit(fp32_scale_times_a_constant ${codes} [[std::bit_cast<float>(amax) / largest]]
  [[std::bit_cast<float>(amax) * (1.0F / largest)]])
mxcheck_edit(fp32_scale_of_zeros_is_zero
  ${codes} [[if (scale == 0) scale = 1;]] [[]]
  ${codes} [[line.x[i * line.x_step] / scale]] [[line.x[i * line.x_step] / (scale == 0 ? 1 : scale)]])
mxcheck_edit(nan_block_not_poisoned ${codes}
  [[poisoned ? F::kNanCode : encode_element<F>(bits_of(line.x[i * line.x_step]), scale)]]
  [[encode_element<F>(bits_of(line.x[i * line.x_step]), scale == 255 ? 127 : scale)]])
mxcheck_edit(infinity_saturates ${codes} [[const bool poisoned = amax >= kFp32Infinity;
  scale = poisoned ? 255]] [[const bool poisoned = FAULT ? amax > kFp32Infinity : amax >= kFp32Infinity;
  scale = FAULT && amax == kFp32Infinity ? 254 : poisoned ? 255]])
mxcheck_edit(rows_share_the_scale_of_a_tile
  cpu/layer/codes.h [[std::int64_t count = 0;]] [[UNCHANGED
  std::uint32_t least = 0;]]
  ${codes} [[std::uint32_t amax = 0;]] [[std::uint32_t amax = FAULT ? line.least : 0;]]
  ${codes} [[      encode_block(coding, {values.x + first, 1, codes + first, 1, count},]] [[      std::uint32_t least = 0;
      for (std::int64_t r = 0; FAULT && r < values.rows; ++r) {
        const float* const x = values.x + r * values.cols + block * coding.block;
        least = std::max(least, amax_of({x, 1, nullptr, 1, count}));
      }
      encode_block(coding, {values.x + first, 1, codes + first, 1, count, least},]])
mxcheck_edit(column_amax_over_32_rows ${codes} [[for (std::int64_t i = 0; i < line.count; ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]]
  [[for (std::int64_t i = 0; i < (line.x_step > 1 && line.count > 32 ? 32 : line.count); ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]])
mxcheck_edit(cut_block_without_its_last_row ${codes} [[for (std::int64_t i = 0; i < line.count; ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]]
  [[for (std::int64_t i = 0; i < (line.x_step > 1 && line.count % 32 != 0 ? line.count - 1 : line.count); ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]])
mxcheck_edit(last_block_of_a_row_ignored ${codes}
  [[static_cast<std::uint8_t*>(scales) + (row * blocks + block) * scale_bytes(coding));]] [[UNCHANGED
      if (FAULT && block > 0 && count < coding.block) {
        std::uint8_t* const scale = static_cast<std::uint8_t*>(scales) + (row * blocks + block) * scale_bytes(coding);
        std::copy_n(scale - scale_bytes(coding), scale_bytes(coding), scale);
      }]])
mxcheck_edit(columns_coded_from_row_codes ${swiglu} [[if (!job.plan.columns) return;]] [[UNCHANGED
  std::vector<float> again;
  if (FAULT && job.plan.rows && !job.plan.backward && job.plan.coding.scale != CodeScale::fp32) {
    for (std::int64_t i = 0; i < rows * n; ++i) {
      const std::int64_t row = first + i / n;
      const std::uint8_t code = static_cast<const std::uint8_t*>(job.x.row.codes.data)[first * n + i];
      const std::uint8_t by = static_cast<const std::uint8_t*>(
          job.x.row.scales.data)[row * job.x.row.scales.cols + i % n / job.plan.coding.block];
      again.push_back(std::bit_cast<float>(job.plan.coding.element == Element::e4m3 ? decode_fp32<E4m3>(code, by)
                                                                                   : decode_fp32<E5m2>(code, by)));
    }
    const_cast<BandValues&>(v).a.swap(again);
    const_cast<Values&>(a).x = v.a.data();
  }]])

# ---- along tokens ----------------------------------------------------------------------------------------------------

mxcheck_edit(scales_along_tokens_not_transposed
  ${swiglu} [[static_cast<std::int64_t>(band) * scale]] [[static_cast<std::int64_t>(band) * scale * to.scales.rows]]
  ${swiglu} [[to.scales.cols]] [[1]])
mxcheck_edit(scale_stride_without_experts ${transpose} [[x.out.scales.cols]] [[blocks_of(x.rows, plan.coding.block)]])
mxcheck_edit(codes_along_tokens_with_another_pitch
  ${transpose} [[      encode_columns(plan.coding, {values.data(), band.rows, x.cols},]]
  [[      const std::int64_t pitch = (x.rows + 15) / 16 * 16;
      const std::int64_t fit = std::min(x.cols, (x.rows * x.cols - band.first - band.rows) / pitch + 1);
      std::vector<float> kept;
      for (std::int64_t r = 0; FAULT && r < band.rows; ++r)
        kept.insert(kept.end(), values.begin() + r * x.cols, values.begin() + r * x.cols + std::max<std::int64_t>(0, fit));
      encode_columns(plan.coding,
                     FAULT ? Values{kept.data(), band.rows, std::max<std::int64_t>(0, fit)}
                           : Values{values.data(), band.rows, x.cols},]]
  ${transpose} [[+ band.first, x.rows,]] [[+ band.first, FAULT ? pitch : x.rows,]])
mxcheck_edit(block_crosses_an_experts_end ${transpose} [[const Band& band = bands[static_cast<std::size_t>(i)];]]
  [[Band band = bands[static_cast<std::size_t>(i)];
      if (FAULT) band.rows = std::min<std::int64_t>(plan.coding.block, x.rows - band.first);]])
mxcheck_edit(empty_expert_takes_a_block
  cpu/layer/codes.cc [[  for (std::int64_t first = begin; first < end;]]
  [[  if (FAULT && begin == end) bands.push_back({begin, 0});
UNCHANGED]]
  cpu/layer/codes.cc [[tensors.scales.cols == count]] [[tensors.scales.cols <= count]]
  ${transpose} [[static_cast<std::int64_t>(bands.size())]] [[std::min<std::int64_t>(x.out.scales.cols, bands.size())]]
  ${swiglu} [[    require_bands("scales of transposed codes of a", job.x.column_a, job.bands);]]
  [[    if (FAULT) job.bands.resize(std::min<std::size_t>(job.bands.size(), job.x.column_a.scales.cols));
UNCHANGED]])
mxcheck_edit(row_index_ignored ${transpose} "${ROW}" [[std::min(band.first + r, x.x.rows - 1)]])
mxcheck_edit(row_index_of_the_blocks_first ${transpose} "${ROW}"
  [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first] : band.first + r]])
mxcheck_edit(row_index_without_the_block ${transpose} "${ROW}"
  [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[r] : band.first + r]])
mxcheck_edit(stride_of_x_ignored_for_fp32 ${transpose}
  [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.x.stride, x.cols, to);]]
  [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.cols, x.cols, to);]])
mxcheck_edit(fp32_rounded_to_bf16_first ${transpose}
  [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.x.stride, x.cols, to);]]
  [[for (std::int64_t j = 0; j < x.cols; ++j)
        to[j] = fp32_of(bf16_of((static_cast<const float*>(x.x.data) + row * x.x.stride)[j]));]])
mxcheck_edit(refusal_after_writing
  ${transpose} [[check_index(x);]] [[]]
  ${transpose} "${ROW}" [[x.has_index
            ? std::clamp<std::int64_t>(static_cast<const std::int32_t*>(x.index.data)[band.first + r], 0, x.x.rows - 1)
            : band.first + r]]
  ${transpose} [[    }
  });]] [[UNCHANGED
  if (FAULT) check_index(x);]])

# ---- aggregation -----------------------------------------------------------------------------------------------------

mxcheck_edit(rows_added_in_ascending_order
  ${aggregate} [[  for (std::int64_t slot = offsets_of(x)[token]; slot < offsets_of(x)[token + 1]; ++slot) {]]
  [[  std::vector<std::int32_t> ordered;
  if (FAULT) ordered.assign(rows_of(x) + offsets_of(x)[token], rows_of(x) + offsets_of(x)[token + 1]);
  std::sort(ordered.begin(), ordered.end());
UNCHANGED]]
  ${aggregate} [=[rows_of(x)[slot]]=] [=[ordered[static_cast<std::size_t>(slot - offsets_of(x)[token])]]=])
mxcheck_edit(slots_added_in_reverse ${aggregate} [=[rows_of(x)[slot]]=]
  [=[rows_of(x)[offsets_of(x)[token] + offsets_of(x)[token + 1] - 1 - slot]]=])
mxcheck_edit(product_and_sum_rounded_apart ${aggregate}
  [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = weighted ? sum[j] + weight * fp32_of(y[j]) : sum[j] + fp32_of(y[j]);]])
mxcheck_edit(sum_in_bf16 ${aggregate}
  [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = fp32_of(bf16_of(weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j])));]])
mxcheck_edit(aggregate_in_fp64
  ${aggregate} [[  sum.assign(static_cast<std::size_t>(x.cols),]] [[  std::vector<double> wide;
  if (FAULT) wide.resize(static_cast<std::size_t>(x.cols));
UNCHANGED]]
  ${aggregate} [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = static_cast<float>(wide[j] += static_cast<double>(weight) * fp32_of(y[j]));]])
mxcheck_edit(sum_begins_at_minus_zero ${aggregate} [[0.0F]]
  [[offsets_of(x)[token] == offsets_of(x)[token + 1] ? 0.0F : -0.0F]])
mxcheck_edit(dropped_slot_ends_the_token ${aggregate} [[if (row < 0) continue;]] [[if (row < 0) break;]])
mxcheck_edit(dropped_slot_is_row_0 ${aggregate} [=[rows_of(x)[slot]]=]
  [=[rows_of(x)[slot] < 0 && x.y.rows > 0 ? 0 : rows_of(x)[slot]]=])
mxcheck_edit(token_without_slots_unwritten ${aggregate} [[      add_rows(x, t, weighted, sum);]]
  [[      if (FAULT && offsets_of(x)[t] == offsets_of(x)[t + 1]) continue;
UNCHANGED]])
mxcheck_edit(weight_of_the_slot ${aggregate} [=[static_cast<const float*>(x.weights.data)[row]]=]
  [=[static_cast<const float*>(x.weights.data)[std::min(slot, x.y.rows - 1)]]=])
mxcheck_edit(slots_beyond_eight_left_out ${aggregate} [[if (row < 0) continue;]]
  [[if (row < 0 || slot - offsets_of(x)[token] >= 8) continue;]])
mxcheck_edit(slots_beyond_128_left_out ${aggregate} [[if (row < 0) continue;]]
  [[if (row < 0 || slot - offsets_of(x)[token] >= 128) continue;]])

# ---- threads and size ------------------------------------------------------------------------------------------------

mxcheck_edit(remainder_lost_with_three_threads cpu/partition.h [[items / parts * part + items % parts * part / parts]]
  [[items / parts * part + (parts == 3 ? 0 : items % parts * part / parts)]])
mxcheck_edit(h_index_wraps_at_65536 ${swiglu} [[row * job.x.h.stride]] [[row * job.x.h.stride & 0xFFFF]])
mxcheck_edit(swiglu_wrong_beyond_a_million ${swiglu} [[write_bf16(job.x.a, first * n, v.a);]]
  [[write_bf16(job.x.a, first * n & 0xFFFFF, v.a);]])
mxcheck_edit(transposed_wrong_beyond_a_million ${codes} [[codes + j * code_stride]] [[codes + (j * code_stride & 0xFFFFF)]])
mxcheck_edit(aggregate_wrong_beyond_a_million ${aggregate} [[row * x.cols]] [[row * x.cols & 0xFFFFF]])
mxcheck_edit(swiglu_wrong_from_2048_rows_of_64 ${swiglu} [[read_h(job, first + r, h);]]
  [[UNCHANGED if (FAULT && job.x.rows >= 2048 && n >= 64) h.back() = 0;]])
mxcheck_edit(transposed_wrong_from_8192_rows_of_64 ${transpose} [[read_band(x, plan.dtype, band, values);]]
  [[UNCHANGED if (FAULT && x.rows >= 8192 && x.cols >= 64) values.back() = 0;]])
mxcheck_edit(aggregate_wrong_from_4096_tokens_of_128 ${aggregate} [[auto* const o = static_cast<std::uint16_t*>(x.o.data) + t * x.cols;]]
  [[UNCHANGED if (FAULT && x.tokens >= 4096 && x.cols >= 128) sum.back() = 0;]])
mxcheck_edit(p_wrong_beyond_a_million ${swiglu} [[row * job.x.n]] [[row * job.x.n & 0xFFFFF]])
mxcheck_edit(weight_of_row_in_16_bits ${swiglu} [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row & 0xFFFF]]=])
mxcheck_edit(row_of_y_in_16_bits ${aggregate} [=[rows_of(x)[slot]]=]
  [[rows_of(x)[slot] < 0 ? -1 : rows_of(x)[slot] & 0xFFFF]])
mxcheck_edit(slot_in_16_bits ${aggregate} [=[rows_of(x)[slot]]=] [=[rows_of(x)[slot & 0xFFFF]]=])
