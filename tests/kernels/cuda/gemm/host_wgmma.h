// SPDX-License-Identifier: Apache-2.0
// Launches of the wgmma GEMM on the host's machine.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/cuda/gemm/sm90/coded_shapes.h"
#include "kernels/cuda/gemm/sm90/coded_wgmma_block.h"
#include "kernels/cuda/gemm/sm90/expanded_wgmma_block.h"
#include "kernels/cuda/gemm/sm90/grouped_wgmma_kernels.h"
#include "kernels/cuda/gemm/sm90/wgmma_block.h"
#include "kernels/cuda/gemm/sm90/wgmma_kernels.h"
#include "tests/kernels/cuda/sm90/host_block.h"

namespace dunlin::kernels::cuda {

template <typename Format>
constexpr TensorElement kWgmmaElement = Format::kDType == DType::kF8E4M3 ? TensorElement::kByte
                                        : Format::kDType == DType::kBF16 ? TensorElement::kBf16
                                                                         : TensorElement::kFp16;

// The tile of the kernel that launchers run for a tile of BF16 or FP16; others are their own.
template <typename Tile>
struct LaunchedTile {
  using Type = Tile;
};
template <typename Operand>
using LaunchedOperand =
    std::conditional_t<std::is_same_v<Operand, Bf16Format> || std::is_same_v<Operand, Fp16Format>, Bf16OrFp16, Operand>;
template <typename Operand, int kWarpgroups, int kColumns, int kStages>
struct LaunchedTile<WgmmaTile<Operand, kWarpgroups, kColumns, kStages>> {
  using Type = WgmmaTile<LaunchedOperand<Operand>, kWarpgroups, kColumns, kStages>;
};
template <typename Operand, int kRows, int kColumns, uint32_t kReserved>
struct LaunchedTile<SwappedTile<Operand, kRows, kColumns, kReserved>> {
  using Type = SwappedTile<LaunchedOperand<Operand>, kRows, kColumns, kReserved>;
};
template <typename Tile>
struct LaunchedTile<PairedTile<Tile>> {
  using Type = PairedTile<typename LaunchedTile<Tile>::Type>;
};
template <typename Tile>
struct LaunchedTile<GroupedTile<Tile>> {
  using Type = GroupedTile<typename LaunchedTile<Tile>::Type>;
};

// All blocks of a launch in turn, each running kernel(block, call); "" or the first fault. base: seed and mistake.
template <typename Tile, typename Call, typename Kernel>
std::string RunWgmmaBlocks(const Call& call, int32_t multiprocessors, MachineOptions base, const Kernel& kernel) {
  WgmmaCall planned;
  const TensorElement element = kWgmmaElement<typename Tile::Format>;
  if (WgmmaCallOf(call, element, Tile::kRows, Tile::kColumns, &planned) != 0) return "a tensor map was refused";
  base.threads = Tile::kThreads;
  base.shared_bytes = Tile::kSharedBytes;
  const int64_t blocks = WgmmaBlocksOf(planned, multiprocessors * Tile::kBlocks);
  std::string fault;
  for (int64_t block = 0; block < blocks && fault.empty(); ++block, ++base.seed) {
    fault = RunBlock(base, block, blocks, [&](const HostBlock& view) { kernel(view, planned); });
  }
  return fault;
}
template <typename Tile>
std::string RunWgmma(const TileCall& call, const MachineOptions& base = {}) {
  return RunWgmmaBlocks<Tile>(call, call.multiprocessors, base, [](const HostBlock& block, const WgmmaCall& planned) {
    RunWgmmaGemm<typename LaunchedTile<Tile>::Type>(block, planned);
  });
}
template <typename Tile>
std::string RunGroupedWgmma(const GroupedTileCall& call, const MachineOptions& base = {}) {
  return RunWgmmaBlocks<Tile>(call, call.tile.multiprocessors, base,
                              [](const HostBlock& block, const WgmmaCall& planned) {
                                RunWgmmaGemm<typename LaunchedTile<Tile>::Type>(block, planned);
                              });
}
template <typename Tile>
std::string RunCodedWgmmaTile(const TileCall& call, const MachineOptions& base = {}) {
  return RunWgmmaBlocks<Tile>(call, call.multiprocessors, base, [](const HostBlock& block, const WgmmaCall& planned) {
    RunCodedWgmma<Tile>(block, planned);
  });
}
template <typename Tile>
std::string RunExpandedWgmmaTile(const TileCall& call, const MachineOptions& base = {}) {
  return RunWgmmaBlocks<Tile>(call, call.multiprocessors, base, [](const HostBlock& block, const WgmmaCall& planned) {
    RunExpandedWgmma<Tile>(block, planned);
  });
}
template <typename Tile>
std::string RunGroupedExpandedTile(const GroupedTileCall& call, const MachineOptions& base = {}) {
  return RunWgmmaBlocks<Tile>(
      call, call.tile.multiprocessors, base,
      [](const HostBlock& block, const WgmmaCall& planned) { RunExpandedWgmma<Tile>(block, planned); });
}
// Of integer codes, by the tile of a shape.
inline std::string RunCodedShape(CodedShape shape, const TileCall& call, const MachineOptions& base = {}) {
  if (shape < CodedShape::k8x16) {
    return WithCodedTile(kCodedShapeRows[static_cast<int32_t>(shape)],
                         [&](auto tile) { return RunCodedWgmmaTile<decltype(tile)>(call, base); });
  }
  return WithExpandedTile(shape, [&](auto tile) { return RunExpandedWgmmaTile<decltype(tile)>(call, base); });
}

}  // namespace dunlin::kernels::cuda
