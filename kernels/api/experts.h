// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: which experts a row takes, and the weighted sum of what they give.
//
// Bit contract: a row's experts and weights depend on its own logits alone.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

inline constexpr int32_t kExpertsMax = 1024;  // of one router

// What a router's logits become before the experts are chosen. Source: Shazeer et al. 2017, eq. 3 to 5; DeepSeek-V3
// report, eq. 14 to 16.
enum class ExpertScoring : uint8_t {
  kSoftmax,          // of all experts
  kSoftmaxOfChosen,  // of the chosen experts, which are those of the largest logits
  kSigmoid,
  kSigmoidOfChosen,  // of each chosen expert; they are those of the largest logits (Llama 4)
  kRootSoftplus,     // sqrt(ln(1 + exp(logit))) (DeepSeek V4)
  // Of each chosen expert: its part of a softmax of those that are not chosen before it and whose logits are near its
  // own, (best - logit) / max(|logit|, best) <= ExpertRouting::nearness (Phi 3.5 MoE's sparsemixer at inference).
  kSoftmaxOfNear,
};

// How the score of a group of experts is made, where groups are chosen first.
enum class GroupScoring : uint8_t {
  kLargest,     // its largest score (DeepSeek V2's group_limited_greedy)
  kTwoLargest,  // the sum of its two largest scores, or its one (DeepSeek V3's noaux_tc)
};

// A router's rule. Equal scores: the lowest index first.
struct ExpertRouting {
  int32_t num_experts = 0;  // 1 to kExpertsMax; 0: there is no router
  int32_t num_chosen = 0;   // experts of a row, 1 to num_experts
  ExpertScoring scoring = ExpertScoring::kSoftmax;
  bool normalized = false;        // the chosen experts' scores are divided by their sum
  float sum_offset = 1e-20F;      // added to that sum, > 0: DeepSeek V3's; sigmoids may all underflow
  float scale = 1.0F;             // of the weights, after that
  float nearness = 0.0F;          // >= 0, of kSoftmaxOfNear, which has no groups of experts and no correction
  int32_t num_groups = 1;         // divides num_experts: consecutive experts form a group
  int32_t num_chosen_groups = 1;  // experts of the best so many groups take part; they hold >= num_chosen experts
  GroupScoring group_scoring = GroupScoring::kLargest;
};

// Whether its numbers hold what they say.
constexpr bool IsRule(const ExpertRouting& rule) {
  if (rule.num_experts < 1 || rule.num_experts > kExpertsMax || rule.num_chosen < 1) return false;
  if (!(rule.sum_offset > 0.0F) || !(rule.nearness >= 0.0F)) return false;
  if (rule.scoring == ExpertScoring::kSoftmaxOfNear && rule.num_groups != 1) return false;
  if (rule.num_groups < 1 || rule.num_experts % rule.num_groups != 0) return false;
  if (rule.num_chosen_groups < 1 || rule.num_chosen_groups > rule.num_groups) return false;
  return rule.num_chosen <= rule.num_experts / rule.num_groups * rule.num_chosen_groups;
}

// The rows of one expert, in the order of RouteExpertsParams::rows.
struct ExpertRows {
  int32_t first;
  int32_t count;
  int32_t num_decode;  // the first of them, <= count, are decode
};

// Chooses the experts of every row and groups the rows by expert. FP32.
struct RouteExpertsParams {
  ExpertRouting rule;
  const float* logits;      // [num_rows, num_experts], rows logits_stride apart
  int64_t logits_stride;    // floats, >= num_experts
  const float* correction;  // [num_experts], or null: added to the scores that choose, not to the weights
  int32_t num_rows;         // >= 0
  int32_t decode_rows;      // the first decode_rows rows, <= num_rows, are decode
  int32_t* chosen;          // [num_rows, num_chosen] each row's experts, the best first
  float* chosen_weights;    // [num_rows, num_chosen]
  ExpertRows* experts;      // [num_experts]
  int32_t* rows;            // [num_rows * num_chosen] rows of the first expert, ascending, then of the next, ...
  float* weights;           // [num_rows * num_chosen] in the order of `rows`
  int32_t* places;          // [num_rows, num_chosen] where a row stands in `rows`, ascending
  const float* expert_scales = nullptr;  // [num_experts], or null: factors of the experts' weights
  // Where a row's experts are those of its token, whatever their scores: [*, num_chosen] indices of experts, as floats,
  // and the token of each row; or null.
  const float* token_experts = nullptr;
  const int32_t* tokens = nullptr;  // [num_rows]
};

// out[i, :] += w[j] * in[j, :] for each place j of row i, in their order; w[j] is weights[j * weight_stride], or
// 1 / (1 + exp(-that)) with `sigmoid`. With from_zero the sums replace what is in out.
struct AddWeightedRowsParams {
  const float* in;        // [*, columns], contiguous
  const int32_t* places;  // [num_rows, num_places] rows of `in`, >= 0; or null: row i has the place i alone
  int32_t num_places;     // > 0; 1 where places is null
  const float* weights;   // of the rows of `in`, weight_stride apart; or null: all are 1
  int64_t weight_stride;  // floats, > 0
  bool sigmoid;           // not without weights
  float* out;             // [num_rows, columns], contiguous; must not overlap `in`
  int32_t num_rows;       // >= 0
  int32_t columns;        // > 0
  bool from_zero = false;
};

}  // namespace dunlin::kernels
