// SPDX-License-Identifier: Apache-2.0
// Products that round their inputs to 8 bits: the rounding against the scalar code, products of every format with
// groups against FP64 of the rounded inputs, the bit contract, rows that are not finite, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/api/input_rounding.h"
#include "kernels/api/layer_ops.h"
#include "tests/kernels/cpu/coded_matrix.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;

class Int8Inputs : public CpuVariants {};

constexpr WeightFormat kRoundedFormats[] = {WeightFormat::kInt8, WeightFormat::kInt4};

// A row of inputs as products see it: rounded to BF16, then in groups to 8 bits.
std::vector<double> RoundedTo8Bits(const std::vector<double>& bf16, int32_t group) {
  std::vector<double> rounded;
  const auto columns = static_cast<int64_t>(bf16.size());
  for (int64_t first = 0; first < columns; first += group) {
    const int64_t count = std::min<int64_t>(group, columns - first);
    const std::vector<float> values(bf16.begin() + first, bf16.begin() + first + count);
    std::vector<int8_t> codes(values.size());
    const double scale = RoundInputGroup(values.data(), count, codes.data());
    for (const int8_t code : codes) rounded.push_back(scale * code);
  }
  return rounded;
}

// A weight with its FP64 values, and the magnitudes of what they are the sums of: scale * code and the rest.
struct Reference {
  std::unique_ptr<WeightTensor> weight;
  std::vector<double> values;  // [rows, columns]
  std::vector<double> magnitudes;
};

Reference OfMatrix(Device& device, const CodedForm& form, const CodedMatrix& matrix) {
  Reference reference{PackCoded(device, form.format, matrix), {}, {}};
  for (int64_t n = 0; n < matrix.rows; ++n) {
    for (int64_t k = 0; k < matrix.columns; ++k) {
      const double scaled = matrix.Scale(n, k) * matrix.Code(n, k);
      reference.values.push_back(scaled - matrix.Minimum(n, k));
      reference.magnitudes.push_back(std::fabs(scaled) + std::fabs(matrix.Minimum(n, k)));
    }
  }
  return reference;
}

Reference OfCodes(Device& device, const CodedForm& form, int32_t rows, int32_t columns, uint32_t seed) {
  return OfMatrix(device, form, CodedMatrix(form.traits, rows, columns, seed));
}

Reference OfWideWeights(Device& device, WeightFormat format, int32_t rows, int32_t columns, uint32_t seed) {
  const Precision precision = format == WeightFormat::kInt8 ? Precision::kInt8 : Precision::kInt4;
  const auto values = RandomMatrix(rows, columns, seed);
  Reference reference{Pack(device, precision, values, rows, columns), {}, {}};
  for (int64_t n = 0; n < rows; ++n) {
    const auto row = RoundedGroups(precision, values.data() + n * columns, columns);
    const double largest = std::fabs(
        *std::max_element(row.begin(), row.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); }));
    reference.values.insert(reference.values.end(), row.begin(), row.end());
    // A code and a zero point are within 8 steps, of which the largest value of the row has at least one.
    reference.magnitudes.insert(reference.magnitudes.end(), row.size(), 16 * largest);
  }
  return reference;
}

// Every format with groups, with inputs of 8 bits.
std::vector<std::pair<std::string, Reference>> AllFormats(Device& device, int32_t rows, int32_t columns,
                                                          uint32_t seed) {
  std::vector<std::pair<std::string, Reference>> all;
  for (const WeightFormat format : kRoundedFormats) {
    all.emplace_back(Name(format), OfWideWeights(device, format, rows, columns, seed++));
  }
  for (const CodedForm& form : kCodedForms) {
    all.emplace_back(form.name, OfCodes(device, form, rows, columns, seed++));
  }
  for (auto& [name, reference] : all) reference.weight->weight.int8_inputs = true;
  return all;
}

constexpr GemmShape kInt8Shapes[] = {
    {1, 1, 1},     {1, 48, 256},  {2, 47, 3},    {3, 49, 31},   {4, 96, 64},    {5, 97, 63},
    {6, 100, 255}, {7, 144, 33},  {8, 33, 512},  {9, 50, 1027}, {13, 200, 31},  {31, 64, 1536},
    {64, 16, 130}, {129, 70, 96}, {300, 49, 40}, {70, 49, 272}, {70, 49, 2064}, {260, 97, 1296},
};

TEST_P(Int8Inputs, MatchFp64OfTheRoundedInputs) {
  uint32_t seed = 1;
  for (const auto& [rows, n, depth] : kInt8Shapes) {
    const auto a = RandomMatrix(rows, depth, seed++);
    const auto in = Quantized(*device_, Precision::kBf16, a, rows, depth);
    const auto bias = RandomMatrix(1, n, seed++);
    for (const auto& [name, reference] : AllFormats(*device_, n, depth, seed)) {
      SCOPED_TRACE(name + " " + std::to_string(rows) + "x" + std::to_string(n) + "x" + std::to_string(depth));
      const PackedWeight& weight = reference.weight->weight;
      const auto out = RunGemm(*device_, in->activation, weight, rows, bias.data());
      for (int32_t m = 0; m < rows; m += m >= 8 && rows > 40 ? 23 : 1) {
        const auto row = RoundedTo8Bits(StoredRow(*device_, in->activation, m), Traits(weight.format).group);
        for (int32_t c = 0; c < n; ++c) {
          double value = bias[static_cast<size_t>(c)];
          double magnitude = std::fabs(value);
          for (int32_t k = 0; k < depth; ++k) {
            const auto at = static_cast<size_t>(c * depth + k);
            value += row[static_cast<size_t>(k)] * reference.values[at];
            magnitude += std::fabs(row[static_cast<size_t>(k)]) * reference.magnitudes[at];
          }
          const double groups = static_cast<double>(depth) / Traits(weight.format).group;
          ASSERT_NEAR(out[static_cast<size_t>(m * n + c)], value, (groups + 8) * 0x1p-23 * magnitude + 1e-30)
              << m << "," << c;
        }
      }
    }
  }
}

// Where products are summed in 16 bits.
TEST_P(Int8Inputs, SumsHoldTheLargestCodesAndInputs) {
  constexpr int32_t kN = 48;
  constexpr int32_t kDepth = 96;
  for (const CodedForm& form : kCodedForms) {
    CodedMatrix matrix(form.traits, kN, kDepth, 9);
    const auto half = matrix.codes.begin() + kN / 2 * kDepth;
    std::fill(matrix.codes.begin(), half, static_cast<int8_t>(form.traits.code_max));
    std::fill(half, matrix.codes.end(), static_cast<int8_t>(form.traits.code_min));
    const Reference reference = OfMatrix(*device_, form, matrix);
    reference.weight->weight.int8_inputs = true;
    for (const int32_t rows : {1, 2, 3, 9, 40}) {
      for (const double input : {1.0, -1.0}) {
        const std::vector<float> a(static_cast<size_t>(rows * kDepth), static_cast<float>(input));
        const auto in = Quantized(*device_, Precision::kBf16, a, rows, kDepth);
        const auto out = RunGemm(*device_, in->activation, reference.weight->weight, rows);
        for (int32_t i = 0; i < rows * kN; ++i) {
          double value = 0.0;
          double magnitude = 0.0;
          for (int32_t k = 0; k < kDepth; ++k) {
            const auto at = static_cast<size_t>(i % kN * kDepth + k);
            value += input * reference.values[at];
            magnitude += reference.magnitudes[at];
          }
          ASSERT_NEAR(out[static_cast<size_t>(i)], value, 0x1p-19 * magnitude) << form.name << " " << rows << " " << i;
        }
      }
    }
  }
}

TEST_P(Int8Inputs, RowsAreRoundedAsTheScalarCodeDoes) {
  constexpr int32_t kRows = 3;
  for (const int32_t columns : {1, 15, 16, 17, 32, 40, 48, 257}) {
    auto a = RandomMatrix(kRows, columns, 3);
    a.back() = 1e-33F;  // alone in its group for some widths: zero
    const auto in = Quantized(*device_, Precision::kBf16, a, kRows, columns);
    for (const WeightFormatTraits& traits : kWeightFormatTable) {
      if (traits.group == 0) continue;
      for (int32_t m = 0; m < kRows; ++m) {
        const auto stored = StoredRow(*device_, in->activation, m);
        const std::vector<float> row(stored.begin(), stored.end());
        std::vector<std::byte> coded(cpu::CodedRowStride(columns), std::byte{0xFF});
        cpu::ContextOf(device_->context)
            .kernels.round_inputs(cpu::ActivationRow(in->activation, m), columns, traits.format, coded.data());
        for (int32_t first = 0; first < columns; first += traits.group) {
          const int32_t count = std::min(traits.group, columns - first);
          std::vector<int8_t> expected(static_cast<size_t>(traits.group));
          const float scale = RoundInputGroup(row.data() + first, count, expected.data());
          float sum = 0;
          for (const int8_t code : expected) sum += static_cast<float>(code);
          cpu::InputGroup group{};
          std::memcpy(&group, coded.data() + cpu::InputGroupOffset(columns) + first / traits.group * sizeof(group),
                      sizeof(group));
          ASSERT_EQ(group.scale, scale) << traits.name << " " << first;
          ASSERT_EQ(group.sum, scale * sum) << traits.name << " " << first;
          // In whatever order the variant's kernel reads them, sixteen at a time.
          for (int32_t part = 0; part < count; part += 16) {
            std::vector<int8_t> codes(16);
            std::memcpy(codes.data(), coded.data() + first + part, codes.size());
            std::vector<int8_t> sorted(expected.begin() + part, expected.begin() + part + 16);
            std::sort(codes.begin(), codes.end());
            std::sort(sorted.begin(), sorted.end());
            ASSERT_EQ(codes, sorted) << traits.name << " " << first + part << " of " << columns;
          }
        }
      }
    }
  }
}

TEST_P(Int8Inputs, ARowIsTheSameForEveryNumberOfRowsAndThreads) {
  constexpr int32_t kRowsMax = 270;
  constexpr int32_t kN = 101;
  constexpr int32_t kDepth = 2320;  // several slices of K, of which the last is short
  const auto a = RandomMatrix(kRowsMax, kDepth, 5);
  const auto many_threads = Open(GetParam(), 5);
  for (const auto& [name, reference] : AllFormats(*device_, kN, kDepth, 6)) {
    const PackedWeight& weight = reference.weight->weight;
    const auto all = Quantized(*device_, Precision::kBf16, a, kRowsMax, kDepth);
    const auto expected = RunGemm(*device_, all->activation, weight, kRowsMax);
    for (const int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 32, 33, 129}) {
      for (Device* device : {device_.get(), many_threads.get()}) {
        const auto in = Quantized(*device, Precision::kBf16, a, rows, kDepth);
        const auto out = RunGemm(*device, in->activation, weight, rows);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0) << name << " " << rows;
      }
    }
  }
}

TEST_P(Int8Inputs, ARowThatIsNotFiniteLeavesTheOthersAlone) {
  constexpr int32_t kRows = 17;
  constexpr int32_t kN = 49;
  constexpr int32_t kDepth = 300;
  const auto clean = RandomMatrix(kRows, kDepth, 7);
  auto dirty = clean;
  for (int32_t row = 1; row < kRows; row += 2) {
    dirty[static_cast<size_t>(row * kDepth + row)] = row % 4 == 1 ? kNaN : -std::numeric_limits<float>::infinity();
  }
  const auto clean_in = Quantized(*device_, Precision::kBf16, clean, kRows, kDepth);
  const auto dirty_in = Quantized(*device_, Precision::kBf16, dirty, kRows, kDepth);
  for (const auto& [name, reference] : AllFormats(*device_, kN, kDepth, 8)) {
    const auto expected = RunGemm(*device_, clean_in->activation, reference.weight->weight, kRows);
    const auto actual = RunGemm(*device_, dirty_in->activation, reference.weight->weight, kRows);
    for (int32_t i = 0; i < kRows * kN; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i / kN % 2 == 0) {
        ASSERT_EQ(actual[at], expected[at]) << name << " " << i;
      } else {
        ASSERT_FALSE(std::isfinite(actual[at])) << name << " " << i;
      }
    }
  }
}

TEST_P(Int8Inputs, GatedWeightsHaveTheBitsOfTheProduct) {
  constexpr int32_t kHalf = 131;
  constexpr int32_t kDepth = 288;
  for (const CodedForm& form : kCodedForms) {
    const CodedMatrix matrix(form.traits, 2 * kHalf, kDepth, 4);
    const auto plain = PackCoded(*device_, form.format, matrix);
    const auto gated = PackCoded(*device_, form.format, matrix, /*gated=*/true);
    plain->weight.int8_inputs = gated->weight.int8_inputs = true;
    for (const int32_t rows : {1, 6, 33}) {
      const auto in = Quantized(*device_, Precision::kBf16, RandomMatrix(rows, kDepth, 7), rows, kDepth);
      EXPECT_EQ(RunGemm(*device_, in->activation, gated->weight, rows),
                RunGemm(*device_, in->activation, plain->weight, rows))
          << form.name << " " << rows;
    }
  }
}

TEST_P(Int8Inputs, AreRefusedForFormatsWithoutGroups) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    const auto weight = Pack(*device_, precision, RandomMatrix(3, 64, 1), 3, 64);
    weight->weight.int8_inputs = true;
    const auto in = Quantized(*device_, precision, RandomMatrix(1, 64, 2), 1, 64);
    float out[3];
    const GemmParams params{&in->activation, &weight->weight, nullptr, nullptr, out, 3, 1};
    EXPECT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kInvalidArgument) << Name(precision);
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(Int8Inputs);

}  // namespace
}  // namespace dunlin::kernels
