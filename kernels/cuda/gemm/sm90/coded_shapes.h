// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on integer codes: which tile a product takes, and its launcher. All tiles give a row the bits of the
// wgmma GEMM on the expanded weight. Host code.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/gemm/sm90/expanded_tile.h"
#include "kernels/cuda/gemm/sm90/wgmma_plan.h"

namespace dunlin::kernels::cuda {

// By rows x outputs. Wide: CodedTile, which expands in registers; the others: ExpandedTile.
enum class CodedShape : uint8_t {
  kWide8x64,
  kWide16x64,
  kWide32x64,
  kWide64x64,
  k8x16,
  k16x16,
  k64x64,
  k128x128,
};
inline constexpr int32_t kCodedShapes = 8;
inline constexpr int32_t kCodedShapeRows[kCodedShapes] = {8, 16, 32, 64, 8, 16, 64, 128};
static_assert(static_cast<int32_t>(CodedShape::k8x16) == kCodedTileShapes);

// By the call's shape and call.multiprocessors, or as call.tile_shape says.
CodedShape CodedShapeOf(const TileCall& call);

// run(tile) with a value of the tile type of a shape that is not wide.
template <typename Run>
auto WithExpandedTile(CodedShape shape, const Run& run) {
  if (shape == CodedShape::k8x16) return run(Expanded8x16());
  if (shape == CodedShape::k16x16) return run(Expanded16x16());
  if (shape == CodedShape::k64x64) return run(Expanded64x64());
  return run(Expanded128x128());
}

// The same of groups of rows.
enum class GroupedCodedShape : uint8_t { k16x16, k64x64, k128x128 };
inline constexpr int32_t kGroupedCodedShapes = 3;
GroupedCodedShape GroupedCodedShapeOf(const GroupedTileCall& call);
template <typename Run>
auto WithGroupedExpandedTile(GroupedCodedShape shape, const Run& run) {
  if (shape == GroupedCodedShape::k16x16) return run(GroupedExpanded16x16());
  if (shape == GroupedCodedShape::k64x64) return run(GroupedExpanded64x64());
  return run(GroupedExpanded128x128());
}

// As the launchers of wgmma_kernels.h; the call has `coded`.
void LaunchWgmmaCodes(const TileCall& call, Stream stream);
int PrepareWgmmaCodes();
// Of the shapes that are not wide.
void LaunchWgmmaExpanded(const TileCall& call, Stream stream);
int PrepareWgmmaExpanded();
void LaunchGroupedWgmmaCodes(const GroupedTileCall& call, Stream stream);
int PrepareGroupedWgmmaCodes();

}  // namespace dunlin::kernels::cuda
