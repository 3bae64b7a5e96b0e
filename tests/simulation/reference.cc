// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/reference.h"

#include <algorithm>

#include "engine/sampling/sample_rows.h"
#include "tests/simulation/fake_model.h"

namespace dunlin::simulation {
namespace {

bool Holds(const std::vector<engine::TokenId>& ids, engine::TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

}  // namespace

Answer RunAlone(const engine::Request& request, const std::vector<engine::TokenId>& eos_token_ids, int32_t vocab_size) {
  Answer answer;
  const uint64_t seed = engine::SeedOfOutput(request.sampling.seed, request.output_index);
  std::vector<engine::TokenId> tokens = request.prompt;
  const auto prompt_len = static_cast<int32_t>(tokens.size());
  Kv kv = kNothing;
  uint64_t attended = kNothing;
  for (int32_t position = 0;; ++position) {
    kv = IsPoisonedAt(seed, position) ? kNan
                                      : KvOf(kv, tokens[static_cast<size_t>(position)], position, request.profile);
    attended = Attend(attended, kv);
    if (position + 1 < prompt_len) {
      if (request.sampling.prompt_logprobs >= 0) answer.prompt_scores.push_back(ScoreOf(kv));
      continue;
    }
    if (attended == kNan) return answer.reason = engine::FinishReason::kNumerical, answer;
    const engine::TokenId token = Draw(attended, seed, vocab_size);
    tokens.push_back(token);
    answer.tokens.push_back(token);
    const auto num_output = static_cast<int32_t>(answer.tokens.size());
    const bool stops =
        (!request.stopping.ignore_eos && Holds(eos_token_ids, token)) || Holds(request.stopping.stop_token_ids, token);
    if (stops && num_output > request.stopping.min_tokens) return answer.reason = engine::FinishReason::kStop, answer;
    if (num_output == request.stopping.max_tokens) return answer;
  }
}

}  // namespace dunlin::simulation
