// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/plan_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/sampling/sample_rows.h"
#include "tests/simulation/fake_model.h"

namespace dunlin::simulation {
namespace {

using engine::Sequence;
using engine::SequenceStep;
using engine::StepPlan;

const char* ProblemOf(const StepPlan& plan, const engine::SubBatch& batch, const SequenceStep& step,
                      const Sequence& sequence) {
  const int32_t end = step.first_position + step.num_known();
  const auto tokens = plan.TokensOf(step).first(static_cast<size_t>(step.num_known()));
  if (sequence.request.profile != batch.profile) return "a sub-batch mixes profiles";
  const int32_t num_known = sequence.num_tokens() + (step.drawn_by >= 0 ? 1 : 0);
  if (end > num_known) return "tokens that are not known";
  if (step.samples != (end == num_known)) return "samples is wrong";
  if (step.num_drafts() > 0 && !step.samples) return "drafts before the last known token";
  if (end + step.num_drafts() > sequence.max_kv_tokens()) return "drafts beyond the longest output";
  if (end != sequence.next_position()) return "positions are not computed in order";
  const auto known = step.drawn_by >= 0 ? tokens.first(0) : tokens;
  if (!std::equal(known.begin(), known.end(), sequence.tokens.begin() + step.first_position)) return "wrong tokens";
  if (end > sequence.max_kv_tokens()) return "a token beyond the longest output";
  const uint64_t seed = engine::SeedOfOutput(sequence.request.sampling.seed, sequence.request.output_index);
  if (step.row.seed != seed || step.row.position != end) return "a draw of another sequence";
  return nullptr;
}

}  // namespace

std::string CheckNewPlan(const StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups) {
  for (const engine::SubBatch& batch : plan.sub_batches) {
    for (int32_t i = 0; i < batch.num_sequences; ++i) {
      const SequenceStep& step = plan.sequences[static_cast<size_t>(batch.first_sequence + i)];
      const char* problem = ProblemOf(plan, batch, step, *find(step.request_id));
      if (problem != nullptr) return std::string(problem) + ", sequence " + std::to_string(step.request_id);
    }
  }
  return CheckPagesKept(plan, find, groups);
}

std::string CheckPagesKept(const StepPlan& plan, const FindSequence& find, const engine::KvGroups& groups) {
  for (const SequenceStep& step : plan.sequences) {
    // The list may have grown since the launch, but what was launched must still be the sequence's.
    const Sequence& sequence = *find(step.request_id);
    const auto pages = plan.PagesOf(step);
    bool kept = pages.size() <= sequence.pages.size();
    for (size_t i = 0; kept && i < pages.size(); ++i) {
      const auto group = static_cast<int32_t>(i % static_cast<size_t>(groups.count()));
      const int32_t block = static_cast<int32_t>(i) / groups.count();
      const bool read = (block + 1) * sequence.tokens_per_page > FirstKey(groups, group, step.first_position);
      kept = read ? pages[i] != engine::kNoPage && pages[i] == sequence.pages[i]
                  : sequence.pages[i] == engine::kNoPage || pages[i] == sequence.pages[i];
    }
    if (!kept) return "pages of a launched step were taken away, sequence " + std::to_string(step.request_id);
  }
  return "";
}

std::string CheckSalts(const engine::SequenceList& running) {
  std::vector<std::pair<engine::PageId, const Sequence*>> owners;
  for (const Sequence* sequence : running) {
    for (const engine::PageId page : sequence->pages) {
      if (page != engine::kNoPage) owners.emplace_back(page, sequence);
    }
  }
  std::sort(owners.begin(), owners.end());
  for (size_t i = 1; i < owners.size(); ++i) {
    if (owners[i].first != owners[i - 1].first) continue;
    if (owners[i].second->request.cache_salt == owners[i - 1].second->request.cache_salt) continue;
    return "requests with different salts share a page";
  }
  return "";
}

}  // namespace dunlin::simulation
