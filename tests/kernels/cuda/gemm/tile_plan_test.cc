// SPDX-License-Identifier: Apache-2.0
// The division of the tile GEMM's launches, its shared-memory accesses, and the widening of codes.
#include "kernels/cuda/gemm/sm80/tile_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/coded_block.h"
#include "tests/kernels/cuda/block/bank_turns.h"

namespace dunlin::kernels::cuda {
namespace {

PackedWeight WeightOf(Precision precision, int32_t scale_block = 0) {
  return {nullptr, precision, 64, 64, scale_block};
}

// Without the rows that a device may leave out.
bool UsesTiles(int sm_version, const PackedWeight& weight, bool decodes) {
  const GemmPhase phase = decodes ? GemmPhase::kDecode : GemmPhase::kPrefill;
  const GemmKernel* kernel = FindGemmKernel(sm_version, weight, phase, CheckedGemms());
  EXPECT_NE(kernel, nullptr);
  return kernel != nullptr && kernel->launch != nullptr;
}

TEST(TilePlan, ThePhaseSelectsTheKernel) {
  for (const int sm_version : {80, 86, 89, 90, 100, 120}) {
    EXPECT_FALSE(UsesTiles(sm_version, WeightOf(Precision::kFp32), true));
    EXPECT_FALSE(UsesTiles(sm_version, WeightOf(Precision::kBf16), false));
    EXPECT_FALSE(UsesTiles(sm_version, WeightOf(Precision::kFp16), false));
    for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
      EXPECT_TRUE(UsesTiles(sm_version, WeightOf(precision), true));
    }
    EXPECT_TRUE(UsesTiles(sm_version, WeightOf(Precision::kFp8, kScaleBlock), false));
    EXPECT_EQ(UsesTiles(sm_version, WeightOf(Precision::kFp8), false), sm_version != 90) << sm_version;
  }
}

// Every weight that can be packed has exactly one kernel for each phase on every device, and on some devices one more
// that is checked, which is preferred.
TEST(GemmKernelTable, EveryFormatHasOneKernel) {
  for (const WeightFormatTraits& format : kWeightFormatTable) {
    if (!Multiplies(format.format)) continue;
    for (const int32_t scale_block : {0, kScaleBlock}) {
      if (scale_block != 0 && format.compute != Precision::kFp8) continue;
      PackedWeight weight = WeightOf(format.compute, scale_block);
      weight.format = format.format;
      for (const int sm_version : {80, 86, 89, 90, 100, 103, 110, 120, 121}) {
        for (const GemmPhase phase : {GemmPhase::kPrefill, GemmPhase::kDecode}) {
          int taken = 0;
          int checked = 0;
          for (const GemmKernel& kernel : GemmKernels()) {
            if (kernel.paired) continue;
            (kernel.checked_shapes > 0 ? checked : taken) +=
                (kernel.operands >> static_cast<unsigned>(OperandOf(weight)) & 1U) != 0 &&
                (kernel.phases >> static_cast<unsigned>(phase) & 1U) != 0 && kernel.sm_min <= sm_version &&
                sm_version <= kernel.sm_max;
          }
          EXPECT_EQ(taken, 1) << format.name << " sm_" << sm_version;
          EXPECT_LE(checked, sm_version == 90 ? 1 : 0) << format.name << " sm_" << sm_version;
          const GemmKernel* first = FindGemmKernel(sm_version, weight, phase);
          const GemmKernel* other = FindGemmKernel(sm_version, weight, phase, CheckedGemms());
          ASSERT_TRUE(first != nullptr && other != nullptr);
          EXPECT_EQ(first->checked_shapes > 0, checked == 1);
          EXPECT_EQ(other->checked_shapes, 0);
        }
      }
    }
  }
}

// One kernel for prompts and decode, so that a product of both is one launch.
TEST(GemmKernelTable, Device90MultipliesByWgmmaInBothPhases) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    const GemmKernel* kernel = FindGemmKernel(90, WeightOf(precision), GemmPhase::kPrefill);
    EXPECT_EQ(std::string(kernel->name).substr(0, 5), "wgmma");
    EXPECT_EQ(FindGemmKernel(90, WeightOf(precision), GemmPhase::kDecode), kernel);
    EXPECT_FALSE(kernel->divides_depth);
    const auto left_out = 1U << (kernel - GemmKernels().data());
    EXPECT_EQ(FindGemmKernel(90, WeightOf(precision), GemmPhase::kPrefill, left_out)->launch, nullptr) << "cuBLASLt";
    EXPECT_TRUE(FindGemmKernel(90, WeightOf(precision), GemmPhase::kDecode, left_out)->divides_depth);
  }
  const GemmKernel* blocks = FindGemmKernel(90, WeightOf(Precision::kFp8, kScaleBlock), GemmPhase::kPrefill);
  EXPECT_STREQ(blocks->name, "wgmma fp8 blocks");
  EXPECT_EQ(FindGemmKernel(90, WeightOf(Precision::kFp8, kScaleBlock), GemmPhase::kDecode), blocks);
}

// So that prompts and decode have the same bits: on 9.0 with its own kernels, FP32 everywhere.
TEST(GemmKernelTable, PhasesAgreeWhereOneKernelComputesBoth) {
  for (const int sm_version : {80, 86, 89, 90, 100, 120}) {
    EXPECT_TRUE(PhasesAgree(sm_version, Precision::kFp32, 0)) << sm_version;
    for (const Precision precision :
         {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kInt8, Precision::kInt4}) {
      EXPECT_EQ(PhasesAgree(sm_version, precision, 0), sm_version == 90) << Name(precision) << " " << sm_version;
      EXPECT_FALSE(PhasesAgree(sm_version, precision, CheckedGemms())) << Name(precision) << " " << sm_version;
    }
  }
  // A model in FP8 or of codes has weights of 16 bits, too.
  const GemmKernel* bf16 = FindGemmKernel(90, WeightOf(Precision::kBf16), GemmPhase::kPrefill);
  EXPECT_FALSE(PhasesAgree(90, Precision::kFp8, 1U << (bf16 - GemmKernels().data())));
  EXPECT_FALSE(PhasesAgree(90, Precision::kInt4, 1U << (bf16 - GemmKernels().data())));
}

// Where bits may depend on the number of rows cuBLASLt competes with the kernels of 9.0 in what it takes as it is.
TEST(GemmKernelTable, CublasLtCompetesWhereBitsMayDependOnRows) {
  const auto competes = [](int sm_version, const PackedWeight& weight, bool deterministic,
                           GemmOutputs outputs = GemmOutputs::kRows) {
    GemmParams params{};
    params.weight = &weight;
    params.deterministic = deterministic;
    const GemmKernel* kernel = FindGemmKernel(sm_version, weight, GemmPhase::kPrefill, 0, outputs);
    return LibraryCompetes(sm_version, *kernel, params);
  };
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    EXPECT_TRUE(competes(90, WeightOf(precision), false)) << Name(precision);
    EXPECT_FALSE(competes(90, WeightOf(precision), true)) << Name(precision);
    EXPECT_FALSE(competes(90, WeightOf(precision), false, GemmOutputs::kGated)) << "paired outputs";
    EXPECT_FALSE(competes(100, WeightOf(precision), false)) << "one kernel, whatever it is";
  }
  EXPECT_FALSE(competes(90, WeightOf(Precision::kFp32), false)) << "cuBLASLt's alone";
  EXPECT_FALSE(competes(90, WeightOf(Precision::kFp8, kScaleBlock), false)) << "cuBLASLt has no such scales";
  PackedWeight codes = WeightOf(Precision::kBf16);
  codes.format = WeightFormat::kInt4;
  EXPECT_FALSE(competes(90, codes, false));
}

// Long prompts of codes are multiplied by the BF16 kernel where it has the bits of the kernel of codes.
TEST(GemmKernelTable, CodesOfLongPromptsAreExpandedFirst) {
  PackedWeight weight = WeightOf(Precision::kBf16);
  EXPECT_FALSE(ExpandsFirst(90, weight, kExpandedRows, 0));
  const auto bit_of = [&](const PackedWeight& of) {
    return 1U << (FindGemmKernel(90, of, GemmPhase::kPrefill) - GemmKernels().data());
  };
  const uint32_t bf16 = bit_of(weight);
  weight.format = WeightFormat::kInt4;
  EXPECT_TRUE(ExpandsFirst(90, weight, kExpandedRows, 0));
  EXPECT_FALSE(ExpandsFirst(90, weight, kExpandedRows - 1, 0));
  EXPECT_FALSE(ExpandsFirst(90, weight, kExpandedRows, bf16));
  EXPECT_FALSE(ExpandsFirst(90, weight, kExpandedRows, bit_of(weight)));
  EXPECT_FALSE(ExpandsFirst(80, weight, kExpandedRows, 0)) << "there is one kernel";
}

struct SliceRow {
  int64_t columns;
  int64_t row_bytes;
  SliceRule decode;
};
// Llama-8B's matrices in FP16 and E4M3, GPT-2's smallest, and edges.
constexpr SliceRow kSliceRows[] = {
    {6144, 8192, {64, 11, 6}}, {4096, 8192, {64, 8, 8}}, {28672, 8192, {64, 32, 2}},  {4096, 28672, {224, 25, 9}},
    {6144, 4096, {32, 6, 6}},  {4096, 4096, {32, 4, 8}}, {128256, 8192, {64, 64, 1}}, {768, 1536, {12, 4, 3}},
    {64, 16384, {128, 4, 32}}, {1, 16, {1, 1, 1}},       {50257, 1536, {12, 12, 1}},  {64, 640, {5, 5, 1}},
};

TEST(TilePlan, DecodeHasSlicesByTheWeightsShape) {
  for (const SliceRow& row : kSliceRows) {
    SCOPED_TRACE(std::to_string(row.columns) + " x " + std::to_string(row.row_bytes));
    const SliceRule rule = SlicesOf(row.columns, row.row_bytes, true);
    EXPECT_EQ(rule.tiles, row.decode.tiles);
    EXPECT_EQ(rule.tiles_per_slice, row.decode.tiles_per_slice);
    EXPECT_EQ(rule.slices, row.decode.slices);
    EXPECT_GE(rule.slices * rule.tiles_per_slice, rule.tiles) << "all tiles";
    EXPECT_LT((rule.slices - 1) * rule.tiles_per_slice, rule.tiles) << "no empty slice";
    EXPECT_EQ(SlicesOf(row.columns, row.row_bytes, false).slices, 1);
  }
}

TEST(TilePlan, EveryOutputOfEverySliceHasOneBlock) {
  TileCall call{};
  call.columns = 130;
  call.num_rows = 70;
  call.slices = 3;
  for (const int groups : {1, 2, 4}) {
    std::set<std::tuple<int32_t, int32_t, int64_t>> places;
    const int64_t blocks = TileBlocksOf(call, groups);
    for (int64_t block = 0; block < blocks; ++block) {
      const TilePlace place = TilePlaceOf(call, groups * kGroupRows, block);
      EXPECT_LT(place.first_row, call.num_rows);
      EXPECT_LT(place.first_column, call.columns);
      EXPECT_LT(place.slice, call.slices);
      EXPECT_EQ(place.first_row % (groups * kGroupRows), 0);
      EXPECT_EQ(place.first_column % kTileColumns, 0);
      places.insert({place.slice, place.first_row, place.first_column});
    }
    EXPECT_EQ(static_cast<int64_t>(places.size()), blocks);
    EXPECT_EQ(blocks, 3 * 3 * ((70 + groups * 16 - 1) / (groups * 16)));
  }
}

TEST(TilePlan, GroupsFollowTheRows) {
  TileCall call{};
  const float scale = 1.0F;
  for (const auto& [rows, groups, scaled] :
       {std::tuple{1, 1, 1}, {16, 1, 1}, {17, 2, 2}, {32, 2, 2}, {33, 4, 2}, {8192, 4, 2}}) {
    call.num_rows = rows;
    call.weight_scales = nullptr;
    EXPECT_EQ(GroupsOf(call), groups);
    call.weight_scales = &scale;
    EXPECT_EQ(GroupsOf(call), scaled);
  }
}

TEST(TilePlan, BlocksOfAnSmFitItsSharedMemory) {
  constexpr int kAmpere = 164 * 1024;  // of an SM, 1 KiB of it reserved for each block. Source: CUDA C++ guide, 8.0
  EXPECT_LE(4 * (GemmMemory<1, false>::kBytes + 1024), kAmpere);
  EXPECT_LE(3 * (GemmMemory<2, true>::kBytes + 1024), kAmpere);
  EXPECT_LE(2 * (GemmMemory<4, false>::kBytes + 1024), kAmpere);
  EXPECT_LE(4 * (CodedMemory<1>::kBytes + 1024), kAmpere);
  EXPECT_LE(3 * (CodedMemory<2>::kBytes + 1024), kAmpere);
  EXPECT_LE(2 * (CodedMemory<4>::kBytes + 1024), kAmpere);
}

TEST(TileLoads, HaveNoBankConflicts) {
  using Layout = TileLayout<2>;
  using Memory = GemmMemory<1, false>;
  for (int first = 0; first < 32; first += 8) {
    for (int warp = 0; warp < kBlockWarps; ++warp) {
      EXPECT_EQ(Turns(first, 8, 16, [&](int lane) { return Layout::Piece(lane % 16, warp * 2 + lane / 16); }), 1);
      EXPECT_EQ(Turns(first, 8, 16,
                      [&](int lane) { return Layout::Piece(lane % 8 + lane / 16 * 8, warp * 2 + lane / 8 % 2); }),
                1);
    }
    EXPECT_EQ(Turns(first, 8, 16, [](int lane) { return lane * 16; }), 1) << "sums read by fours";
  }
  const Memory memory{nullptr};
  const auto place = [&](int lane) {
    return static_cast<int>(reinterpret_cast<intptr_t>(memory.sums(0, ProductSlot::Row(lane, 0)))) +
           4 * ProductSlot::Column(lane, 0);
  };
  EXPECT_EQ(Turns(0, 16, 8, place), 1) << "sums written by pairs, half a warp a turn";
  EXPECT_EQ(Turns(16, 16, 8, place), 1);
}

// The conversion on sm_80, which has no instruction for it: all codes, in both halves.
TEST(Codes, WidenToFp16Exactly) {
  for (uint32_t code = 0; code < 256; ++code) {
    for (const int half : {0, 1}) {
      const uint32_t halves = HalvesOfCodes(code << 8 | 0x40U << 24);
      const uint32_t swapped = HalvesOfCodes(code << 24 | 0x40U << 8);
      const auto bits = static_cast<uint16_t>(half == 0 ? halves : swapped >> 16);
      const auto other = static_cast<uint16_t>(half == 0 ? halves >> 16 : swapped);
      const float value = Fp16ToFloat(bits) * 256.0F;
      const float expected = E4M3ToFloat(static_cast<uint8_t>(code));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << code;
      } else {
        EXPECT_EQ(value, expected) << code;
        EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
      }
      EXPECT_EQ(Fp16ToFloat(other) * 256.0F, 2.0F) << "the neighbour";
    }
  }
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t codes = code | (code ^ 0x80U) << 8 | 0x38U << 16 | (code ^ 0x01U) << 24;
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<uint16_t>(WidenCodePair(codes, i / 2) >> (16 * (i % 2)));
      const float expected = E4M3ToFloat(static_cast<uint8_t>(codes >> (8 * i)));
      EXPECT_TRUE(Fp16ToFloat(bits) == expected || (std::isnan(Fp16ToFloat(bits)) && std::isnan(expected))) << code;
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
