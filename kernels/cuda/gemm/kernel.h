// SPDX-License-Identifier: Apache-2.0
// A GEMM kernel of the CUDA device as a row: weights, phases and devices that it takes, and how it is prepared and
// launched. What a fusion may assume, preparation and launches read the row that FindGemmKernel returns. Host code.
//
// A row's phase selects its kernel, and the weight's shape the division of K; neither depends on the number of rows, so
// a row's bits do not depend on the other rows. A kernel of both phases that divides nothing gives them the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/api/gemm.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/paired_outputs.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"
#include "kernels/cuda/gemm/sm90/grouped_tile_call.h"

namespace dunlin::kernels::cuda {

enum class GemmPhase : uint8_t { kPrefill, kDecode };

// A weight as kernels tell them apart. kFp8Blocks: one scale per row and kScaleBlock codes; kCodes: integer codes.
enum class GemmOperand : uint8_t { kFp32, kBf16, kFp16, kFp8, kFp8Blocks, kCodes };
GemmOperand OperandOf(const PackedWeight& weight);

struct GemmKernel {
  const char* name;
  unsigned operands;  // bits of GemmOperand
  unsigned phases;    // bits of GemmPhase
  int32_t sm_min;     // compute capabilities, both inclusive: 90 is 9.0
  int32_t sm_max;
  bool fuses_activation;  // GemmParams::next, where TakesActivation allows it
  // Of a kernel of ours. null: cuBLASLt computes the rows, those of integer codes expanded to BF16 first.
  int (*prepare)();                         // once, when the device is opened; a cudaError_t
  void (*launch)(const TileCall&, Stream);  // enqueues one kernel and reads no device memory
  bool divides_depth = false;               // K of decode rows is divided into slices (sm80/tile_plan.h)
  // Tile shapes that TileCall::tile_shape may name; 0: the row needs no check. Otherwise the row is compared with the
  // kernel that takes its calls without it when the device is opened, and its shapes' bits with each other; where they
  // differ it is left out.
  int32_t checked_shapes = 0;
  bool paired = false;  // its calls have TileCall::paired, and others none
};
constexpr bool RunsOn(const GemmKernel& kernel, int sm_version) {
  return kernel.sm_min <= sm_version && sm_version <= kernel.sm_max;
}

// Rows of a tile of each of the kernel's checked shapes, in the order of TileCall::tile_shape.
std::span<const int32_t> ShapeRowsOf(const GemmKernel& kernel);

// All rows. Of several that take a call the first is used.
std::span<const GemmKernel> GemmKernels();

// A kernel of products whose rows are in groups with a weight each. What no row takes is the tile kernel's
// (sm80/grouped_kernels.h). Each is checked as the rows above.
struct GroupedGemmKernel {
  const char* name;
  unsigned operands;  // bits of GemmOperand
  int32_t sm_min;
  int32_t sm_max;
  int (*prepare)();
  void (*launch)(const GroupedTileCall&, Stream);
  int32_t checked_shapes;
  bool gates = false;  // its calls have TileCall::paired, and others none
};
constexpr bool RunsOn(const GroupedGemmKernel& kernel, int sm_version) {
  return kernel.sm_min <= sm_version && sm_version <= kernel.sm_max;
}
std::span<const GroupedGemmKernel> GroupedGemmKernels();
std::span<const int32_t> ShapeRowsOf(const GroupedGemmKernel& kernel);
// The bit of a grouped kernel's row among those left out: after those of GemmKernels.
uint32_t BitOfGrouped(size_t index);

// The rows with checked shapes, bits by index.
uint32_t CheckedGemms();

// left_out: bits by index of rows that this device does without. outputs: of a call that TakesPairs, unless kRows.
// Null: products do not take the weight on this device, or not with these outputs.
const GemmKernel* FindGemmKernel(int sm_version, const PackedWeight& weight, GemmPhase phase, uint32_t left_out = 0,
                                 GemmOutputs outputs = GemmOutputs::kRows);

// Whether cuBLASLt may compute a kernel's call, too, whose bits may then depend on the number of rows: one of
// compute capability 9.0 with plain outputs, which cuBLASLt takes as it is.
bool LibraryCompetes(int sm_version, const GemmKernel& kernel, const GemmParams& params);

// Null: the tile kernel multiplies the groups.
const GroupedGemmKernel* FindGroupedKernel(int sm_version, const PackedWeight& weight, bool gates, uint32_t left_out);

// Whether so many rows multiply a weight of codes by the BF16 kernel, panel by panel expanded before, in place of the
// kernel of codes: where the two have the same bits, which the check at the start compares. Expanding 28672 x 4096 is
// by argument 100 us (60 MB read, 235 MB written), as long as the kernel of codes, whose tiles have 128 rows, loses
// against tiles of 128 x 256 at some 2,000 rows.
inline constexpr int64_t kExpandedRows = 2048;
bool ExpandsFirst(int sm_version, const PackedWeight& weight, int64_t num_rows, uint32_t left_out);

// Whether one row for each phase takes a call with paired outputs, its weight and its shapes.
bool FusesPairs(int sm_version, const GemmParams& params, uint32_t left_out = 0);

// Whether every weight of a model in this precision has one kernel for the rows of both phases, and one that divides
// nothing: then a row has the same bits in both. Grouped and batched products do not know phases.
bool PhasesAgree(int sm_version, Precision precision, uint32_t left_out);

}  // namespace dunlin::kernels::cuda
