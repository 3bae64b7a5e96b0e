// SPDX-License-Identifier: Apache-2.0
// Routing of rows to experts, as RouteExpertsParams: one group of lanes chooses the experts of a row, one places the
// rows of an expert. Each expert's lanes read all choices twice, so that no count crosses blocks and the order of the
// rows is fixed: 128 experts of 8,192 rows with 8 each are 16.8 million reads, mostly from L2.
#pragma once

#include <cmath>

#include "kernels/api/experts.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// Shared memory of the lanes that route a row. Element i of an array is lane i % count's, but where a Sync is named.
struct RouteMemory {
  float scores[kExpertsMax];
  float choice[kExpertsMax];  // what the experts are chosen by
  float group_scores[kExpertsMax];
  float weights[kExpertsMax];  // of the chosen experts
  uint8_t open[kExpertsMax];
  uint8_t open_groups[kExpertsMax];
};

// Larger for larger values, 0 for NaN alone; the zeros are equal.
DUNLIN_HD constexpr uint32_t OrderOf(float value) {
  if (value != value) return 0;
  const uint32_t bits = FloatBits(value + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Of the indices that are open the one of the largest value, the lowest where values are equal; closes it. At least
// one is open.
template <typename Lanes>
DUNLIN_HD int32_t TakeBest(const Lanes& lanes, const float* values, int32_t count, uint8_t* open) {
  uint64_t best = 0;
  for (int32_t i = lanes.index(); i < count; i += lanes.count()) {
    const uint64_t key = uint64_t{OrderOf(values[i])} << 32 | (0xFFFFFFFFU - static_cast<uint32_t>(i));
    if (open[i] != 0 && key > best) best = key;
  }
  const auto index = static_cast<int32_t>(0xFFFFFFFFU - static_cast<uint32_t>(lanes.Max(best)));
  if (index % lanes.count() == lanes.index()) open[index] = 0;
  return index;
}

// values[0, count) -> exp(values - largest) / sum.
template <typename Lanes>
DUNLIN_HD void Softmax(const Lanes& lanes, float* values, int32_t count) {
  float largest = -INFINITY;
  for (int32_t i = lanes.index(); i < count; i += lanes.count()) largest = fmaxf(largest, values[i]);
  largest = lanes.Largest(largest);
  float sum = 0.0F;
  for (int32_t i = lanes.index(); i < count; i += lanes.count()) sum += values[i] = expf(values[i] - largest);
  sum = lanes.Sum(sum);
  for (int32_t i = lanes.index(); i < count; i += lanes.count()) values[i] /= sum;
}

// scores and choice of every expert; all experts are open.
template <typename Lanes>
DUNLIN_HD void ScoreExperts(const Lanes& lanes, const RouteExpertsParams& params, int64_t row, RouteMemory* memory) {
  const ExpertRouting& rule = params.rule;
  const float* logits = params.logits + row * params.logits_stride;
  for (int32_t e = lanes.index(); e < rule.num_experts; e += lanes.count()) memory->scores[e] = logits[e];
  if (rule.scoring == ExpertScoring::kSoftmax) Softmax(lanes, memory->scores, rule.num_experts);
  for (int32_t e = lanes.index(); e < rule.num_experts; e += lanes.count()) {
    float& score = memory->scores[e];
    if (rule.scoring == ExpertScoring::kSigmoid) score = 1.0F / (1.0F + expf(-score));
    memory->choice[e] = params.correction == nullptr ? score : score + params.correction[e];
    memory->open[e] = 1;
  }
}

// By what a group is chosen; choice: of its experts.
DUNLIN_HD inline float GroupScore(const ExpertRouting& rule, const float* choice) {
  const int32_t size = rule.num_experts / rule.num_groups;
  float largest = choice[0];
  float second = -INFINITY;
  for (int32_t i = 1; i < size; ++i) {
    if (choice[i] > largest) {
      second = largest;
      largest = choice[i];
    } else if (choice[i] > second) {
      second = choice[i];
    }
  }
  return rule.group_scoring == GroupScoring::kLargest || size == 1 ? largest : largest + second;
}

// Leaves the experts of the best groups open.
template <typename Lanes>
DUNLIN_HD void CloseGroups(const Lanes& lanes, const ExpertRouting& rule, RouteMemory* memory) {
  const int32_t size = rule.num_experts / rule.num_groups;
  lanes.Sync();  // the scores have been written
  for (int32_t group = lanes.index(); group < rule.num_groups; group += lanes.count()) {
    memory->group_scores[group] = GroupScore(rule, memory->choice + group * size);
    memory->open_groups[group] = 1;
  }
  for (int32_t i = 0; i < rule.num_chosen_groups; ++i) {
    (void)TakeBest(lanes, memory->group_scores, rule.num_groups, memory->open_groups);
  }
  lanes.Sync();  // the best groups are closed
  for (int32_t e = lanes.index(); e < rule.num_experts; e += lanes.count()) {
    memory->open[e] = memory->open_groups[e / size] == 0 ? 1 : 0;
  }
}

// weights[0, count): the scores of a row's experts become its weights.
template <typename Lanes>
DUNLIN_HD void WeighChosen(const Lanes& lanes, const ExpertRouting& rule, float* weights) {
  if (rule.scoring == ExpertScoring::kSoftmaxOfChosen) Softmax(lanes, weights, rule.num_chosen);
  float sum = 0.0F;
  for (int32_t i = lanes.index(); rule.scoring == ExpertScoring::kSigmoidOfChosen && i < rule.num_chosen;
       i += lanes.count()) {
    weights[i] = 1.0F / (1.0F + expf(-weights[i]));
  }
  for (int32_t i = lanes.index(); i < rule.num_chosen; i += lanes.count()) sum += weights[i];
  sum = lanes.Sum(sum) + rule.sum_offset;
  for (int32_t i = lanes.index(); i < rule.num_chosen; i += lanes.count()) {
    weights[i] = (rule.normalized ? weights[i] / sum : weights[i]) * rule.scale;
  }
}

// kSoftmaxOfNear's weight of `best`, whose logit is the largest of the open experts and its own.
template <typename Lanes>
DUNLIN_HD float WeightAmongNear(const Lanes& lanes, const ExpertRouting& rule, const RouteMemory& memory,
                                int32_t best) {
  const float largest = memory.scores[best];
  float sum = 0.0F;
  for (int32_t e = lanes.index(); e < rule.num_experts; e += lanes.count()) {
    const float distance = (largest - memory.scores[e]) / fmaxf(fabsf(memory.scores[e]), largest);
    const bool near = memory.open[e] != 0 && !(distance > rule.nearness);
    sum += near ? expf(memory.scores[e] - largest) : 0.0F;
  }
  return 1.0F / (1.0F + lanes.Sum(sum));
}

// The experts and weights of one row.
template <typename Lanes>
DUNLIN_HD void RouteRow(const Lanes& lanes, const RouteExpertsParams& params, int64_t row, RouteMemory* memory) {
  const ExpertRouting& rule = params.rule;
  ScoreExperts(lanes, params, row, memory);
  if (rule.num_chosen_groups < rule.num_groups) CloseGroups(lanes, rule, memory);
  lanes.Sync();  // scores are read by other lanes than their own
  for (int32_t i = 0; i < rule.num_chosen; ++i) {
    const int32_t expert = TakeBest(lanes, memory->choice, rule.num_experts, memory->open);
    const float near =
        rule.scoring == ExpertScoring::kSoftmaxOfNear ? WeightAmongNear(lanes, rule, *memory, expert) : 0.0F;
    if (i % lanes.count() != lanes.index()) continue;
    params.chosen[row * rule.num_chosen + i] = expert;
    memory->weights[i] = rule.scoring == ExpertScoring::kSoftmaxOfNear ? near : memory->scores[expert];
  }
  WeighChosen(lanes, rule, memory->weights);
  for (int32_t i = lanes.index(); i < rule.num_chosen; i += lanes.count()) {
    const int64_t at = row * rule.num_chosen + i;  // the lane has chosen this expert itself
    const float factor = params.expert_scales == nullptr ? 1.0F : params.expert_scales[params.chosen[at]];
    params.chosen_weights[at] = memory->weights[i] * factor;
  }
}

// What each lane found in its range of the choices.
template <int kLanes>
struct PlaceMemory {
  int32_t own[kLanes];     // choices of the expert
  int32_t before[kLanes];  // choices of lower experts
  int32_t decode[kLanes];  // choices of the expert by decode rows
};

// Where choice i goes when a row's choices are in the order of their experts.
DUNLIN_HD inline int64_t RankedChoice(const RouteExpertsParams& params, int64_t i) {
  const int32_t num_chosen = params.rule.num_chosen;
  const int64_t first = i / num_chosen * num_chosen;
  int64_t rank = first;
  for (int64_t other = first; other < first + num_chosen; ++other) {
    rank += params.chosen[other] < params.chosen[i] ? 1 : 0;
  }
  return rank;
}

// The count and the rows of one expert, in ascending order. kLanes >= lanes.count().
template <int kLanes, typename Lanes>
DUNLIN_HD void PlaceRows(const Lanes& lanes, const RouteExpertsParams& params, int32_t expert,
                         PlaceMemory<kLanes>* memory) {
  const int32_t num_chosen = params.rule.num_chosen;
  const int64_t total = int64_t{params.num_rows} * num_chosen;
  const int64_t decode = int64_t{params.decode_rows} * num_chosen;
  const int64_t each = (total + lanes.count() - 1) / lanes.count();
  const int64_t begin = each * lanes.index() < total ? each * lanes.index() : total;
  const int64_t end = begin + each < total ? begin + each : total;
  int32_t own = 0;
  int32_t before = 0;
  int32_t own_decode = 0;
  for (int64_t i = begin; i < end; ++i) {
    own += params.chosen[i] == expert ? 1 : 0;
    before += params.chosen[i] < expert ? 1 : 0;
    own_decode += params.chosen[i] == expert && i < decode ? 1 : 0;
  }
  memory->own[lanes.index()] = own;
  memory->before[lanes.index()] = before;
  memory->decode[lanes.index()] = own_decode;
  lanes.Sync();
  ExpertRows found{0, 0, 0};
  int32_t place = 0;  // of the lane's first row
  for (int32_t lane = 0; lane < lanes.count(); ++lane) {
    place += memory->before[lane] + (lane < lanes.index() ? memory->own[lane] : 0);
    found.first += memory->before[lane];
    found.count += memory->own[lane];
    found.num_decode += memory->decode[lane];
  }
  if (lanes.index() == 0) params.experts[expert] = found;
  for (int64_t i = begin; i < end; ++i) {
    if (params.chosen[i] != expert) continue;
    params.rows[place] = static_cast<int32_t>(i / num_chosen);
    params.weights[place] = params.chosen_weights[i];
    params.places[RankedChoice(params, i)] = place;
    ++place;
  }
}

// As AddWeightedRowsParams, one element.
DUNLIN_HD inline void AddWeightedAt(const AddWeightedRowsParams& params, int64_t row, int64_t column) {
  float sum = params.from_zero ? 0.0F : params.out[row * params.columns + column];
  for (int64_t i = row * params.num_places; i < (row + 1) * params.num_places; ++i) {
    const int64_t place = params.places == nullptr ? i : params.places[i];
    const float given = params.weights == nullptr ? 1.0F : params.weights[place * params.weight_stride];
    const float weight = params.sigmoid ? 1.0F / (1.0F + expf(-given)) : given;
    sum += weight * params.in[place * params.columns + column];
  }
  params.out[row * params.columns + column] = sum;
}

}  // namespace dunlin::kernels::cuda
