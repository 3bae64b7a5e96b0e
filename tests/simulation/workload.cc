// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/workload.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "tests/simulation/scripted_constraint.h"

namespace dunlin::simulation {
namespace {

using engine::AttentionBackend;
using engine::Precision;

constexpr int32_t kMaxKvTokens = 40;
constexpr int32_t kHorizon = 300;

// One to four of any backend and precision; most requests share pages only where few are mixed.
std::vector<engine::ExecutionProfile> AnyProfiles(Dice* dice) {
  std::vector<engine::ExecutionProfile> profiles(static_cast<size_t>(dice->Between(1, 4)));
  for (engine::ExecutionProfile& profile : profiles) {
    if (dice->OneIn(3)) continue;  // FLASH, BF16
    profile.attention_backend = static_cast<AttentionBackend>(dice->Between(0, kernels::kNumAttentionBackends - 1));
    profile.precision = static_cast<Precision>(dice->Between(0, kernels::kNumPrecisions - 1));
  }
  return profiles;
}

// Prompts begin with one of a few stems, so that prefixes are shared, and go their own way somewhere.
std::vector<engine::TokenId> AnyPrompt(Dice* dice, int32_t vocab_size, int32_t max_tokens) {
  std::vector<engine::TokenId> prompt(static_cast<size_t>(dice->Between(1, max_tokens)));
  const int32_t stem = dice->Between(1, 3);
  const auto shared = static_cast<size_t>(dice->Between(0, max_tokens));
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = i < shared ? (stem * 7 + static_cast<int32_t>(i)) % vocab_size : dice->Between(0, vocab_size - 1);
  }
  return prompt;
}

PlannedRequest AnyRequest(Dice* dice, const Workload& workload) {
  PlannedRequest planned;
  engine::Request& request = planned.request;
  request.profile =
      workload.profiles[static_cast<size_t>(dice->Between(0, static_cast<int32_t>(workload.profiles.size()) - 1))];
  const int32_t vocab_size = workload.runtime.vocab_size;
  const int32_t page_tokens = workload.runtime.tokens_per_page[static_cast<size_t>(request.profile.precision)];
  const auto max_kv_tokens = static_cast<int32_t>(workload.runtime.kv_groups.TokensThatFit(
      workload.runtime.num_pages, kMaxKvTokens, page_tokens, workload.scheduler.max_tokens_per_step));
  const int32_t max_prompt = dice->OneIn(2) ? max_kv_tokens * 3 / 4 : max_kv_tokens / 4;  // short ones grow long
  request.prompt = AnyPrompt(dice, workload.runtime.vocab_size, std::max(1, max_prompt));
  const auto prompt_len = static_cast<int32_t>(request.prompt.size());
  const int32_t max_output = max_kv_tokens - prompt_len + 1;
  request.stopping.max_tokens = dice->OneIn(2) ? max_output : dice->Between(1, max_output);
  request.stopping.min_tokens = dice->OneIn(4) ? dice->Between(0, request.stopping.max_tokens) : 0;
  request.stopping.ignore_eos = dice->OneIn(2);
  if (dice->OneIn(4)) request.stopping.stop_token_ids = {dice->Between(0, workload.runtime.vocab_size - 1)};
  request.sampling.seed = static_cast<uint64_t>(dice->Between(0, 3));
  if (dice->OneIn(12)) {
    const int32_t poisoned = std::max(0, prompt_len - 1 + dice->Between(-12, 3));
    request.sampling.seed = kPoison | static_cast<uint64_t>(poisoned);
  }
  if (dice->OneIn(6)) request.sampling.prompt_logprobs = 0;
  if (dice->OneIn(4)) request.cache_salt = "tenant";
  if (dice->OneIn(5)) request.priority = dice->Between(-2, 2);
  request.tenant = static_cast<engine::TenantId>(dice->Between(0, workload.num_tenants - 1));
  request.arrival = dice->OneIn(2) ? 1 : dice->Between(1, kHorizon);
  if (dice->OneIn(5)) request.deadline = request.arrival + dice->Between(0, 60);
  if (dice->OneIn(6)) planned.cancel_at = request.arrival + dice->Between(0, 60);
  const bool slow = dice->OneIn(12);
  if (vocab_size > 2 && dice->OneIn(3)) {
    request.constraint = AnyConstraint(dice, vocab_size);
    // A row that is skipped is not checked for NaN: with scores of its tokens a request skips none.
    if ((request.sampling.seed & kPoison) != 0) request.sampling.logprobs = 0;
    if (dice->OneIn(4)) request.sampling.bad_words = {{dice->Between(0, vocab_size - 1)}};
    if (dice->OneIn(8)) {
      for (int i = 0; i < 8; ++i) request.sampling.allowed_token_ids.push_back(dice->Between(0, vocab_size - 1));
    }
  }
  if (dice->OneIn(2)) planned.max_drafts = dice->Between(1, engine::kMaxDrafts);
  planned.sink_room = slow ? static_cast<size_t>(dice->Between(0, 5)) : std::numeric_limits<size_t>::max();
  return planned;
}

// One pool in three gets its memory while requests run, one of these less than planned.
void AnyBacking(Dice* dice, Workload* workload) {
  if (!dice->OneIn(3)) return;
  FakeRuntimeOptions& runtime = workload->runtime;
  runtime.first_pages = dice->Between(runtime.kv_groups.count(), runtime.num_pages);
  if (dice->OneIn(3)) runtime.final_pages = dice->Between(runtime.first_pages, runtime.num_pages);
  workload->scheduler.pool = engine::KvPoolState{runtime.first_pages, true};
}

}  // namespace

bool MayOutgrow(const Workload& workload, const engine::Request& request) {
  const FakeRuntimeOptions& runtime = workload.runtime;
  if (runtime.final_pages < 0) return false;
  const int64_t tokens = std::ssize(request.prompt) + request.stopping.max_tokens - 1;
  const int32_t page_tokens = runtime.tokens_per_page[static_cast<size_t>(request.profile.precision)];
  return runtime.kv_groups.MostPages(tokens, page_tokens, workload.scheduler.max_tokens_per_step) > runtime.final_pages;
}

std::shared_ptr<const engine::TokenConstraint> AnyConstraint(Dice* dice, int32_t vocab_size,
                                                             const std::vector<engine::TokenId>& eos_token_ids) {
  std::vector<Place> places(static_cast<size_t>(dice->Between(2, 12)));
  for (Place& place : places) {
    const int32_t count = dice->OneIn(2) ? 1 : dice->OneIn(10) ? 0 : dice->Between(2, 12);
    for (int32_t i = 0; i < count; ++i) place.allowed.push_back(dice->Between(1, vocab_size - 1));
    for (const engine::TokenId id : eos_token_ids) std::erase(place.allowed, id);
    place.accepting = dice->OneIn(5);
    place.fails = dice->OneIn(30);
    place.refuses = dice->OneIn(30);
  }
  const auto jump = static_cast<size_t>(dice->Between(1, 1000));
  return std::make_shared<ScriptedConstraint>(places, eos_token_ids,
                                              [jump, count = places.size()](size_t place, engine::TokenId token) {
                                                return (place * jump + static_cast<size_t>(token) + 1) % count;
                                              });
}

// One model in three has windows, in all of its layers or in some.
engine::KvGroups AnyGroups(Dice* dice) {
  engine::KvGroups groups;
  if (!dice->OneIn(3)) return groups;
  groups.window = dice->Between(2, 16);
  groups.num_full = dice->Between(0, 2);
  groups.num_sliding = groups.num_full == 0 ? 1 : dice->Between(1, 3);
  return groups;
}

Workload MakeWorkload(Dice* dice, const std::vector<size_t>& left_out, int32_t max_requests) {
  Workload workload;
  workload.profiles = AnyProfiles(dice);
  FakeRuntimeOptions& runtime = workload.runtime;
  runtime.kv_groups = AnyGroups(dice);
  runtime.num_pages = dice->OneIn(2) ? dice->Between(2, 12) : dice->Between(10, 30);
  // With windows half as many, so that pages run out there, too.
  const int32_t groups = runtime.kv_groups.count();
  runtime.num_pages *= groups;
  if (runtime.kv_groups.num_sliding > 0) runtime.num_pages = std::max(groups, runtime.num_pages / 2);
  runtime.tokens_per_page = {dice->Between(1, 3), 4, 4, dice->Between(3, 8), 4, dice->Between(2, 5)};
  runtime.tokens_per_page[static_cast<size_t>(Precision::kFp16)] = dice->Between(2, 4);
  runtime.depth = dice->Between(1, 2);
  runtime.vocab_size = dice->Between(2, 200);

  engine::SchedulerOptions& scheduler = workload.scheduler;
  scheduler.max_sequences = dice->Between(1, 10);
  scheduler.max_tokens_per_step = dice->OneIn(2) ? dice->Between(1, 8) : dice->Between(4, 64);
  scheduler.prefix_cache = !dice->OneIn(5);
  scheduler.prefill_matches_decode = !dice->OneIn(5);
  runtime.decode_differs = !scheduler.prefill_matches_decode;
  scheduler.eos_token_ids = {kEos};
  scheduler.cache.num_pages = runtime.num_pages;
  scheduler.cache.groups = runtime.kv_groups;
  scheduler.max_page_sets_per_sequence = kMaxKvTokens;
  scheduler.cache.max_tokens_per_page =
      *std::max_element(runtime.tokens_per_page.begin(), runtime.tokens_per_page.end());
  for (uint32_t& word : scheduler.cache.hash_key) word = static_cast<uint32_t>(dice->Word());
  if (dice->OneIn(8)) scheduler.cache.key_words = 0;  // every page of every request collides

  if (dice->OneIn(3)) {  // a recurrent model
    runtime.num_state_slots = dice->Between(1, 2 * scheduler.max_sequences + 4);
    scheduler.cache.num_state_slots = runtime.num_state_slots;
    scheduler.state_borders = {.interval = dice->Between(4, 24), .least_junction = dice->Between(1, 8)};
  }
  // By a word that is drawn already: runs of other seeds stay what they were.
  runtime.takes_drawn_tokens = scheduler.cache.hash_key[0] % 2 == 0;
  scheduler.plan_ahead = runtime.takes_drawn_tokens && runtime.depth == 2 && runtime.num_state_slots == 0;
  if (dice->OneIn(2)) workload.num_tenants = dice->Between(2, 4);
  if (dice->OneIn(2)) scheduler.step_overhead_tokens = dice->Between(1, 8);
  if (dice->OneIn(2)) workload.max_forced_tokens = dice->Between(1, 12);
  scheduler.adapt_drafts = dice->OneIn(2);
  if (dice->OneIn(3)) scheduler.step_time_target = dice->Between(1, 4);

  const int32_t num_requests = dice->Between(1, max_requests);
  scheduler.max_live = num_requests;
  for (int32_t i = 0; i < num_requests; ++i) {
    if (i > 0 && dice->OneIn(3)) {  // a further output of the request before, which may be cancelled by itself
      PlannedRequest output = workload.requests.back();
      ++output.request.output_index;
      if (dice->OneIn(6)) output.cancel_at = output.request.arrival + dice->Between(0, 60);
      workload.requests.push_back(std::move(output));
    } else {
      workload.requests.push_back(AnyRequest(dice, workload));
    }
  }
  AnyBacking(dice, &workload);
  for (size_t i = 0; i < workload.requests.size(); ++i) workload.requests[i].index = i;
  std::erase_if(workload.requests, [&left_out](const PlannedRequest& planned) {
    return std::binary_search(left_out.begin(), left_out.end(), planned.index);
  });
  std::stable_sort(
      workload.requests.begin(), workload.requests.end(),
      [](const PlannedRequest& a, const PlannedRequest& b) { return a.request.arrival < b.request.arrival; });
  return workload;
}

}  // namespace dunlin::simulation
