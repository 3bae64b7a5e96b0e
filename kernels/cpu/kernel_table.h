// The leaf kernels of a CPU variant: what the launchers call on one worker. One const table per variant; a variant's
// code lives in its own translation units with its own compiler flags, and shares no inline function with others.
// Bit contract: every result depends on its own row alone, not on how rows were grouped into calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/layer_ops.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kGemmRowsMax = 256;     // rows of one GemmBlock
inline constexpr int64_t kGemmPanelsMax = 8;     // panels that may take a slice of K together
inline constexpr int64_t kGemmDepthBlock = 512;  // steps that a decoded panel slice holds; a multiple of 4

// Scratch of one worker: partial sums [kGemmPanelsMax][kGemmRowsMax][48], then a panel slice [kGemmDepthBlock][48] of
// floats.
inline constexpr size_t kGemmSumBytes = static_cast<size_t>(kGemmRowsMax) * 48 * sizeof(float);
inline constexpr size_t kScratchBytes =
    kGemmPanelsMax * kGemmSumBytes + static_cast<size_t>(kGemmDepthBlock) * 48 * sizeof(float);

// Behind it, of the launcher: a block's output on its way into GemmParams::next.
inline constexpr size_t kBlockOutBytes = kGemmPanelsMax * kGemmSumBytes;
inline constexpr size_t kWorkerBytes = kScratchBytes + kBlockOutBytes;

// A block of the product: `rows` rows by consecutive panels. Pointers are at the block's first row and column.
// Block scales: out = sum over blocks, ascending, of (sum of the block) * (activation scale * weight scale).
struct GemmBlock {
  const std::byte* activation;  // [rows], activation_stride bytes apart
  size_t activation_stride;
  const float* activation_scale;  // [rows, scales_per_row], FP8 only
  const std::byte* panels;        // panel_bytes apart
  size_t panel_bytes;
  const float* weight_scale;  // [panels, scales_per_row, 48], FP8 only
  int64_t scales_per_row;     // 1: applied to the whole sum; more: to the sum of each kScaleBlock elements of K
  int64_t padded_depth;       // K as stored in a panel
  const float* bias;          // [columns] or null
  const float* residual;      // [rows], out_stride floats apart, or null; may be out
  float* out;
  int64_t out_stride;
  int32_t rows;        // 1 <= rows <= kGemmRowsMax
  int32_t columns;     // > 0; the last panel may be partial
  std::byte* scratch;  // kScratchBytes, 64-byte aligned
};

struct NormMoments {
  float mean;     // 0 for RMSNorm
  float inv_std;  // 1 / sqrt(variance + epsilon), or of the mean square
};

struct KernelTable {
  void (*gemm[kNumPrecisions])(const GemmBlock&);  // by Precision
  int64_t gemm_rows;                               // of a block that suits them, <= kGemmRowsMax; a multiple of 8

  // Row operations over n elements.
  NormMoments (*norm_moments)(NormKind, const float* in, int64_t n, float epsilon);
  void (*normalize)(const float* in, NormMoments, const float* weight, const float* bias, int64_t n, float* out);
  void (*activate)(ActivationKind, const float* in, const float* gated_by, int64_t n, float* out);  // gated_by: or null
  void (*softcap)(float cap, int64_t n, float* values);  // in place; error within 2.5e-7 of cap
  // Bits of the largest magnitude: NaN above infinity above all numbers.
  uint32_t (*max_magnitude_bits)(const float* in, int64_t n);

  // Rounding to nearest even, bit for bit as kernels/api/float_formats.h. in may be any alignment.
  void (*to_bf16)(const float* in, int64_t n, uint16_t* out);
  void (*to_fp16)(const float* in, int64_t n, uint16_t* out);
  void (*to_e4m3)(const float* in, float factor, int64_t n, uint8_t* out);  // of in * factor

  // The same roundings into an activation row, in the element type that this table's GEMM multiplies. in may be row.
  size_t bf16_row_bytes;  // of an element of a bf16 or fp8 row: 2 for BF16, 4 for the same value as a float
  void (*bf16_row)(const float* in, int64_t n, void* row);
  void (*fp8_row)(const float* in, float factor, int64_t n, void* row);
};

const KernelTable& PortableKernels();
// REQUIRES: HasAvx2Variant() before any entry is called.
const KernelTable& Avx2Kernels();
// REQUIRES: HasAvx512Variant() before any entry is called. bf16 and fp8 are widened to floats and multiplied by FMA.
const KernelTable& Avx512Kernels();
// REQUIRES: HasAvx512Bf16Variant(). bf16 and fp8 are multiplied in pairs by the BF16 dot product. Which of the two is
// faster depends on the processor, as does how its products ask memory for lines and widen weights (AsksL2Freely).
const KernelTable& Avx512Bf16DotKernels();
// REQUIRES: HasAmxVariant(). bf16 and fp8 go through the tile registers.
const KernelTable& AmxKernels();

}  // namespace dunlin::kernels::cpu
