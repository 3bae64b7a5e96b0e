// SPDX-License-Identifier: Apache-2.0
// Residual streams, rotations of the last elements of heads, experts by token and gates that are cut before the
// activation: the operations of DeepSeek V4 outside attention, against FP64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/cpu/cpu_fixture.h"
#include "tests/kernels/cpu/expert_rules.h"

namespace dunlin::kernels::residual_streams_tests {  // apart from names of other sources in a unity batch
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr int32_t kStreams = 3;
constexpr int32_t kColumns = 301;  // more than a block of WriteStreams
constexpr int32_t kRows = 4;
constexpr int32_t kMixes = kStreams + StreamWeights(kStreams);

class StreamOps : public CpuVariants {};

double ExactSigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

void DivideLines(std::vector<double>* matrix, size_t line_step, size_t step) {
  for (size_t line = 0; line < kStreams; ++line) {
    double sum = 1e-3;
    for (size_t i = 0; i < kStreams; ++i) sum += (*matrix)[line * line_step + i * step];
    for (size_t i = 0; i < kStreams; ++i) (*matrix)[line * line_step + i * step] /= sum;
  }
}

struct StreamProblem {
  std::vector<float> streams = RandomMatrix(kRows, int64_t{kStreams} * kColumns, 1);
  std::vector<float> mixes = RandomMatrix(kRows, kMixes, 2);
  std::vector<float> base = RandomMatrix(1, kMixes, 3);
  std::vector<float> scale = {0.7F, 1.1F, 1.3F};
  std::vector<float> out = std::vector<float>(static_cast<size_t>(kRows) * kColumns, kNaN);
  std::vector<float> weights = std::vector<float>(static_cast<size_t>(kRows * StreamWeights(kStreams)), kNaN);

  ReadStreamsParams Read() {
    return {.streams = streams.data(),
            .mixes = mixes.data(),
            .base = base.data(),
            .scale = scale.data(),
            .norm_epsilon = 1e-2F,
            .epsilon = 1e-3F,
            .iterations = 3,
            .out = out.data(),
            .weights = weights.data(),
            .num_rows = kRows,
            .num_streams = kStreams,
            .hidden_dim = kColumns};
  }
  float stream(size_t row, size_t index, size_t column) const {
    return streams[(row * kStreams + index) * kColumns + column];
  }
  double Mixed(size_t row, size_t index) const {
    double squares = 0.0;
    for (size_t i = 0; i < size_t{kStreams} * kColumns; ++i) {
      squares += std::pow(static_cast<double>(streams[row * kStreams * kColumns + i]), 2);
    }
    return mixes[row * kMixes + index] / std::sqrt(squares / (kStreams * kColumns) + 1e-2);
  }
  std::vector<double> ExactWeights(size_t row) const {
    std::vector<double> exact;
    for (size_t i = kStreams; i < size_t{2} * kStreams; ++i) {
      exact.push_back(2.0 * ExactSigmoid(Mixed(row, i) * scale[1] + base[i]));
    }
    std::vector<double> matrix;
    for (size_t i = 0; i < kStreams; ++i) {
      double sum = 0.0;
      for (size_t j = 0; j < kStreams; ++j) {
        const size_t at = size_t{2} * kStreams + i * kStreams + j;
        matrix.push_back(std::exp(Mixed(row, at) * scale[2] + base[at]));
        sum += matrix.back();
      }
      for (size_t j = 0; j < kStreams; ++j) matrix[i * kStreams + j] = matrix[i * kStreams + j] / sum + 1e-3;
    }
    DivideLines(&matrix, 1, kStreams);
    for (int iteration = 1; iteration < 3; ++iteration) {
      DivideLines(&matrix, kStreams, 1);
      DivideLines(&matrix, 1, kStreams);
    }
    exact.insert(exact.end(), matrix.begin(), matrix.end());
    return exact;
  }
};

TEST_P(StreamOps, AreReadByWeightsOfTheRow) {
  StreamProblem problem;
  ASSERT_EQ(device_->ops->read_streams(device_->context, problem.Read()), KernelStatus::kOk);
  for (size_t row = 0; row < kRows; ++row) {
    const std::vector<double> exact = problem.ExactWeights(row);
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(problem.weights[row * exact.size() + i], exact[i], 2e-6);
    for (size_t column = 0; column < kColumns; ++column) {
      double sum = 0.0;
      for (size_t i = 0; i < kStreams; ++i) {
        const double weight = ExactSigmoid(problem.Mixed(row, i) * problem.scale[0] + problem.base[i]) + 1e-3;
        sum += weight * problem.stream(row, i, column);
      }
      ASSERT_NEAR(problem.out[row * kColumns + column], sum, 1e-5);
    }
  }
}

TEST_P(StreamOps, AreMixedAndTakeWhatTheTermGives) {
  StreamProblem problem;
  ASSERT_EQ(device_->ops->read_streams(device_->context, problem.Read()), KernelStatus::kOk);
  const StreamProblem before = problem;
  const std::vector<float> output = RandomMatrix(kRows, kColumns, 4);
  const WriteStreamsParams write{.streams = problem.streams.data(),
                                 .output = output.data(),
                                 .weights = problem.weights.data(),
                                 .num_rows = kRows,
                                 .num_streams = kStreams,
                                 .hidden_dim = kColumns};
  ASSERT_EQ(device_->ops->write_streams(device_->context, write), KernelStatus::kOk);
  for (size_t row = 0; row < kRows; ++row) {
    const std::vector<double> weights = before.ExactWeights(row);
    for (size_t i = 0; i < kStreams; ++i) {
      for (size_t column = 0; column < kColumns; ++column) {
        double sum = weights[i] * output[row * kColumns + column];
        for (size_t j = 0; j < kStreams; ++j) {
          sum += weights[kStreams + j * kStreams + i] * before.stream(row, j, column);
        }
        ASSERT_NEAR(problem.stream(row, i, column), sum, 1e-5) << row << " " << i << " " << column;
      }
    }
  }
}

TEST_P(StreamOps, RefuseImpossibleNumbers) {
  StreamProblem problem;
  ReadStreamsParams read = problem.Read();
  read.num_streams = kStreamsMax + 1;
  EXPECT_EQ(device_->ops->read_streams(device_->context, read), KernelStatus::kInvalidArgument);
  read = problem.Read();
  read.iterations = 0;
  EXPECT_EQ(device_->ops->read_streams(device_->context, read), KernelStatus::kInvalidArgument);
  read.weights = nullptr;  // what the head reads
  EXPECT_EQ(device_->ops->read_streams(device_->context, read), KernelStatus::kOk);
}

TEST_P(StreamOps, LastElementsOfHeadsRotateThereAndBack) {
  constexpr size_t kHeads = 2;
  constexpr size_t kDim = 7;
  constexpr size_t kRotary = 4;
  constexpr size_t kStride = 20;
  const std::vector<float> in = RandomMatrix(3, kStride, 5);
  const std::vector<float> norm = RandomMatrix(1, kDim, 6);
  std::vector<float> cos_sin;
  for (int token = 0; token < 3; ++token) {
    for (const double angle : {0.3 * token, 1.7 * token}) cos_sin.push_back(static_cast<float>(std::cos(angle)));
    for (const double angle : {0.3 * token, 1.7 * token}) cos_sin.push_back(static_cast<float>(std::sin(angle)));
  }
  std::vector<float> rows = in;
  RotateHeadsParams params{.rows = rows.data(),
                           .row_stride = kStride,
                           .num_rows = 3,
                           .num_heads = kHeads,
                           .head_dim = kDim,
                           .norm = norm.data(),
                           .epsilon = 1e-2F,
                           .cos_sin = cos_sin.data(),
                           .rotary_dim = kRotary,
                           .back = false};
  ASSERT_EQ(device_->ops->rotate_heads(device_->context, params), KernelStatus::kOk);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t head = 0; head < kHeads; ++head) {
      const size_t first = row * kStride + head * kDim;
      double squares = 0.0;
      for (size_t d = 0; d < kDim; ++d) squares += std::pow(static_cast<double>(in[first + d]), 2);
      std::vector<double> exact;
      for (size_t d = 0; d < kDim; ++d) exact.push_back(in[first + d] * norm[d] / std::sqrt(squares / kDim + 1e-2));
      for (size_t i = 0; i < kRotary / 2; ++i) {
        const double cosine = cos_sin[row * kRotary + i];
        const double sine = cos_sin[row * kRotary + kRotary / 2 + i];
        const double a = exact[kDim - kRotary + 2 * i];
        const double b = exact[kDim - kRotary + 2 * i + 1];
        exact[kDim - kRotary + 2 * i] = a * cosine - b * sine;
        exact[kDim - kRotary + 2 * i + 1] = b * cosine + a * sine;
      }
      for (size_t d = 0; d < kDim; ++d) ASSERT_NEAR(rows[first + d], exact[d], 1e-5);
    }
    for (size_t d = kHeads * kDim; d < kStride; ++d) ASSERT_EQ(rows[row * kStride + d], in[row * kStride + d]);
  }
  params.epsilon = 0.0F;
  const std::vector<float> turned = rows;
  params.back = true;
  ASSERT_EQ(device_->ops->rotate_heads(device_->context, params), KernelStatus::kOk);
  EXPECT_NE(rows, turned);
  params.back = false;
  ASSERT_EQ(device_->ops->rotate_heads(device_->context, params), KernelStatus::kOk);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], turned[i], 1e-6);
  params.rotary_dim = 3;
  EXPECT_EQ(device_->ops->rotate_heads(device_->context, params), KernelStatus::kInvalidArgument);
}

TEST_P(StreamOps, ExpertsAreThoseOfTheTokenOrOfTheRootOfSoftplus) {
  const ExpertRouting rule{
      .num_experts = 6, .num_chosen = 2, .scoring = ExpertScoring::kRootSoftplus, .normalized = true, .scale = 1.5F};
  std::vector<float> logits = RandomMatrix(3, 6, 7);
  logits[4] = 40.0F;                                    // where exp overflows nothing, and softplus is its argument
  const std::vector<float> table = {5, 0, 1, 2, 3, 4};  // of three tokens
  const std::vector<int32_t> tokens = {2, 0, 2};
  for (const bool by_token : {false, true}) {
    Routed routed(rule, 3);
    RouteExpertsParams params = routed.Params(rule, logits, 6, 3);
    params.token_experts = by_token ? table.data() : nullptr;
    params.tokens = by_token ? tokens.data() : nullptr;
    ASSERT_EQ(device_->ops->route_experts(device_->context, params), KernelStatus::kOk);
    for (size_t row = 0; row < 3; ++row) {
      std::vector<double> scores;
      for (size_t e = 0; e < 6; ++e) scores.push_back(std::sqrt(std::log1p(std::exp(double{logits[row * 6 + e]}))));
      double sum = 0.0;
      for (size_t i = 0; i < 2; ++i) {
        const auto expert = static_cast<size_t>(routed.chosen[row * 2 + i]);
        sum += scores[expert];
        const auto listed = static_cast<size_t>(table[static_cast<size_t>(tokens[row]) * 2 + i]);
        const auto better = std::count_if(scores.begin(), scores.end(), [&](double s) { return s > scores[expert]; });
        EXPECT_TRUE(by_token ? expert == listed : better <= 1) << row << " " << i;
      }
      for (size_t i = 0; i < 2; ++i) {
        const auto expert = static_cast<size_t>(routed.chosen[row * 2 + i]);
        EXPECT_NEAR(routed.chosen_weights[row * 2 + i], 1.5 * scores[expert] / sum, 1e-6);
      }
    }
  }
}

TEST_P(StreamOps, GatesAreCutBeforeTheActivation) {
  const std::vector<float> in = {-3.0F, 0.5F, 4.0F, 9.0F, -5.0F, 1.0F, 7.0F, 0.25F};
  ActivationTensor out(*device_, Precision::kFp32, 1, 4);
  std::vector<float> rows(4);
  const ActivateParams params{.kind = ActivationKind::kSilu,
                              .gated = true,
                              .in = in.data(),
                              .out = &out.activation,
                              .num_rows = 1,
                              .rows_out = rows.data(),
                              .limit = 2.0F,
                              .cuts_before = true};
  ASSERT_EQ(device_->ops->activate(device_->context, params), KernelStatus::kOk);
  for (size_t i = 0; i < 4; ++i) {
    const double gate = std::min(double{in[i]}, 2.0);
    EXPECT_NEAR(rows[i], gate * ExactSigmoid(gate) * std::clamp(double{in[4 + i]}, -2.0, 2.0), 1e-5) << i;
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(StreamOps);

}  // namespace
}  // namespace dunlin::kernels::residual_streams_tests
