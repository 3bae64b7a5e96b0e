// SPDX-License-Identifier: Apache-2.0
// The delta rule whose states have a decay in each row (Kimi Linear), and the sigmoid that gates its output: against
// FP64, and under cuts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/kernels/recurrent/recurrent_batch.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels::testing_recurrent {
namespace {

class ChannelDelta : public RecurrentDevices {};

struct ChannelHeads {
  DeltaShape shape;
  std::vector<float> rate;
  std::vector<float> bias;
  float bound = 0.0F;  // DeltaScanParams::decay_bound

  explicit ChannelHeads(const DeltaShape& of) : shape(of), bias(RandomMatrix(of.value_heads, of.key_dim, 31)) {
    for (const float value : RandomMatrix(1, of.value_heads, 32)) rate.push_back(std::exp(value - 1.0F));
  }
  int64_t state_floats() const { return shape.value_heads * DeltaHeadFloats(shape); }
  int64_t step_columns() const { return int64_t{shape.value_heads} * shape.key_dim; }
  int64_t gate_columns() const { return shape.value_heads + 5; }  // rows have other numbers after them
};

struct ChannelRows {
  std::vector<float> in;
  std::vector<float> gates;
  std::vector<float> steps;

  ChannelRows(const ChannelHeads& heads, int64_t rows, uint32_t seed)
      : in(RandomMatrix(rows, heads.shape.channels(), seed)),
        gates(RandomMatrix(rows, heads.gate_columns(), seed + 1)),
        steps(RandomMatrix(rows, heads.step_columns(), seed + 2)) {}
  void AppendRows(const ChannelHeads& heads, const ChannelRows& from, int64_t first, int64_t count) {
    Append(&in, Rows(from.in, heads.shape.channels(), first, count));
    Append(&gates, Rows(from.gates, heads.gate_columns(), first, count));
    Append(&steps, Rows(from.steps, heads.step_columns(), first, count));
  }
};

std::vector<float> ScanChannels(Device& device, const ChannelHeads& heads, const Batch& batch, const ChannelRows& rows,
                                std::vector<float>* states) {
  const auto count = static_cast<int64_t>(rows.in.size()) / heads.shape.channels();
  std::vector<float> out(static_cast<size_t>(count * heads.shape.value_features()), kNaN);
  const DeltaScanParams params{.shape = heads.shape,
                               .in = rows.in.data(),
                               .gates = rows.gates.data(),
                               .rate = heads.rate.data(),
                               .dt_bias = heads.bias.data(),
                               .state = {states->data(), heads.state_floats(), batch.slots.data()},
                               .sequences = batch.spans.data(),
                               .num_sequences = static_cast<int32_t>(batch.spans.size()),
                               .out = out.data(),
                               .gates_stride = heads.gate_columns(),
                               .steps = rows.steps.data(),
                               .decay_bound = heads.bound};
  EXPECT_EQ(device.ops->delta_scan(device.context, params), KernelStatus::kOk);
  return out;
}

std::vector<double> UnitOf(const float* values, int64_t dim, double factor) {
  double squares = 0.0;
  for (int64_t i = 0; i < dim; ++i) squares += static_cast<double>(values[i]) * values[i];
  std::vector<double> unit;
  for (int64_t i = 0; i < dim; ++i) unit.push_back(values[i] / std::sqrt(squares + 1e-6) * factor);
  return unit;
}

// One head of one sequence: [rows, value_dim].
std::vector<double> ExactChannels(const ChannelHeads& heads, int64_t head, const ChannelRows& rows) {
  const DeltaShape& shape = heads.shape;
  const auto dk = static_cast<size_t>(shape.key_dim);
  const auto dv = static_cast<size_t>(shape.value_dim);
  const int64_t key_head = head * shape.key_heads / shape.value_heads;
  const auto count = static_cast<int64_t>(rows.in.size()) / shape.channels();
  std::vector<double> state(dk * dv, 0.0);
  std::vector<double> out;
  for (int64_t t = 0; t < count; ++t) {
    const float* row = rows.in.data() + t * shape.channels();
    const auto query = UnitOf(row + key_head * shape.key_dim, shape.key_dim, 1.0 / std::sqrt(static_cast<double>(dk)));
    const auto key = UnitOf(row + (shape.key_heads + key_head) * shape.key_dim, shape.key_dim, 1.0);
    const float* value = row + 2 * shape.key_heads * shape.key_dim + head * shape.value_dim;
    const float* steps = rows.steps.data() + t * heads.step_columns() + head * shape.key_dim;
    const float* bias = heads.bias.data() + head * shape.key_dim;
    for (size_t i = 0; i < dk; ++i) {
      const double rate = heads.rate[static_cast<size_t>(head)];
      const double step = static_cast<double>(steps[i]) + bias[i];
      const double decay = heads.bound < 0.0F ? std::exp(heads.bound / (1.0 + std::exp(-rate * step)))
                                              : std::exp(-rate * std::log1p(std::exp(step)));
      for (size_t j = 0; j < dv; ++j) state[i * dv + j] *= decay;
    }
    const double beta = Sigmoid(rows.gates[static_cast<size_t>(t * heads.gate_columns() + head)]);
    for (size_t j = 0; j < dv; ++j) {
      double stored = 0.0;
      for (size_t i = 0; i < dk; ++i) stored += state[i * dv + j] * key[i];
      const double update = beta * (value[j] - stored);
      double attended = 0.0;
      for (size_t i = 0; i < dk; ++i) attended += (state[i * dv + j] += key[i] * update) * query[i];
      out.push_back(attended);
    }
  }
  return out;
}

// Whose decays have a bound.
ChannelHeads Bounded(const DeltaShape& shape, float bound) {
  ChannelHeads heads(shape);
  heads.bound = bound;
  return heads;
}

// Rows of 1024 channels take blocks of four rows.
TEST_P(ChannelDelta, MatchesFp64) {
  for (const ChannelHeads& heads :
       {ChannelHeads({3, 3, 12, 12}), ChannelHeads({1, 1, 1, 1}), ChannelHeads({1, 2, 30, 33}),
        ChannelHeads({2, 2, 128, 128}), ChannelHeads({1, 1, 1024, 17}), Bounded({3, 3, 12, 12}, -5.0F),
        Bounded({2, 2, 128, 128}, -0.3F)}) {
    if (heads.shape.key_dim > 256 && device_->ops->kind == DeviceKind::kCuda) continue;  // refused by supports_model
    constexpr int64_t kRows = 70;
    const ChannelRows rows(heads, kRows, 33);
    std::vector<float> state(static_cast<size_t>(heads.state_floats()), kNaN);
    const std::vector<float> out = ScanChannels(*device_, heads, BatchOf({{0, kRows}}), rows, &state);
    for (int64_t head = 0; head < heads.shape.value_heads; ++head) {
      const std::vector<double> exact = ExactChannels(heads, head, rows);
      for (int64_t t = 0; t < kRows; ++t) {
        for (int64_t j = 0; j < heads.shape.value_dim; ++j) {
          const auto at = static_cast<size_t>(t * heads.shape.value_features() + head * heads.shape.value_dim + j);
          ASSERT_NEAR(out[at], exact[static_cast<size_t>(t * heads.shape.value_dim + j)], 3e-6)
              << "key_dim " << heads.shape.key_dim << " row " << t << " head " << head << " column " << j;
        }
      }
    }
  }
}

TEST_P(ChannelDelta, HasTheSameBitsUnderAnyCutAndBesideOthers) {
  for (const ChannelHeads& heads :
       {ChannelHeads({3, 3, 12, 12}), ChannelHeads({2, 2, 200, 100}), Bounded({3, 3, 12, 12}, -0.3F)}) {
    constexpr int32_t kRows = 130;
    const ChannelRows all(heads, kRows, 36);
    std::vector<float> whole_state(static_cast<size_t>(heads.state_floats()), kNaN);
    const std::vector<float> whole = ScanChannels(*device_, heads, BatchOf({{0, kRows}}), all, &whole_state);
    const auto other_device = Open(7);
    for (const int32_t cut : {1, 2, 31, 37, 64, 65}) {
      std::vector<float> states(2 * static_cast<size_t>(heads.state_floats()), kNaN);
      std::vector<float> pieces;
      for (int32_t first = 0; first < kRows; first += cut) {
        const int32_t count = std::min(cut, kRows - first);
        ChannelRows rows(heads, 3, 40 + static_cast<uint32_t>(first));  // of another sequence
        rows.AppendRows(heads, all, first, count);
        const std::vector<float> out =
            ScanChannels(*other_device, heads, BatchOf({{0, 3}, {first, count}}), rows, &states);
        Append(&pieces, Rows(out, heads.shape.value_features(), 3, count));
      }
      EXPECT_EQ(pieces, whole) << cut;
      EXPECT_EQ(std::memcmp(states.data(), whole_state.data(), whole_state.size() * sizeof(float)), 0) << cut;
    }
  }
}

TEST_P(ChannelDelta, StatesFadeWithoutOverflowAtExtremeSteps) {
  for (const ChannelHeads& heads : {ChannelHeads({1, 1, 16, 16}), Bounded({1, 1, 16, 16}, -5.0F)}) {
    ChannelRows rows(heads, 4, 50);
    for (size_t i = 0; i < rows.steps.size(); ++i) rows.steps[i] = i % 3 == 0 ? 200.0F : -200.0F;
    std::vector<float> state(static_cast<size_t>(heads.state_floats()), kNaN);
    for (const float value : ScanChannels(*device_, heads, BatchOf({{0, 4}}), rows, &state)) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST_P(ChannelDelta, ASigmoidGatesTheNormedRows) {
  constexpr int32_t kGroups = 3;
  constexpr int32_t kColumns = 37;
  constexpr size_t kWidth = kGroups * kColumns;
  const std::vector<float> in = RandomMatrix(2, kWidth, 51);
  const std::vector<float> gate = RandomMatrix(2, kWidth, 52);
  const std::vector<float> weight = RandomMatrix(1, kColumns, 53);
  std::vector<float> out(2 * kWidth, kNaN);
  const GatedGroupNormParams params{.in = in.data(),
                                    .gate = gate.data(),
                                    .gate_stride = kWidth,
                                    .rows = nullptr,
                                    .weight = weight.data(),
                                    .epsilon = 1e-5F,
                                    .num_groups = kGroups,
                                    .columns = kColumns,
                                    .out = out.data(),
                                    .num_rows = 2,
                                    .sigmoid_gate = true};
  ASSERT_EQ(device_->ops->gated_group_norm(device_->context, params), KernelStatus::kOk);
  for (size_t i = 0; i < out.size(); ++i) {
    double squares = 0.0;
    for (size_t j = i / kColumns * kColumns; j < (i / kColumns + 1) * kColumns; ++j) {
      squares += static_cast<double>(in[j]) * in[j];
    }
    const double exact = in[i] / std::sqrt(squares / kColumns + 1e-5) * weight[i % kColumns] * Sigmoid(gate[i]);
    ASSERT_NEAR(out[i], exact, 2e-6 * (1.0 + std::fabs(exact))) << i;
  }
}

DUNLIN_FOR_EVERY_RECURRENT_DEVICE(ChannelDelta);

}  // namespace
}  // namespace dunlin::kernels::testing_recurrent
