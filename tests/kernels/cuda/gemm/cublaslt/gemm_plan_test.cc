// SPDX-License-Identifier: Apache-2.0
// The GEMMs requested from cuBLASLt, computed by a fake of it, against FP64.
#include "kernels/cuda/gemm/cublaslt/gemm_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/gemm/cublaslt/cublaslt_library.h"
#include "tests/kernels/cuda/gemm/cublaslt/fake_cublaslt.h"
#include "tests/kernels/cuda/ops/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kPlanRows = 5;

// Padding rows are device memory, which starts as zeros.
void FillAs(const HostMatrix& matrix, uint32_t seed) {
  FillRandom(matrix, seed);
  const MatrixView& view = matrix.view();
  for (int64_t row = view.rows; row < PaddedRows(view.rows); ++row) {
    std::memset(view.row(row), 0, static_cast<size_t>(RowBytes(view.precision, view.columns)));
    if (view.precision == Precision::kFp8) view.scales()[row] = 0.0F;
  }
}

struct alignas(16) Line {
  float values[4];
};

class GemmPlanTest : public ::testing::Test {
 protected:
  GemmPlanTest() { FakeCublasLtState() = FakeCublasLt(); }
  ~GemmPlanTest() override { EXPECT_EQ(FakeCublasLtState().objects, 0) << "every descriptor is given back"; }

  Line workspace_[1] = {};
};

struct PlanShape {
  int64_t out_features;
  int64_t in_features;
  int64_t out_stride;
};

// What gemm.cu does with a call, with its kernels in plain C++.
KernelStatus RunGemm(GemmPlans* plans, const GemmParams& params, const HostMatrix& weight, const HostMatrix& in) {
  const bool staged = NeedsStaging(params, 0);
  const GemmForm form = FormOf(params, staged, params.num_rows);
  std::vector<Line> staging(staged ? static_cast<size_t>(form.out_stride * params.num_rows / 4) : 0);
  const GemmOperands operands{.weight = weight.view().data,
                              .in = in.view().data,
                              .weight_scales = weight.view().scales(),
                              .in_scales = in.view().scales(),
                              .bias = params.bias,
                              .residual = params.residual,
                              .out = staged ? staging[0].values : params.out,
                              .num_rows = params.num_rows};
  const KernelStatus status = plans->Run(form, operands, nullptr);
  if (status != KernelStatus::kOk) return status;
  for (int64_t m = 0; m < params.num_rows; ++m) {
    for (int64_t n = 0; n < weight.view().rows; ++n) {
      float* out = params.out + m * params.out_stride + n;
      if (staged)
        *out = staging[0].values[m * form.out_stride + n] +
               (params.residual == nullptr ? 0.0F : *(params.residual + m * params.out_stride + n));
      if (params.bias != nullptr && !form.bias) *out += params.bias[n];
    }
  }
  return status;
}

TEST_F(GemmPlanTest, EveryPrecisionAndFormMatchesFp64) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  for (const Precision precision : kAllPrecisions) {
    for (const PlanShape& shape :
         {PlanShape{32, 48, 32}, PlanShape{19, 21, 19}, PlanShape{32, 16, 36}, PlanShape{16, 7, 21}}) {
      for (const bool with_bias : {false, true}) {
        for (const bool with_residual : {false, true}) {
          const HostMatrix weight(precision, shape.out_features, shape.in_features);
          const HostMatrix in(precision, kPlanRows, shape.in_features);
          FillAs(weight, 1);
          FillAs(in, 2);
          const std::vector<float> bias_values = RandomValues(PaddedRows(shape.out_features), 3);
          std::vector<Line> bias(bias_values.size() / 4);
          std::memcpy(bias.data(), bias_values.data(), bias_values.size() * sizeof(float));
          const std::vector<float> before = RandomValues(kPlanRows * shape.out_stride, 4);
          std::vector<Line> out(before.size() / 4 + 1);
          std::memcpy(out.data(), before.data(), before.size() * sizeof(float));
          const PackedWeight packed = weight.Weight();
          const Activation input{};
          GemmParams params{};
          params.in = &input;
          params.weight = &packed;
          params.bias = with_bias ? bias[0].values : nullptr;
          params.residual = with_residual ? out[0].values : nullptr;  // in place, as the engine adds the residual
          params.out = out[0].values;
          params.out_stride = shape.out_stride;
          params.num_rows = kPlanRows;
          ASSERT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kOk) << FakeCublasLtState().refusal;
          const float* result = out[0].values;
          for (int64_t m = 0; m < kPlanRows; ++m) {
            for (int64_t n = 0; n < shape.out_stride; ++n) {
              const auto at = static_cast<size_t>(m * shape.out_stride + n);
              if (n >= shape.out_features) {
                ASSERT_EQ(result[at], before[at]) << "between the rows nothing is written";
                continue;
              }
              double expected = 0.0;
              for (int64_t k = 0; k < shape.in_features; ++k) expected += double{weight.At(n, k)} * in.At(m, k);
              if (with_bias) expected += bias_values[static_cast<size_t>(n)];
              if (with_residual) expected += before[at];
              ASSERT_NEAR(result[at], expected, 1e-5 * (1 + std::fabs(expected)))
                  << Name(precision) << " [" << shape.out_features << ", " << shape.in_features << "] " << m << " "
                  << n;
            }
          }
        }
      }
    }
  }
}

// Their scales must be 16-byte aligned too.
TEST_F(GemmPlanTest, Fp8RowsWithUnalignedScalesAreStaged) {
  const HostMatrix weight(Precision::kFp8, 32, 16);
  const PackedWeight packed = weight.Weight();
  GemmParams params{};
  params.weight = &packed;
  params.out = workspace_[0].values;
  params.out_stride = 32;
  for (int64_t row = 0; row < 9; ++row) {
    EXPECT_EQ(NeedsStaging(params, row), row * static_cast<int64_t>(sizeof(float)) % 16 != 0) << row;
  }
  params.out_stride = 34;
  EXPECT_TRUE(NeedsStaging(params, 0));
  params.out_stride = 32;
  params.out = workspace_[0].values + 1;
  EXPECT_TRUE(NeedsStaging(params, 0));
  const HostMatrix wide(Precision::kBf16, 32, 16);
  const PackedWeight halves = wide.Weight();
  params.weight = &halves;
  EXPECT_FALSE(NeedsStaging(params, 1)) << "FP8 alone";
}

constexpr Precision kActivated[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16};

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

// The result as the next GEMM's input: rounded to its dtype, as is its bias, after the activation.
TEST_F(GemmPlanTest, AFusedActivationWritesTheNextInput) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  constexpr int64_t kOuts = 32;
  constexpr int64_t kDepth = 21;
  for (const Precision precision : kActivated) {
    for (const bool with_bias : {false, true}) {
      const HostMatrix weight(precision, kOuts, kDepth);
      const HostMatrix in(precision, kPlanRows, kDepth);
      const HostMatrix bias(precision, 1, kOuts);
      const HostMatrix out(precision, kPlanRows, kOuts);
      FillAs(weight, 1);
      FillAs(in, 2);
      FillAs(bias, 3);
      const PackedWeight packed = weight.Weight();
      Activation next{.data = out.view().data, .precision = precision, .capacity_rows = kPlanRows, .columns = kOuts};
      const float anything = 0.0F;
      GemmParams params{};
      params.weight = &packed;
      params.bias = with_bias ? &anything : nullptr;
      params.num_rows = kPlanRows;
      params.next = &next;
      params.activation = ActivationKind::kGeluTanh;
      ASSERT_TRUE(TakesActivation(params));
      const GemmForm form = FormOf(params, false, kPlanRows);
      ASSERT_TRUE(plans.Has(form)) << FakeCublasLtState().refusal;
      const GemmOperands operands{.weight = weight.view().data,
                                  .in = in.view().data,
                                  .weight_scales = nullptr,
                                  .in_scales = nullptr,
                                  .bias = bias.view().data,
                                  .residual = nullptr,
                                  .out = out.view().data,
                                  .num_rows = kPlanRows};
      ASSERT_EQ(plans.Run(form, operands, nullptr), KernelStatus::kOk) << FakeCublasLtState().refusal;
      for (int64_t m = 0; m < kPlanRows; ++m) {
        for (int64_t n = 0; n < kOuts; ++n) {
          double sum = with_bias ? bias.At(0, n) : 0.0;
          for (int64_t k = 0; k < kDepth; ++k) sum += double{weight.At(n, k)} * in.At(m, k);
          const double expected = Gelu(sum);
          ASSERT_NEAR(out.At(m, n), expected, 0x1p-8 * std::fabs(expected) + 1e-5) << Name(precision) << " " << m;
        }
      }
    }
  }
}

TEST_F(GemmPlanTest, OnlyActivationsThatEpiloguesHaveAreFused) {
  const HostMatrix weight(Precision::kBf16, 32, 16);
  const HostMatrix codes(Precision::kFp8, 32, 16);
  const HostMatrix odd(Precision::kBf16, 24, 16);
  float amax = 0.0F;
  const auto takes = [](const HostMatrix& matrix, ActivationKind kind, Precision precision, float* peak) {
    const PackedWeight packed = matrix.Weight();
    Activation next{};
    next.precision = precision;
    next.columns = static_cast<int32_t>(packed.out_features);
    next.amax = peak;
    GemmParams params{};
    params.weight = &packed;
    params.next = &next;
    params.activation = kind;
    return TakesActivation(params);
  };
  EXPECT_TRUE(takes(weight, ActivationKind::kGeluTanh, Precision::kBf16, nullptr));
  EXPECT_FALSE(takes(weight, ActivationKind::kGeluErf, Precision::kBf16, nullptr)) << "the library's GELU is tanh's";
  EXPECT_FALSE(takes(weight, ActivationKind::kRelu, Precision::kBf16, nullptr)) << "the library's turns NaN into 0";
  EXPECT_FALSE(takes(weight, ActivationKind::kSilu, Precision::kBf16, nullptr));
  EXPECT_FALSE(takes(weight, ActivationKind::kReluSquared, Precision::kBf16, nullptr));
  EXPECT_FALSE(takes(weight, ActivationKind::kGeluTanh, Precision::kFp8, nullptr)) << "a scale needs the whole row";
  EXPECT_FALSE(takes(codes, ActivationKind::kGeluTanh, Precision::kFp8, nullptr));
  EXPECT_FALSE(takes(weight, ActivationKind::kGeluTanh, Precision::kBf16, &amax));
  EXPECT_FALSE(takes(odd, ActivationKind::kGeluTanh, Precision::kBf16, nullptr)) << "nobody would zero the padding";
}

TEST_F(GemmPlanTest, AnEpilogueThatTheLibraryLacksIsQueriedOnce) {
  FakeCublasLtState().no_activation = true;
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  const GemmForm form{Precision::kBf16, 16, 16, 16, false, false, true};
  EXPECT_FALSE(plans.Has(form));
  EXPECT_FALSE(plans.Has(form));
  EXPECT_EQ(FakeCublasLtState().heuristics, 5);
}

TEST_F(GemmPlanTest, OneAlgorithmServesEveryNumberOfRows) {
  FakeCublasLtState().bad_candidates = 1;  // the first refuses a single row
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  const HostMatrix weight(Precision::kBf16, 16, 16);
  const HostMatrix in(Precision::kBf16, 300, 16);
  FillAs(weight, 1);
  FillAs(in, 2);
  std::vector<Line> out(300 * 4);
  const PackedWeight packed = weight.Weight();
  GemmParams params{};
  params.weight = &packed;
  params.out = out[0].values;
  params.out_stride = 16;
  for (const int32_t rows : {1, 2, 16, 256, 300}) {
    params.num_rows = rows;
    ASSERT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kOk);
  }
  EXPECT_EQ(plans.num_plans(), 1);
  EXPECT_EQ(FakeCublasLtState().heuristics, 5);
  EXPECT_EQ(FakeCublasLtState().algorithms, std::vector<uint64_t>(5, 101));
}

// Without timing, the algorithm is the one that is proposed best over 1, 8, 64, 512 and 4096 rows.
TEST_F(GemmPlanTest, TheHeuristicsOfSeveralNumbersOfRowsChooseTogether) {
  FakeCublasLtState().proposals = {
      {1, {100, 101}}, {8, {101, 100}}, {64, {102, 101}}, {512, {102, 101}}, {4096, {103}}};
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  float in[16] = {};
  float out[4] = {};
  const GemmForm form{.precision = Precision::kFp32,
                      .out_features = 1,
                      .in_features = 16,
                      .out_stride = 1,
                      .bias = false,
                      .residual = false,
                      .alignment = 4};
  const GemmOperands operands{in, in, nullptr, nullptr, nullptr, nullptr, out, 1};
  ASSERT_EQ(plans.Run(form, operands, nullptr), KernelStatus::kOk) << FakeCublasLtState().refusal;
  EXPECT_EQ(FakeCublasLtState().algorithms, std::vector<uint64_t>{101}) << "in four of the five lists";
}

// Otherwise cuBLASLt assumes 256 bytes. The fake refuses a pointer that is less aligned than the preference said.
TEST_F(GemmPlanTest, AlgorithmsSuitTheAlignmentOfTheOutputs) {
  const HostMatrix weight(Precision::kBf16, 16, 16);
  const PackedWeight packed = weight.Weight();
  alignas(16) float out[64] = {};
  GemmParams params{};
  params.weight = &packed;
  const auto alignment = [&](float* data, int64_t stride, float* residual) {
    params.out = data;
    params.out_stride = stride;
    params.residual = residual;
    return FormOf(params, false, 4).alignment;
  };
  EXPECT_EQ(alignment(out, 16, nullptr), 16U);
  EXPECT_EQ(alignment(out + 4, 20, out), 16U);
  EXPECT_EQ(alignment(out + 2, 16, nullptr), 8U);
  EXPECT_EQ(alignment(out, 18, nullptr), 8U) << "every row is as aligned";
  EXPECT_EQ(alignment(out, 17, nullptr), 4U);
  EXPECT_EQ(alignment(out, 16, out + 1), 4U);
}

// As Transformer Engine: a scale per row promises more than the tensor cores' 14 bits keep.
TEST_F(GemmPlanTest, OnlyScalesPerTensorAccumulateFast) {
  const HostMatrix codes(Precision::kFp8, 32, 16);
  const HostMatrix wide(Precision::kBf16, 32, 16);
  const PackedWeight packed = codes.Weight();
  const PackedWeight halves = wide.Weight();
  Activation input{};
  GemmParams params{};
  params.in = &input;
  params.weight = &packed;
  params.out_stride = 32;
  for (const InputScaling scaling : {InputScaling::kPerRow, InputScaling::kGiven, InputScaling::kCurrent}) {
    input.scaling = scaling;
    EXPECT_EQ(FormOf(params, false, 1).fast_accumulation, scaling != InputScaling::kPerRow);
  }
  params.weight = &halves;
  EXPECT_FALSE(FormOf(params, false, 1).fast_accumulation) << "FP8 alone";
}

TEST_F(GemmPlanTest, FailuresAreDistinguished) {
  const HostMatrix weight(Precision::kFp16, 16, 16);
  const HostMatrix in(Precision::kFp16, kPlanRows, 16);
  FillAs(weight, 1);
  FillAs(in, 2);
  std::vector<Line> out(kPlanRows * 4);
  const PackedWeight packed = weight.Weight();
  GemmParams params{};
  params.weight = &packed;
  params.out = out[0].values;
  params.out_stride = 16;
  params.num_rows = kPlanRows;
  {
    FakeCublasLtState().bad_candidates = 2;
    GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
    EXPECT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kUnsupported) << "no candidate takes one row";
    EXPECT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kUnsupported);
    EXPECT_EQ(FakeCublasLtState().heuristics, 5) << "and that it has none is known from then on";
    EXPECT_EQ(FakeCublasLtState().objects, 0);
  }
  FakeCublasLtState().bad_candidates = 0;
  FakeCublasLtState().matmul_fails = true;
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  EXPECT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kDeviceError);
}

TEST_F(GemmPlanTest, PlansAreBounded) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  float in[16] = {};
  float out[4] = {};
  GemmForm form{Precision::kFp32, 1, 16, 1, false, false};
  form.alignment = 4;
  const GemmOperands operands{in, in, nullptr, nullptr, nullptr, nullptr, out, 1};
  for (int i = 0; i < kMaxPlans; ++i) {
    form.out_stride = i + 1;
    ASSERT_EQ(plans.Run(form, operands, nullptr), KernelStatus::kOk);
  }
  form.out_stride = kMaxPlans + 1;
  EXPECT_EQ(plans.Run(form, operands, nullptr), KernelStatus::kUnsupported);
  form.out_stride = 1;
  EXPECT_EQ(plans.Run(form, operands, nullptr), KernelStatus::kOk) << "those that are there still serve";
}

TEST(CublasLtLibrary, ReportsWhatIsMissing) {
  CublasLt table{};
  std::string error;
  EXPECT_FALSE(LoadCublasLt("/nowhere/libcublasLt.so.13", &table, &error));
  EXPECT_NE(error.find("cannot be loaded"), std::string::npos) << error;
  EXPECT_FALSE(LoadCublasLt("libm.so.6", &table, &error));
  EXPECT_NE(error.find("has no cublasLtGetVersion"), std::string::npos) << error;
}

}  // namespace
}  // namespace dunlin::kernels::cuda
