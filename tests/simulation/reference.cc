// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/reference.h"

#include <algorithm>
#include <span>

#include "engine/sampling/banned_tokens.h"
#include "engine/sampling/sample_rows.h"
#include "kernels/api/sampling.h"
#include "tests/simulation/fake_model.h"

namespace dunlin::simulation {
namespace {

bool Holds(const std::vector<engine::TokenId>& ids, engine::TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

// A draw under a constraint: the grammar's mask, the allowed and the banned tokens applied one by one.
engine::TokenId DrawConstrained(const engine::Request& request, const std::vector<engine::TokenId>& eos_token_ids,
                                const std::vector<engine::TokenId>& tokens, std::span<const uint32_t> mask,
                                uint64_t attended, int32_t vocab_size) {
  std::vector<engine::TokenId> banned;
  engine::StoppingParams stopping = request.stopping;
  stopping.ignore_eos = false;
  engine::AppendBanned(tokens, static_cast<int32_t>(request.prompt.size()), request.sampling, stopping, eos_token_ids,
                       &banned);
  const std::vector<engine::TokenId>& allowed = request.sampling.allowed_token_ids;
  const uint64_t seed = engine::SeedOfOutput(request.sampling.seed, request.output_index);
  return DrawAllowed(attended, seed, vocab_size, [&](engine::TokenId id) {
    const bool in_grammar = (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
    return in_grammar && (allowed.empty() || Holds(allowed, id)) && !Holds(banned, id);
  });
}

// What the row of the last key reads.
uint64_t AttendAll(std::span<const Kv> keys, const engine::KvGroups& groups) {
  uint64_t attended = kNothing;
  const auto last = static_cast<int32_t>(keys.size()) - 1;
  for (int32_t group = 0; group < groups.count(); ++group) {
    for (const Kv key : keys.subspan(static_cast<size_t>(FirstKey(groups, group, last)))) {
      attended = Attend(attended, OfGroup(key, group));
    }
  }
  return attended;
}

}  // namespace

Answer RunAlone(const engine::Request& request, const std::vector<engine::TokenId>& eos_token_ids,
                const ReferenceModel& model) {
  const int32_t vocab_size = model.vocab_size;
  Answer answer;
  const uint64_t seed = engine::SeedOfOutput(request.sampling.seed, request.output_index);
  std::vector<engine::TokenId> tokens = request.prompt;
  const auto prompt_len = static_cast<int32_t>(tokens.size());
  const auto state = request.constraint == nullptr ? nullptr : request.constraint->Start();
  std::vector<uint32_t> mask(static_cast<size_t>(kernels::MaskWords(vocab_size)));
  const bool ignore_eos = request.stopping.ignore_eos && state == nullptr;
  Kv kv = BeforeFirst(model.version);
  std::vector<Kv> keys;
  for (int32_t position = 0;; ++position) {
    const bool decoded = model.decode_differs && position >= prompt_len;
    kv = model.faults && IsPoisonedAt(seed, position)
             ? kNan
             : KvOf(kv, tokens[static_cast<size_t>(position)], position, request.profile, decoded);
    keys.push_back(kv);
    if (position + 1 < prompt_len) {
      if (request.sampling.prompt_logprobs >= 0) answer.prompt_scores.push_back(ScoreOf(kv));
      continue;
    }
    if (state != nullptr) {
      const bool failed = !answer.tokens.empty() && !state->Accept(answer.tokens.back()).ok();
      if (failed || !state->FillMask(mask).ok()) return answer.reason = engine::FinishReason::kConstraint, answer;
      if (DrawConstrained(request, eos_token_ids, tokens, mask, 0, vocab_size) < 0) {
        answer.reason = state->is_accepting() ? engine::FinishReason::kStop : engine::FinishReason::kConstraint;
        return answer;
      }
    }
    const uint64_t attended = AttendAll(keys, model.groups);
    if (attended == kNan) return answer.reason = engine::FinishReason::kNumerical, answer;
    const engine::TokenId token = state == nullptr
                                      ? Draw(attended, seed, vocab_size)
                                      : DrawConstrained(request, eos_token_ids, tokens, mask, attended, vocab_size);
    tokens.push_back(token);
    answer.tokens.push_back(token);
    const auto num_output = static_cast<int32_t>(answer.tokens.size());
    const bool stops = (!ignore_eos && Holds(eos_token_ids, token)) || Holds(request.stopping.stop_token_ids, token);
    if (stops && num_output > request.stopping.min_tokens) return answer.reason = engine::FinishReason::kStop, answer;
    if (num_output == request.stopping.max_tokens) return answer;
  }
}

}  // namespace dunlin::simulation
