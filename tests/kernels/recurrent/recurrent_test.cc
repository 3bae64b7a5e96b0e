// SPDX-License-Identifier: Apache-2.0
// The operations of recurrent layers against FP64, and their part of the bit contract: a row has the same bits however
// a sequence is cut into calls, beside any other sequences, however a device divides its work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/kernels/recurrent/recurrent_batch.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels::testing_recurrent {
namespace {

class Recurrent : public RecurrentDevices {};

// ---- The convolution. -----------------------------------------------------------------------------------------------

struct Conv {
  int32_t channels;
  int32_t taps;
  bool biased = false;
  std::vector<float> weight = RandomMatrix(taps, channels, 3);
  std::vector<float> bias = RandomMatrix(1, channels, 4);
  int64_t stride() const { return channels + 5; }
  int64_t state_floats() const { return int64_t{taps - 1} * channels; }
};

std::vector<float> Convolve(Device& device, const Conv& conv, const Batch& batch, const std::vector<float>& in,
                            std::vector<float>* states) {
  const auto rows = static_cast<int64_t>(in.size()) / conv.stride();
  std::vector<float> out(static_cast<size_t>(rows * conv.channels), kNaN);
  const CausalConvParams params{.in = in.data(),
                                .in_stride = conv.stride(),
                                .weight = conv.weight.data(),
                                .channels = conv.channels,
                                .taps = conv.taps,
                                .state = {states->data(), conv.state_floats(), batch.slots.data()},
                                .sequences = batch.spans.data(),
                                .num_sequences = static_cast<int32_t>(batch.spans.size()),
                                .out = out.data(),
                                .bias = conv.biased ? conv.bias.data() : nullptr};
  EXPECT_EQ(device.ops->causal_conv(device.context, params), KernelStatus::kOk);
  return out;
}

TEST_P(Recurrent, ConvolutionMatchesFp64) {
  for (const Conv& conv : {Conv{40, 4}, Conv{1, 2}, Conv{300, 4}, Conv{17, 8}, Conv{64, 3}, Conv{40, 4, true}}) {
    constexpr int64_t kRows = 23;
    const std::vector<float> in = RandomMatrix(kRows, conv.stride(), 5);
    std::vector<float> state(static_cast<size_t>(conv.state_floats()), kNaN);
    const std::vector<float> out = Convolve(*device_, conv, BatchOf({{0, kRows}}), in, &state);
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t c = 0; c < conv.channels; ++c) {
        double sum = conv.biased ? conv.bias[static_cast<size_t>(c)] : 0.0;
        for (int64_t j = 0; j < conv.taps; ++j) {
          const int64_t row = t - conv.taps + 1 + j;
          if (row < 0) continue;
          sum += static_cast<double>(conv.weight[static_cast<size_t>(j * conv.channels + c)]) *
                 in[static_cast<size_t>(row * conv.stride() + c)];
        }
        ASSERT_NEAR(out[static_cast<size_t>(t * conv.channels + c)], sum * Sigmoid(sum), 2e-6 * (1.0 + std::fabs(sum)))
            << conv.channels << " channels, row " << t << " channel " << c;
      }
    }
    // The state is the last rows before the convolution.
    for (int64_t row = 0; row < conv.taps - 1; ++row) {
      const auto* last = in.data() + (kRows - conv.taps + 1 + row) * conv.stride();
      EXPECT_EQ(std::memcmp(state.data() + row * conv.channels, last, static_cast<size_t>(conv.channels) * 4), 0);
    }
  }
}

TEST_P(Recurrent, ConvolutionHasTheSameBitsUnderAnyCutAndBesideOthers) {
  const Conv conv{300, 4};
  constexpr int32_t kRows = 40;
  const std::vector<float> in = RandomMatrix(kRows, conv.stride(), 6);
  std::vector<float> whole_state(static_cast<size_t>(conv.state_floats()), kNaN);
  const std::vector<float> whole = Convolve(*device_, conv, BatchOf({{0, kRows}}), in, &whole_state);
  const auto other_device = Open(7);
  for (const int32_t cut : {1, 2, 3, 7, 16, 39}) {
    std::vector<float> states(2 * static_cast<size_t>(conv.state_floats()), kNaN);
    std::vector<float> pieces;
    for (int32_t first = 0; first < kRows; first += cut) {
      const int32_t count = std::min(cut, kRows - first);
      std::vector<float> rows = RandomMatrix(2, conv.stride(), static_cast<uint32_t>(first));  // of another sequence
      Append(&rows, Rows(in, conv.stride(), first, count));
      const std::vector<float> out = Convolve(*other_device, conv, BatchOf({{0, 2}, {first, count}}), rows, &states);
      Append(&pieces, Rows(out, conv.channels, 2, count));
    }
    EXPECT_EQ(pieces, whole) << cut;
    EXPECT_EQ(std::memcmp(states.data(), whole_state.data(), whole_state.size() * sizeof(float)), 0) << cut;
  }
}

// ---- The delta rule. ------------------------------------------------------------------------------------------------

struct Delta {
  DeltaShape shape;
  float beta_scale;
  std::vector<float> rate;
  std::vector<float> dt_bias;

  explicit Delta(const DeltaShape& of, float scale = 1.0F)
      : shape(of), beta_scale(scale), dt_bias(RandomMatrix(1, of.value_heads, 8)) {
    for (const float value : RandomMatrix(1, of.value_heads, 7)) rate.push_back(std::exp(value - 1.0F));
  }
  int64_t state_floats() const { return shape.value_heads * DeltaHeadFloats(shape); }
};

std::vector<float> Scan(Device& device, const Delta& delta, const Batch& batch, const std::vector<float>& in,
                        const std::vector<float>& gates, float* states) {
  const auto rows = static_cast<int64_t>(in.size()) / delta.shape.channels();
  std::vector<float> out(static_cast<size_t>(rows * delta.shape.value_features()), kNaN);
  const DeltaScanParams params{.shape = delta.shape,
                               .in = in.data(),
                               .gates = gates.data(),
                               .rate = delta.rate.data(),
                               .dt_bias = delta.dt_bias.data(),
                               .state = {states, delta.state_floats(), batch.slots.data()},
                               .sequences = batch.spans.data(),
                               .num_sequences = static_cast<int32_t>(batch.spans.size()),
                               .out = out.data(),
                               .beta_scale = delta.beta_scale};
  EXPECT_EQ(device.ops->delta_scan(device.context, params), KernelStatus::kOk);
  return out;
}

// One head of one sequence: [rows, value_dim].
std::vector<double> ExactHead(const Delta& delta, int64_t head, const std::vector<float>& in,
                              const std::vector<float>& gates) {
  const DeltaShape& shape = delta.shape;
  const auto dk = static_cast<size_t>(shape.key_dim);
  const auto dv = static_cast<size_t>(shape.value_dim);
  const int64_t key_head = shape.tiled_values ? head % shape.key_heads : head * shape.key_heads / shape.value_heads;
  const auto rows = static_cast<int64_t>(in.size()) / shape.channels();
  std::vector<double> state(dk * dv, 0.0);
  std::vector<double> out;
  for (int64_t t = 0; t < rows; ++t) {
    const float* row = in.data() + t * shape.channels();
    const auto unit = [&](const float* values, double factor) {
      double squares = 0.0;
      for (size_t i = 0; i < dk; ++i) squares += static_cast<double>(values[i]) * values[i];
      std::vector<double> scaled;
      for (size_t i = 0; i < dk; ++i) scaled.push_back(values[i] / std::sqrt(squares + 1e-6) * factor);
      return scaled;
    };
    const auto query = unit(row + key_head * shape.key_dim, 1.0 / std::sqrt(static_cast<double>(dk)));
    const auto key = unit(row + (shape.key_heads + key_head) * shape.key_dim, 1.0);
    const float* value = row + 2 * shape.key_heads * shape.key_dim + head * shape.value_dim;
    const float* gate = gates.data() + t * 2 * shape.value_heads + head;
    const double step = static_cast<double>(gate[shape.value_heads]) + delta.dt_bias[static_cast<size_t>(head)];
    const double decay =
        std::exp(-static_cast<double>(delta.rate[static_cast<size_t>(head)]) * std::log1p(std::exp(step)));
    for (double& element : state) element *= decay;
    for (size_t j = 0; j < dv; ++j) {
      double stored = 0.0;
      for (size_t i = 0; i < dk; ++i) stored += state[i * dv + j] * key[i];
      const double update = static_cast<double>(delta.beta_scale) * Sigmoid(gate[0]) * (value[j] - stored);
      double attended = 0.0;
      for (size_t i = 0; i < dk; ++i) attended += (state[i * dv + j] += key[i] * update) * query[i];
      out.push_back(attended);
    }
  }
  return out;
}

TEST_P(Recurrent, DeltaRuleMatchesFp64) {
  for (const Delta& delta :
       {Delta({2, 4, 8, 12}), Delta({2, 4, 8, 12, true}), Delta({1, 1, 1, 1}), Delta({1, 2, 30, 33}),
        Delta({2, 4, 128, 128}), Delta({3, 3, 17, 64}), Delta({1, 1, 200, 20}), Delta({1, 2, 64, 70}),
        Delta({2, 4, 8, 12}, 2.0F), Delta({2, 2, 96, 192}, 2.0F)}) {
    constexpr int64_t kRows = 70;
    const std::vector<float> in = RandomMatrix(kRows, delta.shape.channels(), 9);
    const std::vector<float> gates = RandomMatrix(kRows, 2 * delta.shape.value_heads, 10);
    std::vector<float> state(static_cast<size_t>(delta.state_floats()), kNaN);
    const std::vector<float> out = Scan(*device_, delta, BatchOf({{0, kRows}}), in, gates, state.data());
    for (int64_t head = 0; head < delta.shape.value_heads; ++head) {
      const std::vector<double> exact = ExactHead(delta, head, in, gates);
      for (int64_t t = 0; t < kRows; ++t) {
        for (int64_t j = 0; j < delta.shape.value_dim; ++j) {
          const auto at = static_cast<size_t>(t * delta.shape.value_features() + head * delta.shape.value_dim + j);
          ASSERT_NEAR(out[at], exact[static_cast<size_t>(t * delta.shape.value_dim + j)], 3e-6)
              << "key_dim " << delta.shape.key_dim << " row " << t << " head " << head << " column " << j;
        }
      }
    }
  }
}

TEST_P(Recurrent, DeltaRuleHasTheSameBitsUnderAnyCutAndBesideOthers) {
  for (const Delta& delta : {Delta({2, 4, 8, 12}), Delta({1, 2, 40, 100}), Delta({2, 2, 8, 12}, 2.0F)}) {
    constexpr int32_t kRows = 130;
    const int64_t columns = delta.shape.channels();
    const int64_t gate_columns = 2 * delta.shape.value_heads;
    const std::vector<float> in = RandomMatrix(kRows, columns, 11);
    const std::vector<float> gates = RandomMatrix(kRows, gate_columns, 12);
    std::vector<float> whole_state(static_cast<size_t>(delta.state_floats()), kNaN);
    const std::vector<float> whole = Scan(*device_, delta, BatchOf({{0, kRows}}), in, gates, whole_state.data());
    const auto other_device = Open(7);
    for (const int32_t cut : {1, 2, 31, 37, 64, 65}) {
      std::vector<float> states(2 * static_cast<size_t>(delta.state_floats()), kNaN);
      std::vector<float> pieces;
      for (int32_t first = 0; first < kRows; first += cut) {
        const int32_t count = std::min(cut, kRows - first);
        std::vector<float> rows = RandomMatrix(3, columns, static_cast<uint32_t>(first));  // of another sequence
        std::vector<float> row_gates = RandomMatrix(3, gate_columns, static_cast<uint32_t>(first));
        Append(&rows, Rows(in, columns, first, count));
        Append(&row_gates, Rows(gates, gate_columns, first, count));
        const std::vector<float> out =
            Scan(*other_device, delta, BatchOf({{0, 3}, {first, count}}), rows, row_gates, states.data());
        Append(&pieces, Rows(out, delta.shape.value_features(), 3, count));
      }
      EXPECT_EQ(pieces, whole) << cut;
      EXPECT_EQ(std::memcmp(states.data(), whole_state.data(), whole_state.size() * sizeof(float)), 0) << cut;
    }
  }
}

TEST_P(Recurrent, StatesNeedNoAlignment) {
  const Delta delta({1, 2, 30, 33});
  const std::vector<float> in = RandomMatrix(5, delta.shape.channels(), 20);
  const std::vector<float> gates = RandomMatrix(5, 2 * delta.shape.value_heads, 21);
  const Batch batch = BatchOf({{1, 5}});
  const auto floats = static_cast<size_t>(delta.state_floats());
  std::vector<float> expected_state(floats, 0.5F);
  const std::vector<float> expected = Scan(*device_, delta, batch, in, gates, expected_state.data());
  for (size_t offset = 1; offset < 4; ++offset) {
    std::vector<float> state(floats + offset, 0.5F);
    EXPECT_EQ(Scan(*device_, delta, batch, in, gates, state.data() + offset), expected) << offset;
    EXPECT_EQ(std::vector<float>(state.begin() + static_cast<int64_t>(offset), state.end()), expected_state) << offset;
  }
}

TEST_P(Recurrent, StatesFadeWithoutOverflowAtExtremeGates) {
  const Delta delta({1, 1, 16, 16});
  const std::vector<float> in = RandomMatrix(4, delta.shape.channels(), 13);
  const std::vector<float> gates = {200.0F, 200.0F, -200.0F, -200.0F, 200.0F, -200.0F, -200.0F, 200.0F};
  std::vector<float> state(static_cast<size_t>(delta.state_floats()), kNaN);
  for (const float value : Scan(*device_, delta, BatchOf({{0, 4}}), in, gates, state.data())) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

// ---- Gates. ---------------------------------------------------------------------------------------------------------

// The gate after the norm, with the weights of one group, and before it, with weights of each.
void ExpectGatedNormOfFp64(Device& device, int32_t columns, int64_t gate_stride) {
  constexpr int32_t kGroups = 3;
  const int64_t width = int64_t{kGroups} * columns;
  const std::vector<float> in = RandomMatrix(5, width, 14);
  const std::vector<float> gate = RandomMatrix(5, gate_stride, 15);
  const std::vector<float> weight = RandomMatrix(1, width, 16);
  const std::vector<int32_t> rows = {4, 1};
  const auto silu = [](double z) { return z * Sigmoid(z); };
  for (const bool first : {false, true}) {
    std::vector<float> out(static_cast<size_t>(2 * width), kNaN);
    const GatedGroupNormParams params{in.data(),     gate.data(), gate_stride, rows.data(),
                                      weight.data(), 1e-6F,       kGroups,     columns,
                                      out.data(),    2,           first,       first ? columns : 0};
    ASSERT_EQ(device.ops->gated_group_norm(device.context, params), KernelStatus::kOk);
    for (int64_t i = 0; i < 2 * width; ++i) {
      const int64_t row = rows[static_cast<size_t>(i / width)];
      const int64_t column = i % width;
      const auto normed = [&](int64_t j) {
        const double value = in[static_cast<size_t>(row * width + j)];
        return first ? value * silu(gate[static_cast<size_t>(row * gate_stride + j)]) : value;
      };
      double squares = 0.0;
      for (int64_t j = 0; j < columns; ++j) squares += std::pow(normed(column / columns * columns + j), 2);
      const double scaled = normed(column) / std::sqrt(squares / columns + 1e-6) *
                            weight[static_cast<size_t>(first ? column : column % columns)];
      const double exact = first ? scaled : scaled * silu(gate[static_cast<size_t>(row * gate_stride + column)]);
      ASSERT_NEAR(out[static_cast<size_t>(i)], exact, 2e-6 * (1.0 + std::fabs(exact))) << first << " " << i;
    }
  }
}

TEST_P(Recurrent, GatedNormMatchesFp64AndPicksRows) {
  ExpectGatedNormOfFp64(*device_, 37, 3 * 37 + 9);
  ExpectGatedNormOfFp64(*device_, 40, 3 * 40 + 8);
  ExpectGatedNormOfFp64(*device_, 1100, 3 * 1100);
}

TEST_P(Recurrent, RowGateMatchesFp64AndPicksRows) {
  constexpr int32_t kColumns = 45;
  const std::vector<float> in = RandomMatrix(2, kColumns, 17);
  const std::vector<float> gate = RandomMatrix(4, kColumns, 18);
  for (const std::vector<int32_t>& rows : {std::vector<int32_t>{}, std::vector<int32_t>{3, 0}}) {
    std::vector<float> values = in;
    const RowGateParams params{values.data(), gate.data(), rows.empty() ? nullptr : rows.data(), 2, kColumns};
    ASSERT_EQ(device_->ops->row_gate(device_->context, params), KernelStatus::kOk);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = rows.empty() ? i / kColumns : static_cast<size_t>(rows[i / kColumns]);
      const double exact = in[i] * Sigmoid(gate[row * kColumns + i % kColumns]);
      ASSERT_NEAR(values[i], exact, 1e-6) << i;
    }
  }
}

TEST_P(Recurrent, RowGateMayBeOfGroupsOfColumns) {
  constexpr int32_t kGroups = 5;
  constexpr int32_t kWidth = 9;
  const std::vector<float> in = RandomMatrix(2, kGroups * kWidth, 17);
  const std::vector<float> gate = RandomMatrix(4, kGroups, 18);
  const std::vector<int32_t> rows = {3, 0};
  std::vector<float> values = in;
  const RowGateParams params{values.data(), gate.data(), rows.data(), 2, kGroups * kWidth, kWidth};
  ASSERT_EQ(device_->ops->row_gate(device_->context, params), KernelStatus::kOk);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i / (kGroups * kWidth)]);
    const double exact = in[i] * Sigmoid(gate[row * kGroups + i % (kGroups * kWidth) / kWidth]);
    ASSERT_NEAR(values[i], exact, 1e-6) << i;
  }
}

DUNLIN_FOR_EVERY_RECURRENT_DEVICE(Recurrent);

}  // namespace
}  // namespace dunlin::kernels::testing_recurrent
