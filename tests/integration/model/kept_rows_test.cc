// SPDX-License-Identifier: Apache-2.0
// Rows that go on alone once no layer stores keys and values (PassInputs::kept) have the bits that they have among all
// rows of a prompt, which go on where a request asks for the scores of its prompt.
#include <gtest/gtest.h>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

class KeptRowsOf : public ::testing::TestWithParam<std::string> {};

TEST_P(KeptRowsOf, HaveTheirBitsAmongAllRows) {
  const std::string path = GoldenModelPath(GetParam());
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  const TestModel test = LoadTestModel(path, "", 2, precisions);
  for (const int32_t budget : {512, 13}) {
    EngineOptions options;
    options.max_tokens_per_step = budget;
    EngineClient client(test.model.get(), options);
    for (const ExecutionProfile& profile : SupportedProfiles(*test.model, precisions)) {
      Request request;
      request.profile = profile;
      request.prompt = ReadGoldens(path).back().tokens;
      request.stopping.max_tokens = 3;
      request.stopping.ignore_eos = true;
      request.sampling.logprobs = 5;
      request.bypass_prefix_cache = true;
      const Response alone = client.Run(request);
      request.sampling.prompt_logprobs = 0;
      Response among_all = client.Run(request);
      EXPECT_EQ(among_all.prompt.size() + 1, request.prompt.size());
      among_all.prompt.clear();
      std::string why;
      EXPECT_TRUE(SameBits(alone, among_all, &why)) << why << "; " << kernels::Name(profile.attention_backend) << " "
                                                    << kernels::Name(profile.precision) << " budget " << budget;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KeptRowsOf,
                         ::testing::Values("llama_gqa", "gemma4_tiny", "gemma4_e_tiny", "gemma4_moe_tiny", "lfm2_tiny",
                                           "lfm3_tiny", "llama4_tiny", "step_tiny", "olmo_hybrid_rotated"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
