// SPDX-License-Identifier: Apache-2.0
// The causal convolution between two gates against FP64: of products of two rows, without an activation. A row has the
// same bits however a sequence is cut into calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/recurrent/recurrent_batch.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels::testing_recurrent {
namespace {

class GatedConv : public RecurrentDevices {};

// Rows of B, C and x, with others between them and the next.
struct GatedCase {
  int32_t channels;
  int32_t taps;
  bool biased;
  bool silu = false;

  int64_t stride() const { return 3 * channels + 7; }
  size_t state_floats() const { return static_cast<size_t>((taps - 1) * channels); }
};

class GatedConvolution {
 public:
  explicit GatedConvolution(const GatedCase& c)
      : c_(c), weight_(RandomMatrix(c.taps, c.channels, 21)), bias_(RandomMatrix(1, c.channels, 22)) {}

  // `rows` from position `first` on, of the one sequence.
  std::vector<float> Run(Device& device, const float* rows, int32_t first, int32_t count, float* state) const {
    std::vector<float> out(static_cast<size_t>(count) * static_cast<size_t>(c_.channels), kNaN);
    const SequenceSpan span{.query_start = 0, .query_len = count, .first_position = first, .page_table_row = 0};
    const int32_t slot = 0;
    const CausalConvParams params{.in = rows + 2 * int64_t{c_.channels},
                                  .in_stride = c_.stride(),
                                  .weight = weight_.data(),
                                  .channels = c_.channels,
                                  .taps = c_.taps,
                                  .state = {state, static_cast<int64_t>(c_.state_floats()), &slot},
                                  .sequences = &span,
                                  .num_sequences = 1,
                                  .out = out.data(),
                                  .bias = c_.biased ? bias_.data() : nullptr,
                                  .in_gate = rows,
                                  .out_gate = rows + c_.channels,
                                  .silu = c_.silu};
    EXPECT_EQ(device.ops->causal_conv(device.context, params), KernelStatus::kOk);
    return out;
  }

  double Exact(const std::vector<float>& rows, int64_t t, int64_t channel) const {
    const auto at = [&](int64_t row, int64_t part) {
      return static_cast<double>(rows[static_cast<size_t>(row * c_.stride() + part * c_.channels + channel)]);
    };
    double sum = c_.biased ? static_cast<double>(bias_[static_cast<size_t>(channel)]) : 0.0;
    for (int64_t tap = std::max<int64_t>(0, c_.taps - 1 - t); tap < c_.taps; ++tap) {
      const int64_t row = t - c_.taps + 1 + tap;
      sum += static_cast<double>(weight_[static_cast<size_t>(tap * c_.channels + channel)]) * at(row, 0) * at(row, 2);
    }
    return (c_.silu ? sum / (1.0 + std::exp(-sum)) : sum) * at(t, 1);
  }

 private:
  const GatedCase c_;
  const std::vector<float> weight_;
  const std::vector<float> bias_;
};

constexpr GatedCase kGatedCases[] = {{40, 3, false}, {300, 7, true}, {1, 2, false}, {17, 8, true, true}};

TEST_P(GatedConv, MatchesFp64) {
  constexpr int32_t kRows = 23;
  for (const GatedCase& c : kGatedCases) {
    const GatedConvolution conv(c);
    const std::vector<float> rows = RandomMatrix(kRows, c.stride(), 23);
    std::vector<float> state(c.state_floats(), kNaN);
    const std::vector<float> out = conv.Run(*device_, rows.data(), 0, kRows, state.data());
    for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
      const double exact = conv.Exact(rows, i / c.channels, i % c.channels);
      ASSERT_NEAR(out[static_cast<size_t>(i)], exact, 4e-6 * (1.0 + std::fabs(exact)))
          << c.channels << " channels, " << c.taps << " taps, element " << i;
    }
    // The state is the last rows before the convolution.
    for (int64_t row = 0; row < c.taps - 1; ++row) {
      for (int64_t channel = 0; channel < c.channels; ++channel) {
        const float* in = rows.data() + (kRows - c.taps + 1 + row) * c.stride() + channel;
        ASSERT_EQ(state[static_cast<size_t>(row * c.channels + channel)], in[0] * in[2 * int64_t{c.channels}]);
      }
    }
  }
}

TEST_P(GatedConv, HasTheSameBitsUnderAnyCut) {
  constexpr int32_t kRows = 40;
  const auto other_device = Open(7);
  for (const GatedCase& c : kGatedCases) {
    const GatedConvolution conv(c);
    const std::vector<float> rows = RandomMatrix(kRows, c.stride(), 24);
    std::vector<float> whole_state(c.state_floats(), kNaN);
    const std::vector<float> whole = conv.Run(*device_, rows.data(), 0, kRows, whole_state.data());
    for (const int32_t cut : {1, 2, 3, 7, 16, 39}) {
      std::vector<float> state(c.state_floats(), kNaN);
      std::vector<float> pieces;
      for (int32_t first = 0; first < kRows; first += cut) {
        const std::vector<float> piece = conv.Run(*other_device, rows.data() + first * c.stride(), first,
                                                  std::min(cut, kRows - first), state.data());
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      }
      EXPECT_EQ(pieces, whole) << cut;
      EXPECT_EQ(state, whole_state) << cut;
    }
  }
}

DUNLIN_FOR_EVERY_RECURRENT_DEVICE(GatedConv);

}  // namespace
}  // namespace dunlin::kernels::testing_recurrent
