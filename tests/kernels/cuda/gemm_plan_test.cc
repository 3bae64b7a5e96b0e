// The products that the GEMMs ask of cuBLASLt, computed by a fake of it, against FP64.
#include "kernels/cuda/gemm_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/cublaslt_library.h"
#include "tests/kernels/cuda/fake_cublaslt.h"
#include "tests/kernels/cuda/host_matrix.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kRows = 5;

// Rows of the padding are device memory that starts as zeros.
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

class GemmPlanTest : public testing::Test {
 protected:
  GemmPlanTest() { FakeCublasLtState() = FakeCublasLt(); }
  ~GemmPlanTest() override { EXPECT_EQ(FakeCublasLtState().objects, 0) << "every descriptor is given back"; }

  Line workspace_[1] = {};
};

struct Shape {
  int64_t out_features;
  int64_t in_features;
  int64_t out_stride;
};

// What gemm.cu does with a call, the kernels' part in plain C++.
KernelStatus RunGemm(GemmPlans* plans, const GemmParams& params, const HostMatrix& weight, const HostMatrix& in) {
  const bool staged = NeedsStaging(params, 0);
  const GemmForm form = FormOf(params, staged);
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
        *out = operands.out[m * form.out_stride + n] +
               (params.residual == nullptr ? 0.0F : *(params.residual + m * params.out_stride + n));
      if (params.bias != nullptr && !form.bias) *out += params.bias[n];
    }
  }
  return status;
}

TEST_F(GemmPlanTest, EveryPrecisionAndFormIsTheProduct) {
  GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
  for (const Precision precision : kAllPrecisions) {
    for (const Shape& shape : {Shape{32, 48, 32}, Shape{19, 21, 19}, Shape{32, 16, 36}, Shape{16, 7, 21}}) {
      for (const bool with_bias : {false, true}) {
        for (const bool with_residual : {false, true}) {
          const HostMatrix weight(precision, shape.out_features, shape.in_features);
          const HostMatrix in(precision, kRows, shape.in_features);
          FillAs(weight, 1);
          FillAs(in, 2);
          const std::vector<float> bias_values = RandomValues(PaddedRows(shape.out_features), 3);
          std::vector<Line> bias(bias_values.size() / 4);
          std::memcpy(bias.data(), bias_values.data(), bias_values.size() * sizeof(float));
          const std::vector<float> before = RandomValues(kRows * shape.out_stride, 4);
          std::vector<Line> out(before.size() / 4 + 1);
          std::memcpy(out.data(), before.data(), before.size() * sizeof(float));
          const PackedWeight packed = weight.Weight();
          GemmParams params{};
          params.weight = &packed;
          params.bias = with_bias ? bias[0].values : nullptr;
          params.residual = with_residual ? out[0].values : nullptr;  // in place, as the engine adds a term
          params.out = out[0].values;
          params.out_stride = shape.out_stride;
          params.num_rows = kRows;
          ASSERT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kOk) << FakeCublasLtState().refusal;
          const float* result = out[0].values;
          for (int64_t m = 0; m < kRows; ++m) {
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

TEST_F(GemmPlanTest, OneAlgorithmServesEveryNumberOfRows) {
  FakeCublasLtState().bad_candidates = 1;  // the first does not take a single row
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
  EXPECT_EQ(FakeCublasLtState().heuristics, 1);
  EXPECT_EQ(FakeCublasLtState().algorithms, std::vector<uint64_t>(5, 101));
}

TEST_F(GemmPlanTest, FailuresAreToldApart) {
  const HostMatrix weight(Precision::kFp16, 16, 16);
  const HostMatrix in(Precision::kFp16, kRows, 16);
  FillAs(weight, 1);
  FillAs(in, 2);
  std::vector<Line> out(kRows * 4);
  const PackedWeight packed = weight.Weight();
  GemmParams params{};
  params.weight = &packed;
  params.out = out[0].values;
  params.out_stride = 16;
  params.num_rows = kRows;
  {
    FakeCublasLtState().bad_candidates = 2;
    GemmPlans plans(&FakeCublasLtTable(), nullptr, workspace_);
    EXPECT_EQ(RunGemm(&plans, params, weight, in), KernelStatus::kUnsupported) << "no candidate takes one row";
    EXPECT_EQ(plans.num_plans(), 0);
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

TEST(CublasLtLibrary, SaysWhatIsMissing) {
  CublasLt table{};
  std::string error;
  EXPECT_FALSE(LoadCublasLt("/nowhere/libcublasLt.so.13", &table, &error));
  EXPECT_NE(error.find("cannot be loaded"), std::string::npos) << error;
  EXPECT_FALSE(LoadCublasLt("libm.so.6", &table, &error));
  EXPECT_NE(error.find("has no cublasLtGetVersion"), std::string::npos) << error;
}

}  // namespace
}  // namespace dunlin::kernels::cuda
