// SPDX-License-Identifier: Apache-2.0
// Weights of integer codes, and mixtures of experts, on a device beside the CPU device. A device may round the value of
// a code to BF16 before it multiplies.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/cpu/coded_matrix.h"
#include "tests/kernels/cpu/expert_rules.h"
#include "tests/kernels/loader/device_products.h"

namespace dunlin::kernels {
namespace {

using testing_cpu::CodedForm;
using testing_cpu::CodedMatrix;
using testing_cpu::kCodedForms;

class DeviceCodesTest : public DeviceTest {};

constexpr int32_t kCodedOuts = 70;

// Memory of a packed weight of a format.
struct Coded {
  Coded(Device& device, WeightFormat format, int32_t depth)
      : memory(device, Bytes(device.ops->packed_weight_bytes(format, kCodedOuts, depth, 0))) {
    weight.data = memory.data();
    weight.precision = Traits(format).compute;
    weight.out_features = kCodedOuts;
    weight.in_features = depth;
    weight.format = format;
  }
  Array<unsigned char> memory;
  PackedWeight weight;
};

// What a device makes of a weight.
struct Products {
  std::vector<float> prefill;
  std::vector<float> decode;
  std::vector<float> last_row[2];  // alone: prefill, decode
  std::vector<float> gathered;
};

Products ProductsOf(Device& device, const PackedWeight& weight, const std::vector<float>& in, int32_t rows) {
  const auto depth = static_cast<int32_t>(weight.in_features);
  const auto quantized = [&](const std::vector<float>& values, int32_t count) {
    auto input = std::make_unique<Input>(device, Precision::kBf16, count, depth);
    const Array<float> of(device, values);
    EXPECT_EQ(device.ops->quantize(device.context, {of.data(), depth, &input->activation, count}), KernelStatus::kOk);
    EXPECT_EQ(device.ops->synchronize(device.context), KernelStatus::kOk);
    return input;
  };
  const auto all = quantized(in, rows);
  const auto last = quantized({in.end() - depth, in.end()}, 1);
  const Array<float> bias(device, Random(kCodedOuts, 3));
  Products products;
  products.prefill = Multiply(device, all->activation, weight, rows, bias.data());
  products.decode = Multiply(device, all->activation, weight, rows, bias.data(), nullptr, true);
  for (const bool decodes : {false, true}) {
    products.last_row[decodes ? 1 : 0] = Multiply(device, last->activation, weight, 1, bias.data(), nullptr, decodes);
  }
  const Array<int32_t> ids(device, {kCodedOuts - 1, 0, 5});
  const Array<float> gathered(device, std::vector<float>(static_cast<size_t>(3 * depth), 1.0F));
  EXPECT_EQ(device.ops->gather_rows(device.context, {&weight, ids.data(), gathered.data(), 3, true, 2.0F}),
            KernelStatus::kOk);
  products.gathered = gathered.Read();
  return products;
}

// largest: of a weight's values. BF16 rounds a value by at most 2^-9 of it.
void ExpectMatches(const Products& device, const Products& cpu, int32_t depth, double largest) {
  const double bound = 4 * 0x1p-9 * largest * std::sqrt(depth) + 1e-4;
  ExpectNear(device.prefill, cpu.prefill, bound, 1e-4, "prefill");
  ExpectNear(device.decode, cpu.prefill, bound, 1e-4, "decode");
  ExpectNear(device.gathered, cpu.gathered, 1e-6 * largest, 1e-6, "gathered rows");
  const size_t row = kCodedOuts * sizeof(float);
  EXPECT_EQ(std::memcmp(device.last_row[0].data(), &device.prefill[device.prefill.size() - kCodedOuts], row), 0)
      << "a row's bits depend on the rows beside it";
  EXPECT_EQ(std::memcmp(device.last_row[1].data(), &device.decode[device.decode.size() - kCodedOuts], row), 0)
      << "a decoding row's bits depend on the rows beside it";
}

TEST_P(DeviceCodesTest, ProductsOfEveryFormMatchTheCpus) {
  for (const CodedForm& form : kCodedForms) {
    for (const auto& [rows, depth] : {std::pair{3, 300}, {40, 1024}}) {
      SCOPED_TRACE(std::string(form.name) + " rows " + std::to_string(rows));
      const CodedMatrix matrix(form.traits, kCodedOuts, depth, 5);
      const std::vector<float> in = Random(int64_t{rows} * depth, 6);
      double largest = 0.0;
      for (int64_t n = 0; n < kCodedOuts; ++n) {
        for (int64_t k = 0; k < depth; ++k) {
          largest = std::fmax(largest, std::fabs(matrix.Scale(n, k) * matrix.Code(n, k) - matrix.Minimum(n, k)));
        }
      }
      Products products[2];
      for (Device* device : {cpu_.get(), device_.get()}) {
        Coded coded(*device, form.format, depth);
        for (const int64_t first : {0, 23}) {  // two parts, as fused matrices are packed
          const WeightCodes codes = matrix.Rows(first);
          PackWeightParams params{};
          params.weight = &coded.weight;
          params.row_begin = first;
          params.num_rows = first == 0 ? 23 : kCodedOuts - 23;
          params.codes = &codes;
          ASSERT_EQ(device->ops->pack_weight(device->context, params), KernelStatus::kOk);
        }
        products[device == device_.get() ? 1 : 0] = ProductsOf(*device, coded.weight, in, rows);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(products[1], products[0], depth, largest));
    }
  }
}

TEST_P(DeviceCodesTest, ProductsOfRoundedWeightsMatchTheCpus) {
  constexpr int32_t kRows = 20;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int32_t depth : {100, 2048}) {
      SCOPED_TRACE(std::string(Name(format)) + " depth " + std::to_string(depth));
      const std::vector<float> values = Random(int64_t{kCodedOuts} * depth, 7);
      const std::vector<float> in = Random(int64_t{kRows} * depth, 8);
      Products products[2];
      for (Device* device : {cpu_.get(), device_.get()}) {
        Coded coded(*device, format, depth);
        const PackWeightParams params{&coded.weight, values.data(), DType::kF32, depth, 1, 0, kCodedOuts};
        ASSERT_EQ(device->ops->pack_weight(device->context, params), KernelStatus::kOk);
        products[device == device_.get() ? 1 : 0] = ProductsOf(*device, coded.weight, in, kRows);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(products[1], products[0], depth, 1.0));
    }
  }
}

TEST_P(DeviceCodesTest, RefusesCodesThatAFormatDoesNotHold) {
  const CodedMatrix matrix({-8, 7, 32, 32, false, false}, kCodedOuts, 64, 1);
  const auto pack = [&](WeightFormat format, const WeightCodes& codes) {
    Coded coded(*device_, format, 64);
    PackWeightParams params{};
    params.weight = &coded.weight;
    params.num_rows = kCodedOuts;
    params.codes = &codes;
    return device_->ops->pack_weight(device_->context, params);
  };
  EXPECT_EQ(pack(WeightFormat::kQ4, matrix.Rows()), KernelStatus::kOk);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt4, WeightFormat::kQ4Super}) {
    EXPECT_EQ(pack(format, matrix.Rows()), KernelStatus::kInvalidArgument) << Name(format);
  }
  WeightCodes no_factors = matrix.Rows();
  no_factors.factors = nullptr;
  EXPECT_EQ(pack(WeightFormat::kQ4, no_factors), KernelStatus::kInvalidArgument);
}

Routed Route(Device& device, const RuleCase& c, const std::vector<float>& logits, const std::vector<float>& correction,
             int32_t num_rows) {
  const auto choices = static_cast<size_t>(num_rows * c.rule.num_chosen);
  const Array<float> in(device, logits);
  const Array<float> corrections(device, correction);
  const Array<int32_t> chosen(device, std::vector<int32_t>(choices));
  const Array<float> chosen_weights(device, std::vector<float>(choices));
  const Array<ExpertRows> experts(device, std::vector<ExpertRows>(static_cast<size_t>(c.rule.num_experts)));
  const Array<int32_t> rows(device, std::vector<int32_t>(choices));
  const Array<float> weights(device, std::vector<float>(choices));
  const Array<int32_t> places(device, std::vector<int32_t>(choices));
  const RouteExpertsParams params{.rule = c.rule,
                                  .logits = in.data(),
                                  .logits_stride = c.rule.num_experts + 1,
                                  .correction = c.corrected ? corrections.data() : nullptr,
                                  .num_rows = num_rows,
                                  .decode_rows = num_rows / 3,
                                  .chosen = chosen.data(),
                                  .chosen_weights = chosen_weights.data(),
                                  .experts = experts.data(),
                                  .rows = rows.data(),
                                  .weights = weights.data(),
                                  .places = places.data()};
  EXPECT_EQ(device.ops->route_experts(device.context, params), KernelStatus::kOk);
  Routed routed(c.rule, num_rows);
  routed.chosen = chosen.Read();
  routed.chosen_weights = chosen_weights.Read();
  routed.experts = experts.Read();
  routed.rows = rows.Read();
  routed.weights = weights.Read();
  routed.places = places.Read();
  return routed;
}

TEST_P(DeviceCodesTest, RoutesToTheCpusExperts) {
  for (const RuleCase& c : kRules) {
    for (const int32_t num_rows : {0, 1, 300}) {
      SCOPED_TRACE(std::string(c.name) + " rows " + std::to_string(num_rows));
      const std::vector<float> logits = Random(int64_t{num_rows} * (c.rule.num_experts + 1), 31);
      const std::vector<float> correction = Random(c.rule.num_experts, 32);
      const Routed cpu = Route(*cpu_, c, logits, correction, num_rows);
      const Routed device = Route(*device_, c, logits, correction, num_rows);
      EXPECT_EQ(device.chosen, cpu.chosen);
      EXPECT_EQ(device.rows, cpu.rows);
      EXPECT_EQ(device.places, cpu.places);
      for (size_t e = 0; e < cpu.experts.size(); ++e) {
        EXPECT_EQ(device.experts[e].first, cpu.experts[e].first) << e;
        EXPECT_EQ(device.experts[e].count, cpu.experts[e].count) << e;
        EXPECT_EQ(device.experts[e].num_decode, cpu.experts[e].num_decode) << e;
      }
      ExpectNear(device.chosen_weights, cpu.chosen_weights, 1e-7, 1e-5, "weights of the choices");
      ExpectNear(device.weights, cpu.weights, 1e-7, 1e-5, "weights of the rows");
    }
  }
}

TEST_P(DeviceCodesTest, AddsWeightedRowsAsTheCpuDoes) {
  constexpr int32_t kColumns = 300;
  for (const bool sigmoid : {false, true}) {
    std::vector<float> results[2];
    for (Device* device : {cpu_.get(), device_.get()}) {
      const Array<float> in(*device, Random(4 * kColumns, 36));
      const Array<int32_t> places(*device, {3, 0, 1, 2});
      const Array<float> weights(*device, {0.5F, 9.0F, -2.0F, 9.0F, 0.0F, 9.0F, 1.5F, 9.0F});
      const Array<float> out(*device, Random(2 * kColumns, 37));
      const AddWeightedRowsParams params{
          in.data(), sigmoid ? nullptr : places.data(), sigmoid ? 1 : 2, weights.data(), 2, sigmoid, out.data(), 2,
          kColumns};
      ASSERT_EQ(device->ops->add_weighted_rows(device->context, params), KernelStatus::kOk);
      results[device == device_.get() ? 1 : 0] = out.Read();
    }
    ExpectNear(results[1], results[0], 1e-5, 1e-6, "weighted rows");
  }
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceCodesTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceCodesTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
