// The GEMMs of MXFP8 and NVFP4 by decoding (matmul_decoded_launch): bf16.cu's, with A's codes in the stages and A's
// fragments in registers. Tiles with one consumer have stages of 128 columns: TMA takes a row of 64 bytes as long as
// one of 128, and A's are codes.
//
// Warps of the producer: 0 has the schedule and TMA, 1 and 2 the scales of A; where rows of A are gathered, 2 and 3 do
// that, and 1 has all scales. A consumer decodes a stage's fragments while the tensor cores have those of the stage
// before.

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/gemm/kernel.cuh"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/gemm/ring.cuh"
#include "kernels/sm90/gemm/tiles.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

// --- codes -----------------------------------------------------------------------------------------------------------
//
// A scale as the consumers read it, word(), is BF16 twice, to multiply two codes at once, or FP32.

// 8-bit codes with E8M0 scales.
template <Element kElement>
struct MxCodes {
  static constexpr int kInByte = 1;
  static constexpr int kBlock = 32;

  // Pairs where there is one consumer, which the decoding holds up (two consumers with pairs: 4 % slower at
  // 32768x7168x2048).
  template <bool kPaired>
  static __device__ __forceinline__ std::uint32_t word(std::uint32_t scale) {
    const std::uint32_t bits = __float_as_uint(value_of(scale));
    return kPaired ? __byte_perm(bits, 0, 0x3232) : bits;
  }

  // The lowest two codes times a scale. One rounding, of the product: codes and scales are BF16 exactly, 2^-127 as a
  // subnormal, and FP32 holds their product.
  template <bool kPaired>
  static __device__ __forceinline__ std::uint32_t decoded2(std::uint32_t codes, std::uint32_t scale) {
    const float2 v = decode2<kElement>(codes & 0xFFFF);
    if constexpr (kPaired) {
      return ptx::mul_rn_bf16x2(ptx::cvt_rn_bf16x2_f32(v.x, v.y), scale);
    } else {
      const float by = __uint_as_float(scale);
      const float high = __fmul_rn(v.y, by);
      return ptx::cvt_rn_bf16x2_f32(__fmul_rn(v.x, by), high);
    }
  }
};

// Packed E2M1 codes with E4M3 scales. The bits of a code, at the lower end of BF16's exponent, are the BF16 number code
// * 2^-126, a subnormal for 0.5. Multiplied by scale * 2^118 it is code * scale * 2^-8, exactly: b has the other
// factor.
struct Nvfp4Codes {
  static constexpr int kInByte = 2;
  static constexpr int kBlock = 16;
  static constexpr std::uint32_t kSigns = 0x80008000;
  static constexpr std::uint32_t kMagnitudes = 0x01C001C0;

  // E4M3's bits without the sign, at FP32's place, are scale * 2^-120, which two factors make scale * 2^118.
  template <bool kPaired>
  static __device__ __forceinline__ std::uint32_t word(std::uint32_t scale) {
    const std::uint32_t magnitude = scale & 0x7F;
    const float value = __fmul_rn(__fmul_rn(__uint_as_float(magnitude << 20), 0x1p119F), 0x1p119F);
    return __byte_perm(magnitude == 0x7F ? 0x7FC00000 : __float_as_uint(value), 0, 0x3232);
  }

  // Four codes, two bytes, of which each is there twice: `even` is the first and the third, `odd` the second and the
  // fourth.
  static __device__ __forceinline__ void decoded4(std::uint32_t twice, std::uint32_t scale, std::uint32_t& even,
                                                  std::uint32_t& odd) {
    even = ptx::mul_rn_bf16x2((twice << 4 & kSigns) | (twice >> 2 & kMagnitudes), scale);
    odd = ptx::mul_rn_bf16x2((twice & kSigns) | (twice >> 6 & kMagnitudes), scale);
  }
};

// --- the tile --------------------------------------------------------------------------------------------------------

// 64 x kN for each consumer; kN is 64, 128 or 256. A stage is a box of A's codes and as many columns of B, in one box
// of 64 or two.
template <int kN, int kConsumers, bool kTransposed_, class Codes>
struct DecodedShape : MatmulShape<1, 1, kN, 1, kN == 64 ? 1 : 2, kConsumers> {
  static constexpr bool kTransposed = kTransposed_;
  static constexpr int kBoxesOfB = kConsumers == 1 ? 2 : 1;
  static constexpr int kColumns = kBoxesOfB * kRowBytes / 2;
  static constexpr int kCodesInByte = Codes::kInByte;
  static constexpr int kARowBytes = kColumns / kCodesInByte;
};

template <class Shape, class Codes, class Out>
struct DecodedShared : MatmulLayout<Shape, Out, Shape::kM*(Shape::kColumns / Codes::kBlock)> {
  static constexpr int kConsumerRegs = 216;
  static constexpr int kProducerRegs = producer_registers(kConsumerRegs);
};

template <class Shape_, class Codes, class Out>
struct DecodedMatmul : MatmulRing<Shape_, DecodedShared<Shape_, Codes, Out>, 1, 2> {
  using Shape = Shape_;
  using Shared = DecodedShared<Shape, Codes, Out>;
  using Ring = MatmulRing<Shape, Shared, 1, 2>;
  using Cursor = typename Ring::Cursor;
  static constexpr int kAcc = Shape::kAccumulators;
  static constexpr int kSteps = 4;  // of 16 columns, of a box of B

  __device__ __forceinline__ void init_barriers() const { Ring::init_ring(1 + 32 * scale_warps()); }

  __device__ __forceinline__ int scale_warps() const { return Ring::job.row_index == nullptr ? 2 : 1; }

  __device__ __forceinline__ std::uint32_t scales(int stage) const {
    return Ring::shared + Shared::kScales + stage * Shared::kScaleBytes;
  }

  // --- producer -----------------------------------------------------------------------------------------------------

  static constexpr int kScales = Shape::kColumns / Codes::kBlock;  // of a row and stage
  // A load is of the scales of 256 columns of a row, for kTogether stages.
  using ScaleWords = std::conditional_t<Codes::kBlock == 32, uint2, uint4>;
  static constexpr int kTogether = 256 / Shape::kColumns;
  static constexpr int kLoadsAhead = Shape::kConsumers == 1 ? 2 : 1;

  // The scales of rows first, first + 32 .. of a tile, kEach of them. Rows past the end take another's: no one
  // reads their sums.
  template <int kEach>
  struct ScaleRows {
    const std::uint8_t* row[kEach];
    int first;
  };
  template <int kEach>
  __device__ __forceinline__ ScaleRows<kEach> scale_rows(const MatmulTile& tile, int columns, int part) const {
    ScaleRows<kEach> rows;
    rows.first = Ring::lane + 32 * kEach * part;
    const int last = max(tile.rows, 1) - 1;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row = min(tile.row + min(rows.first + 32 * i, last), Ring::job.m - 1);
      if (Ring::job.row_index != nullptr) row = __ldg(Ring::job.row_index + row);
      rows.row[i] = static_cast<const std::uint8_t*>(Ring::job.scale_a) + std::int64_t{row} * columns;
    }
    return rows;
  }

  // Every lane for what it stored.
  __device__ __forceinline__ void publish(Cursor& at) const {
    ptx::mbarrier_arrive(Ring::full(at.stage));
    at.advance();
  }
  static constexpr bool kPaired = Shape::kConsumers == 1;

  // Stores the scales of a row of the tile; byte(j): its scale j of the stage.
  template <class Byte>
  __device__ __forceinline__ void store_scales(int stage, int row, const Byte& byte) const {
    const std::uint32_t to = scales(stage) + row * kScales * 4;
    const auto word = [&](int j) { return Codes::template word<kPaired>(byte(j)); };
    if constexpr (kScales == 2) {
      ptx::st_shared(to, make_uint2(word(0), word(1)));
    } else {
#pragma unroll
      for (int j = 0; j < kScales; j += 4) {
        ptx::st_shared(to + j * 4, make_uint4(word(j), word(j + 1), word(j + 2), word(j + 3)));
      }
    }
  }

  static __device__ __forceinline__ std::uint32_t word_of(const uint2& words, int i) {
    return i == 0 ? words.x : words.y;
  }
  static __device__ __forceinline__ std::uint32_t word_of(const uint4& words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
  }

  // Rows lie apart, so that a load takes 32 of the L1's turns: one for kTogether stages, kLoadsAhead as many ahead of
  // their use.
  template <int kEach>
  __device__ __forceinline__ void scales_together(const ScaleRows<kEach>& rows, int kblocks, Cursor& at) const {
    ScaleWords next[kLoadsAhead][kEach];
    const auto load = [&](ScaleWords(&to)[kEach], int kb) {
      if (kb >= kblocks) return;
#pragma unroll
      for (int i = 0; i < kEach; ++i) to[i] = __ldg(reinterpret_cast<const ScaleWords*>(rows.row[i] + kb * kScales));
    };
#pragma unroll
    for (int ahead = 0; ahead < kLoadsAhead; ++ahead) load(next[ahead], ahead * kTogether);
#pragma unroll 1
    for (int from = 0; from < kblocks; from += kTogether) {
      ScaleWords now[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        now[i] = next[0][i];
#pragma unroll
        for (int ahead = 1; ahead < kLoadsAhead; ++ahead) next[ahead - 1][i] = next[ahead][i];
      }
      load(next[kLoadsAhead - 1], from + kLoadsAhead * kTogether);
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        Ring::wait_empty(at);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          store_scales(at.stage, rows.first + 32 * i, [&](int j) {
            const int byte = t * kScales + j;
            return word_of(now[i], byte / 4) >> byte % 4 * 8 & 0xFF;
          });
        }
        publish(at);
      }
    }
  }

  // Any other number of stages, or rows that are not aligned: one stage ahead. Codes past k are zeros.
  template <int kEach>
  __device__ __forceinline__ void scales_one_by_one(const ScaleRows<kEach>& rows, int kblocks, int columns,
                                                    Cursor& at) const {
    std::uint32_t next[kEach][kScales] = {};
    const auto load = [&](int kb) {
      if (kb >= kblocks) return;
      const int column = kb * kScales;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kScales; ++j) next[i][j] = __ldg(rows.row[i] + min(column + j, columns - 1));
      }
    };
    load(0);
#pragma unroll 1
    for (int kb = 0; kb < kblocks; ++kb) {
      std::uint32_t now[kEach][kScales];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kScales; ++j) now[i][j] = next[i][j];
      }
      load(kb + 1);
      Ring::wait_empty(at);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        store_scales(at.stage, rows.first + 32 * i, [&](int j) { return now[i][j]; });
      }
      publish(at);
    }
  }

  // By kParts warps, of which this is `part`.
  template <int kParts>
  __device__ __forceinline__ void produce_scales(int part) const {
    constexpr int kEach = Shape::kM / 32 / kParts;
    const int columns = static_cast<int>(Ring::job.k / Codes::kBlock);
    constexpr int kBytes = sizeof(ScaleWords);
    const bool aligned = columns % kBytes == 0 && reinterpret_cast<std::uintptr_t>(Ring::job.scale_a) % kBytes == 0;
    typename Ring::Schedule schedule(Ring::job, Ring::rank);
    MatmulTile tile;
    Cursor at;
    while (schedule.next(tile)) {
      const ScaleRows<kEach> rows = scale_rows<kEach>(tile, columns, part);
      if (tile.kblocks == 0) {
        Ring::wait_empty(at);
        publish(at);
      } else if (aligned) {
        scales_together(rows, tile.kblocks, at);
      } else {
        scales_one_by_one(rows, tile.kblocks, columns, at);
      }
    }
    Ring::wait_empty(at);
    publish(at);
  }

  __device__ __forceinline__ void produce(int warp, const MatmulMaps& maps) const {
    if (warp == 0) {
      Ring::produce_codes(maps);
    } else if (Ring::job.row_index == nullptr) {
      if (warp != 3) produce_scales<2>(warp - 1);
    } else if (warp == 1) {
      produce_scales<1>(0);
    } else {
      Ring::gather_rows(warp - 2);
    }
  }

  // --- consumers ----------------------------------------------------------------------------------------------------

  using Fragments = std::uint32_t[kSteps][4];

  // A thread's codes of a box of B's columns, four of row lane / 4 and four of the row 8 below in a step, and the
  // scales of the two rows.
  struct MxBox {
    std::uint32_t words[kSteps / 2][4];
    uint2 high;
    uint2 low;
  };
  struct Nvfp4Box {
    uint4 high_codes[kSteps / 2];  // 32 of the row, of which four of each 16 are this thread's
    uint4 low_codes[kSteps / 2];
    uint4 high;
    uint4 low;
  };
  using BoxCodes = std::conditional_t<Codes::kInByte == 1, MxBox, Nvfp4Box>;

  __device__ __forceinline__ void read_codes(MxBox& codes, int stage, int box, const MatmulConsumer& me) const {
    const int first = me.index * Shape::kConsumerM + me.warp * 16;
    const int row = first + Ring::lane % 16;
    const int swizzle = Shape::kARowBytes == 128 ? row % 8 : row / 2 % 4;
    const std::uint32_t from = Ring::a_stage(stage) + row * Shape::kARowBytes;
    const std::uint32_t at = scales(stage) + ((first + Ring::lane / 4) * kScales + box * 2) * 4;
    codes.high = ptx::ld_shared_v2_u32(at);
    codes.low = ptx::ld_shared_v2_u32(at + 8 * kScales * 4);
#pragma unroll
    for (int i = 0; i < kSteps / 2; ++i) {
      const int chunk = box * kSteps + i * 2 + Ring::lane / 16;
      ptx::ldmatrix_x4(from + ((chunk ^ swizzle) << 4), codes.words[i]);
    }
  }

  __device__ __forceinline__ void read_codes(Nvfp4Box& codes, int stage, int box, const MatmulConsumer& me) const {
    const int row = me.index * Shape::kConsumerM + me.warp * 16 + Ring::lane / 4;
    const int swizzle = Shape::kARowBytes == 64 ? row / 2 % 4 : row / 4 % 2;  // of the row 8 below as well
    const std::uint32_t from = Ring::a_stage(stage) + row * Shape::kARowBytes;
    const std::uint32_t at = scales(stage) + (row * kScales + box * kSteps) * 4;
    codes.high = ptx::ld_shared_v4_u32(at);
    codes.low = ptx::ld_shared_v4_u32(at + 8 * kScales * 4);
#pragma unroll
    for (int i = 0; i < kSteps / 2; ++i) {
      const std::uint32_t code = from + ((box * (kSteps / 2) + i ^ swizzle) << 4);
      codes.high_codes[i] = ptx::ld_shared_v4_u32(code);
      codes.low_codes[i] = ptx::ld_shared_v4_u32(code + 8 * Shape::kARowBytes);
    }
  }

  __device__ __forceinline__ void decode_codes(Fragments& a, const Nvfp4Box& codes) const {
    // Bytes 2 q, 2 q, 2 q + 1 and 2 q + 1 of the eight of a step, q = lane % 4.
    const std::uint32_t mine = 0x1100 + 0x2222 * static_cast<std::uint32_t>(Ring::lane % 4);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const auto codes_of = [&](const uint4(&words)[kSteps / 2]) {
        return __byte_perm(word_of(words[i / 2], i % 2 * 2), word_of(words[i / 2], i % 2 * 2 + 1), mine);
      };
      Nvfp4Codes::decoded4(codes_of(codes.high_codes), word_of(codes.high, i), a[i][0], a[i][2]);
      Nvfp4Codes::decoded4(codes_of(codes.low_codes), word_of(codes.low, i), a[i][1], a[i][3]);
    }
  }

  static __device__ __forceinline__ std::uint32_t decoded2(std::uint32_t codes, std::uint32_t scale) {
    return Codes::template decoded2<kPaired>(codes, scale);
  }

  static __device__ __forceinline__ void decode_codes(Fragments& a, const MxBox& codes) {
#pragma unroll
    for (int i = 0; i < kSteps / 2; ++i) {
      const std::uint32_t of_high = i == 0 ? codes.high.x : codes.high.y;
      const std::uint32_t of_low = i == 0 ? codes.low.x : codes.low.y;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        std::uint32_t(&to)[4] = a[i * 2 + j];
        to[0] = decoded2(codes.words[i][j * 2], of_high);
        to[1] = decoded2(codes.words[i][j * 2 + 1], of_low);
        to[2] = decoded2(codes.words[i][j * 2] >> 16, of_high);
        to[3] = decoded2(codes.words[i][j * 2 + 1] >> 16, of_low);
      }
    }
  }

  // Two consumers, one stage after the other: while one decodes, the tensor cores have the other's mma. Fragments stay
  // as they are until the mma of the next stage are begun.
  __device__ __forceinline__ void consume_stages(float (&acc)[kAcc], Cursor& at, int kblocks,
                                                 const MatmulConsumer& me) const {
    int before = 0;
    const auto turn = [&](Fragments& a, int kb) {
      BoxCodes codes;
      Ring::wait_full(at);
      read_codes(codes, at.stage, 0, me);
      decode_codes(a, codes);
      chain_stage(*this, acc, at, before, kb, [&a](int step) -> const std::uint32_t(&)[4] { return a[step]; });
    };
    Fragments even;
    Fragments odd;
    int kb = 0;
#pragma unroll 1
    for (; kb + 1 < kblocks; kb += 2) {
      turn(even, kb);
      turn(odd, kb + 1);
    }
    if (kb < kblocks) turn(even, kb);
    chain_end(*this, acc, before);
  }

  // One consumer: codes are read before the mma ahead of them are begun, which hold the warp until their fragments are
  // read. There always is a stage after: the next tile's first, or the end's.
  __device__ __forceinline__ void consume_boxes(float (&acc)[kAcc], Cursor& at, int kblocks,
                                                const MatmulConsumer& me) const {
    int before = 0;
    BoxCodes codes;
    Ring::wait_full(at);
    read_codes(codes, at.stage, 0, me);
    const auto box = [&](Fragments& a, int index, int kb) {
      const std::uint64_t b = Ring::b_operand(at.stage, index * Shape::kN * kRowBytes);
      chain_steps<kSteps>(acc, b, kb + index != 0, [&a](int step) -> const std::uint32_t(&)[4] { return a[step]; });
    };
    Fragments even;
    Fragments odd;
#pragma unroll 1
    for (int kb = 0; kb < kblocks; ++kb) {
      decode_codes(even, codes);
      read_codes(codes, at.stage, 1, me);
      box(even, 0, kb);
      if (kb != 0) Ring::release(before);
      decode_codes(odd, codes);
      Cursor after = at;
      after.advance();
      Ring::wait_full(after);
      read_codes(codes, after.stage, 0, me);
      box(odd, 1, kb);
      before = at.stage;
      at = after;
    }
    chain_end(*this, acc, before);
  }

  __device__ __forceinline__ void consume(float (&acc)[kAcc], Cursor& at, int kblocks, const MatmulConsumer& me) const {
    if constexpr (Shape::kConsumers == 1) {
      consume_boxes(acc, at, kblocks, me);
    } else {
      consume_stages(acc, at, kblocks, me);
    }
  }

  __device__ __forceinline__ void run_consumer(const CUtensorMap* c_map, const CUtensorMap* d_map, int index) const {
    consume_tiles<Out>(
        *this, c_map, d_map, index,
        [&](float(&acc)[1][kAcc], Cursor& at, const MatmulTile& tile, const MatmulConsumer& me, const auto& read_c) {
          read_c();
          consume(acc[0], at, tile.kblocks, me);
        });
  }
};

template <class Shape, class Codes, class Out>
cudaError_t matmul_decoded_start(const MatmulDecoded& matmul, int raster, cudaStream_t stream) {
  MatmulMaps maps;
  MatmulJob job;
  job.scale_a = matmul.scale_a;
  using Tile = DecodedMatmul<Shape, Codes, Out>;
  if (const auto e = matmul_prepare(matmul, 1, 2, boxes_of<Tile>(), maps, job); e != cudaSuccess) return e;
  job.raster = raster;
  return matmul_start<Tile>(maps, job, stream);
}

namespace {

constexpr int kRaster = 16;

template <std::size_t kRow, bool kTransposed, class Codes>
using DecodedTiles = DecodedShape<kTilesTable[kRow].sub_n, kTilesTable[kRow].consumers, kTransposed, Codes>;

template <bool kTransposed, class Codes, class Out>
cudaError_t launch_tiles(const MatmulDecoded& matmul, cudaStream_t stream) {
  return with_tiles<MatmulKernel::mxfp8>(chosen_tiles(matmul, MatmulKernel::mxfp8), [&](auto row) {
    return matmul_decoded_start<DecodedTiles<row.value, kTransposed, Codes>, Codes, Out>(matmul, kRaster, stream);
  });
}

template <class Codes, class Out>
cudaError_t launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  return matmul.transposed ? launch_tiles<true, Codes, Out>(matmul, stream)
                           : launch_tiles<false, Codes, Out>(matmul, stream);
}

template <class Codes>
cudaError_t launch_output(const MatmulDecoded& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? launch<Codes, float>(matmul, stream)
                                             : launch<Codes, __nv_bfloat16>(matmul, stream);
}

}  // namespace

cudaError_t matmul_decoded_launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  if (!matmul_valid(matmul, 32)) return cudaErrorInvalidValue;
  if (matmul_empty(matmul)) return cudaSuccess;
  if (matmul.nvfp4) return launch_output<Nvfp4Codes>(matmul, stream);
  return matmul.a_format == Element::e4m3 ? launch_output<MxCodes<Element::e4m3>>(matmul, stream)
                                          : launch_output<MxCodes<Element::e5m2>>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
