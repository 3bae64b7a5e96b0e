// SPDX-License-Identifier: Apache-2.0
// Sparse attention: index keys in pages, the choice of keys by their scores, and attention over the chosen ones,
// against FP64; a row's choice and output are the same under any cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/kernels/attention/selection_devices.h"
#include "tests/kernels/attention/sparse_problem.h"
#include "tests/kernels/cpu/cpu_fixture.h"
#include "tests/kernels/recurrent/recurrent_batch.h"

namespace dunlin::kernels {
namespace {

using testing_cpu::PoisonedMemory;
using testing_recurrent::Rows;

class KeySelectionTest : public ::testing::TestWithParam<std::string> {
 protected:
  KeySelectionTest() : device_(OpenSelectionDevice(GetParam(), 2)) {}
  const std::unique_ptr<Device> device_;
};

// After StoreStep of all tokens, which has rotated queries and keys.
double ExactScore(const SparseProblem& problem, int32_t row, int32_t key) {
  double score = 0.0;
  for (int32_t h = 0; h < kIndexHeads; ++h) {
    double product = 0.0;
    for (int32_t d = 0; d < problem.dim; ++d) {
      product += static_cast<double>(problem.queries[static_cast<size_t>((row * kIndexHeads + h) * problem.dim + d)]) *
                 RoundedTo(problem.layout.dtype, problem.keys[static_cast<size_t>(key * problem.dim + d)]);
    }
    score += static_cast<double>(problem.weights[static_cast<size_t>(row * kIndexHeads + h)]) * std::max(product, 0.0);
  }
  return score;
}

TEST_P(KeySelectionTest, RowsChooseTheKeysWithTheLargestScores) {
  constexpr int32_t kTopK = 20;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SparseProblem problem(300, 16, dtype);
    const PoisonedMemory pool(*device_, problem.pool_bytes());
    StoreStep(*device_, &problem, pool.data(), 0, problem.tokens, false);
    const SparseRows rows =
        AttendStep(*device_, problem, pool.data(), 0, problem.tokens, kTopK, AttentionBackend::kMath);
    for (int32_t row = 0; row < problem.tokens; ++row) {
      std::vector<double> scores;
      for (int32_t key = 0; key <= row; ++key) scores.push_back(ExactScore(problem, row, key));
      std::vector<double> sorted = scores;
      std::sort(sorted.rbegin(), sorted.rend());
      const int32_t expected = std::min(row + 1, kTopK);
      int32_t count = 0;
      for (int32_t key = 0; key <= row; ++key) {
        const bool selected = IsSelected(rows, problem.words(), row, key);
        count += selected ? 1 : 0;
        const double least = sorted[static_cast<size_t>(expected - 1)];
        // Scores that rounding may put on either side of the last one taken.
        if (std::fabs(scores[static_cast<size_t>(key)] - least) < 1e-4) continue;
        ASSERT_EQ(selected, scores[static_cast<size_t>(key)] > least)
            << Name(dtype) << " row " << row << " key " << key;
      }
      ASSERT_EQ(count, expected) << row;
    }
  }
}

TEST_P(KeySelectionTest, OfEqualScoresTheFirstAreTaken) {
  SparseProblem problem(70, 8, DType::kF32);
  std::fill(problem.keys.begin(), problem.keys.end(), 1.0F);
  std::fill(problem.cos_sin.begin(), problem.cos_sin.end(), 0.0F);
  const PoisonedMemory pool(*device_, problem.pool_bytes());
  StoreStep(*device_, &problem, pool.data(), 0, problem.tokens, true);
  const SparseRows rows = AttendStep(*device_, problem, pool.data(), 0, problem.tokens, 9, AttentionBackend::kMath);
  for (int32_t key = 0; key < problem.tokens; ++key) {
    EXPECT_EQ(IsSelected(rows, problem.words(), problem.tokens - 1, key), key < 9) << key;
  }
}

TEST_P(KeySelectionTest, NeighboursOrHalvesRotate) {
  for (const bool neighbours : {false, true}) {
    SparseProblem problem(3, 8, DType::kF32);
    const std::vector<float> keys = problem.keys;
    const PoisonedMemory pool(*device_, problem.pool_bytes());
    StoreStep(*device_, &problem, pool.data(), 0, problem.tokens, neighbours);
    for (int32_t token = 0; token < 3; ++token) {
      for (int32_t i = 0; i < kIndexRotary / 2; ++i) {
        const auto row = static_cast<size_t>(token * 8);
        const auto a = row + static_cast<size_t>(neighbours ? 2 * i : i);
        const auto b = row + static_cast<size_t>(neighbours ? 2 * i + 1 : i + kIndexRotary / 2);
        const double cos = problem.cos_sin[static_cast<size_t>(token * kIndexRotary + i)];
        const double sin = problem.cos_sin[static_cast<size_t>(token * kIndexRotary + kIndexRotary / 2 + i)];
        EXPECT_NEAR(problem.keys[a], keys[a] * cos - keys[b] * sin, 1e-5);
        EXPECT_NEAR(problem.keys[b], keys[b] * cos + keys[a] * sin, 1e-5);
      }
      EXPECT_EQ(problem.keys[static_cast<size_t>(token * 8 + 7)], keys[static_cast<size_t>(token * 8 + 7)]);
    }
  }
}

// In 16 bits what the exact sums take is rounded as the pages and the backends round, and the weights are not.
void ExpectChosenKeysAlone(Device& device, DType dtype) {
  SparseProblem problem(150, 16, dtype);
  const PoisonedMemory pool(device, problem.pool_bytes());
  StoreStep(device, &problem, pool.data(), 0, problem.tokens, false);
  const auto row_of = [&](int32_t token, int32_t head) {
    return problem.qkv.data() + (int64_t{token} * (kAttentionHeads + 1) + head) * kLatentDim;
  };
  const double bound = dtype == DType::kF32 ? 2e-5 : 3e-2;
  for (const AttentionBackend backend : kAutoOrder) {
    if (!device.ops->supports_attention(device.context, backend, problem.traits(), nullptr)) continue;
    const SparseRows rows = AttendStep(device, problem, pool.data(), 0, problem.tokens, 7, backend);
    for (int32_t row = 0; row < problem.tokens; ++row) {
      for (int32_t head = 0; head < kAttentionHeads; ++head) {
        double total = 0.0;
        std::vector<double> sums(kLatentValue, 0.0);
        for (int32_t key = 0; key <= row; ++key) {
          if (!IsSelected(rows, problem.words(), row, key)) continue;
          const float* of_key = row_of(key, kAttentionHeads);
          double product = 0.0;
          for (int32_t d = 0; d < kLatentDim; ++d) {
            product += static_cast<double>(RoundedTo(dtype, of_key[d])) * RoundedTo(dtype, row_of(row, head)[d]);
          }
          const double weight = std::exp(0.3 * product);
          total += weight;
          for (int32_t d = 0; d < kLatentValue; ++d) {
            sums[static_cast<size_t>(d)] += weight * RoundedTo(dtype, of_key[kLatentDim - kLatentValue + d]);
          }
        }
        for (int32_t d = 0; d < kLatentValue; ++d) {
          const auto at = static_cast<size_t>((row * kAttentionHeads + head) * kLatentValue + d);
          ASSERT_NEAR(rows.out[at], sums[static_cast<size_t>(d)] / total, bound)
              << Name(dtype) << " " << Name(backend) << " row " << row;
        }
      }
    }
  }
}

TEST_P(KeySelectionTest, AttentionIsOverTheChosenKeysAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) ExpectChosenKeysAlone(*device_, dtype);
}

// How many tokens the step from `first` on takes. Steps of one token, which a simulated device is slow at, are those
// beside a tile's bounds, beside top_k and at both ends; the tokens between them are one step.
int32_t StepTokens(int32_t first, int32_t cut, int32_t tokens, int32_t top_k) {
  if (cut > 1) return std::min(cut, tokens - first);
  const auto is_single = [&](int32_t token) {
    return token < 3 || (token + 1) % 64 < 3 || std::abs(token - top_k) <= 1 || token == tokens - 1;
  };
  int32_t count = 1;
  while (!is_single(first) && !is_single(first + count)) ++count;
  return count;
}

void ExpectSameBitsUnderAnyCut(const std::string& name, int32_t tokens, int32_t top_k, DType dtype,
                               AttentionBackend backend) {
  const auto device = OpenSelectionDevice(name, 2);
  SparseProblem whole(tokens, 16, dtype);
  if (!device->ops->supports_attention(device->context, backend, whole.traits(), nullptr)) return;
  const PoisonedMemory pool(*device, whole.pool_bytes());
  StoreStep(*device, &whole, pool.data(), 0, tokens, true);
  const SparseRows expected = AttendStep(*device, whole, pool.data(), 0, tokens, top_k, backend);
  const auto other = OpenSelectionDevice(name, 5);
  for (const int32_t cut : {1, 37, 64, 65}) {
    SparseProblem pieces(tokens, 16, dtype);
    const PoisonedMemory other_pool(*other, pieces.pool_bytes());
    for (int32_t first = 0, count = 0; first < tokens; first += count) {
      count = StepTokens(first, cut, tokens, top_k);
      StoreStep(*other, &pieces, other_pool.data(), first, count, true);
      const SparseRows rows = AttendStep(*other, pieces, other_pool.data(), first, count, top_k, backend);
      const std::vector<float> of_whole = Rows(expected.out, int64_t{kAttentionHeads} * kLatentValue, first, count);
      ASSERT_EQ(rows.out, of_whole) << Name(backend) << " cut " << cut << " first " << first;
    }
  }
}

// The second choice is of more keys than a tile has.
TEST_P(KeySelectionTest, HasTheSameBitsUnderAnyCut) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const AttentionBackend backend : kAutoOrder) {
      ExpectSameBitsUnderAnyCut(GetParam(), 141, 11, dtype, backend);
      ExpectSameBitsUnderAnyCut(GetParam(), 230, 140, dtype, backend);
    }
  }
}

TEST_P(KeySelectionTest, ImpossibleParametersAreRefused) {
  const SparseProblem problem(3, 8, DType::kF32);
  StoreIndexKeysParams store{};
  store.layout = problem.layout;
  store.num_heads = 1;
  store.rotary_dim = 10;
  EXPECT_EQ(device_->ops->store_index_keys(device_->context, store), KernelStatus::kInvalidArgument) << "rotary_dim";
  SelectKeysParams select{};
  select.layout = problem.layout;
  select.num_heads = 1;
  select.max_kv_tokens = 33;
  select.selected_stride = 2;
  EXPECT_EQ(device_->ops->select_keys(device_->context, select), KernelStatus::kInvalidArgument) << "top_k";
  select.top_k = 1;
  EXPECT_EQ(device_->ops->select_keys(device_->context, select), KernelStatus::kOk) << "no sequences";
  select.selected_stride = 1;
  EXPECT_EQ(device_->ops->select_keys(device_->context, select), KernelStatus::kInvalidArgument) << "selected_stride";
}

INSTANTIATE_TEST_SUITE_P(Variants, KeySelectionTest, ::testing::ValuesIn(SelectionDeviceNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::kernels
