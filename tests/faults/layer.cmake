# Faults put into the library of a layer's elementwise steps (libmxcheck_cpu_layer.so) on purpose, as in catalogue.cmake.
#
# REFERENCE says what kind of change it is: "formula" (another way to write the same thing), "fused" (a rounding that
# goes or comes where steps are fused), "range" (guards, thresholds, special values), "tiles" (what belongs to which
# element, row, block or expert), "order" (of a sum), "operator" (a sign, a bound, a constant).

# ---- gate and up value -----------------------------------------------------------------------------------------------

mxcheck_fault(
  gate_and_up_exchanged tiles "of H in halves the first is taken for the up values"
  cpu/layer/swiglu.cc [[Columns{j, job.x.n + j}]] [[Columns{job.x.n + j, j}]])

mxcheck_fault(
  interleaved_up_comes_first tiles "of H interleaved the even columns are taken for the up values"
  cpu/layer/swiglu.cc [[Columns{2 * j, 2 * j + 1}]] [[Columns{2 * j + 1, 2 * j}]])

mxcheck_fault(
  dh_always_in_halves tiles "dH is in halves where H is interleaved"
  cpu/layer/swiglu.cc [=[dh[at.gate]]=] [=[dh[j]]=]
  cpu/layer/swiglu.cc [=[dh[at.up]]=] [=[dh[job.x.n + j]]=])

mxcheck_fault(
  dh_halves_exchanged tiles "dg is written where du belongs"
  cpu/layer/swiglu.cc [=[dh[at.gate]]=] [=[dh[at.up]]=]
  cpu/layer/swiglu.cc [=[dh[at.up]]=] [=[dh[at.gate]]=])

mxcheck_fault(
  row_stride_of_h_ignored tiles "rows of H are read as if they followed one another"
  cpu/layer/swiglu.cc [[row * job.x.h.stride]] [[row * width]])

mxcheck_fault(
  scales_of_h_rounded_down tiles "a row of coded H has 2n / 32 scales, the cut block forgotten"
  cpu/layer/swiglu.cc [[row * blocks_of(width, kHBlock)]] [[row * std::max<std::int64_t>(1, width / kHBlock)]])

mxcheck_fault(
  coded_h_is_always_e4m3 operator "codes of H in E5M2 are read as E4M3"
  cpu/layer/swiglu.cc [[decode_fp32<E5m2>(codes[j], scale)]] [[decode_fp32<E4m3>(codes[j], scale)]])

mxcheck_fault(
  nan_scale_of_h_is_a_number range "scale byte 255 of coded H is 2^128, not NaN"
  cpu/layer/swiglu.cc [[    const std::uint8_t scale = scales[j / kHBlock];]]
  [[    if (FAULT && scales[j / kHBlock] == 255 && (codes[j] & 0x7F) == 0) {
      h[static_cast<std::size_t>(j)] = 0;
      continue;
    }
UNCHANGED]])

mxcheck_fault(
  smallest_scale_of_h_flushed range "scale byte 0 of coded H, the subnormal 2^-127, is taken for zero"
  cpu/layer/swiglu.cc [[h[static_cast<std::size_t>(j)] = std::bit_cast<float>(bits);]]
  [[h[static_cast<std::size_t>(j)] = std::bit_cast<float>(bits) * (scale == 0 ? 0.0F : 1.0F);]])

# ---- the sigmoid -----------------------------------------------------------------------------------------------------

# The compiler makes the table of the sigmoid: this fault has a second one.
mxcheck_fault(
  sigmoid_by_exp_of_the_gate formula "q of negative gates is exp(g) / (1 + exp(g)), so that nothing overflows"
  common/layer/sigmoid.h [[constexpr Sigmoids make_sigmoids() {]]
  [[template <bool kByExpOfTheGate = false>
UNCHANGED]]
  common/layer/sigmoid.h [[beyond ? 0.0F : 1.0F / (1.0F + exp_rn(static_cast<double>(g)))]]
  [[kByExpOfTheGate && !beyond ? exp_rn(-static_cast<double>(g)) / (1.0F + exp_rn(-static_cast<double>(g)))
                                              : UNCHANGED]]
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[static constexpr Sigmoids kOther = sigmoid_detail::make_sigmoids<true>();
  return kOther.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]])

mxcheck_fault(
  sigmoid_by_tanh formula "q is (1 + tanh(g / 2)) / 2"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[return 0.5F * __builtin_tanhf(0.5F * g) + 0.5F;]])

mxcheck_fault(
  exp_by_exp2 formula "exp(-g) is exp2 of a product in FP32, as a fast exponential computes it"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[return 1.0F / (1.0F + __builtin_exp2f(-g * 1.442695041F));]])

mxcheck_fault(
  sigmoid_in_fp64 formula "q is rounded once, from FP64"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[return static_cast<float>(1.0 / (1.0 + __builtin_exp(-static_cast<double>(g))));]])

mxcheck_fault(
  table_off_by_one_for_negative_gates operator "negative gates read the entry before theirs"
  common/layer/sigmoid.h [[(g >> 31) != 0 ? kGates : 0]] [[(g >> 31) != 0 ? kGates - 1 : 0]])

mxcheck_fault(
  negative_zero_at_the_tables_end range "the sigmoid of a gate of -0 is 0"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[if (FAULT && std::bit_cast<std::uint32_t>(g) == 0x80000000) return 0;
  UNCHANGED]])

mxcheck_fault(
  sigmoid_one_from_16_5 range "the sigmoid is 1 from 16.5 on, not from 16.64"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[if (FAULT && g >= 16.5F) return 1;
  UNCHANGED]])

mxcheck_fault(
  sigmoid_half_below_2_to_minus_20 range "the sigmoid is 1/2 for gates below 2^-20"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[if (FAULT && __builtin_fabsf(g) < 0x1p-20F) return 0.5F;
  UNCHANGED]])

mxcheck_fault(
  sigmoid_clamped_at_minus_88 range "the sigmoid of gates below -87.4 is 0, where it is subnormal"
  cpu/layer/numbers.h [[return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))];]]
  [[if (FAULT && g < -87.4F) return 0;
  UNCHANGED]])

mxcheck_fault(
  gate_clamped_at_7 formula "gates are clamped at 7, as another model's SwiGLU has it"
  cpu/layer/swiglu.cc [[float swiglu(float g, float u) {]] [[UNCHANGED if (FAULT) g = g > 7 ? 7 : g;]])

mxcheck_fault(
  nan_gate_dropped_by_a_clamp range "a clamp with min and max turns a NaN gate into a number"
  cpu/layer/swiglu.cc [[float swiglu(float g, float u) {]] [[UNCHANGED if (FAULT) g = std::fmax(g, -3e38F);]])

mxcheck_fault(
  infinite_gate_guarded range "a gate of -Inf gives 0, the limit of silu, in place of NaN"
  cpu/layer/swiglu.cc [[float swiglu(float g, float u) {]] [[UNCHANGED if (FAULT && g == -INFINITY) return 0;]])

# ---- A ---------------------------------------------------------------------------------------------------------------

mxcheck_fault(
  gate_times_q_times_u_first formula "a = g * (q * u)"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]] [[rounded_to_bf16(g * (sigmoid(g) * u))]])

mxcheck_fault(
  gate_times_u_first formula "a = (g * u) * q"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]] [[rounded_to_bf16((g * u) * sigmoid(g))]])

mxcheck_fault(
  gate_divided formula "silu is g / (1 + exp(-g)): the reciprocal is not rounded"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]]
  [[rounded_to_bf16(g / (1.0F + static_cast<float>(std::exp(-static_cast<double>(g)))) * u)]])

mxcheck_fault(
  silu_rounded_to_bf16 fused "silu(g) is rounded to BF16 before it is multiplied by u, as by two kernels"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]] [[rounded_to_bf16(rounded_to_bf16(g * sigmoid(g)) * u)]])

mxcheck_fault(
  a_truncated operator "A is cut to BF16, not rounded"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]]
  [[fp32_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>((g * sigmoid(g)) * u) >> 16))]])

mxcheck_fault(
  ties_away_from_zero operator "BF16 ties go away from zero"
  cpu/layer/numbers.h [[bits + 0x7FFF + (bits >> 16 & 1)]] [[bits + 0x8000]])

mxcheck_fault(
  overflow_saturates range "what is beyond BF16's range becomes its largest number, not infinite"
  cpu/layer/numbers.h [[if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;]]
  [[UNCHANGED
  if (FAULT && (bits & 0x7FFFFFFF) > 0x7F7F0000 && (bits & 0x7FFFFFFF) != 0x7F800000)
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | 0x7F7F);]])

mxcheck_fault(
  subnormal_a_flushed range "a below 2^-126 is flushed to zero"
  cpu/layer/swiglu.cc [[rounded_to_bf16((g * sigmoid(g)) * u)]]
  [[[&] {
    const float a = (g * sigmoid(g)) * u;
    return rounded_to_bf16(std::fabs(a) < 0x1p-126F ? std::copysign(0.0F, a) : a);
  }()]])

mxcheck_fault(
  a_not_rounded_before_codes fused "amax and codes are those of A in FP32"
  cpu/layer/swiglu.cc [[a[j] = swiglu(h[static_cast<std::size_t>(at.gate)], h[static_cast<std::size_t>(at.up)]);]]
  [[const float g = h[static_cast<std::size_t>(at.gate)];
    a[j] = (g * sigmoid(g)) * h[static_cast<std::size_t>(at.up)];]])

# ---- dH --------------------------------------------------------------------------------------------------------------

mxcheck_fault(
  dg_with_da_first formula "dg = (dA * u) * q'"
  cpu/layer/swiglu.cc [[rounded_to_bf16(da * (u * derivative))]] [[rounded_to_bf16((da * u) * derivative)]])

mxcheck_fault(
  du_with_da_first formula "du = (dA * g) * q"
  cpu/layer/swiglu.cc [[rounded_to_bf16(da * (g * q))]] [[rounded_to_bf16((da * g) * q)]])

mxcheck_fault(
  du_of_rounded_silu fused "du is made of silu(g) in BF16"
  cpu/layer/swiglu.cc [[rounded_to_bf16(da * (g * q))]] [[rounded_to_bf16(da * rounded_to_bf16(g * q))]])

mxcheck_fault(
  derivative_without_fma formula "1 + g (1 - q) with a product that is rounded"
  cpu/layer/swiglu.cc [[q * std::fma(g, 1.0F - q, 1.0F)]] [[q * (1.0F + g * (1.0F - q))]])

mxcheck_fault(
  derivative_as_a_sum formula "the derivative of silu is q + silu(g) (1 - q)"
  cpu/layer/swiglu.cc [[q * std::fma(g, 1.0F - q, 1.0F)]] [[std::fma(g * q, 1.0F - q, q)]])

mxcheck_fault(
  derivative_of_the_sigmoid formula "q (1 - q), the sigmoid's derivative, in place of silu's"
  cpu/layer/swiglu.cc [[q * std::fma(g, 1.0F - q, 1.0F)]] [[q * (1.0F - q)]])

mxcheck_fault(
  da_rounded_to_bf16 fused "dA is rounded to BF16, as by a GEMM that stores it"
  cpu/layer/swiglu.cc [=[weight * p[j]]=] [[rounded_to_bf16(weight * p[j])]])

mxcheck_fault(
  da_without_weight operator "dA is P"
  cpu/layer/swiglu.cc [=[weight * p[j]]=] [=[p[j]]=])

mxcheck_fault(
  weight_twice operator "P is weighted twice"
  cpu/layer/swiglu.cc [=[weight * p[j]]=] [[weight * (weight * p[j])]])

mxcheck_fault(
  weight_of_the_row_before tiles "rows but the first have the weight of the row before"
  cpu/layer/swiglu.cc [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row == 0 ? 0 : row - 1]]=])

mxcheck_fault(
  weight_read_once_per_tile tiles "32 rows share the weight of their first"
  cpu/layer/swiglu.cc [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row / 32 * 32]]=])

mxcheck_fault(
  dg_not_rounded_before_codes fused "amax and codes are those of dg in FP32"
  cpu/layer/swiglu.cc [[rounded_to_bf16(da * (u * derivative))]] [[da * (u * derivative)]])

# ---- A' and dS -------------------------------------------------------------------------------------------------------

mxcheck_fault(
  scaled_a_without_weight operator "A' is A"
  cpu/layer/swiglu.cc [[rounded_to_bf16(weight * a)]] [[a]])

mxcheck_fault(
  scaled_a_rounded_once fused "A' is made of a in FP32, not of A"
  cpu/layer/swiglu.cc [[rounded_to_bf16(weight * a)]] [[rounded_to_bf16(weight * ((g * q) * u))]])

mxcheck_fault(
  ds_of_scaled_a operator "dS is the product of P and A'"
  cpu/layer/swiglu.cc [[p[j] * a]] [=[p[j] * scaled_a[j]]=])

mxcheck_fault(
  ds_of_unrounded_a fused "dS is the product of P and a in FP32"
  cpu/layer/swiglu.cc [[p[j] * a]] [[p[j] * ((g * q) * u)]])

mxcheck_fault(
  ds_left_to_right order "dS is summed from left to right"
  cpu/layer/swiglu.cc [[for (std::size_t count = v.size(); count > 1;]]
  [[if (FAULT) {
    for (std::size_t i = 1; i < v.size(); ++i) v[0] += v[i];
    return v[0];
  }
  UNCHANGED]])

mxcheck_fault(
  ds_in_fp64 order "dS is summed in FP64 and rounded once"
  cpu/layer/swiglu.cc [[for (std::size_t count = v.size(); count > 1;]]
  [[if (FAULT) {
    double sum = 0;
    for (const float x : v) sum += x;
    return static_cast<float>(sum);
  }
  UNCHANGED]])

mxcheck_fault(
  ds_halves_added order "dS adds the second half of the row to the first, as a reduction by shuffles does"
  cpu/layer/swiglu.cc [[v[i] = v[2 * i] + v[2 * i + 1];]] [[v[i] = v[i] + v[(count + 1) / 2 + i];]]
  cpu/layer/swiglu.cc [[v[count / 2] = v[count - 1] + 0.0F;]] [[]])

mxcheck_fault(
  ds_odd_tail_joins_the_first order "what is left over is added to the first sum, not carried on"
  cpu/layer/swiglu.cc [[(count + 1) / 2]] [[count / 2]]
  cpu/layer/swiglu.cc [[v[count / 2] = v[count - 1] + 0.0F;]] [[v[0] = v[0] + v[count - 1];]])

mxcheck_fault(
  ds_odd_tail_without_zero order "what is left over is carried on without the +0 beside it"
  cpu/layer/swiglu.cc [[v[count / 2] = v[count - 1] + 0.0F;]] [[v[count / 2] = v[count - 1];]])

mxcheck_fault(
  ds_fused_products order "products go into the first sums unrounded, by fma"
  cpu/layer/swiglu.cc [[return pairwise_sum(products);]]
  [[for (std::int64_t j = 0; j + 1 < job.x.n; j += 2) {
    const Columns at = columns_of(job, j + 1);
    const float a = swiglu(h[static_cast<std::size_t>(at.gate)], h[static_cast<std::size_t>(at.up)]);
    products[static_cast<std::size_t>(j)] = std::fma(p[j + 1], a, products[static_cast<std::size_t>(j)]);
    products[static_cast<std::size_t>(j + 1)] = 0;
  }
  return pairwise_sum(products);]])

mxcheck_fault(
  ds_over_8192_columns tiles "columns from 8192 on have no say in dS"
  cpu/layer/swiglu.cc [[return pairwise_sum(products);]]
  [[if (products.size() > 8192) products.resize(8192);
  return pairwise_sum(products);]])

mxcheck_fault(
  ds_unwritten_without_columns tiles "dS of a row without columns is not written"
  cpu/layer/swiglu.cc [[static_cast<float*>(job.x.ds.data)[first + r] =]]
  [[float unused = 0;
    (FAULT && n == 0 ? unused : static_cast<float*>(job.x.ds.data)[first + r]) =]])

mxcheck_fault(
  ds_added_to_what_was_there tiles "dS is added to a buffer that nothing cleared"
  cpu/layer/swiglu.cc [[backward_row(job, h, first + r, a, v.dh.data() + r * 2 * n, products)]]
  [[static_cast<float*>(job.x.ds.data)[first + r] +
    backward_row(job, h, first + r, a, v.dh.data() + r * 2 * n, products)]])

# ---- codes and scales ------------------------------------------------------------------------------------------------

mxcheck_fault(
  scaled_a_in_dhs_format operator "A' is coded in the format of dH"
  cpu/layer/swiglu.cc [[of_a.element = job.plan.scaled;]] [[of_a.element = job.plan.coding.element;]])

mxcheck_fault(
  rceil_asked_floor_done operator "the scale rule is not forwarded: rceil is asked, floor is done"
  cpu/layer/codes.cc [[rule == CodeScale::floor ? ScaleRule::floor : ScaleRule::rceil]] [[ScaleRule::floor]])

mxcheck_fault(
  largest_value_rounds_up operator "round-up at a significand of 1.75 and above instead of above"
  cpu/quantize/scalar_block.h [[n.significand > 0xE00000]] [[n.significand >= 0xE00000]])

mxcheck_fault(
  fp32_scale_by_reciprocal formula "elements are multiplied by 1 / scale"
  cpu/layer/codes.cc [[line.x[i * line.x_step] / scale]] [[line.x[i * line.x_step] * (1.0F / scale)]])

mxcheck_fault(
  fp32_scale_times_a_constant formula "the scale is amax times RN(1 / largest value)"
  cpu/layer/codes.cc [[std::bit_cast<float>(amax) / largest]] [[std::bit_cast<float>(amax) * (1.0F / largest)]])

mxcheck_fault(
  fp32_scale_of_zeros_is_zero range "a block of zeros has the scale 0, not 1"
  cpu/layer/codes.cc [[if (scale == 0) scale = 1;]] [[]]
  cpu/layer/codes.cc [[line.x[i * line.x_step] / scale]] [[line.x[i * line.x_step] / (scale == 0 ? 1 : scale)]])

mxcheck_fault(
  nan_block_not_poisoned range "in a block with a NaN only its own code is NaN"
  cpu/layer/codes.cc [[poisoned ? F::kNanCode : encode_element<F>(bits_of(line.x[i * line.x_step]), scale)]]
  [[encode_element<F>(bits_of(line.x[i * line.x_step]), scale == 255 ? 127 : scale)]])

mxcheck_fault(
  infinity_saturates range "an infinite amax does not poison its block"
  cpu/layer/codes.cc [[const bool poisoned = amax >= kFp32Infinity;
  scale = poisoned ? 255]]
  [[const bool poisoned = FAULT ? amax > kFp32Infinity : amax >= kFp32Infinity;
  scale = FAULT && amax == kFp32Infinity ? 254 : poisoned ? 255]])

mxcheck_fault(
  rows_share_the_scale_of_a_tile tiles "rows of a tile have the scale of its largest element, not each its own"
  cpu/layer/codes.h [[std::int64_t count = 0;]] [[UNCHANGED
  std::uint32_t least = 0;]]
  cpu/layer/codes.cc [[std::uint32_t amax = 0;]] [[std::uint32_t amax = FAULT ? line.least : 0;]]
  cpu/layer/codes.cc [[      encode_block(coding, {values.x + first, 1, codes + first, 1, count},]]
  [[      std::uint32_t least = 0;
      for (std::int64_t r = 0; FAULT && r < values.rows; ++r) {
        const float* const x = values.x + r * values.cols + block * coding.block;
        least = std::max(least, amax_of({x, 1, nullptr, 1, count}));
      }
      encode_block(coding, {values.x + first, 1, codes + first, 1, count, least},]])

mxcheck_fault(
  column_amax_over_32_rows tiles "of 128 rows the first 32 decide on the scale"
  cpu/layer/codes.cc [[for (std::int64_t i = 0; i < line.count; ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]]
  [[for (std::int64_t i = 0; i < (line.x_step > 1 && line.count > 32 ? 32 : line.count); ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]])

mxcheck_fault(
  cut_block_without_its_last_row tiles "the last row of a block of rows that an expert's end cuts has no say in amax"
  cpu/layer/codes.cc [[for (std::int64_t i = 0; i < line.count; ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]]
  [[for (std::int64_t i = 0; i < (line.x_step > 1 && line.count % 32 != 0 ? line.count - 1 : line.count); ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);]])

mxcheck_fault(
  last_block_of_a_row_ignored tiles "the cut block at the end of a row has the scale of the one before"
  cpu/layer/codes.cc [[static_cast<std::uint8_t*>(scales) + (row * blocks + block) * scale_bytes(coding));]]
  [[UNCHANGED
      if (FAULT && block > 0 && count < coding.block) {
        std::uint8_t* const scale = static_cast<std::uint8_t*>(scales) + (row * blocks + block) * scale_bytes(coding);
        std::copy_n(scale - scale_bytes(coding), scale_bytes(coding), scale);
      }]])

mxcheck_fault(
  columns_coded_from_row_codes fused "codes along tokens are made of the codes along rows, dequantized"
  cpu/layer/swiglu.cc [[if (!job.plan.columns) return;]]
  [[UNCHANGED
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

mxcheck_fault(
  scales_along_tokens_not_transposed tiles "scales of the codes along tokens are [blocks, columns]"
  cpu/layer/swiglu.cc [[static_cast<std::int64_t>(band) * scale]]
  [[static_cast<std::int64_t>(band) * scale * to.scales.rows]]
  cpu/layer/swiglu.cc [[to.scales.cols]] [[1]])

mxcheck_fault(
  scale_stride_without_experts tiles "a line of the scales along tokens has rows / block of them, whatever the experts"
  cpu/layer/transpose.cc [[x.out.scales.cols]] [[blocks_of(x.rows, plan.coding.block)]])

mxcheck_fault(
  codes_along_tokens_with_another_pitch tiles "a line of the codes along tokens is as long as a multiple of 16, cut at the buffer's end"
  cpu/layer/transpose.cc [[      encode_columns(plan.coding, {values.data(), band.rows, x.cols},]]
  [[      const std::int64_t pitch = (x.rows + 15) / 16 * 16;
      const std::int64_t fit = std::min(x.cols, (x.rows * x.cols - band.first - band.rows) / pitch + 1);
      std::vector<float> kept;
      for (std::int64_t r = 0; FAULT && r < band.rows; ++r)
        kept.insert(kept.end(), values.begin() + r * x.cols, values.begin() + r * x.cols + std::max<std::int64_t>(0, fit));
      encode_columns(plan.coding,
                     FAULT ? Values{kept.data(), band.rows, std::max<std::int64_t>(0, fit)}
                           : Values{values.data(), band.rows, x.cols},]]
  cpu/layer/transpose.cc [[+ band.first, x.rows,]] [[+ band.first, FAULT ? pitch : x.rows,]])

mxcheck_fault(
  block_crosses_an_experts_end tiles "the last block of an expert has the amax of rows of the next one too"
  cpu/layer/transpose.cc [[const Band& band = bands[static_cast<std::size_t>(i)];]]
  [[Band band = bands[static_cast<std::size_t>(i)];
      if (FAULT) band.rows = std::min<std::int64_t>(plan.coding.block, x.rows - band.first);]])

mxcheck_fault(
  empty_expert_takes_a_block tiles "an expert without rows takes a block, and all after it move by one"
  cpu/layer/bands.cc [[  for (std::int64_t first = begin; first < end;]]
  [[  if (FAULT && begin == end) bands.push_back({begin, 0});
UNCHANGED]]
  cpu/layer/bands.cc [[tensors.scales.cols == count]] [[tensors.scales.cols <= count]]
  cpu/layer/transpose.cc [[static_cast<std::int64_t>(bands.size())]]
  [[std::min<std::int64_t>(x.out.scales.cols, bands.size())]]
  cpu/layer/swiglu.cc [[    require_bands("scales of transposed codes of a", job.x.column_a, job.bands);]]
  [[    if (FAULT) job.bands.resize(std::min<std::size_t>(job.bands.size(), job.x.column_a.scales.cols));
UNCHANGED]])

mxcheck_fault(
  row_index_ignored tiles "rows are taken in order, not by their index"
  cpu/layer/transpose.cc [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r]]
  [[std::min(band.first + r, x.x.rows - 1)]])

mxcheck_fault(
  row_index_of_the_blocks_first tiles "all rows of a block are the one that its first row names"
  cpu/layer/transpose.cc [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r]]
  [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first] : band.first + r]])

mxcheck_fault(
  row_index_without_the_block tiles "every block has the indices of the first"
  cpu/layer/transpose.cc [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r]]
  [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[r] : band.first + r]])

mxcheck_fault(
  stride_of_x_ignored_for_fp32 tiles "rows of an FP32 matrix are read as if they followed one another"
  cpu/layer/transpose.cc [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.x.stride, x.cols, to);]]
  [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.cols, x.cols, to);]])

mxcheck_fault(
  fp32_rounded_to_bf16_first fused "an FP32 matrix is rounded to BF16 before it is coded"
  cpu/layer/transpose.cc [[std::copy_n(static_cast<const float*>(x.x.data) + row * x.x.stride, x.cols, to);]]
  [[for (std::int64_t j = 0; j < x.cols; ++j)
        to[j] = fp32_of(bf16_of((static_cast<const float*>(x.x.data) + row * x.x.stride)[j]));]])

mxcheck_fault(
  refusal_after_writing operator "a row index out of range is refused after the codes were written"
  cpu/layer/transpose.cc [[check_index(x);]] [[]]
  cpu/layer/transpose.cc [[x.has_index ? static_cast<const std::int32_t*>(x.index.data)[band.first + r] : band.first + r]]
  [[x.has_index
            ? std::clamp<std::int64_t>(static_cast<const std::int32_t*>(x.index.data)[band.first + r], 0, x.x.rows - 1)
            : band.first + r]]
  cpu/layer/transpose.cc [[    }
  });]] [[UNCHANGED
  if (FAULT) check_index(x);]])

# ---- aggregation -----------------------------------------------------------------------------------------------------

mxcheck_fault(
  rows_added_in_ascending_order order "a token's rows are added in the order of their numbers, not of its slots"
  cpu/layer/aggregate.cc [[  for (std::int64_t slot = offsets_of(x)[token]; slot < offsets_of(x)[token + 1]; ++slot) {]]
  [[  std::vector<std::int32_t> ordered;
  if (FAULT) ordered.assign(rows_of(x) + offsets_of(x)[token], rows_of(x) + offsets_of(x)[token + 1]);
  std::sort(ordered.begin(), ordered.end());
UNCHANGED]]
  cpu/layer/aggregate.cc [=[rows_of(x)[slot]]=] [=[ordered[static_cast<std::size_t>(slot - offsets_of(x)[token])]]=])

mxcheck_fault(
  slots_added_in_reverse order "a token's last slot is added first"
  cpu/layer/aggregate.cc [=[rows_of(x)[slot]]=]
  [=[rows_of(x)[offsets_of(x)[token] + offsets_of(x)[token + 1] - 1 - slot]]=])

mxcheck_fault(
  product_and_sum_rounded_apart fused "the weighted row is rounded before it is added"
  cpu/layer/aggregate.cc [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = weighted ? sum[j] + weight * fp32_of(y[j]) : sum[j] + fp32_of(y[j]);]])

mxcheck_fault(
  sum_in_bf16 fused "the sum is kept in BF16"
  cpu/layer/aggregate.cc [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = fp32_of(bf16_of(weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j])));]])

mxcheck_fault(
  aggregate_in_fp64 order "rows are added in FP64"
  cpu/layer/aggregate.cc [[  sum.assign(static_cast<std::size_t>(x.cols),]]
  [[  std::vector<double> wide;
  if (FAULT) wide.resize(static_cast<std::size_t>(x.cols));
UNCHANGED]]
  cpu/layer/aggregate.cc [[sum[j] = weighted ? std::fma(weight, fp32_of(y[j]), sum[j]) : sum[j] + fp32_of(y[j]);]]
  [[sum[j] = static_cast<float>(wide[j] += static_cast<double>(weight) * fp32_of(y[j]));]])

mxcheck_fault(
  sum_begins_at_minus_zero range "the sum begins with the first row, so that rows of -0 give -0"
  cpu/layer/aggregate.cc [[0.0F]]
  [[offsets_of(x)[token] == offsets_of(x)[token + 1] ? 0.0F : -0.0F]])

mxcheck_fault(
  dropped_slot_ends_the_token tiles "slots after one that was dropped are left out"
  cpu/layer/aggregate.cc [[if (row < 0) continue;]] [[if (row < 0) break;]])

mxcheck_fault(
  dropped_slot_is_row_0 tiles "a slot that was dropped adds row 0"
  cpu/layer/aggregate.cc [=[rows_of(x)[slot]]=]
  [=[rows_of(x)[slot] < 0 && x.y.rows > 0 ? 0 : rows_of(x)[slot]]=])

mxcheck_fault(
  token_without_slots_unwritten tiles "o of a token without slots keeps what was there"
  cpu/layer/aggregate.cc [[      add_rows(x, t, weighted, sum);]]
  [[      if (FAULT && offsets_of(x)[t] == offsets_of(x)[t + 1]) continue;
UNCHANGED]])

mxcheck_fault(
  weight_of_the_slot tiles "weights are taken by slot, not by row"
  cpu/layer/aggregate.cc [=[static_cast<const float*>(x.weights.data)[row]]=]
  [=[static_cast<const float*>(x.weights.data)[std::min(slot, x.y.rows - 1)]]=])

mxcheck_fault(
  slots_beyond_eight_left_out tiles "of a token's slots the first eight are added"
  cpu/layer/aggregate.cc [[if (row < 0) continue;]] [[if (row < 0 || slot - offsets_of(x)[token] >= 8) continue;]])

mxcheck_fault(
  slots_beyond_128_left_out tiles "of a token's slots the first 128 are added"
  cpu/layer/aggregate.cc [[if (row < 0) continue;]] [[if (row < 0 || slot - offsets_of(x)[token] >= 128) continue;]])

# ---- threads and size ------------------------------------------------------------------------------------------------

mxcheck_fault(
  remainder_lost_with_three_threads operator "three threads leave what remains of items / 3"
  cpu/partition.h [[items / parts * part + items % parts * part / parts]]
  [[items / parts * part + (parts == 3 ? 0 : items % parts * part / parts)]])

mxcheck_fault(
  h_index_wraps_at_65536 operator "the place of a row in H is held in 16 bits: wrong beyond 65,536 elements"
  cpu/layer/swiglu.cc [[row * job.x.h.stride]] [[row * job.x.h.stride & 0xFFFF]])

mxcheck_fault(
  swiglu_wrong_beyond_a_million operator "the place of a row of A is held in 20 bits: values beyond 1,048,576 go elsewhere"
  cpu/layer/swiglu.cc [[write_bf16(job.x.a, first * n, v.a);]] [[write_bf16(job.x.a, first * n & 0xFFFFF, v.a);]])

mxcheck_fault(
  transposed_wrong_beyond_a_million operator "columns are placed by 20 bits: codes beyond 1,048,576 elements go elsewhere"
  cpu/layer/codes.cc [[codes + j * code_stride]] [[codes + (j * code_stride & 0xFFFFF)]])

mxcheck_fault(
  aggregate_wrong_beyond_a_million operator "the place of a row of y is held in 20 bits: rows beyond 1,048,576 elements are others"
  cpu/layer/aggregate.cc [[row * x.cols]] [[row * x.cols & 0xFFFFF]])

mxcheck_fault(
  p_wrong_beyond_a_million operator "the place of a row of P is held in 20 bits"
  cpu/layer/swiglu.cc [[row * job.x.n]] [[row * job.x.n & 0xFFFFF]])

mxcheck_fault(
  weight_of_row_in_16_bits operator "the row whose weight is read is held in 16 bits"
  cpu/layer/swiglu.cc [=[static_cast<const float*>(job.x.weights.data)[row]]=]
  [=[static_cast<const float*>(job.x.weights.data)[row & 0xFFFF]]=])

mxcheck_fault(
  row_of_y_in_16_bits operator "the row of y that a slot names is held in 16 bits"
  cpu/layer/aggregate.cc [=[rows_of(x)[slot]]=]
  [[rows_of(x)[slot] < 0 ? -1 : rows_of(x)[slot] & 0xFFFF]])

mxcheck_fault(
  slot_in_16_bits operator "a slot's number is held in 16 bits"
  cpu/layer/aggregate.cc [=[rows_of(x)[slot]]=] [=[rows_of(x)[slot & 0xFFFF]]=])
