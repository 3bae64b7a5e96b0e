// SPDX-License-Identifier: Apache-2.0
// What the memory plan counts for adapters: an adapter of every module, experts and the head too, takes just that, of
// divided models, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/adapters/load_adapter.h"
#include "engine/model/load/inspect.h"
#include "tests/integration/model/ranked_model.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kRank = 3;

AdapterMatrix Zeros(const std::string& name, std::vector<int64_t> shape) {
  return {.tensor = name,
          .file = "zeros",
          .shape = std::move(shape),
          .dtype = kernels::DType::kF32,
          .read = [](std::span<std::byte> out) {
            std::ranges::fill(out, std::byte{0});
            return absl::OkStatus();
          }};
}

// Experts one by one where the checkpoint has them so, else stacked.
std::vector<AdapterModule> EveryModule(const AdaptableModules& adaptable) {
  const bool one_by_one = std::ranges::any_of(adaptable.modules, [](const auto& m) { return m.expert >= 0; });
  std::map<std::string, AdapterModule> by_name;
  for (const AdaptableModule& module : adaptable.modules) {
    if (module.is_stack() && one_by_one) continue;
    const int64_t ranks = int64_t{kRank} * std::max(module.num_experts, 1);
    by_name[module.name] = {.name = module.name,
                            .down = Zeros(module.name + ".lora_A", {ranks, module.in_features}),
                            .up = Zeros(module.name + ".lora_B", {module.out_features, ranks}),
                            .rank = kRank,
                            .alpha = 1.0};
  }
  std::vector<AdapterModule> modules;
  for (auto& [name, module] : by_name) modules.push_back(std::move(module));
  return modules;
}

struct Sized {
  const char* model;
  bool experts;
  int32_t num_ranks = 1;
};
void PrintTo(const Sized& sized, std::ostream* out) {
  *out << sized.model;
}

class AdapterSizes : public ::testing::TestWithParam<Sized> {};

TEST_P(AdapterSizes, AnAdapterOfEveryModuleTakesWhatThePlanCounts) {
  const std::string path = GoldenModelPath(GetParam().model);
  const int32_t num_ranks = GetParam().num_ranks;
  const RankedModel test = LoadRankedModel(path, "portable", 1, num_ranks, {Precision::kFp32});
  const auto summary = InspectModel({.path = path, .num_ranks = num_ranks}, *test.model->device()->ops);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->expert_features > 0, GetParam().experts);
  const auto planned =
      static_cast<size_t>(kRank * (summary->adaptable_features + summary->expert_features)) * sizeof(float);
  const std::vector<AdapterModule> modules = EveryModule(test.model->adaptable());
  const auto adapter = MakeAdapter(*test.model, modules, {.max_rank = kRank, .max_bytes = planned});
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ((*adapter)->bytes(), planned);
  EXPECT_EQ(MakeAdapter(*test.model, modules, {.max_rank = kRank, .max_bytes = planned - 1}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterSizes,
                         ::testing::Values(Sized{"llama_gqa", false}, Sized{"gpt2_tiny", false},
                                           Sized{"phi3_tiny", false}, Sized{"mixtral_tiny", true},
                                           Sized{"qwen2_moe_tiny", true}, Sized{"deepseek_v3_tiny", true},
                                           Sized{"gpt_oss_tiny", true}, Sized{"llama_gqa", false, 2},
                                           Sized{"deepseek_v3_tiny", true, 2}, Sized{"gpt_oss_tiny", true, 2}),
                         [](const auto& test) {
                           return test.param.model + ("_" + std::to_string(test.param.num_ranks));
                         });

}  // namespace
}  // namespace dunlin::engine
