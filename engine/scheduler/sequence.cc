// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/sequence.h"

#include <utility>

#include "engine/sampling/sample_rows.h"

namespace dunlin::engine {

std::unique_ptr<Sequence> MakeSequence(Request request, std::shared_ptr<OutputSink> sink, int32_t tokens_per_page,
                                       int32_t kv_groups) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->sink = std::move(sink);
  sequence->tokens_per_page = tokens_per_page;
  const std::vector<TokenId>& prompt = sequence->request.prompt;
  sequence->prompt_len = static_cast<int32_t>(prompt.size());
  sequence->tokens.reserve(prompt.size() + static_cast<size_t>(sequence->request.stopping.max_tokens));
  sequence->tokens = prompt;
  if (HasPenalty(sequence->request.sampling)) {
    sequence->counts.Start(prompt, sequence->request.stopping.max_tokens);
  }
  const auto sets = static_cast<size_t>(PagesFor(sequence->max_kv_tokens(), tokens_per_page));
  sequence->pages.reserve(sets * static_cast<size_t>(kv_groups));
  sequence->info.prompt_tokens = sequence->prompt_len;
  sequence->info.arrival = sequence->request.arrival;
  return sequence;
}

void StartConstraint(Sequence* sequence, int32_t vocab_size, int32_t max_forced, int32_t max_drafts) {
  Request& request = sequence->request;
  if (request.constraint == nullptr) return;
  if (request.sampling.logprobs >= 0) max_forced = 0;
  sequence->constrained = std::make_shared<ConstrainedOutput>(request.constraint, vocab_size, max_forced, max_drafts);
  sequence->constrained->Compute();
  request.stopping.ignore_eos = false;
}

void StartDrafts(Sequence* sequence, int32_t max_drafts, const DrafterTraits& traits) {
  const Request& request = sequence->request;
  if (max_drafts <= 0 || !request.profile.shares_pages()) return;
  sequence->drafts.drafter = traits.make(request.prompt, request.stopping.max_tokens);
  sequence->drafts.max = max_drafts;
  sequence->drafts.guesses.reserve(static_cast<size_t>(max_drafts));
}

}  // namespace dunlin::engine
