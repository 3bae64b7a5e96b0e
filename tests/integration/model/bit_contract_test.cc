// The bit contract (docs/architecture.md): a response does not depend on its neighbours. Random mixes of requests on
// engines with little memory and small budgets give, request by request, the token ids and the bits of every log
// probability that the same request gives alone, on one thread, with room for everything and no prefix cache.
#include <gtest/gtest.h>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

struct Case {
  const char* name;
  std::string path;
  int num_mixes;
  int requests_per_profile;  // twelve profiles: 6 make a library of 72 requests
  bool kv_fp8 = false;       // E4M3 pages for FP8, beside those of the other precisions in one pool
};

struct Totals {
  uint64_t requests = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_hits = 0;
  uint64_t fp8_page_hits = 0;  // tokens found in E4M3 pages
};
Totals totals;

struct LibraryEntry {
  Request request;
  Response alone;
};

std::vector<LibraryEntry> BuildLibrary(const Model* model, const Case& test, RequestMix* mix) {
  std::vector<LibraryEntry> library;
  EngineOptions options;
  options.prefix_cache = false;
  options.kv_fp8 = test.kv_fp8;
  EngineClient client(model, options);
  for (const ExecutionProfile& profile : AllCpuProfiles(test.kv_fp8)) {
    for (int i = 0; i < test.requests_per_profile; ++i) {
      LibraryEntry& entry = library.emplace_back();
      entry.request = mix->DrawRequest(model->config(), profile);
      entry.alone = client.Run(entry.request);
    }
  }
  return library;
}

// Several rounds on one engine, so that later ones find pages of earlier ones in the prefix cache.
void RunMix(const Model* model, bool kv_fp8, const std::vector<LibraryEntry>& library, RequestMix* mix) {
  const EngineOptions options = mix->DrawOptions(model->config(), kv_fp8);
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
      ++totals.requests;
      if (entry->request.profile.kv_fp8) {
        totals.fp8_page_hits += static_cast<uint64_t>(sink->Wait().finish.cached_tokens);
      }
    }
  }
  client.engine().Stop();
  const EngineStats stats = client.engine().stats();
  EXPECT_EQ(stats.pages_used, 0);
  totals.preemptions += stats.preemptions;
  totals.prefix_hits += stats.prefix_hits;
}

class BitContract : public ::testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(BitContract, AResponseIsTheOneItsRequestGivesAlone) {
  const auto& [test, variant] = GetParam();
  const TestModel alone = LoadTestModel(test.path, variant, 1, kAllPrecisions);
  const TestModel together = LoadTestModel(test.path, variant, 2, kAllPrecisions);
  RequestMix mix(2024);
  const std::vector<LibraryEntry> library = BuildLibrary(alone.model.get(), test, &mix);
  for (int i = 0; i < test.num_mixes && !HasFailure(); ++i) {
    SCOPED_TRACE("mix " + std::to_string(i));
    RunMix(together.model.get(), test.kv_fp8, library, &mix);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* name : {"gpt2_tiny", "llama_gqa", "llama_tied", "neox_parallel", "mistral_window"}) {
    cases.push_back({name, GoldenModelPath(name), 50, 6});
  }
  for (const char* name : {"llama_gqa", "mistral_window"}) cases.push_back({name, GoldenModelPath(name), 30, 6, true});
  cases.push_back({"demo", SourcePath("models/demo"), 5, 2, true});
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<Case, std::string>>& info) {
  const auto& [test, variant] = info.param;
  return std::string(test.name) + (test.kv_fp8 ? "_fp8_kv_" : "_") + variant;
}

INSTANTIATE_TEST_SUITE_P(Models, BitContract,
                         ::testing::Combine(::testing::ValuesIn(Cases()),
                                            ::testing::ValuesIn(kernels::AvailableCpuVariants())),
                         NameOf);

// The mixes mean something only if they did preempt and did hit the cache.
class Exercised : public ::testing::Environment {
 public:
  void TearDown() override {
    std::printf("requests %llu, preemptions %llu, tokens from the prefix cache %llu, %llu of them E4M3\n",
                static_cast<unsigned long long>(totals.requests), static_cast<unsigned long long>(totals.preemptions),
                static_cast<unsigned long long>(totals.prefix_hits),
                static_cast<unsigned long long>(totals.fp8_page_hits));
    if (totals.requests < 1000) return;  // a filtered run
    EXPECT_GT(totals.preemptions, 100U);
    EXPECT_GT(totals.prefix_hits, 1000U);
    EXPECT_GT(totals.fp8_page_hits, 100U);
  }
};
const ::testing::Environment* const kExercised = ::testing::AddGlobalTestEnvironment(new Exercised);

}  // namespace
}  // namespace dunlin::engine
