// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention/dense_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dunlin::kernels::testing {
namespace {

constexpr std::pair<int32_t, int32_t> kLengths[] = {
    {1, 1},  {239, 1}, {799, 3}, {113, 203}, {1023, 1024}, {0, 5},   {5, 0},
    {1, 70}, {1, 600}, {64, 64}, {17, 130},  {65, 257},    {3, 799}, {50, 40},
};
constexpr size_t kCostly = 4;  // of kLengths; only the cover has it
constexpr int32_t kHeadDims[] = {1, 9, 20, 33, 64, 80, 128, 256};
constexpr int32_t kValueDims[] = {0, 1, 7, 64, 100, 256};
constexpr std::pair<int32_t, int32_t> kHeads[] = {{1, 1}, {2, 3}, {1, 7}};  // KV heads, group
struct Visibility {
  bool causal;
  CausalAlignment alignment;
  int32_t window;
  bool mask;
};
constexpr auto kTop = CausalAlignment::kTopLeft;
constexpr auto kBottom = CausalAlignment::kBottomRight;
constexpr Visibility kVisibilities[] = {
    {false, kTop, 0, false},   {false, kBottom, 0, false}, {true, kTop, 0, false},
    {true, kBottom, 0, false}, {true, kTop, 5, false},     {true, kBottom, 64, false},
    {true, kTop, 300, false},  {true, kBottom, 1, false},  {false, kTop, 0, true}};
constexpr float kSoftcaps[] = {0.0F, 1.7F};
constexpr float kScales[] = {0.25F, -0.1F, 0.0F};
constexpr std::pair<BiasShape, bool> kBiases[] = {
    {BiasShape::kNone, false},    {BiasShape::kPerQuery, false}, {BiasShape::kPerQuery, true},
    {BiasShape::kPerHead, false}, {BiasShape::kOneRow, true},
};  // true: in the dtype of the tensors

enum Axis : size_t {
  kBackend,
  kDtype,
  kVariant,
  kLength,
  kHeadDim,
  kValueDim,
  kHead,
  kVisibility,
  kSoftcap,
  kScale,
  kAlibi,
  kBias
};

template <typename Values>
const auto& Pick(const Values& values, const GridCase& c, Axis axis) {
  return values[static_cast<size_t>(c[axis])];
}

bool Takes(const GridCase& c) {
  return Pick(kBackends, c, kBackend) != AttentionBackend::kFlash ||
         (!Pick(kVisibilities, c, kVisibility).mask && Pick(kBiases, c, kBias).first == BiasShape::kNone);
}
constexpr int kTakenByNone = 5;  // pairs: FLASH with a mask, and with each of 4 biases

DenseShape ShapeOf(const GridCase& c) {
  const auto& [q_len, kv_len] = Pick(kLengths, c, kLength);
  const Visibility& sight = Pick(kVisibilities, c, kVisibility);
  const auto& [bias, same_dtype] = Pick(kBiases, c, kBias);
  const DType dtype = Pick(kDTypes, c, kDtype);
  return {.dtype = dtype,
          .batch = q_len * kv_len > 40000 ? 1 : 2,
          .num_kv_heads = Pick(kHeads, c, kHead).first,
          .group = Pick(kHeads, c, kHead).second,
          .q_len = q_len,
          .kv_len = kv_len,
          .head_dim = Pick(kHeadDims, c, kHeadDim),
          .v_head_dim = Pick(kValueDims, c, kValueDim),
          .causal = sight.causal,
          .alignment = sight.alignment,
          .window = sight.window,
          .softcap = Pick(kSoftcaps, c, kSoftcap),
          .scale = Pick(kScales, c, kScale),
          .alibi = c[kAlibi] == 1,
          .bias = bias,
          .bias_dtype = same_dtype ? dtype : DType::kF32,
          .mask = sight.mask};
}

std::string CaseText(const GridCase& c, const std::string& variant) {
  const DenseShape shape = ShapeOf(c);
  std::string text = Describe(Pick(kBackends, c, kBackend), shape.dtype, variant);
  const auto add = [&text](const char* name, auto value) {
    text += std::string(" ") + name + " " + std::to_string(value);
  };
  add("q", shape.q_len);
  add("kv", shape.kv_len);
  add("d", shape.head_dim);
  add("dv", shape.value_dim());
  add("kv_heads", shape.num_kv_heads);
  add("group", shape.group);
  add("sight", c[kVisibility]);
  add("softcap", shape.softcap);
  add("scale", shape.scale);
  add("alibi", shape.alibi);
  add("bias", c[kBias]);
  return text;
}

// Rows that are compared: both ends and some of the middle.
bool Checked(const DenseShape& shape, int32_t token) {
  return shape.q_len <= 8 || token < 3 || token >= shape.q_len - 3 || token % (shape.q_len / 4 + 1) == 3;
}

bool IsZero(const float* row, int32_t count) {
  return std::all_of(row, row + count, [](float x) { return x == 0.0F; });
}

}  // namespace

DenseGrid::DenseGrid(int variants, size_t num_cases, bool costly,
                     const std::function<bool(AttentionBackend, DType)>& takes) {
  const std::vector<int> sizes = {static_cast<int>(std::size(kBackends)),
                                  static_cast<int>(std::size(kDTypes)),
                                  variants,
                                  static_cast<int>(std::size(kLengths)),
                                  static_cast<int>(std::size(kHeadDims)),
                                  static_cast<int>(std::size(kValueDims)),
                                  static_cast<int>(std::size(kHeads)),
                                  static_cast<int>(std::size(kVisibilities)),
                                  static_cast<int>(std::size(kSoftcaps)),
                                  static_cast<int>(std::size(kScales)),
                                  2,
                                  static_cast<int>(std::size(kBiases))};
  PairwiseGrid grid(sizes, [&](const GridCase& c) {
    return Takes(c) && takes(Pick(kBackends, c, kBackend), Pick(kDTypes, c, kDtype));
  });
  cases_ = grid.Cases(num_cases);
  uncovered_ = grid.uncovered() - kTakenByNone;
  const size_t cover = costly ? cases_.size() - grid.num_random() : 0;
  for (size_t i = cover; i < cases_.size(); ++i) {
    int& length = cases_[i][kLength];
    if (length == static_cast<int>(kCostly)) length = static_cast<int>(kCostly) - 1;
  }
}

int VariantOf(const GridCase& c) {
  return c[kVariant];
}

void CheckCase(const GridCase& c, const std::string& name,
               const std::function<std::vector<float>(const DenseProblem&, AttentionBackend)>& run) {
  const DenseShape shape = ShapeOf(c);
  const DenseProblem problem(shape);
  const std::vector<float> out = run(problem, Pick(kBackends, c, kBackend));
  ErrorBound bound;
  int64_t outputs = 0;
  double largest = 0;
  for (int32_t b = 0; b < shape.batch; ++b) {
    for (int32_t head = 0; head < shape.num_heads(); head += head == 0 ? std::max(1, shape.num_heads() - 1) : 1) {
      for (int32_t t = 0; t < shape.q_len; ++t) {
        if (!Checked(shape, t)) continue;
        const ReferenceRow row = problem.Row(b, head, t);
        const std::vector<double> exact = ExactRow(row);
        const float* actual = out.data() + problem.OutputStart(b, head, t);
        bound.Add(exact, UnfusedRow(row, shape.dtype), actual);
        outputs += shape.value_dim();
        for (const double x : exact) largest = std::max(largest, std::fabs(x));
        if (row.limit == row.begin) {
          EXPECT_TRUE(IsZero(actual, shape.value_dim())) << "a fully masked row gives zeros: " << CaseText(c, name);
        }
      }
    }
  }
  constexpr double kHalfUlp[] = {0x1p-24, 0x1p-11, 0x1p-8};  // FP32, FP16, BF16
  if (outputs < 512) bound.AllowRounding(2 * kHalfUlp[c[kDtype]] * largest);
  EXPECT_TRUE(bound.holds()) << CaseText(c, name) << ": error " << bound.actual() << ", limit " << bound.limit();
}

}  // namespace dunlin::kernels::testing
