// SPDX-License-Identifier: Apache-2.0
// Products of gated weights: the bytes of the plain product of the same rows, followed by the activation where there is
// a next input.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/api/layer_ops.h"
#include "kernels/cpu/activation/round_columns.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;

struct GatedShape {
  int32_t rows;
  int32_t features;  // of the gate, and as many that it gates
  int32_t depth;
  bool bias;
};
// 8 panels to a task hold 192 features of both; 300 rows are two blocks.
constexpr GatedShape kGatedShapes[] = {{1, 1, 3, true},     {1, 500, 70, false},  {3, 47, 70, true},
                                       {5, 48, 129, false}, {8, 49, 70, true},    {17, 130, 64, true},
                                       {32, 96, 70, false}, {64, 1000, 33, true}, {300, 200, 70, true}};

// How a next input takes its scale, and whether it notes its largest magnitude.
struct Form {
  Precision weight;
  Precision next;
  InputScaling scaling = InputScaling::kPerRow;
  int32_t scale_block = 0;
  bool amax = false;
};
constexpr Form kForms[] = {{Precision::kFp32, Precision::kFp32},
                           {Precision::kBf16, Precision::kBf16},
                           {Precision::kFp16, Precision::kFp16},
                           {Precision::kInt8, Precision::kBf16},
                           {Precision::kInt4, Precision::kBf16},
                           {Precision::kFp8, Precision::kBf16},
                           {Precision::kFp8, Precision::kFp8},
                           {Precision::kFp8, Precision::kFp8, InputScaling::kPerRow, kScaleBlock},
                           {Precision::kFp8, Precision::kFp8, InputScaling::kGiven, 0, true},
                           {Precision::kFp8, Precision::kFp8, InputScaling::kCurrent},
                           {Precision::kBf16, Precision::kBf16, InputScaling::kPerRow, 0, true}};

class GemmGated : public CpuVariants {
 protected:
  // An input of the next product, and what lies beside it.
  struct Next {
    Next(Device& device, const Form& form, int32_t rows, int32_t columns)
        : tensor(device, form.next, rows, columns, form.scale_block) {
      tensor.activation.scaling = form.scaling;
      tensor.activation.shared_scale = &shared_scale;
      tensor.activation.amax = form.amax ? &amax : nullptr;
    }
    ActivationTensor tensor;
    float shared_scale = 0.0625F;
    float amax = 0.0F;
  };

  static std::unique_ptr<WeightTensor> PackGated(Device& device, Precision precision, const std::vector<float>& values,
                                                 int64_t out_features, int64_t depth) {
    auto tensor = std::make_unique<WeightTensor>(device, precision, out_features, depth);
    tensor->weight.gated = true;
    const PackWeightParams params{&tensor->weight, values.data(), DType::kF32, depth, 1, 0, out_features};
    EXPECT_EQ(device.ops->pack_weight(device.context, params), KernelStatus::kOk);
    return tensor;
  }

  void ExpectSame(const Next& a, const Next& b, int32_t rows) const {
    const Activation& left = a.tensor.activation;
    const Activation& right = b.tensor.activation;
    const auto element = cpu::ActivationElement(cpu::ContextOf(device_->context).kernels, left.precision);
    const size_t bytes = static_cast<size_t>(cpu::RoundUp(left.columns, cpu::kActivationPad)) * element;
    const size_t scales =
        left.precision == Precision::kFp8 ? static_cast<size_t>(ScalesPerRow(left.scale_block, left.columns)) : 0;
    for (int32_t row = 0; row < rows; ++row) {
      ASSERT_EQ(std::memcmp(cpu::ActivationRow(left, row), cpu::ActivationRow(right, row), bytes), 0) << row;
      if (scales == 0) continue;
      ASSERT_EQ(std::memcmp(cpu::ActivationScales(left, row), cpu::ActivationScales(right, row), scales * 4), 0) << row;
    }
    EXPECT_EQ(a.shared_scale, b.shared_scale);
    EXPECT_EQ(a.amax, b.amax);
  }
};

TEST_P(GemmGated, HasTheBytesOfAProductAndAnActivation) {
  const auto many_threads = Open(GetParam(), 5);
  uint32_t seed = 1;
  for (const Form& form : kForms) {
    for (const GatedShape& shape : kGatedShapes) {
      const auto [rows, features, depth, has_bias] = shape;
      SCOPED_TRACE(std::to_string(&form - kForms) + " " + std::to_string(&shape - kGatedShapes));
      const auto values = RandomMatrix(int64_t{2} * features, depth, seed++);
      const auto bias = RandomMatrix(1, int64_t{2} * features, seed++);
      const auto plain = Pack(*device_, form.weight, values, int64_t{2} * features, depth);
      const auto in = Quantized(*device_, form.weight, RandomMatrix(rows, depth, seed++), rows, depth);
      const auto product = RunGemm(*device_, in->activation, plain->weight, rows, has_bias ? bias.data() : nullptr);
      const auto kind = static_cast<ActivationKind>(seed % 5);
      Next apart(*device_, form, rows, features);
      ASSERT_EQ(device_->ops->activate(device_->context, {kind, true, product.data(), &apart.tensor.activation, rows}),
                KernelStatus::kOk);

      for (Device* device : {device_.get(), many_threads.get()}) {
        const auto gated = PackGated(*device, form.weight, values, int64_t{2} * features, depth);
        EXPECT_EQ(RunGemm(*device, in->activation, gated->weight, rows, has_bias ? bias.data() : nullptr), product);
        Next next(*device, form, rows, features);
        GemmParams params{};
        params.in = &in->activation;
        params.weight = &gated->weight;
        params.bias = has_bias ? bias.data() : nullptr;
        params.num_rows = rows;
        params.next = &next.tensor.activation;
        params.activation = kind;
        ASSERT_TRUE(device->ops->gemm_fuses(device->context, params));
        ASSERT_EQ(device->ops->gemm(device->context, params), KernelStatus::kOk);
        ExpectSame(next, apart, rows);
      }
    }
  }
}

TEST_P(GemmGated, PacksPartsInAnyOrderAndGathersRows) {
  constexpr int64_t kDepth = 70;
  for (const int64_t features : {7, 48, 100, 131}) {
    const auto values = RandomMatrix(2 * features, kDepth, 1);
    for (const PrecisionTraits& traits : kPrecisionTable) {
      SCOPED_TRACE(traits.name);
      const auto whole = PackGated(*device_, traits.precision, values, 2 * features, kDepth);
      WeightTensor parts(*device_, traits.precision, 2 * features, kDepth);
      parts.weight.gated = true;
      // The second half first, and a part with the end of the one and the start of the other.
      for (const auto& [begin, end] : {std::pair{features + 3, 2 * features},
                                       {features - 2, features + 3},
                                       {int64_t{0}, int64_t{1}},
                                       {int64_t{1}, features - 2}}) {
        const PackWeightParams params{&parts.weight, values.data() + begin * kDepth, DType::kF32, kDepth, 1, begin,
                                      end - begin};
        ASSERT_EQ(device_->ops->pack_weight(device_->context, params), KernelStatus::kOk);
      }
      EXPECT_EQ(std::memcmp(parts.memory.data(), whole->memory.data(), whole->memory.bytes()), 0);

      const auto plain = Pack(*device_, traits.precision, values, 2 * features, kDepth);
      std::vector<int32_t> ids(static_cast<size_t>(2 * features));
      std::iota(ids.begin(), ids.end(), 0);
      std::vector<float> rows[2];
      for (const PackedWeight* weight : {&plain->weight, &whole->weight}) {
        std::vector<float>& out = rows[weight == &plain->weight ? 0 : 1];
        out.assign(values.size(), kNaN);
        const GatherRowsParams params{weight, ids.data(), out.data(), static_cast<int32_t>(2 * features), false};
        ASSERT_EQ(device_->ops->gather_rows(device_->context, params), KernelStatus::kOk);
      }
      EXPECT_EQ(rows[0], rows[1]);
    }
  }
}

TEST_P(GemmGated, RefusesWhatItCannotPair) {
  const auto weight = PackGated(*device_, Precision::kBf16, RandomMatrix(8, 6, 1), 8, 6);
  const ActivationTensor in(*device_, Precision::kBf16, 2, 6);
  ActivationTensor next(*device_, Precision::kBf16, 2, 4);
  ActivationTensor whole(*device_, Precision::kBf16, 2, 8);
  std::vector<float> out(16);
  const auto status = [&](auto&& change) {
    GemmParams params{};
    params.in = &in.activation;
    params.weight = &weight->weight;
    params.num_rows = 2;
    params.next = &next.activation;
    change(params);
    return device_->ops->gemm(device_->context, params);
  };
  const auto into_out = [&](GemmParams& p) {
    p.next = nullptr;
    p.out = out.data();
    p.out_stride = 8;
  };
  PackedWeight odd = weight->weight;
  odd.out_features = 7;
  EXPECT_EQ(status([](GemmParams&) {}), KernelStatus::kOk);
  EXPECT_EQ(status(into_out), KernelStatus::kOk);
  EXPECT_EQ(status([&](GemmParams& p) { p.next = &whole.activation; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p) { into_out(p), p.residual = out.data(); }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status([&](GemmParams& p) { into_out(p), p.weight = &odd; }), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GemmGated);

}  // namespace
}  // namespace dunlin::kernels
