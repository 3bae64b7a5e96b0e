// SPDX-License-Identifier: Apache-2.0
// Weights of integer codes on the host: packed, expanded, gathered and multiplied as the device's kernels do, against
// FP64 and, for products, against the BF16 kernel on the expanded weight, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cuda/gemm/pack_codes.h"
#include "tests/kernels/cpu/coded_matrix.h"
#include "tests/kernels/cuda/gemm/tile_runner.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

using testing_cpu::CodedForm;
using testing_cpu::CodedMatrix;
using testing_cpu::kCodedForms;

// A packed weight in memory that starts as NaN.
struct HostWeight {
  HostWeight(WeightFormat format, int64_t rows, int64_t columns)
      : view{nullptr, CodedFormatOf(format), rows, columns}, memory(static_cast<size_t>(view.bytes())) {
    view.data = reinterpret_cast<unsigned char*>(memory.data());
    packed.data = view.data;
    packed.precision = Precision::kBf16;
    packed.out_features = rows;
    packed.in_features = columns;
    packed.format = format;
  }
  int64_t halves() const { return view.tiles() * 2; }

  CodedView view;
  testing::PoisonedMemory memory;
  PackedWeight packed;
};

// In two parts, as fused matrices are packed.
void PackCodes(const CodedMatrix& matrix, const HostWeight& weight) {
  const int64_t cut = matrix.rows / 3;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const int64_t first = row < cut ? 0 : cut;
    const CodedSource source{matrix.Rows(first), first};
    for (int64_t half = 0; half < weight.halves(); ++half) CopyHalfTile(source, weight.view, row, half);
  }
}

// Rows [first, first + count) as BF16.
void Expand(const HostWeight& weight, int64_t first, int64_t count, const HostMatrix& out) {
  const ExpandCall call{weight.view, first, count, out.view().data};
  for (int64_t i = 0; i < call.halves(); ++i) ExpandHalfTile(call, i);
}

std::vector<float> Gathered(const HostWeight& weight, const std::vector<int32_t>& ids, float scale) {
  std::vector<float> rows(ids.size() * static_cast<size_t>(weight.view.columns), 0.5F);
  const GatherCodedCall call{weight.view, ids.data(), rows.data(), true, scale};
  for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) GatherCodedRow(SingleLane(), call, i);
  return rows;
}

// Depths with tails of a group, of half a tile and of a tile.
constexpr int64_t kDepths[] = {1, 16, 40, 64, 100, 300};

TEST(CodedWeight, ValuesOfEveryFormAreRoundedOnce) {
  for (const CodedForm& form : kCodedForms) {
    ASSERT_TRUE(Holds(form.format, form.traits)) << form.name;
    for (const int64_t depth : kDepths) {
      SCOPED_TRACE(std::string(form.name) + " depth " + std::to_string(depth));
      const CodedMatrix matrix(form.traits, 21, depth, 5);
      const HostWeight weight(form.format, 21, depth);
      PackCodes(matrix, weight);
      const HostMatrix expanded(Precision::kBf16, 9, depth);
      Expand(weight, 12, 9, expanded);
      const std::vector<int32_t> ids = {14, -1, 21};
      const std::vector<float> gathered = Gathered(weight, ids, 2.0F);
      for (int64_t k = 0; k < PaddedDepth(depth); ++k) {
        for (int64_t row = 12; row < 21; ++row) {
          const double exact = k < depth ? matrix.Scale(row, k) * matrix.Code(row, k) - matrix.Minimum(row, k) : 0.0;
          ASSERT_EQ(expanded.At(row - 12, k), Bf16ToFloat(FloatToBf16(static_cast<float>(exact)))) << row << ", " << k;
          if (row != 14 || k >= depth) continue;
          ASSERT_EQ(gathered[static_cast<size_t>(k)], 0.5F + static_cast<float>(exact) * 2.0F) << k;
          for (const int64_t unknown : {1, 2}) ASSERT_EQ(gathered[static_cast<size_t>(unknown * depth + k)], 0.5F);
        }
      }
      EXPECT_TRUE(weight.memory.Intact());
    }
  }
}

TEST(CodedWeight, RoundsWideWeightsToTheCpusCodes) {
  constexpr int64_t kRows = 5;
  for (const auto& [precision, format] :
       {std::pair{Precision::kInt8, WeightFormat::kInt8}, {Precision::kInt4, WeightFormat::kInt4}}) {
    for (const int64_t depth : kDepths) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(std::string(Name(precision)) + " depth " + std::to_string(depth));
        std::vector<float> values = RandomValues(kRows * depth, 6);
        for (int64_t k = 0; k < depth; ++k) values[static_cast<size_t>(3 * depth + k)] = std::fabs(values[size_t(k)]);
        std::vector<float> source_values = values;
        for (int64_t i = 0; transposed && i < kRows * depth; ++i) {
          source_values[static_cast<size_t>(i % depth * kRows + i / depth)] = values[static_cast<size_t>(i)];
        }
        const PackSource source{.source = source_values.data(),
                                .dtype = DType::kF32,
                                .row_stride = transposed ? 1 : depth,
                                .column_stride = transposed ? kRows : 1,
                                .first_row = 0,
                                .scales = nullptr,
                                .scale_block = 0,
                                .scales_per_row = 0};
        const HostWeight weight(format, kRows, depth);
        for (int64_t row = 0; row < kRows; ++row) {
          for (int64_t half = 0; half < weight.halves(); ++half) {
            if (precision == Precision::kInt4) RoundHalfTile<4>(source, weight.view, row, half);
            if (precision == Precision::kInt8) RoundHalfTile<8>(source, weight.view, row, half);
          }
        }
        const std::vector<float> gathered = Gathered(weight, {0, 1, 2, 3, 4}, 1.0F);
        for (int64_t row = 0; row < kRows; ++row) {
          const std::vector<double> rounded = testing_cpu::RoundedGroups(precision, values.data() + row * depth, depth);
          for (int64_t k = 0; k < depth; ++k) {
            ASSERT_EQ(gathered[static_cast<size_t>(row * depth + k)],
                      0.5F + static_cast<float>(rounded[static_cast<size_t>(k)]))
                << row << ", " << k;
          }
        }
      }
    }
  }
}

TEST(CodedWeight, AGroupOfNaNIsNaNAndNoOther) {
  std::vector<float> values = RandomValues(96, 7);
  values[40] = NAN;
  const PackSource source{values.data(), DType::kF32, 96, 1, 0, nullptr, 0, 0};
  const HostWeight weight(WeightFormat::kInt4, 1, 96);
  for (int64_t half = 0; half < weight.halves(); ++half) RoundHalfTile<4>(source, weight.view, 0, half);
  const std::vector<float> gathered = Gathered(weight, {0}, 1.0F);
  for (size_t k = 0; k < 96; ++k) EXPECT_EQ(std::isnan(gathered[k]), k / 32 == 1) << k;
}

// A product of random operands by the coded kernel, and by the BF16 kernel on the expanded weight.
void ExpectTheExpandedProduct(const CodedForm& form, int32_t rows, int64_t columns, int64_t depth, bool decodes) {
  const CodedMatrix matrix(form.traits, columns, depth, 8);
  const HostWeight weight(form.format, columns, depth);
  PackCodes(matrix, weight);
  const HostMatrix expanded(Precision::kBf16, columns, depth);
  Expand(weight, 0, columns, expanded);
  const HostMatrix in(Precision::kBf16, rows, depth);
  FillRandom(in, 9);
  const Activation activation{.data = in.view().data,
                              .precision = Precision::kBf16,
                              .capacity_rows = rows,
                              .columns = static_cast<int32_t>(depth)};
  const std::vector<float> bias = RandomValues(columns, 10);
  const std::vector<float> before = RandomValues(rows * columns, 11);
  const PackedWeight plain = expanded.Weight();
  std::vector<float> outs[2] = {before, before};
  for (const bool coded : {false, true}) {
    float* out = outs[coded ? 1 : 0].data();
    const GemmParams params{&activation, coded ? &weight.packed : &plain, bias.data(), out, out, columns, rows};
    RunTiles(params, 0, rows, decodes);
  }
  ASSERT_EQ(std::memcmp(outs[0].data(), outs[1].data(), outs[0].size() * sizeof(float)), 0);
  ASSERT_NE(outs[0], before);
}

TEST(CodedGemm, HasTheBitsOfTheExpandedWeight) {
  for (const CodedForm& form : kCodedForms) {
    SCOPED_TRACE(form.name);
    ASSERT_NO_FATAL_FAILURE(ExpectTheExpandedProduct(form, 3, 70, 300, true));
    ASSERT_NO_FATAL_FAILURE(ExpectTheExpandedProduct(form, 1, 64, 64, false));
  }
  // All groups of rows, tails, one slice and several.
  for (const auto& [rows, columns, depth] :
       {std::tuple{1, 1, 1}, {17, 130, 257}, {33, 65, 130}, {66, 67, 1027}, {2, 40, 2100}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(depth));
    for (const size_t form : {0U, 4U, 5U, 9U}) {
      ASSERT_NO_FATAL_FAILURE(ExpectTheExpandedProduct(kCodedForms[form], rows, columns, depth, true));
    }
  }
}

// By the wgmma GEMM: in every tile of codes, and by a tile on the expanded weight.
void ExpectTheExpandedWgmmaProduct(const CodedForm& form, int32_t rows, int64_t columns, int64_t depth,
                                   const MachineOptions& options) {
  const CodedMatrix matrix(form.traits, columns, depth, 8);
  const HostWeight weight(form.format, columns, depth);
  PackCodes(matrix, weight);
  const HostMatrix expanded(Precision::kBf16, columns, depth);
  Expand(weight, 0, columns, expanded);
  const HostMatrix in(Precision::kBf16, rows, depth);
  FillRandom(in, 9);
  const Activation activation{.data = in.view().data,
                              .precision = Precision::kBf16,
                              .capacity_rows = rows,
                              .columns = static_cast<int32_t>(depth)};
  const std::vector<float> bias = RandomValues(columns, 10);
  const std::vector<float> before = RandomValues(rows * columns, 11);
  const PackedWeight plain = expanded.Weight();
  const auto call_of = [&](const PackedWeight& of, std::vector<float>* out) {
    const GemmParams params{&activation, &of, bias.data(), out->data(), out->data(), columns, rows};
    TileCall call = TileCallOf(params, 0, rows, false, nullptr);
    call.multiprocessors = 1;
    return call;
  };
  std::vector<float> expected = before;
  ASSERT_EQ(RunWgmma<Wgmma64x128<Bf16Format>>(call_of(plain, &expected)), "");
  ASSERT_NE(expected, before);
  for (int32_t shape = 0; shape < kCodedShapes; ++shape) {
    std::vector<float> out = before;
    const TileCall call = call_of(weight.packed, &out);
    ASSERT_EQ(RunCodedShape(static_cast<CodedShape>(shape), call, options), "") << shape;
    ASSERT_EQ(out, expected) << shape;
  }
  EXPECT_TRUE(weight.memory.Intact());
}

TEST(CodedWgmma, HasTheBitsOfTheExpandedWeight) {
  for (const CodedForm& form : kCodedForms) {
    SCOPED_TRACE(form.name);
    ASSERT_NO_FATAL_FAILURE(ExpectTheExpandedWgmmaProduct(form, 3, 70, 300, {.seed = 1}));
  }
  // Rows beyond a tile, outputs and depth with tails, several tiles a block, more K than stages.
  for (const auto& [rows, columns, depth] : {std::tuple{1, 1, 1}, {17, 130, 257}, {66, 67, 130}, {2, 700, 1300}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(depth));
    for (const size_t form : {0U, 2U, 5U, 16U}) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectTheExpandedWgmmaProduct(kCodedForms[form], rows, columns, depth, {.seed = 20 + form}));
    }
  }
}

TEST(CodedWeight, TakesNoMoreMemoryThanItsNumbersNeed) {
  const auto bits = [](WeightFormat format) {
    return static_cast<double>(CodedView{nullptr, CodedFormatOf(format), 4096, 4096}.bytes()) * 8 / (4096.0 * 4096);
  };
  EXPECT_EQ(bits(WeightFormat::kInt8), 8.5);
  EXPECT_EQ(bits(WeightFormat::kInt4), 4.5);
  EXPECT_EQ(bits(WeightFormat::kQ4Super), 5.0);
  EXPECT_EQ(bits(WeightFormat::kQ6Super), 7.0);
  EXPECT_EQ(bits(WeightFormat::kQ6Min), 7.5);
  EXPECT_EQ(bits(WeightFormat::kQ8Wide), 12.0);
  EXPECT_EQ(bits(WeightFormat::kQ4Zero), 5.0);
  EXPECT_EQ(bits(WeightFormat::kIq3), 5.0);
  EXPECT_EQ(bits(WeightFormat::kE2M1), 5.0);
  for (const WeightFormatTraits& row : kWeightFormatTable) EXPECT_TRUE(Multiplies(row.format)) << row.name;
}

TEST(CodedWeight, ArraysOfCodesAreCheckedAndFitTheirMemory) {
  const CodedMatrix matrix({0, 15, 32, 256, true, true}, 3, 300, 1);
  WeightCodes codes = matrix.Rows();
  const CodeArrays arrays = ArraysOf(codes, 300);
  EXPECT_TRUE(arrays.complete());
  EXPECT_EQ(arrays.bytes_per_row(), 300 + 2 * 2 + 10 + 2 * 2 + 10);
  EXPECT_EQ(arrays.RowsIn(7 * 16 + 2 * arrays.bytes_per_row()), 2);
  EXPECT_EQ(arrays.RowsIn(100), 0);
  codes.minimums = nullptr;
  EXPECT_FALSE(ArraysOf(codes, 300).complete());
}

}  // namespace
}  // namespace dunlin::kernels::cuda
