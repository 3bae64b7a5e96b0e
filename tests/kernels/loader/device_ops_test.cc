// SPDX-License-Identifier: Apache-2.0
// Every device's operations, through its table only, against the CPU device, up to the rounding of a precision. Runs on
// the fake module everywhere, and on libdunlin_cuda.so where its device opens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/loader/device_products.h"

namespace dunlin::kernels {
namespace {

class DeviceOpsTest : public DeviceTest {};

// What a library may lose by accumulating K products of FP8 codes of unit variance on Hopper's tensor cores: each step
// of 32 products aligns them and the sum so far to the largest exponent, and cuts off what is below 2^-13 of it.
// Partial sums stay below 4 sqrt(K); 33 K / 32 cuts, uniform, have a standard deviation of sqrt(K / 3) of one; four of
// those. Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2 (about 14 bits).
double Fp8AccumulatorError(int32_t in_features) {
  return 4 * std::sqrt(in_features / 3.0) * 0x1p-13 * 4 * std::sqrt(in_features);
}

TEST_P(DeviceOpsTest, MemoryStartsAsZerosAndIsCopiedAtAnyByte) {
  const DeviceOps& ops = *device_->ops;
  void* memory = ops.allocate(device_->context, 1000);
  ASSERT_NE(memory, nullptr);
  Bytes bytes(1000, 7);
  EXPECT_EQ(ops.copy_to_host(device_->context, bytes.data(), memory, 1000), KernelStatus::kOk);
  EXPECT_EQ(ops.synchronize(device_->context), KernelStatus::kOk);
  EXPECT_EQ(bytes, Bytes(1000, 0));
  const Bytes three = {1, 2, 3};
  EXPECT_EQ(ops.copy_to_device(device_->context, static_cast<char*>(memory) + 501, three.data(), 3), KernelStatus::kOk);
  EXPECT_EQ(ops.copy_to_host(device_->context, bytes.data(), static_cast<char*>(memory) + 500, 5), KernelStatus::kOk);
  EXPECT_EQ(ops.synchronize(device_->context), KernelStatus::kOk);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 5), (Bytes{0, 1, 2, 3, 0}));
  ops.release(device_->context, memory, 1000);
  EXPECT_EQ(ops.allocate(device_->context, 0), nullptr);
}

TEST_P(DeviceOpsTest, GemmsMatchTheCpus) {
  for (const Precision precision : kAllPrecisions) {
    for (const auto& [rows, outs, ins] : {std::tuple{1, 19, 21}, {5, 64, 48}, {300, 33, 256}, {17, 1003, 64}}) {
      SCOPED_TRACE(std::string(Name(precision)) + " " + std::to_string(outs) + " x " + std::to_string(ins));
      const std::vector<float> weights = Random(int64_t{outs} * ins, 1);
      const std::vector<float> in = Random(int64_t{rows} * ins, 2);
      const std::vector<float> bias = Random(outs, 3);
      const std::vector<float> residual = Random(int64_t{rows} * outs, 4);
      std::vector<float> results[2];
      std::vector<float> alone[2];  // of the device: prefill, decode
      std::vector<float> decoding;  // of the device
      for (Device* device : {cpu_.get(), device_.get()}) {
        const Weight weight(*device, precision, weights, outs, ins);
        Input input(*device, precision, rows, ins);
        const Array<float> in_rows(*device, in);
        const Array<float> bias_row(*device, bias);
        const QuantizeParams quantize{in_rows.data(), ins, &input.activation, rows};
        ASSERT_EQ(device->ops->quantize(device->context, quantize), KernelStatus::kOk);
        results[device == device_.get() ? 1 : 0] =
            Multiply(*device, input.activation, weight.packed, rows, bias_row.data(), &residual);
        const std::vector<float> first(residual.begin(), residual.begin() + outs);
        for (const bool decodes : {false, true}) {
          alone[decodes ? 1 : 0] =
              Multiply(*device, input.activation, weight.packed, 1, bias_row.data(), &first, decodes);
        }
        decoding = Multiply(*device, input.activation, weight.packed, rows, bias_row.data(), &residual, true);
      }
      // Inputs round alike on both devices, except FP16's, which the CPU keeps in FP32.
      const double rounding = precision == Precision::kFp16 ? StepOf(precision) : 1e-4;
      ExpectNear(results[1], results[0],
                 4 * rounding * std::sqrt(ins) + (precision == Precision::kFp8 ? Fp8AccumulatorError(ins) : 0.0), 1e-4,
                 "product");
      ExpectNear(decoding, results[0], 4 * rounding * std::sqrt(ins), 1e-4, "product of decoding rows");
      const size_t row_bytes = static_cast<size_t>(outs) * sizeof(float);
      EXPECT_EQ(std::memcmp(alone[0].data(), results[1].data(), row_bytes), 0)
          << "a row's bits depend on the rows beside it";
      EXPECT_EQ(std::memcmp(alone[1].data(), decoding.data(), row_bytes), 0)
          << "a decoding row's bits depend on the rows beside it";
      if (device_->ops->prefill_matches_decode(device_->context, precision, true)) {
        EXPECT_EQ(decoding, results[1]);
      }
    }
  }
}

// Rows of both phases in one call: each has the bits of its phase.
TEST_P(DeviceOpsTest, ACallWithBothPhasesMatchesTwoCalls) {
  constexpr int32_t kRows = 23;
  constexpr int32_t kOuts = 40;
  constexpr int32_t kIns = 96;
  const std::vector<float> in = Random(kRows * kIns, 21);
  for (const Precision precision : kAllPrecisions) {
    const Weight weight(*device_, precision, Random(kOuts * kIns, 22), kOuts, kIns);
    Input input(*device_, precision, kRows, kIns);
    const Array<float> in_rows(*device_, in);
    ASSERT_EQ(device_->ops->quantize(device_->context, {in_rows.data(), kIns, &input.activation, kRows}),
              KernelStatus::kOk);
    const std::vector<float> prefill = Multiply(*device_, input.activation, weight.packed, kRows);
    const std::vector<float> decode =
        Multiply(*device_, input.activation, weight.packed, kRows, nullptr, nullptr, true);
    for (const int32_t decode_rows : {1, 4, 17}) {
      const Array<float> out(*device_, std::vector<float>(kRows * kOuts));
      GemmParams params{&input.activation, &weight.packed, nullptr, nullptr, out.data(), kOuts, kRows};
      params.decode_rows = decode_rows;
      ASSERT_EQ(device_->ops->gemm(device_->context, params), KernelStatus::kOk);
      std::vector<float> expected = prefill;
      std::copy_n(decode.begin(), decode_rows * kOuts, expected.begin());
      EXPECT_EQ(out.Read(), expected) << Name(precision) << " " << decode_rows;
    }
  }
}

TEST_P(DeviceOpsTest, BlockScaledGemmsMatchTheCpus) {
  constexpr int32_t kOuts = 70;
  constexpr int32_t kIns = 300;
  std::vector<uint8_t> codes(size_t{kOuts} * kIns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7 % 0x7F | (i % 3 == 0 ? 0x80 : 0));
  std::vector<float> scales(kOuts * 3);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.001F * static_cast<float>(1 + i % 11);
  for (const int32_t rows : {1, 40}) {
    const std::vector<float> in = Random(rows * kIns, 23);
    std::vector<float> results[2][2];  // side, phase
    for (Device* device : {cpu_.get(), device_.get()}) {
      const Array<unsigned char> memory(
          *device, Bytes(device->ops->packed_weight_bytes(WeightFormat::kE4M3, kOuts, kIns, kScaleBlock)));
      PackedWeight weight{memory.data(), Precision::kFp8, kOuts, kIns, kScaleBlock};
      const PackWeightParams pack{.weight = &weight,
                                  .source = codes.data(),
                                  .source_dtype = DType::kF8E4M3,
                                  .row_stride = kIns,
                                  .column_stride = 1,
                                  .row_begin = 0,
                                  .num_rows = kOuts,
                                  .source_scales = scales.data(),
                                  .source_scale_block = kScaleBlock};
      ASSERT_EQ(device->ops->pack_weight(device->context, pack), KernelStatus::kOk);
      Input input(*device, Precision::kFp8, rows, kIns);
      input.activation.scale_block = kScaleBlock;
      const Array<float> in_rows(*device, in);
      ASSERT_EQ(device->ops->quantize(device->context, {in_rows.data(), kIns, &input.activation, rows}),
                KernelStatus::kOk);
      for (const bool decodes : {false, true}) {
        results[device == device_.get() ? 1 : 0][decodes ? 1 : 0] =
            Multiply(*device, input.activation, weight, rows, nullptr, nullptr, decodes);
      }
    }
    ExpectNear(results[1][0], results[0][0], 1e-3, 1e-4, "prefill");
    ExpectNear(results[1][1], results[0][0], 1e-3, 1e-4, "decode");
  }
}

TEST_P(DeviceOpsTest, GatheredRowsMatchTheCpus) {
  const std::vector<float> values = Random(40 * 37, 5);
  const std::vector<int32_t> ids = {39, 0, 5, 5};
  for (const Precision precision : kAllPrecisions) {
    std::vector<float> results[2];
    for (Device* device : {cpu_.get(), device_.get()}) {
      const Weight weight(*device, precision, values, 40, 37);
      const Array<int32_t> device_ids(*device, ids);
      const Array<float> out(*device, std::vector<float>(4 * 37, 1.0F));
      const GatherRowsParams params{&weight.packed, device_ids.data(), out.data(), 4, true, 3.0F};
      ASSERT_EQ(device->ops->gather_rows(device->context, params), KernelStatus::kOk);
      results[device == device_.get() ? 1 : 0] = out.Read();
    }
    ExpectNear(results[1], results[0], 0.0, 1e-6, Name(precision));
  }
}

TEST_P(DeviceOpsTest, NormsAndActivationsMatchTheCpus) {
  constexpr int32_t kRows = 3;
  for (const int32_t columns : {37, 1024}) {
    const std::vector<float> in = Random(kRows * 2 * columns, 6);
    const std::vector<float> weight = Random(columns, 7);
    const std::vector<float> bias = Random(columns, 8);
    const std::vector<int32_t> rows = {2, 0, 5};
    for (const Precision precision : kAllPrecisions) {
      std::vector<float> normed[2];
      std::vector<float> plain[2];
      std::vector<float> activated[2];
      for (Device* device : {cpu_.get(), device_.get()}) {
        const int side = device == device_.get() ? 1 : 0;
        const Array<float> in_rows(*device, in);
        const Array<float> weights(*device, weight);
        const Array<float> biases(*device, bias);
        const Array<int32_t> row_ids(*device, rows);
        const Array<float> rows_out(*device, std::vector<float>(static_cast<size_t>(kRows * columns)));
        Input input(*device, precision, kRows, columns);
        ASSERT_EQ(
            device->ops->norm(device->context, {NormKind::kLayerNorm, in_rows.data(), row_ids.data(), weights.data(),
                                                biases.data(), 1e-5F, &input.activation, kRows, rows_out.data()}),
            KernelStatus::kOk);
        normed[side] = Values(*device, input.activation, kRows);
        plain[side] = rows_out.Read();
        ASSERT_EQ(device->ops->activate(device->context,
                                        {ActivationKind::kSilu, true, in_rows.data(), &input.activation, kRows}),
                  KernelStatus::kOk);
        activated[side] = Values(*device, input.activation, kRows);
      }
      const double step = 2 * StepOf(precision);
      ExpectNear(plain[1], plain[0], 1e-5, 1e-5, "norm, plain");
      ExpectNear(normed[1], normed[0], 1e-5 + step / 16, step, "norm");
      ExpectNear(activated[1], activated[0], 1e-5 + step / 16, step, "activation");
    }
  }
}

TEST_P(DeviceOpsTest, SharedScalesMatchTheCpus) {
  constexpr int32_t kRows = 4;
  constexpr int32_t kColumns = 100;
  const std::vector<float> in = Random(kRows * kColumns, 9);
  for (const InputScaling scaling : {InputScaling::kPerRow, InputScaling::kGiven, InputScaling::kCurrent}) {
    std::vector<float> scales[2];
    std::vector<float> values[2];
    for (Device* device : {cpu_.get(), device_.get()}) {
      const int side = device == device_.get() ? 1 : 0;
      const Array<float> in_rows(*device, in);
      const Array<float> shared(*device, {0.02F, 0.5F});  // scale, amax
      Input input(*device, Precision::kFp8, kRows, kColumns);
      input.activation.scaling = scaling;
      input.activation.shared_scale = shared.data();
      input.activation.amax = shared.data() + 1;
      ASSERT_EQ(device->ops->quantize(device->context, {in_rows.data(), kColumns, &input.activation, kRows}),
                KernelStatus::kOk);
      scales[side] = shared.Read();
      values[side] = Values(*device, input.activation, kRows);
    }
    EXPECT_EQ(scales[0], scales[1]);
    ExpectNear(values[1], values[0], 1e-6, 1e-5, "codes");
  }
}

TEST_P(DeviceOpsTest, OtherOperationsMatchTheCpus) {
  constexpr int32_t kTokens = 6;
  constexpr int32_t kHeads = 4;
  constexpr int32_t kKvHeads = 2;
  constexpr int32_t kHeadDim = 40;
  const int32_t width = (kHeads + 2 * kKvHeads) * kHeadDim;
  const std::vector<float> in = Random(kTokens * width, 10);
  const std::vector<float> norm = Random(kHeadDim, 11);
  const KvLayout layout = MakeKvLayout(DType::kBF16, {.num_layers = 2, .num_kv_heads = kKvHeads, .head_dim = kHeadDim});
  std::vector<float> results[2];
  for (Device* device : {cpu_.get(), device_.get()}) {
    const DeviceOps& ops = *device->ops;
    const Array<float> rows(*device, in);
    const Array<float> other(*device, in);
    const Array<float> bias(*device, Random(width, 12));
    const Array<int32_t> positions(*device, {0, 1, 2, 3, 1000, 100000});
    const Array<float> inv_freq(*device, {1.0F, 0.3F, 0.01F, 1e-4F});
    const Array<float> table(*device, std::vector<float>(kTokens * 8));
    const Array<int32_t> pages(*device, {1, 1, 0, 0, 2, 2});
    const Array<int32_t> slots(*device, {0, 1, 0, 1, 8, 15});
    const Array<unsigned char> pool(*device, Bytes(3 * layout.page_bytes));
    const Array<float> norms(*device, norm);
    ASSERT_EQ(ops.softcap(device->context, {rows.data(), 1.5F, kTokens, width}), KernelStatus::kOk);
    ASSERT_EQ(ops.add(device->context, {rows.data(), bias.data(), other.data(), kTokens, width}), KernelStatus::kOk);
    ASSERT_EQ(ops.rotary_table(device->context, {positions.data(), inv_freq.data(), 1.1F, 8, table.data(), kTokens}),
              KernelStatus::kOk);
    const RotateAndStoreKvParams params{.qkv = rows.data(),
                                        .cos_sin = table.data(),
                                        .rotary_dim = 8,
                                        .num_heads = kHeads,
                                        .kv_pool = pool.data(),
                                        .layout = layout,
                                        .layer = 1,
                                        .token_page = pages.data(),
                                        .token_slot = slots.data(),
                                        .num_tokens = kTokens,
                                        .query_norm = norms.data(),
                                        .key_norm = norms.data(),
                                        .norm_epsilon = 1e-6F};
    ASSERT_EQ(ops.rotate_and_store_kv(device->context, params), KernelStatus::kOk);
    results[device == device_.get() ? 1 : 0] = rows.Read();

    const Array<int32_t> picked(*device, {5, 0, 3});
    const Array<float> copied(*device, std::vector<float>(size_t{3} * kHeadDim));
    ASSERT_EQ(ops.copy_rows(device->context, {other.data(), width, picked.data(), copied.data(), 3, kHeadDim}),
              KernelStatus::kOk);
    std::vector<float> expected;
    for (const int32_t row : {5, 0, 3}) {
      expected.insert(expected.end(), in.begin() + row * width, in.begin() + row * width + kHeadDim);
    }
    EXPECT_EQ(copied.Read(), expected);
  }
  ExpectNear(results[1], results[0], 1e-5, 1e-5, "softcap, add, rotary table and rotation");
}

TEST_P(DeviceOpsTest, CopiesBlocksOfColumns) {
  const std::vector<float> in = Random(2 * 20, 5);
  const Array<float> from(*device_, in);
  const Array<float> to(*device_, std::vector<float>(2 * 14, -1.0F));
  // Rows of 20: blocks of 3 columns at 0, 7 and 14, to 1, 6 and 11 of rows of 14.
  const CopyColumnsParams params{from.data(), 20, 7, to.data() + 1, 14, 5, 2, 3, 3};
  ASSERT_EQ(device_->ops->copy_columns(device_->context, params), KernelStatus::kOk);
  std::vector<float> expected(2 * 14, -1.0F);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < 9; ++i) expected[row * 14 + 1 + i / 3 * 5 + i % 3] = in[row * 20 + i / 3 * 7 + i % 3];
  }
  EXPECT_EQ(to.Read(), expected);
}

TEST_P(DeviceOpsTest, MeasuresItsRoofs) {
  const Array<unsigned char> memory(*device_, Bytes(size_t{16} << 20));
  Roofs roofs;
  RoofParams params{memory.data(), size_t{16} << 20, 1, &roofs};
  ASSERT_EQ(device_->ops->measure_roofs(device_->context, params), KernelStatus::kOk);
  EXPECT_GT(roofs.dram_read_bytes, 0.0);
  EXPECT_GE(roofs.num_threads, 1);
  EXPECT_GT(roofs.fastest[static_cast<int>(Peak::kFp32)].flops, 0.0);
  EXPECT_GT(roofs.fastest[static_cast<int>(Peak::kBf16)].flops, 0.0);
  for (int peak = 0; peak < kNumPeaks; ++peak) {
    EXPECT_LE(roofs.own[peak].flops, roofs.fastest[peak].flops) << peak;
    EXPECT_TRUE(std::isfinite(roofs.fastest[peak].flops)) << peak;
    EXPECT_EQ(roofs.fastest[peak].flops > 0.0, roofs.fastest[peak].unit[0] != 0) << peak;
  }
  params.out = nullptr;
  EXPECT_EQ(device_->ops->measure_roofs(device_->context, params), KernelStatus::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceOpsTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceOpsTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
