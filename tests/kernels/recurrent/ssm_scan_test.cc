// SPDX-License-Identifier: Apache-2.0
// Mamba2's scan against FP64, and its part of the bit contract: as the delta rule's in recurrent_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/recurrent/recurrent_batch.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels::testing_recurrent {
namespace {

class SsmScans : public RecurrentDevices {};

constexpr float kNoLimit = std::numeric_limits<float>::infinity();

struct Ssm {
  SsmShape shape;
  float step_min = 0.0F;
  float step_max = kNoLimit;
  std::vector<float> rate;
  std::vector<float> step_bias;
  std::vector<float> skip;

  explicit Ssm(const SsmShape& of, float min = 0.0F, float max = kNoLimit)
      : shape(of),
        step_min(min),
        step_max(max),
        step_bias(RandomMatrix(1, of.num_heads, 8)),
        skip(RandomMatrix(1, of.num_heads, 9)) {
    for (const float value : RandomMatrix(1, of.num_heads, 7)) rate.push_back(std::exp(value - 1.0F));
  }
  int64_t state_floats() const { return shape.num_heads * SsmHeadFloats(shape); }
  int64_t step_stride() const { return shape.num_heads + 3; }
};

SsmScanParams ParamsOf(const Ssm& ssm, const Batch& batch, const std::vector<float>& in, const std::vector<float>& step,
                       std::vector<float>* states, std::vector<float>* out) {
  return {.shape = ssm.shape,
          .in = in.data(),
          .step = step.data(),
          .step_stride = ssm.step_stride(),
          .rate = ssm.rate.data(),
          .step_bias = ssm.step_bias.data(),
          .skip = ssm.skip.data(),
          .step_min = ssm.step_min,
          .step_max = ssm.step_max,
          .state = {states->data(), ssm.state_floats(), batch.slots.data()},
          .sequences = batch.spans.data(),
          .num_sequences = static_cast<int32_t>(batch.spans.size()),
          .out = out->data()};
}

std::vector<float> RunScan(Device& device, const Ssm& ssm, const Batch& batch, const std::vector<float>& in,
                           const std::vector<float>& step, std::vector<float>* states) {
  const auto rows = static_cast<int64_t>(in.size()) / ssm.shape.channels();
  std::vector<float> out(static_cast<size_t>(rows * ssm.shape.features()), kNaN);
  EXPECT_EQ(device.ops->ssm_scan(device.context, ParamsOf(ssm, batch, in, step, states, &out)), KernelStatus::kOk);
  return out;
}

// A sum, and what its terms are in magnitude.
struct ExactSum {
  double value;
  double magnitude;
};

// One head of one sequence: [rows, head_dim].
std::vector<ExactSum> ExactScan(const Ssm& ssm, int64_t head, const std::vector<float>& in,
                                const std::vector<float>& steps) {
  const SsmShape& shape = ssm.shape;
  const auto at = static_cast<size_t>(head);
  const int64_t group = head * shape.num_groups / shape.num_heads;
  const auto rows = static_cast<int64_t>(in.size()) / shape.channels();
  std::vector<double> state(static_cast<size_t>(shape.head_dim * shape.state_dim), 0.0);
  std::vector<ExactSum> out;
  for (int64_t t = 0; t < rows; ++t) {
    const float* x = in.data() + t * shape.channels() + head * shape.head_dim;
    const float* b = in.data() + t * shape.channels() + shape.features() + group * shape.state_dim;
    const float* c = b + shape.num_groups * shape.state_dim;
    const double raw =
        static_cast<double>(steps[static_cast<size_t>(t * ssm.step_stride() + head)]) + ssm.step_bias[at];
    const double step = std::clamp<double>(std::log1p(std::exp(raw)), ssm.step_min, ssm.step_max);
    const double decay = std::exp(-static_cast<double>(ssm.rate[at]) * step);
    for (int64_t j = 0; j < shape.head_dim; ++j) {
      const double skipped = static_cast<double>(ssm.skip[at]) * x[j];
      ExactSum sum = {skipped, std::fabs(skipped)};
      for (int64_t i = 0; i < shape.state_dim; ++i) {
        double& element = state[static_cast<size_t>(j * shape.state_dim + i)];
        element = decay * element + step * x[j] * b[i];
        sum.value += element * c[i];
        sum.magnitude += std::fabs(element * c[i]);
      }
      out.push_back(sum);
    }
  }
  return out;
}

TEST_P(SsmScans, MatchFp64) {
  for (const Ssm& ssm : {Ssm({6, 2, 16, 8}), Ssm({1, 1, 1, 1}), Ssm({4, 1, 33, 30}), Ssm({4, 2, 64, 128}),
                         Ssm({3, 3, 20, 17}), Ssm({6, 2, 16, 8}, 0.5F, 0.9F), Ssm({2, 1, 70, 256})}) {
    constexpr int64_t kRows = 70;
    const std::vector<float> in = RandomMatrix(kRows, ssm.shape.channels(), 10);
    const std::vector<float> step = RandomMatrix(kRows, ssm.step_stride(), 11);
    std::vector<float> state(static_cast<size_t>(ssm.state_floats()), kNaN);
    const std::vector<float> out = RunScan(*device_, ssm, BatchOf({{0, kRows}}), in, step, &state);
    for (int64_t head = 0; head < ssm.shape.num_heads; ++head) {
      const std::vector<ExactSum> exact = ExactScan(ssm, head, in, step);
      for (int64_t t = 0; t < kRows; ++t) {
        for (int64_t j = 0; j < ssm.shape.head_dim; ++j) {
          const ExactSum& sum = exact[static_cast<size_t>(t * ssm.shape.head_dim + j)];
          ASSERT_NEAR(out[static_cast<size_t>(t * ssm.shape.features() + head * ssm.shape.head_dim + j)], sum.value,
                      1e-6 * (1.0 + sum.magnitude))
              << "state_dim " << ssm.shape.state_dim << " row " << t << " head " << head << " column " << j;
        }
      }
    }
  }
}

TEST_P(SsmScans, HaveTheSameBitsUnderAnyCutAndBesideOthers) {
  for (const Ssm& ssm : {Ssm({6, 2, 16, 8}), Ssm({2, 1, 100, 40})}) {
    constexpr int32_t kRows = 130;
    const int64_t columns = ssm.shape.channels();
    const std::vector<float> in = RandomMatrix(kRows, columns, 12);
    const std::vector<float> step = RandomMatrix(kRows, ssm.step_stride(), 13);
    std::vector<float> whole_state(static_cast<size_t>(ssm.state_floats()), kNaN);
    const std::vector<float> whole = RunScan(*device_, ssm, BatchOf({{0, kRows}}), in, step, &whole_state);
    const auto other_device = Open(7);
    for (const int32_t cut : {1, 2, 31, 37, 64, 65}) {
      std::vector<float> states(2 * static_cast<size_t>(ssm.state_floats()), kNaN);
      std::vector<float> pieces;
      for (int32_t first = 0; first < kRows; first += cut) {
        const int32_t count = std::min(cut, kRows - first);
        std::vector<float> rows = RandomMatrix(3, columns, static_cast<uint32_t>(first));  // of another sequence
        std::vector<float> steps = RandomMatrix(3, ssm.step_stride(), static_cast<uint32_t>(first));
        Append(&rows, Rows(in, columns, first, count));
        Append(&steps, Rows(step, ssm.step_stride(), first, count));
        const std::vector<float> out =
            RunScan(*other_device, ssm, BatchOf({{0, 3}, {first, count}}), rows, steps, &states);
        Append(&pieces, Rows(out, ssm.shape.features(), 3, count));
      }
      EXPECT_EQ(pieces, whole) << cut;
      EXPECT_EQ(std::memcmp(states.data(), whole_state.data(), whole_state.size() * sizeof(float)), 0) << cut;
    }
  }
}

TEST_P(SsmScans, StatesStayFiniteAtExtremeSteps) {
  const Ssm ssm({1, 1, 16, 16});
  const std::vector<float> in = RandomMatrix(4, ssm.shape.channels(), 14);
  const std::vector<float> step = {200.0F, 0.0F, 0.0F, 0.0F, -200.0F, 0.0F, 0.0F, 0.0F,
                                   90.0F,  0.0F, 0.0F, 0.0F, -90.0F,  0.0F, 0.0F, 0.0F};
  std::vector<float> state(static_cast<size_t>(ssm.state_floats()), kNaN);
  for (const float value : RunScan(*device_, ssm, BatchOf({{0, 4}}), in, step, &state)) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

DUNLIN_FOR_EVERY_RECURRENT_DEVICE(SsmScans);

}  // namespace
}  // namespace dunlin::kernels::testing_recurrent
