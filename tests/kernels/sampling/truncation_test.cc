// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/truncation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/shared/exponential.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::kernels::cpu {
namespace {

std::vector<float> WeightsOf(const std::vector<float>& logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights;
  for (float x : logits) weights.push_back(ExpNonPositive(x - max));
  return weights;
}

// The ids that stay, by Truncation.
std::vector<int32_t> Kept(const SampleRow& sampling, const std::vector<float>& logits) {
  std::vector<float> weights = WeightsOf(logits);
  const auto vocab_size = static_cast<int32_t>(logits.size());
  std::vector<double> workspace(Truncation::WorkspaceBytes(vocab_size) / sizeof(double) + 1);  // for its alignment
  Truncation truncation(vocab_size, reinterpret_cast<std::byte*>(workspace.data()));
  const float max = *std::max_element(logits.begin(), logits.end());
  truncation.Apply(sampling, logits.data(), max, vocab_size, weights.data());
  std::vector<int32_t> kept;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0F) kept.push_back(static_cast<int32_t>(i));
  }
  return kept;
}

// The ids that stay, by a sort and running sums in FP64.
std::vector<int32_t> KeptByReference(const SampleRow& sampling, const std::vector<float>& logits) {
  const std::vector<float> weights = WeightsOf(logits);
  std::vector<int32_t> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights[i] > 0.0F && weights[i] >= sampling.min_p) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < order.size()) {
    order.resize(static_cast<size_t>(sampling.top_k));
  }
  double total = 0.0;
  for (int32_t id : order) total += static_cast<double>(weights[static_cast<size_t>(id)]);
  double sum = 0.0;
  size_t count = 0;
  const double share = static_cast<double>(sampling.top_p);
  while (count < order.size() && (count == 0 || sum < share * total)) {
    sum += static_cast<double>(weights[static_cast<size_t>(order[count++])]);
  }
  if (share < 1.0) order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(Truncation, AgreesWithASortForEverySetting) {
  for (float scale : {0.01F, 1.0F, 4.0F, 30.0F}) {
    for (int32_t vocab_size : {1, 2, 7, 300, 5000}) {
      const std::vector<float> logits = RandomLogits(vocab_size, scale, 17);
      for (int32_t top_k : {0, 1, 2, 40, 299, 10000}) {
        for (float top_p : {1.0F, 0.97F, 0.5F, 0.123F, 1e-6F}) {
          for (float min_p : {0.0F, 0.03F, 0.6F, 1.0F}) {
            SampleRow sampling;
            sampling.top_k = top_k;
            sampling.top_p = top_p;
            sampling.min_p = min_p;
            EXPECT_EQ(Kept(sampling, logits), KeptByReference(sampling, logits))
                << "scale " << scale << " vocab " << vocab_size << " k " << top_k << " p " << top_p << " min " << min_p;
          }
        }
      }
    }
  }
}

TEST(Truncation, CutsTiesAtTheLowerIds) {
  const std::vector<float> logits = {1.0F, 2.0F, 1.0F, 2.0F, 1.0F, 2.0F, 2.0F};
  SampleRow sampling;
  sampling.top_k = 2;
  EXPECT_EQ(Kept(sampling, logits), (std::vector<int32_t>{1, 3}));
  sampling.top_k = 5;
  EXPECT_EQ(Kept(sampling, logits), (std::vector<int32_t>{0, 1, 3, 5, 6}));
  sampling.top_k = 4;
  sampling.top_p = 0.6F;  // of four equal tokens: 2.4 of them, so three
  EXPECT_EQ(Kept(sampling, logits), (std::vector<int32_t>{1, 3, 5}));
}

TEST(Truncation, TreatsTheTwoZerosAsEqual) {
  SampleRow sampling;
  sampling.top_k = 1;
  EXPECT_EQ(Kept(sampling, {-1.0F, -0.0F, 0.0F}), (std::vector<int32_t>{1}));
}

TEST(Truncation, KeepsOneTokenHoweverSmallTopP) {
  SampleRow sampling;
  sampling.top_p = 1e-30F;
  EXPECT_EQ(Kept(sampling, {0.0F, 0.5F, 0.25F}), (std::vector<int32_t>{1}));
}

TEST(Truncation, IgnoresTopKAboveTheVocabulary) {
  SampleRow sampling;
  sampling.top_k = 1 << 30;
  EXPECT_EQ(Kept(sampling, {0.0F, 0.5F, 0.25F}), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Truncation, MinPOfOneKeepsTheMostLikelyAndItsEquals) {
  SampleRow sampling;
  sampling.min_p = 1.0F;
  EXPECT_EQ(Kept(sampling, {0.5F, 0.0F, 0.5F, 0.49F}), (std::vector<int32_t>{0, 2}));
}

TEST(Truncation, TopPCountsShareOfWhatTopKLeft) {
  // Weights 8 4 2 1 1: of all, 0.7 needs two tokens (12/16); of the best two, one holds 8/12 = 0.67 < 0.7.
  const std::vector<float> logits = {std::log(8.0F), std::log(4.0F), std::log(2.0F), 0.0F, 0.0F};
  SampleRow sampling;
  sampling.top_k = 2;
  sampling.top_p = 0.65F;
  EXPECT_EQ(Kept(sampling, logits), (std::vector<int32_t>{0}));
  sampling.top_k = 0;
  EXPECT_EQ(Kept(sampling, logits), (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace dunlin::kernels::cpu
