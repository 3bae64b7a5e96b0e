// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM with paired outputs on the host's machine: gates and heads have the bytes of the product's FP32 rows
// through activate or rotate_and_store_kv, whatever the tile, and what the kernels say they take.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/ops/kv_store.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

// run(tile) for each of the tile shapes, with paired outputs.
template <typename Format, typename Run>
void ForPairedTiles(const Run& run) {
  for (int32_t shape = 0; shape < kWgmmaTileShapes; ++shape) {
    SCOPED_TRACE("tile shape " + std::to_string(shape));
    WithWgmmaTile<Format>(static_cast<WgmmaTileShape>(shape),
                          [&](auto tile) { run(PairedTile<decltype(tile)>(), shape); });
  }
}

Activation NextInputOf(const HostMatrix& next) {
  Activation activation{.data = next.view().data, .precision = next.view().precision};
  activation.capacity_rows = static_cast<int32_t>(next.view().rows);
  activation.columns = static_cast<int32_t>(next.view().columns);
  return activation;
}

bool SameInputBytes(const HostMatrix& a, const HostMatrix& b) {
  const MatrixView& view = a.view();
  return std::memcmp(view.data, b.view().data,
                     static_cast<size_t>(MatrixBytes(view.precision, view.rows, view.columns, 0))) == 0;
}

template <Precision kPrecision>
void ActivateRows(const std::vector<float>& sums, ActivationKind kind, int32_t first, int32_t count,
                  const HostMatrix& next) {
  RowTarget target{};
  target.out = next.view();
  const ActivateSource source{kind, true, sums.data(), next.view().columns, false};
  for (int32_t row = first; row < first + count; ++row) WriteRow<kPrecision>(SingleLane(), source, target, row);
}

struct GatedShape {
  int32_t rows;
  int32_t first;
  int32_t count;
  int64_t columns;  // of the next input
  int64_t depth;
};
// Tails of every tile's pairs and of rows, more K than there are stages of.
constexpr GatedShape kGatedShapes[] = {
    {1, 0, 1, 16, 64}, {9, 2, 6, 144, 1700}, {70, 1, 69, 80, 200}, {140, 0, 140, 304, 72}};

template <typename Format>
void CheckGates(Precision precision, ActivationKind kind) {
  for (const GatedShape& shape : kGatedShapes) {
    SCOPED_TRACE(shape.columns);
    GemmProduct product(precision, shape.rows, 2 * shape.columns, shape.depth, 2 * shape.columns);
    product.packed.gated = true;
    GemmParams params{&product.activation, &product.packed, product.bias.data(), nullptr, nullptr, 0, shape.rows};
    std::vector<float> sums(product.before.size());
    params.out = sums.data();
    params.out_stride = product.stride;
    TileCall rows = TileCallOf(params, 0, shape.rows, false, nullptr);
    rows.multiprocessors = 132;
    ASSERT_EQ(RunWgmma<Wgmma64x128<Format>>(rows), "");
    const HostMatrix expected(precision, shape.rows, shape.columns);
    if (precision == Precision::kBf16) {
      ActivateRows<Precision::kBf16>(sums, kind, shape.first, shape.count, expected);
    } else {
      ActivateRows<Precision::kFp16>(sums, kind, shape.first, shape.count, expected);
    }
    params.out = nullptr;
    params.activation = kind;
    ForPairedTiles<Format>([&](auto tile, int32_t index) {
      const HostMatrix next(precision, shape.rows, shape.columns);
      Activation activation = NextInputOf(next);
      params.next = &activation;
      ASSERT_TRUE(TakesPairs(params));
      TileCall call = TileCallOf(params, shape.first, shape.count, false, nullptr);
      call.multiprocessors = index % 2 == 0 ? 1 : 132;
      ASSERT_EQ(RunWgmma<decltype(tile)>(call, {.seed = static_cast<uint64_t>(index)}), "");
      EXPECT_TRUE(SameInputBytes(next, expected));
    });
  }
}
TEST(PairedGemm, GatesHaveTheBytesOfTheActivation) {
  CheckGates<Bf16Format>(Precision::kBf16, ActivationKind::kSilu);
  CheckGates<Fp16Format>(Precision::kFp16, ActivationKind::kGeluTanh);
}

// A product into heads, with a slot of its own for each token in pages that are 0xFF at first.
struct HeadsProduct {
  HeadsProduct(Precision precision, int32_t num_tokens, int32_t num_heads, int32_t num_kv_heads, int32_t head_dim,
               bool rotated, DType dtype)
      : product(precision, num_tokens, (num_heads + 2 * int64_t{num_kv_heads}) * head_dim, 200,
                (num_heads + 2 * int64_t{num_kv_heads}) * head_dim),
        cos_sin(RandomValues(int64_t{num_tokens} * head_dim, 7)) {
    heads.num_heads = num_heads;
    heads.layout = MakeKvLayout(dtype, {.num_layers = 2, .num_kv_heads = num_kv_heads, .head_dim = head_dim});
    heads.layer = 1;
    heads.cos_sin = rotated ? cos_sin.data() : nullptr;
    heads.rotary_dim = rotated ? head_dim : 0;
    heads.num_tokens = num_tokens;
    for (int32_t token = 0; token < num_tokens; ++token) {
      const int32_t place = num_tokens * 3 - token * 3;
      pages.push_back(place / heads.layout.tokens_per_page);
      slots.push_back(place % heads.layout.tokens_per_page);
    }
    heads.token_page = pages.data();
    heads.token_slot = slots.data();
    pool_bytes = heads.layout.page_bytes * static_cast<size_t>(num_tokens * 3 / heads.layout.tokens_per_page + 1);
  }
  struct Result {
    std::vector<float> out;
    std::vector<unsigned char> pool;
  };
  Result Poisoned() const { return {product.before, std::vector<unsigned char>(pool_bytes, 0xFF)}; }
  RotateAndStoreKvParams HeadsInto(Result* result) const {
    RotateAndStoreKvParams into = heads;
    into.qkv = result->out.data();
    into.kv_pool = result->pool.data();
    return into;
  }
  GemmParams Params(Result* result) const {
    GemmParams params{&product.activation, &product.packed, product.bias.data(), nullptr,
                      result->out.data(),  product.stride,  heads.num_tokens};
    return params;
  }
  // Rows [first, first + count): the product, then each head.
  template <typename Tile>
  Result Apart(int32_t first, int32_t count) const {
    Result result = Poisoned();
    TileCall call = TileCallOf(Params(&result), first, count, false, nullptr);
    call.multiprocessors = 132;
    EXPECT_EQ(RunWgmma<Tile>(call), "");
    const RotateAndStoreKvParams into = HeadsInto(&result);
    for (int32_t token = first; token < first + count; ++token) {
      for (int32_t head = 0; head < FusedHeads(into); ++head) RotateAndStoreHead(SingleLane(), into, token, head);
    }
    // Their columns of `out` are not written.
    const auto query = static_cast<ptrdiff_t>(int64_t{heads.num_heads} * heads.layout.shape.head_dim);
    for (int32_t token = first; token < first + count; ++token) {
      const auto begin = static_cast<ptrdiff_t>(token * product.stride);
      std::copy(product.before.begin() + begin + query,
                product.before.begin() + begin + static_cast<ptrdiff_t>(product.stride),
                result.out.begin() + begin + query);
    }
    return result;
  }
  template <typename Tile>
  std::string Run(int32_t first, int32_t count, int32_t multiprocessors, const MachineOptions& options,
                  Result* result) const {
    const RotateAndStoreKvParams into = HeadsInto(result);
    GemmParams params = Params(result);
    params.heads = &into;
    EXPECT_TRUE(TakesPairs(params));
    TileCall call = TileCallOf(params, first, count, false, nullptr);
    call.multiprocessors = multiprocessors;
    return RunWgmma<Tile>(call, options);
  }

  GemmProduct product;
  std::vector<float> cos_sin;
  std::vector<int32_t> pages;
  std::vector<int32_t> slots;
  size_t pool_bytes = 0;
  RotateAndStoreKvParams heads{};
};

template <typename Format>
void CheckHeads(Precision precision, DType dtype, int32_t num_tokens, int32_t num_heads, int32_t num_kv_heads,
                int32_t head_dim, bool rotated) {
  SCOPED_TRACE(std::string(Name(precision)) + " heads of " + std::to_string(head_dim));
  const HeadsProduct product(precision, num_tokens, num_heads, num_kv_heads, head_dim, rotated, dtype);
  const int32_t first = num_tokens / 4;
  const int32_t count = num_tokens - first - num_tokens / 8;
  const HeadsProduct::Result expected = product.Apart<Wgmma64x128<Format>>(first, count);
  ForPairedTiles<Format>([&](auto tile, int32_t index) {
    HeadsProduct::Result result = product.Poisoned();
    const MachineOptions options{.seed = static_cast<uint64_t>(index)};
    ASSERT_EQ(product.Run<decltype(tile)>(first, count, index % 2 == 0 ? 132 : 1, options, &result), "");
    EXPECT_EQ(result.out, expected.out);
    EXPECT_EQ(result.pool, expected.pool);
  });
}
TEST(PairedGemm, HeadsHaveTheBytesOfTheirRotationAndStore) {
  CheckHeads<Bf16Format>(Precision::kBf16, DType::kBF16, 1, 1, 1, 16, true);
  CheckHeads<Bf16Format>(Precision::kBf16, DType::kBF16, 11, 4, 1, 64, true);
  CheckHeads<Fp16Format>(Precision::kFp16, DType::kF16, 9, 3, 3, 128, true);
  CheckHeads<E4M3Format>(Precision::kFp8, DType::kBF16, 20, 2, 1, 256, true);
  CheckHeads<E4M3Format>(Precision::kFp8, DType::kBF16, 70, 3, 1, 32, true);
  CheckHeads<Bf16Format>(Precision::kBf16, DType::kBF16, 140, 2, 2, 64, false);
}

// Inputs and what the store of heads reads are NaN until a thread waits for the preceding kernel.
TEST(PairedGemm, OnlyWeightsAreReadBeforeThePrecedingKernelEnds) {
  HeadsProduct product(Precision::kBf16, 5, 4, 1, 64, true, DType::kBF16);
  const HeadsProduct::Result expected = product.Apart<Swapped8x16<Bf16Format>>(0, 5);
  const MatrixView& in = product.product.in.view();
  const std::vector<unsigned char> inputs(in.data, in.data + 5 * RowBytes(in.precision, in.columns));
  const std::vector<float> cos_sin = product.cos_sin;
  const std::vector<int32_t> pages = product.pages;
  MachineOptions options;
  options.preceding_begins = [&] {
    std::fill_n(in.data, inputs.size(), static_cast<unsigned char>(0xFF));
    std::ranges::fill(product.cos_sin, std::numeric_limits<float>::quiet_NaN());
    std::ranges::fill(product.pages, 0);
  };
  options.preceding_ends = [&] {
    std::ranges::copy(inputs, in.data);
    std::ranges::copy(cos_sin, product.cos_sin.begin());
    std::ranges::copy(pages, product.pages.begin());
  };
  for (options.seed = 1; options.seed < 4; ++options.seed) {
    HeadsProduct::Result result = product.Poisoned();
    EXPECT_EQ(product.Run<PairedTile<Swapped8x16<Bf16Format>>>(0, 5, 1, options, &result), "");
    EXPECT_EQ(result.out, expected.out);
    EXPECT_EQ(result.pool, expected.pool);
  }
  options.mistake = Mistake::kSkippedPrecedingWait;
  HeadsProduct::Result result = product.Poisoned();
  (void)product.Run<PairedTile<Swapped8x16<Bf16Format>>>(0, 5, 1, options, &result);
  EXPECT_NE(result.out, expected.out) << "nothing was waited for";
}

PackedWeight PairedWeightOf(Precision precision, int64_t out_features, bool gated) {
  PackedWeight weight{.precision = precision, .out_features = out_features, .in_features = 64};
  weight.format = Traits(precision).format;
  weight.gated = gated;
  return weight;
}

TEST(PairedGemm, TakesGatesOfTheirOwnFormat) {
  const auto takes = [](const PackedWeight& weight, const Activation& next, ActivationKind kind) {
    GemmParams params{};
    params.weight = &weight;
    Activation into = next;
    params.next = &into;
    params.activation = kind;
    return OutputsOf(params) == GemmOutputs::kGated && TakesPairs(params);
  };
  Activation next{.precision = Precision::kBf16, .capacity_rows = 1, .columns = 48};
  const PackedWeight weight = PairedWeightOf(Precision::kBf16, 96, true);
  EXPECT_TRUE(takes(weight, next, ActivationKind::kSilu));
  EXPECT_TRUE(takes(weight, next, ActivationKind::kGeluTanh));
  EXPECT_FALSE(takes(weight, next, ActivationKind::kGeluErf));
  EXPECT_FALSE(takes(PairedWeightOf(Precision::kBf16, 96, false), next, ActivationKind::kSilu));
  EXPECT_FALSE(takes(PairedWeightOf(Precision::kFp16, 96, true), next, ActivationKind::kSilu));
  EXPECT_FALSE(takes(PairedWeightOf(Precision::kFp8, 96, true), next, ActivationKind::kSilu));
  PackedWeight coded = weight;
  coded.format = WeightFormat::kInt4;
  EXPECT_FALSE(takes(coded, next, ActivationKind::kSilu));
  float amax = 0.0F;
  next.amax = &amax;
  EXPECT_FALSE(takes(weight, next, ActivationKind::kSilu)) << "an amax is one of whole rows";
  next.amax = nullptr;
  next.columns = 40;
  EXPECT_FALSE(takes(PairedWeightOf(Precision::kBf16, 80, true), next, ActivationKind::kSilu)) << "padding columns";
}

TEST(PairedGemm, TakesHeadsWithoutNormsIntoPagesOf16Bits) {
  const auto takes = [](auto&& change, Precision precision = Precision::kBf16, DType dtype = DType::kBF16,
                        int32_t head_dim = 64, int32_t scale_block = 0) {
    RotateAndStoreKvParams heads{};
    const float number = 0.0F;
    heads.num_heads = 4;
    heads.layout = MakeKvLayout(dtype, {.num_layers = 1, .num_kv_heads = 2, .head_dim = head_dim});
    heads.cos_sin = &number;
    heads.rotary_dim = head_dim;
    change(heads, &number);
    PackedWeight weight = PairedWeightOf(precision, 8 * int64_t{head_dim}, false);
    weight.scale_block = scale_block;
    GemmParams params{};
    params.weight = &weight;
    params.heads = &heads;
    return OutputsOf(params) == GemmOutputs::kHeads && TakesPairs(params);
  };
  const auto nothing = [](RotateAndStoreKvParams&, const float*) {};
  for (const int32_t head_dim : {16, 32, 64, 128, 256}) {
    EXPECT_TRUE(takes(nothing, Precision::kBf16, DType::kBF16, head_dim));
    EXPECT_TRUE(takes(nothing, Precision::kFp8, DType::kBF16, head_dim));
    EXPECT_TRUE(takes(nothing, Precision::kFp16, DType::kF16, head_dim));
  }
  for (const int32_t head_dim : {8, 80, 96, 512}) {
    EXPECT_FALSE(takes(nothing, Precision::kBf16, DType::kBF16, head_dim));
  }
  EXPECT_FALSE(takes(nothing, Precision::kFp32, DType::kF32));
  EXPECT_FALSE(takes(nothing, Precision::kFp8, DType::kF8E4M3));
  EXPECT_FALSE(takes(nothing, Precision::kFp8, DType::kBF16, 64, kScaleBlock));
  EXPECT_TRUE(takes([](RotateAndStoreKvParams& heads, const float*) { heads.cos_sin = nullptr; }));
  EXPECT_FALSE(takes([](RotateAndStoreKvParams& heads, const float*) { heads.rotary_dim = 32; }));
  EXPECT_FALSE(takes([](RotateAndStoreKvParams& heads, const float* norm) { heads.query_norm = norm; }));
  EXPECT_FALSE(takes([](RotateAndStoreKvParams& heads, const float*) { heads.query_only = true; }));
  EXPECT_FALSE(takes([](RotateAndStoreKvParams& heads, const float*) { heads.value_norm = true; }));
  EXPECT_FALSE(takes([](RotateAndStoreKvParams& heads, const float*) { heads.num_heads = 3; }));
}

// On 9.0 the kernels that fill pairs compute both phases; other devices have none.
TEST(PairedGemm, TheKernelTableHasPairsOnDevice90) {
  for (const GemmOutputs outputs : {GemmOutputs::kGated, GemmOutputs::kHeads}) {
    for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
      const PackedWeight weight = PairedWeightOf(precision, 96, false);
      const GemmKernel* kernel = FindGemmKernel(90, weight, GemmPhase::kDecode, 0, outputs);
      ASSERT_NE(kernel, nullptr);
      EXPECT_TRUE(kernel->paired);
      EXPECT_EQ(FindGemmKernel(90, weight, GemmPhase::kPrefill, 0, outputs), kernel);
      EXPECT_EQ(FindGemmKernel(90, weight, GemmPhase::kPrefill, CheckedGemms(), outputs), nullptr);
      EXPECT_EQ(FindGemmKernel(80, weight, GemmPhase::kDecode, 0, outputs), nullptr);
      EXPECT_FALSE(FindGemmKernel(90, weight, GemmPhase::kDecode)->paired);
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
