// SPDX-License-Identifier: Apache-2.0
// What a device fuses of a decode step has the bytes of its own separate operations: gates in the product before them,
// heads into rotation and pages, attention into the output projection's input.
#include <string>
#include <vector>

#include "tests/kernels/loader/device_products.h"

namespace dunlin::kernels {
namespace {

class DevicePairsTest : public DeviceTest {
 protected:
  const DeviceOps& ops() const { return *device_->ops; }
  // FP32 rows into an input.
  void Fill(const Input& input, const std::vector<float>& values) {
    const Array<float> rows(*device_, values);
    const int32_t columns = input.activation.columns;
    Activation into = input.activation;
    const QuantizeParams params{
        .in = rows.data(), .in_stride = columns, .out = &into, .num_rows = input.activation.capacity_rows};
    ASSERT_EQ(ops().quantize(device_->context, params), KernelStatus::kOk);
    ASSERT_EQ(ops().synchronize(device_->context), KernelStatus::kOk);
  }
};

constexpr int32_t kPairIns = 200;
constexpr int32_t kPairHeads = 6;
constexpr int32_t kPairKvHeads = 2;

// Rows of every kind of tile, one of them alone, some of which decode.
constexpr int32_t kPairRows[] = {1, 5, 12, 30, 64, 150};

GemmParams ProductOf(const Input& input, const Weight& weight, int32_t rows) {
  GemmParams params{};
  params.in = &input.activation;
  params.weight = &weight.packed;
  params.num_rows = rows;
  params.decode_rows = rows / 2;
  return params;
}

TEST_P(DevicePairsTest, GatesHaveTheBytesOfTheirActivation) {
  constexpr int32_t kOuts = 160;
  int fused = 0;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    Weight weight(*device_, precision, Random(2 * kOuts * kPairIns, 1), 2 * kOuts, kPairIns);
    weight.packed.gated = true;
    const Array<float> bias(*device_, Random(2 * kOuts, 2));
    for (const int32_t rows : kPairRows) {
      SCOPED_TRACE(std::string(Name(precision)) + " rows " + std::to_string(rows));
      Input input(*device_, precision, rows, kPairIns);
      Fill(input, Random(rows * kPairIns, 3));
      Input together(*device_, precision, rows, kOuts);
      Input apart(*device_, precision, rows, kOuts);
      GemmParams params = ProductOf(input, weight, rows);
      params.bias = bias.data();
      params.next = &together.activation;
      params.activation = ActivationKind::kSilu;
      if (!ops().gemm_fuses(device_->context, params)) continue;
      ++fused;
      ASSERT_EQ(ops().gemm(device_->context, params), KernelStatus::kOk);
      const Array<float> sums(*device_, std::vector<float>(static_cast<size_t>(rows) * 2 * kOuts));
      params.next = nullptr;
      params.out = sums.data();
      params.out_stride = 2 * kOuts;
      ASSERT_EQ(ops().gemm(device_->context, params), KernelStatus::kOk);
      const ActivateParams activate{ActivationKind::kSilu, true, sums.data(), &apart.activation, rows};
      ASSERT_EQ(ops().activate(device_->context, activate), KernelStatus::kOk);
      EXPECT_EQ(Values(*device_, together.activation, rows), Values(*device_, apart.activation, rows));
    }
  }
  if (fused == 0) GTEST_SKIP() << "the device fuses no gates";
}

// Queries of rows, and pages, of a product into heads.
struct StoredHeads {
  bool fused = false;
  std::vector<float> queries;
  Bytes pool;
};

StoredHeads RunHeads(Device& device, GemmParams params, RotateAndStoreKvParams heads, bool together) {
  const auto rows = static_cast<size_t>(params.num_rows);
  const auto width = static_cast<size_t>(params.weight->out_features);
  const Array<float> out(device, std::vector<float>(rows * width));
  const Array<unsigned char> pool(device, Bytes(heads.layout.page_bytes * rows));
  heads.qkv = params.out = out.data();
  heads.kv_pool = pool.data();
  params.out_stride = static_cast<int64_t>(width);
  params.heads = together ? &heads : nullptr;
  if (together && !device.ops->gemm_fuses(device.context, params)) return {};
  EXPECT_EQ(device.ops->gemm(device.context, params), KernelStatus::kOk);
  if (!together) {
    EXPECT_EQ(device.ops->rotate_and_store_kv(device.context, heads), KernelStatus::kOk);
  }
  StoredHeads stored{true, {}, pool.Read()};
  const std::vector<float> all = out.Read();
  const size_t queries = width * kPairHeads / (kPairHeads + 2 * kPairKvHeads);
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(row * width);
    stored.queries.insert(stored.queries.end(), begin, begin + static_cast<ptrdiff_t>(queries));
  }
  return stored;
}

TEST_P(DevicePairsTest, HeadsHaveTheBytesOfTheirRotationAndStore) {
  int fused = 0;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    for (const int32_t head_dim : {64, 128}) {
      const int32_t width = (kPairHeads + 2 * kPairKvHeads) * head_dim;
      const Weight weight(*device_, precision, Random(int64_t{width} * kPairIns, 1), width, kPairIns);
      for (const int32_t rows : kPairRows) {
        SCOPED_TRACE(std::string(Name(precision)) + " heads of " + std::to_string(head_dim) + " rows " +
                     std::to_string(rows));
        Input input(*device_, precision, rows, kPairIns);
        Fill(input, Random(rows * kPairIns, 3));
        const Array<float> table(*device_, Random(int64_t{rows} * head_dim, 4));
        RotateAndStoreKvParams heads{};
        heads.layout = MakeKvLayout(Traits(precision).kv_dtype,
                                    {.num_layers = 2, .num_kv_heads = kPairKvHeads, .head_dim = head_dim});
        std::vector<int32_t> places[2];
        for (int32_t row = 0; row < rows; ++row) {
          places[0].push_back((row * 5 + 3) / heads.layout.tokens_per_page);
          places[1].push_back((row * 5 + 3) % heads.layout.tokens_per_page);
        }
        const Array<int32_t> pages(*device_, places[0]);
        const Array<int32_t> slots(*device_, places[1]);
        heads.cos_sin = table.data();
        heads.rotary_dim = head_dim;
        heads.num_heads = kPairHeads;
        heads.layer = 1;
        heads.token_page = pages.data();
        heads.token_slot = slots.data();
        heads.num_tokens = rows;
        const StoredHeads together = RunHeads(*device_, ProductOf(input, weight, rows), heads, true);
        if (!together.fused) continue;
        ++fused;
        const StoredHeads apart = RunHeads(*device_, ProductOf(input, weight, rows), heads, false);
        EXPECT_EQ(together.queries, apart.queries);
        EXPECT_EQ(together.pool, apart.pool);
      }
    }
  }
  if (fused == 0) GTEST_SKIP() << "the device fuses no heads";
}

constexpr int32_t kRoundedDim = 64;
constexpr int32_t kRoundedColumns = kPairHeads * kRoundedDim;
constexpr int32_t kRoundedKeys[] = {3000, 1, 700};

// Of sequences with kRoundedKeys: the first decodes and the last has two rows.
std::vector<SequenceSpan> SpansOfKeys() {
  std::vector<SequenceSpan> spans;
  int32_t rows = 0;
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t count = i == 2 ? 2 : 1;
    spans.push_back(
        {.query_start = rows, .query_len = count, .first_position = kRoundedKeys[i] - count, .page_table_row = i});
    rows += count;
  }
  return spans;
}

TEST_P(DevicePairsTest, AttentionHasTheBytesOfRowsThatAreQuantised) {
  constexpr int32_t kRows = 4;
  int fused = 0;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    PagedAttentionParams params{};
    params.layout = MakeKvLayout(Traits(precision).kv_dtype,
                                 {.num_layers = 1, .num_kv_heads = kPairKvHeads, .head_dim = kRoundedDim});
    const int32_t table_width = kRoundedKeys[0] / params.layout.tokens_per_page + 1;
    Input keys(*device_, precision, 1, static_cast<int32_t>(params.layout.page_bytes / 2) * table_width);
    Fill(keys, Random(keys.activation.columns, 5));
    std::vector<int32_t> pages;
    for (int32_t i = 0; i < 3 * table_width; ++i) pages.push_back(i * 7 % table_width);
    const Array<int32_t> table(*device_, pages);
    const Array<SequenceSpan> sequences(*device_, SpansOfKeys());
    const Array<float> query(*device_, Random(int64_t{kRows} * kRoundedColumns, 6));
    const Array<float> out(*device_, std::vector<float>(size_t{kRows} * kRoundedColumns));
    Input together(*device_, precision, kRows, kRoundedColumns);
    Input apart(*device_, precision, kRows, kRoundedColumns);
    params.query = query.data();
    params.query_stride = kRoundedColumns;
    params.kv_pool = keys.memory.data();
    params.num_pages = table_width;
    params.num_heads = kPairHeads;
    params.page_table = table.data();
    params.page_table_stride = table_width;
    params.sequences = sequences.data();
    params.num_sequences = 3;
    params.num_one_token_sequences = 2;
    params.num_rows = kRows;
    params.max_query_tokens = 2;
    params.max_kv_tokens = kRoundedKeys[0];
    params.scale = 0.125F;
    for (const AttentionBackend backend :
         {AttentionBackend::kFlash, AttentionBackend::kEfficient, AttentionBackend::kMath}) {
      SCOPED_TRACE(std::string(Name(precision)) + " " + Name(backend));
      PagedAttentionPlan plan{};
      plan.traits = {
          .dtype = params.layout.dtype, .head_dim = kRoundedDim, .num_heads = kPairHeads, .num_kv_heads = kPairKvHeads};
      plan.max_query_tokens = 2;
      plan.max_kv_tokens = kRoundedKeys[0];
      const Array<unsigned char> workspace(*device_,
                                           Bytes(ops().paged_attention_workspace(device_->context, backend, plan)));
      params.backend = backend;
      params.workspace = workspace.data();
      params.workspace_bytes = ops().paged_attention_workspace(device_->context, backend, plan);
      params.next = &together.activation;
      params.out = nullptr;
      if (!ops().attention_fuses(device_->context, params)) continue;
      ++fused;
      ASSERT_EQ(ops().paged_attention(device_->context, params), KernelStatus::kOk);
      params.next = nullptr;
      params.out = out.data();
      ASSERT_EQ(ops().paged_attention(device_->context, params), KernelStatus::kOk);
      const QuantizeParams quantize{
          .in = out.data(), .in_stride = kRoundedColumns, .out = &apart.activation, .num_rows = kRows};
      ASSERT_EQ(ops().quantize(device_->context, quantize), KernelStatus::kOk);
      EXPECT_EQ(Values(*device_, together.activation, kRows), Values(*device_, apart.activation, kRows));
    }
  }
  if (fused == 0) GTEST_SKIP() << "the device's attention writes FP32 rows";
}

INSTANTIATE_TEST_SUITE_P(Fake, DevicePairsTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DevicePairsTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
