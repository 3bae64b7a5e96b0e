// SPDX-License-Identifier: Apache-2.0
// The launchers of the wgmma GEMM that the rows of kernels/cuda/gemm/kernel_table.cc name, on the host.
#include "tests/kernels/cuda/gemm/host_wgmma.h"

#include <gtest/gtest.h>

namespace dunlin::kernels::cuda {
namespace {

template <typename Format>
void LaunchWgmmaOnHost(const TileCall& call) {
  const std::string fault =
      WithWgmmaTile<Format>(WgmmaTileShapeOf(call), [&](auto tile) { return RunWgmma<decltype(tile)>(call); });
  ASSERT_EQ(fault, "");
}

template <typename Format>
void LaunchPairsOnHost(const TileCall& call) {
  const std::string fault = WithWgmmaTile<Format>(
      WgmmaTileShapeOf(call), [&](auto tile) { return RunWgmma<PairedTile<decltype(tile)>>(call); });
  ASSERT_EQ(fault, "");
}

template <typename Format>
void LaunchGroupsOnHost(const GroupedTileCall& call) {
  const std::string fault = WithGroupedTile<Format>(GroupedTileShapeOf(call),
                                                    [&](auto tile) { return RunGroupedWgmma<decltype(tile)>(call); });
  ASSERT_EQ(fault, "");
}

template <typename Format>
void LaunchGatesOnHost(const GroupedTileCall& call) {
  const std::string fault = WithGroupedTile<Format>(
      GroupedTileShapeOf(call), [&](auto tile) { return RunGroupedWgmma<PairedTile<decltype(tile)>>(call); });
  ASSERT_EQ(fault, "");
}

}  // namespace

void LaunchWgmmaBf16(const TileCall& call, Stream /*stream*/) {
  LaunchWgmmaOnHost<Bf16Format>(call);
}
void LaunchWgmmaFp16(const TileCall& call, Stream /*stream*/) {
  LaunchWgmmaOnHost<Fp16Format>(call);
}
void LaunchWgmmaFp8(const TileCall& call, Stream /*stream*/) {
  LaunchWgmmaOnHost<E4M3Format>(call);
}
void LaunchWgmmaFp8Blocks(const TileCall& call, Stream /*stream*/) {
  LaunchWgmmaOnHost<E4M3Blocks>(call);
}
void LaunchWgmmaPairsBf16(const TileCall& call, Stream /*stream*/) {
  LaunchPairsOnHost<Bf16Format>(call);
}
void LaunchWgmmaPairsFp16(const TileCall& call, Stream /*stream*/) {
  LaunchPairsOnHost<Fp16Format>(call);
}
void LaunchWgmmaPairsFp8(const TileCall& call, Stream /*stream*/) {
  LaunchPairsOnHost<E4M3Format>(call);
}
int PrepareWgmmaPairsBf16() {
  return 0;
}
int PrepareWgmmaPairsFp16() {
  return 0;
}
int PrepareWgmmaPairsFp8() {
  return 0;
}
void LaunchWgmmaCoded(const TileCall& call, Stream /*stream*/) {
  const std::string fault =
      WithCodedTile(CodedTileRowsOf(call), [&](auto tile) { return RunCodedWgmmaTile<decltype(tile)>(call); });
  ASSERT_EQ(fault, "");
}
int PrepareWgmmaCoded() {
  return 0;
}
void LaunchWgmmaExpanded(const TileCall& call, Stream /*stream*/) {
  ASSERT_EQ(RunCodedShape(CodedShapeOf(call), call), "");
}
int PrepareWgmmaExpanded() {
  return 0;
}
void LaunchGroupedWgmmaCodes(const GroupedTileCall& call, Stream /*stream*/) {
  const std::string fault = WithGroupedExpandedTile(
      GroupedCodedShapeOf(call), [&](auto tile) { return RunGroupedExpandedTile<decltype(tile)>(call); });
  ASSERT_EQ(fault, "");
}
int PrepareGroupedWgmmaCodes() {
  return 0;
}
int PrepareWgmmaFp8Blocks() {
  return 0;
}
int PrepareWgmmaFp8() {
  return 0;
}
int PrepareWgmmaBf16() {
  return 0;
}
int PrepareWgmmaFp16() {
  return 0;
}
void LaunchGroupedWgmmaBf16(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGroupsOnHost<Bf16Format>(call);
}
void LaunchGroupedWgmmaFp16(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGroupsOnHost<Fp16Format>(call);
}
void LaunchGroupedWgmmaFp8(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGroupsOnHost<E4M3Format>(call);
}
void LaunchGroupedWgmmaFp8Blocks(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGroupsOnHost<E4M3Blocks>(call);
}
void LaunchGroupedGatesBf16(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGatesOnHost<Bf16Format>(call);
}
void LaunchGroupedGatesFp16(const GroupedTileCall& call, Stream /*stream*/) {
  LaunchGatesOnHost<Fp16Format>(call);
}
int PrepareGroupedWgmmaBf16() {
  return 0;
}
int PrepareGroupedWgmmaFp16() {
  return 0;
}
int PrepareGroupedWgmmaFp8() {
  return 0;
}
int PrepareGroupedWgmmaFp8Blocks() {
  return 0;
}
int PrepareGroupedGatesBf16() {
  return 0;
}
int PrepareGroupedGatesFp16() {
  return 0;
}

}  // namespace dunlin::kernels::cuda
