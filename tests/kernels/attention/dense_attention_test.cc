// Dense attention against FP64: every mask, the classic awkward sizes, zero lengths, fully masked rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/reference.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

enum class Mask { kNone, kTopLeft, kBottomRight };
constexpr Mask kMasks[] = {Mask::kNone, Mask::kTopLeft, Mask::kBottomRight};
constexpr const char* kMaskNames[] = {"full", "top_left", "bottom_right"};

struct DenseCase {
  int32_t batch;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t q_len;
  int32_t kv_len;
  int32_t head_dim;
};

constexpr DenseCase kCases[] = {
    {3, 3, 3, 1, 1, 64},        {2, 3, 1, 239, 1, 20},   {1, 3, 3, 799, 3, 64},   {2, 8, 1, 113, 203, 80},
    {1, 1, 1, 1023, 1024, 128}, {2, 2, 2, 3, 799, 64},   {1, 8, 8, 64, 64, 96},   {1, 6, 2, 65, 257, 9},
    {1, 2, 2, 50, 40, 1},       {1, 2, 1, 70, 90, 256},  {2, 3, 3, 5, 0, 64},     {2, 3, 3, 0, 5, 64},
    {0, 3, 3, 5, 5, 64},        {2, 4, 4, 256, 256, 32}, {1, 1, 1, 30, 300, 320},
};

// Tensors of one dtype, kept as numbers and as the bytes a kernel reads.
class Tensor {
 public:
  Tensor(DType dtype, uint64_t seed, Kind kind, float range, std::vector<int32_t> shape) : dtype_(dtype) {
    for (int32_t b = 0; b < shape[0]; ++b) {
      for (int32_t h = 0; h < shape[1]; ++h) {
        for (int32_t t = 0; t < shape[2]; ++t) {
          for (int32_t d = 0; d < shape[3]; ++d) {
            Push(range * Synthetic(seed + static_cast<uint64_t>(b), kind, t, h, d));
          }
        }
      }
    }
  }
  const float* At(int64_t row, int32_t head_dim) const { return numbers_.data() + row * head_dim; }
  const void* data() const {
    return dtype_ == DType::kF32 ? static_cast<const void*>(numbers_.data()) : halves_.data();
  }
  size_t size() const { return numbers_.size(); }

 private:
  void Push(float value) {
    numbers_.push_back(RoundTo(dtype_, value));
    if (dtype_ == DType::kF16) halves_.push_back(FloatToFp16(value));
    if (dtype_ == DType::kBF16) halves_.push_back(FloatToBf16(value));
  }
  DType dtype_;
  std::vector<float> numbers_;
  std::vector<uint16_t> halves_;
};

std::vector<float> Widen(DType dtype, const PoisonedMemory& memory, size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32) out[i] = reinterpret_cast<const float*>(memory.data())[i];
    if (dtype == DType::kF16) out[i] = Fp16ToFloat(reinterpret_cast<const uint16_t*>(memory.data())[i]);
    if (dtype == DType::kBF16) out[i] = Bf16ToFloat(reinterpret_cast<const uint16_t*>(memory.data())[i]);
  }
  return out;
}

class DenseAttentionTest : public ::testing::TestWithParam<std::tuple<DType, DenseCase, Mask>> {
 protected:
  DenseAttentionTest()
      : dtype_(std::get<0>(GetParam())),
        dense_(std::get<1>(GetParam())),
        mask_(std::get<2>(GetParam())),
        q_(dtype_, 1, Kind::kQuery, 2.0F, {dense_.batch, dense_.num_heads, dense_.q_len, dense_.head_dim}),
        k_(dtype_, 1, Kind::kKey, 1.0F, {dense_.batch, dense_.num_kv_heads, dense_.kv_len, dense_.head_dim}),
        v_(dtype_, 1, Kind::kValue, 1.0F, {dense_.batch, dense_.num_kv_heads, dense_.kv_len, dense_.head_dim}) {}

  int32_t Limit(int32_t row) const {
    if (mask_ == Mask::kNone) return dense_.kv_len;
    const int32_t shift = mask_ == Mask::kTopLeft ? 0 : dense_.kv_len - dense_.q_len;
    return std::clamp(row + 1 + shift, 0, dense_.kv_len);
  }

  std::vector<float> Run(AttentionBackend backend, const std::string& variant, int threads) {
    Device& device = CpuDevice(variant, threads);
    PoisonedMemory out(q_.size() * SizeOf(dtype_));
    DenseAttentionParams params{
        .backend = backend,
        .dtype = dtype_,
        .q = q_.data(),
        .k = k_.data(),
        .v = v_.data(),
        .out = out.data(),
        .batch = dense_.batch,
        .num_heads = dense_.num_heads,
        .num_kv_heads = dense_.num_kv_heads,
        .q_len = dense_.q_len,
        .kv_len = dense_.kv_len,
        .head_dim = dense_.head_dim,
        .causal = mask_ != Mask::kNone,
        .alignment = mask_ == Mask::kTopLeft ? CausalAlignment::kTopLeft : CausalAlignment::kBottomRight,
        .scale = kScale,
        .workspace = nullptr,
        .workspace_bytes = 0};
    PoisonedMemory workspace(device.ops->dense_attention_workspace(device.context, params));
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.size();
    const KernelStatus status = device.ops->dense_attention(device.context, params);
    EXPECT_EQ(status, KernelStatus::kOk) << Describe(backend, dtype_, variant);
    EXPECT_TRUE(workspace.Intact() && out.Intact()) << Describe(backend, dtype_, variant);
    return Widen(dtype_, out, q_.size());
  }

  // Rows that are compared: all of a small case, both ends and some of the middle of a large one.
  bool Checked(int32_t row) const {
    return int64_t{dense_.q_len} * dense_.kv_len < 40000 || row < 8 || row >= dense_.q_len - 24 || row % 23 == 0;
  }

  static constexpr float kScale = 0.25F;
  DType dtype_;
  DenseCase dense_;
  Mask mask_;
  Tensor q_, k_, v_;
};

TEST_P(DenseAttentionTest, StaysWithinTwiceTheUnfusedError) {
  struct Result {
    std::string name;
    std::vector<float> out;
    ErrorBound bound;
  };
  std::vector<Result> results;
  for (const std::string& variant : AvailableCpuVariants()) {
    for (const AttentionBackend backend : kBackends) {
      const AttentionTraits traits{dtype_, dense_.head_dim, dense_.num_heads, dense_.num_kv_heads};
      Device& device = CpuDevice(variant, 2);
      if (!device.ops->supports_attention(device.context, backend, traits, nullptr)) continue;
      results.push_back({Describe(backend, dtype_, variant), Run(backend, variant, 2), {}});
    }
  }
  const int32_t group = dense_.num_heads / dense_.num_kv_heads;
  for (int32_t b = 0; b < dense_.batch; ++b) {
    for (int32_t h = 0; h < dense_.num_heads; ++h) {
      const int64_t kv_row = (int64_t{b} * dense_.num_kv_heads + h / group) * dense_.kv_len;
      for (int32_t t = 0; t < dense_.q_len; ++t) {
        const int64_t q_row = (int64_t{b} * dense_.num_heads + h) * dense_.q_len + t;
        if (!Checked(t)) continue;
        const ReferenceRow row{.q = q_.At(q_row, dense_.head_dim),
                               .keys = k_.At(kv_row, dense_.head_dim),
                               .values = v_.At(kv_row, dense_.head_dim),
                               .limit = Limit(t),
                               .head_dim = dense_.head_dim,
                               .scale = kScale};
        const std::vector<double> exact = ExactRow(row);
        const std::vector<float> unfused = UnfusedRow(row, dtype_);
        for (Result& result : results) {
          const float* actual = result.out.data() + q_row * dense_.head_dim;
          result.bound.Add(exact, unfused, actual);
          if (row.limit == 0) {
            EXPECT_TRUE(std::all_of(actual, actual + dense_.head_dim, [](float x) { return x == 0.0F; }))
                << result.name << ": a fully masked row gives zeros";
          }
        }
      }
    }
  }
  for (const Result& result : results) {
    EXPECT_TRUE(result.bound.holds()) << result.name << ": error " << result.bound.actual() << ", limit "
                                      << result.bound.limit();
  }
}

std::string CaseName(const ::testing::TestParamInfo<std::tuple<DType, DenseCase, Mask>>& test) {
  const auto& [dtype, dense, mask] = test.param;
  return std::string(Name(dtype)) + "_b" + std::to_string(dense.batch) + "_h" + std::to_string(dense.num_heads) +
         "_kv" + std::to_string(dense.num_kv_heads) + "_" + std::to_string(dense.q_len) + "x" +
         std::to_string(dense.kv_len) + "_d" + std::to_string(dense.head_dim) + "_" +
         kMaskNames[static_cast<int>(mask)];
}

INSTANTIATE_TEST_SUITE_P(Grid, DenseAttentionTest,
                         ::testing::Combine(::testing::ValuesIn(kDTypes), ::testing::ValuesIn(kCases),
                                            ::testing::ValuesIn(kMasks)),
                         CaseName);

}  // namespace
}  // namespace dunlin::kernels::testing
