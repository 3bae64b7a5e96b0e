// SPDX-License-Identifier: Apache-2.0
// Routing of rows to experts, and the weighted sum of their outputs. A row is one task's; the grouping by expert is one
// counting sort.
#include "kernels/cpu/experts.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/context/row_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

float Sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

// As torch does, x itself where the rest is less than its last bit.
float RootSoftplus(float x) {
  return std::sqrt(x > 20.0F ? x : std::log1p(std::exp(x)));
}

// values -> exp(values - largest) / sum.
void Softmax(float* values, int32_t count) {
  const float largest = *std::max_element(values, values + count);
  float sum = 0.0F;
  for (int32_t i = 0; i < count; ++i) sum += values[i] = std::exp(values[i] - largest);
  for (int32_t i = 0; i < count; ++i) values[i] /= sum;
}

// Of the indices that are open the one of the largest value, the lowest where values are equal; valid with NaN, too.
int32_t TakeBest(const float* values, int32_t count, bool* open) {
  int32_t best = -1;
  for (int32_t i = 0; i < count; ++i) {
    if (open[i] && (best < 0 || values[i] > values[best])) best = i;
  }
  open[best] = false;
  return best;
}

// values: what `rule` chooses by, of every expert.
float GroupScore(const ExpertRouting& rule, const float* values, int32_t group) {
  const int32_t size = rule.num_experts / rule.num_groups;
  bool open[kExpertsMax];
  std::fill_n(open, size, true);
  const float* of_group = values + group * size;
  const float largest = of_group[TakeBest(of_group, size, open)];
  if (rule.group_scoring == GroupScoring::kLargest || size == 1) return largest;
  return largest + of_group[TakeBest(of_group, size, open)];
}

// The experts of the best groups are open.
void OpenGroups(const ExpertRouting& rule, const float* values, bool* open) {
  std::fill_n(open, rule.num_experts, rule.num_chosen_groups == rule.num_groups);
  if (rule.num_chosen_groups == rule.num_groups) return;
  float scores[kExpertsMax];
  bool open_groups[kExpertsMax];
  std::fill_n(open_groups, rule.num_groups, true);
  for (int32_t group = 0; group < rule.num_groups; ++group) scores[group] = GroupScore(rule, values, group);
  const int32_t size = rule.num_experts / rule.num_groups;
  for (int32_t i = 0; i < rule.num_chosen_groups; ++i) {
    std::fill_n(open + TakeBest(scores, rule.num_groups, open_groups) * size, size, true);
  }
}

int32_t OfToken(const RouteExpertsParams& params, int64_t row, int32_t index) {
  const float expert = params.token_experts[int64_t{params.tokens[row]} * params.rule.num_chosen + index];
  return std::clamp(static_cast<int32_t>(expert), 0, params.rule.num_experts - 1);
}

// kSoftmaxOfNear's weight of `best`, whose logit is the largest of the open experts and its own.
float WeightAmongNear(const ExpertRouting& rule, const float* logits, const bool* open, int32_t best) {
  const float largest = logits[best];
  float sum = 1.0F;
  for (int32_t e = 0; e < rule.num_experts; ++e) {
    const float distance = (largest - logits[e]) / std::max(std::abs(logits[e]), largest);
    if (open[e] && !(distance > rule.nearness)) sum += std::exp(logits[e] - largest);
  }
  return 1.0F / sum;
}

void RouteRow(const RouteExpertsParams& params, int64_t row) {
  const ExpertRouting& rule = params.rule;
  int32_t* chosen = params.chosen + row * rule.num_chosen;
  float* weights = params.chosen_weights + row * rule.num_chosen;
  float scores[kExpertsMax] = {};
  float corrected[kExpertsMax];
  std::copy_n(params.logits + row * params.logits_stride, rule.num_experts, scores);
  if (rule.scoring == ExpertScoring::kSoftmax) Softmax(scores, rule.num_experts);
  if (rule.scoring == ExpertScoring::kSigmoid) std::transform(scores, scores + rule.num_experts, scores, Sigmoid);
  if (rule.scoring == ExpertScoring::kRootSoftplus) {
    std::transform(scores, scores + rule.num_experts, scores, RootSoftplus);
  }
  for (int32_t e = 0; params.correction != nullptr && e < rule.num_experts; ++e) {
    corrected[e] = scores[e] + params.correction[e];
  }
  const float* choice = params.correction == nullptr ? scores : corrected;
  bool open[kExpertsMax];
  OpenGroups(rule, choice, open);
  for (int32_t i = 0; i < rule.num_chosen; ++i) {
    chosen[i] = params.token_experts == nullptr ? TakeBest(choice, rule.num_experts, open) : OfToken(params, row, i);
    weights[i] = rule.scoring == ExpertScoring::kSoftmaxOfNear ? WeightAmongNear(rule, scores, open, chosen[i])
                                                               : scores[chosen[i]];
  }
  if (rule.scoring == ExpertScoring::kSoftmaxOfChosen) Softmax(weights, rule.num_chosen);
  if (rule.scoring == ExpertScoring::kSigmoidOfChosen)
    std::transform(weights, weights + rule.num_chosen, weights, Sigmoid);
  float sum = rule.sum_offset;
  for (int32_t i = 0; i < rule.num_chosen; ++i) sum += weights[i];
  for (int32_t i = 0; i < rule.num_chosen; ++i)
    weights[i] = (rule.normalized ? weights[i] / sum : weights[i]) * rule.scale;
  for (int32_t i = 0; params.expert_scales != nullptr && i < rule.num_chosen; ++i) {
    weights[i] *= params.expert_scales[chosen[i]];
  }
}

// Rows in the order of their experts: counts, then starts, then places.
void GroupByExpert(const RouteExpertsParams& params) {
  const int32_t num_chosen = params.rule.num_chosen;
  const int64_t count = int64_t{params.num_rows} * num_chosen;
  for (int32_t e = 0; e < params.rule.num_experts; ++e) params.experts[e] = {0, 0, 0};
  for (int64_t i = 0; i < count; ++i) {
    ExpertRows& expert = params.experts[params.chosen[i]];
    ++expert.count;
    if (i / num_chosen < params.decode_rows) ++expert.num_decode;
  }
  int32_t start = 0;
  for (int32_t e = 0; e < params.rule.num_experts; ++e) {
    params.experts[e].first = start;  // where its next row goes, until all have been placed
    start += params.experts[e].count;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t place = params.experts[params.chosen[i]].first++;
    params.rows[place] = static_cast<int32_t>(i / num_chosen);
    params.weights[place] = params.chosen_weights[i];
    params.places[i] = place;
  }
  for (int32_t e = 0; e < params.rule.num_experts; ++e) params.experts[e].first -= params.experts[e].count;
  for (int64_t i = 0; i < count; i += num_chosen) std::sort(params.places + i, params.places + i + num_chosen);
}

}  // namespace

KernelStatus RouteExperts(DeviceContext* context, const RouteExpertsParams& params) {
  if (!IsRule(params.rule) || params.num_rows < 0 || params.logits_stride < params.rule.num_experts) {
    return KernelStatus::kInvalidArgument;
  }
  const bool some = params.num_rows > 0;
  if (params.experts == nullptr ||
      (some && (params.logits == nullptr || params.chosen == nullptr || params.chosen_weights == nullptr ||
                params.rows == nullptr || params.weights == nullptr || params.places == nullptr))) {
    return KernelStatus::kInvalidArgument;
  }
  if (some && params.token_experts != nullptr && params.tokens == nullptr) return KernelStatus::kInvalidArgument;
  const int64_t work = int64_t{params.rule.num_experts} * (params.rule.num_chosen + 1);
  ForEachRow(context, params.num_rows, work, [&](int64_t row) { RouteRow(params, row); });
  GroupByExpert(params);
  return KernelStatus::kOk;
}

KernelStatus AddWeightedRows(DeviceContext* context, const AddWeightedRowsParams& params) {
  const bool some = params.num_rows > 0;
  if (params.num_rows < 0 || params.columns <= 0 || params.weight_stride < 1 || params.num_places < 1 ||
      (params.places == nullptr && params.num_places != 1) ||
      (some && (params.in == nullptr || (params.weights == nullptr && params.sigmoid) || params.out == nullptr))) {
    return KernelStatus::kInvalidArgument;
  }
  const int64_t columns = params.columns;
  ForEachRow(context, params.num_rows, columns * params.num_places, [&](int64_t row) {
    float* out = params.out + row * columns;
    if (params.from_zero) std::fill_n(out, columns, 0.0F);
    for (int64_t i = row * params.num_places; i < (row + 1) * params.num_places; ++i) {
      const int64_t place = params.places == nullptr ? i : params.places[i];
      const float given = params.weights == nullptr ? 1.0F : params.weights[place * params.weight_stride];
      const float weight = params.sigmoid ? Sigmoid(given) : given;
      const float* in = params.in + place * columns;
      for (int64_t column = 0; column < columns; ++column) out[column] += weight * in[column];
    }
  });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
