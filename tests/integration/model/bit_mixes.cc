// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/bit_mixes.h"

#include <gtest/gtest.h>

#include "engine/runtime/kv_demand.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"

namespace dunlin::engine {
namespace {

struct LibraryEntry {
  Request request;
  Response alone;
};

std::vector<LibraryEntry> BuildLibrary(const Model* model, const MixCase& test, RequestMix* mix) {
  std::vector<LibraryEntry> library;
  EngineOptions options;
  options.prefix_cache = false;
  options.free_pages_behind_windows = false;
  options.kv_fp8 = test.kv_fp8;
  EngineClient client(model, options);
  for (const ExecutionProfile& profile : SupportedProfiles(*model, kAllPrecisions, test.kv_fp8)) {
    for (int i = 0; i < test.requests_per_profile; ++i) {
      LibraryEntry& entry = library.emplace_back();
      entry.request = mix->DrawRequest(model->config(), profile);
      entry.alone = client.Run(entry.request);
    }
  }
  return library;
}

// Several rounds on one engine, so that later ones find pages of earlier ones in the prefix cache.
void RunMix(const Model* model, const MixCase& test, const std::vector<LibraryEntry>& library, RequestMix* mix,
            MixTotals* totals) {
  EngineOptions options = mix->DrawOptions(model->config(), test.kv_fp8);
  if (test.eager) options.execution = ExecutionMode::kEager;
  if (const int32_t ranks = model->num_ranks(); ranks > 1) {  // as many pages, where ranks have copies of heads, too
    const auto page_bytes = [&](int32_t num_ranks) {
      return KvDemandOf(model->config(), model->precisions(), options, num_ranks).page_bytes;
    };
    options.kv_memory_bytes = options.kv_memory_bytes / page_bytes(1) * page_bytes(ranks);
  }
  EngineClient client(model, options);
  for (int round = mix->Draw(1, 3); round > 0; --round) {
    std::vector<std::pair<const LibraryEntry*, std::shared_ptr<RecordingSink>>> running;
    for (int count = mix->Draw(2, 12); count > 0; --count) {
      const LibraryEntry& entry = library[static_cast<size_t>(mix->Draw(0, static_cast<int32_t>(library.size()) - 1))];
      Request request = entry.request;
      request.priority = mix->Draw(0, 2);
      running.emplace_back(&entry, client.Submit(request));
    }
    for (const auto& [entry, sink] : running) {
      std::string why;
      EXPECT_TRUE(SameBits(sink->Wait(), entry->alone, &why))
          << why << "; " << kernels::Name(entry->request.profile.attention_backend) << " "
          << kernels::Name(entry->request.profile.precision) << ", prompt " << entry->request.prompt.size()
          << ", budget " << options.max_tokens_per_step << ", cached " << sink->Wait().finish.cached_tokens
          << ", preempted " << sink->Wait().finish.preemptions;
      ++totals->requests;
      if (entry->request.profile.kv_fp8) {
        totals->fp8_page_hits += static_cast<uint64_t>(sink->Wait().finish.cached_tokens);
      }
    }
  }
  client.engine().Stop();
  const EngineStats stats = client.engine().stats();
  EXPECT_EQ(stats.pages_used, 0);
  totals->preemptions += stats.preemptions;
  totals->prefix_hits += stats.prefix_hits;
}

}  // namespace

std::vector<MixCase> GoldenMixCases(int plain, int fp8, int requests_per_profile) {
  std::vector<MixCase> cases;
  for (const char* name : {"gpt2_tiny", "llama_gqa", "llama_tied", "neox_parallel", "mistral_window", "gemma3_tiny"}) {
    cases.push_back({name, GoldenModelPath(name), plain, requests_per_profile});
  }
  for (const char* name : {"llama_gqa", "mistral_window"}) {
    cases.push_back({name, GoldenModelPath(name), fp8, requests_per_profile, true});
  }
  return cases;
}

void RunMixes(const Model& alone, const Model& together, const MixCase& test, MixTotals* totals) {
  RequestMix mix(2024);
  const std::vector<LibraryEntry> library = BuildLibrary(&alone, test, &mix);
  ASSERT_FALSE(library.empty());
  for (int i = 0; i < test.num_mixes && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("mix " + std::to_string(i));
    RunMix(&together, test, library, &mix, totals);
  }
}

}  // namespace dunlin::engine
