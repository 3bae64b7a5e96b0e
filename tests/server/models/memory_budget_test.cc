// SPDX-License-Identifier: Apache-2.0
// The memory plan of a server: what KV memory "auto" comes to, and what is refused.
#include "server/models/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/models/kv_share.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kDemoPage = 73728;              // 16 BF16 tokens: 6 layers, 3 heads, K and V of 64
constexpr size_t kDemoContext = 64 * kDemoPage;  // 1024 tokens

TEST(KvShare, EachGetsOneContextAndTheSameFractionBeyond) {
  std::vector<KvShare> shares = {{.least = 10, .most = 110, .bytes_per_page = 100},
                                 {.least = 20, .most = 40, .bytes_per_page = 50}};
  ASSERT_TRUE(DivideKv(1000 + 1000 + 5000 + 500, &shares));
  EXPECT_EQ(shares[0].pages, 60);
  EXPECT_EQ(shares[1].pages, 30);
  ASSERT_TRUE(DivideKv(size_t{1} << 50, &shares));
  EXPECT_EQ(shares[0].pages, 110) << "never more than can be used";
  EXPECT_EQ(shares[1].pages, 40);
  ASSERT_TRUE(DivideKv(2000, &shares));
  EXPECT_EQ(shares[0].pages, 10);
  EXPECT_FALSE(DivideKv(1999, &shares));
  EXPECT_EQ(shares[1].pages, 20);
}

class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() {
    std::string error;
    cpu_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {1, "portable"}, &error);
    host_.limit = {.bytes = 4000 * kMiB, .source = "the machine"};
    host_.resident = 20 * kMiB;
  }

  static std::string Models(int count) {
    std::string models;
    for (int i = 0; i < count; ++i) {
      models += std::string(i == 0 ? "" : ",") + R"({"name": "m)" + std::to_string(i) +
                R"(", "path": ")" DUNLIN_SOURCE_DIR R"(/models/demo"})";
    }
    return R"({"models": [)" + models + "]}";
  }
  absl::StatusOr<MemoryBudget> Plan(int count, const std::vector<std::string>& overrides = {}) const {
    const auto config = LoadConfigText(Models(count), overrides);
    EXPECT_TRUE(config.ok()) << config.status();
    return PlanServerMemory(*config, std::vector(static_cast<size_t>(count), cpu_.get()), host_);
  }

  std::unique_ptr<kernels::Device> cpu_;
  HostFacts host_;
};

TEST_F(MemoryBudgetTest, ATinyModelGetsAllThatItCanUse) {
  const auto budget = Plan(1);
  ASSERT_TRUE(budget.ok()) << budget.status();
  const ModelMemory& model = budget->models[0];
  EXPECT_TRUE(model.kv_auto);
  EXPECT_EQ(model.kv, 64 * kDemoContext) << "scheduler.max_sequences contexts";
  EXPECT_EQ(model.contexts, 64);
  EXPECT_EQ(model.context_tokens, 1024);
  EXPECT_EQ(budget->limit, 3600 * kMiB);
  EXPECT_EQ(budget->limit_source, "90% of what the machine leaves");
  EXPECT_EQ(budget->resident(), model.total() + budget->edge + budget->process);
  EXPECT_EQ(budget->total(), budget->resident() + budget->requests.total());
  EXPECT_GT(budget->process, host_.resident);
}

TEST_F(MemoryBudgetTest, ALargeMachineIsNotTakenForALongContext) {
  host_.limit.bytes = size_t{1} << 40;
  const auto config =
      LoadConfigText(R"({"models": [{"name": "l", "weights": "random", "shape": "llama-1b", "device": "cpu"}]})", {});
  ASSERT_TRUE(config.ok());
  const auto budget = PlanServerMemory(*config, {cpu_.get()}, host_);
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->models[0].context_tokens, 131072);
  EXPECT_EQ(budget->models[0].kv, size_t{64} * 4096 * 32768) << "64 sequences of 4096 tokens, 32 KiB each";
}

TEST_F(MemoryBudgetTest, TheRestIsSharedAndThePlanKeepsTheLimit) {
  for (const int count : {1, 2, 3}) {
    const size_t limit = static_cast<size_t>(300 + 100 * count) * kMiB;
    const auto budget = Plan(count, {"memory.limit_bytes=" + std::to_string(limit)});
    ASSERT_TRUE(budget.ok()) << budget.status();
    EXPECT_LE(budget->total(), limit + static_cast<size_t>(count) * 2 * kMiB) << "but for whole huge pages";
    EXPECT_GE(budget->total(), limit - 10 * kMiB) << "no more is left over than rounding leaves";
    for (const ModelMemory& model : budget->models) {
      EXPECT_GE(model.kv, kDemoContext);
      EXPECT_EQ(model.pages, budget->models[0].pages) << "equal models, equal shares";
    }
    EXPECT_EQ(budget->limit_source, "memory.limit_bytes");
  }
}

TEST_F(MemoryBudgetTest, SizesThatAreGivenStayAndTheOthersShareTheRest) {
  const auto budget = Plan(2, {"memory.limit_bytes=536870912", "models.0.kv_cache.memory_bytes=67108864"});
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_FALSE(budget->models[0].kv_auto);
  EXPECT_EQ(budget->models[0].pages, static_cast<int64_t>(64 * kMiB / kDemoPage));
  EXPECT_GT(budget->models[1].kv, budget->models[0].kv);
  EXPECT_LE(budget->total(), 516 * kMiB);
}

TEST_F(MemoryBudgetTest, CountsWhatIsKeptForRouters) {
  const auto alone = Plan(1);
  const auto followed = Plan(1, {"models.0.kv_cache.event_batches=1000"});
  ASSERT_TRUE(alone.ok() && followed.ok());
  const ModelMemory& model = followed->models[0];
  EXPECT_EQ(model.pages, alone->models[0].pages);
  EXPECT_GE(model.workspace, alone->models[0].workspace + static_cast<size_t>(model.pages) * 512);
}

TEST_F(MemoryBudgetTest, RefusesWhenNoContextFitsWithThePlansFigures) {
  const auto refused = Plan(2, {"memory.limit_bytes=83886080"});
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.status().message());
  EXPECT_THAT(message, HasSubstr("model \"m0\": weights "));
  EXPECT_THAT(message, HasSubstr("model \"m1\": weights "));
  EXPECT_THAT(message, HasSubstr("bytes of 83886080 (memory.limit_bytes)"));
  EXPECT_THAT(message, testing::AnyOf(HasSubstr("tokens would fit (models[].max_context_tokens)"),
                                      HasSubstr("The weights leave no room")));
}

TEST_F(MemoryBudgetTest, TheContextThatARefusalNamesFits) {
  const size_t requests = Plan(1, {"memory.limit_bytes=314572800"})->requests.total();  // the least
  const std::string limit = "memory.limit_bytes=" + std::to_string(61000000 + requests);
  const auto refused = Plan(1, {limit});
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.status().message());
  const size_t at = message.find("a context of ");
  ASSERT_NE(at, std::string::npos) << message;
  const int tokens = std::stoi(message.substr(at + 13));
  EXPECT_GT(tokens, 0);
  EXPECT_LT(tokens, 1024);
  EXPECT_TRUE(Plan(1, {limit, "models.0.max_context_tokens=" + std::to_string(tokens)}).ok()) << message;
}

// The CPU device, with memory of its own.
class OwnMemory {
 public:
  OwnMemory(const kernels::Device& cpu, const std::string& facts) : ops_(*cpu.ops) {
    ops_.kind = kernels::DeviceKind::kCuda;
    device_.ops = &ops_;
    device_.context = cpu.context;
    device_.facts = facts;
  }
  kernels::Device* device() { return &device_; }

 private:
  kernels::DeviceOps ops_;
  kernels::Device device_;
};

TEST_F(MemoryBudgetTest, ADeviceSharesItsOwnMemory) {
  const auto config = LoadConfigText(Models(2), {"memory.limit_bytes=67108864"});
  ASSERT_TRUE(config.ok());
  const auto kv = [&](const std::string& facts) {
    OwnMemory own(*cpu_, facts);
    const auto budget = PlanServerMemory(*config, {own.device(), own.device()}, host_);
    EXPECT_TRUE(budget.ok()) << budget.status();
    EXPECT_LT(budget->resident(), 64 * kMiB) << "the host holds tokenizers, streams and the process";
    return budget->models[0].kv;
  };
  EXPECT_EQ(kv("name: large\nmemory: 81559 MiB\n"), 64 * kDemoContext);
  EXPECT_EQ(kv("name: silent\n"), 64 * kDemoContext);
  const size_t half = kv("memory: 400 MiB\n");
  EXPECT_LT(2 * half, 360 * kMiB) << "90% of it, without weights and workspace";
  EXPECT_GT(2 * half, 300 * kMiB);
  OwnMemory small(*cpu_, "memory: 20 MiB\n");
  EXPECT_EQ(PlanServerMemory(*config, {small.device(), small.device()}, host_).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(MemoryBudgetTest, GivenSizesAreNotRefused) {
  const auto budget = Plan(1, {"memory.limit_bytes=16777216", "models.0.kv_cache.memory_bytes=67108864"});
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_GT(budget->total(), budget->limit);
  ASSERT_EQ(WarningsOf(*budget).size(), 1U);
  EXPECT_THAT(WarningsOf(*budget)[0], HasSubstr("the memory plan exceeds its limit by "));
}

// Of a process that has all its threads: stacks of the model's three and of four later ones, and a grammar's 64 MiB.
TEST_F(MemoryBudgetTest, AUlimitIsPlannedWithAfterTheStacksToCome) {
  host_.mapped_limit = {.bytes = 2048 * kMiB, .source = "ulimit -v"};
  host_.stack_bytes = 48 * kMiB;
  host_.num_threads = 1000;
  const auto budget = Plan(1);
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->limit, (2048 - 7 * 48 - 64) * kMiB / 100 * 90);
  EXPECT_EQ(budget->limit_source, "90% of what ulimit -v leaves");
  EXPECT_LE(budget->total(), budget->limit + 4 * kMiB);
  EXPECT_EQ(Plan(1, {"memory.limit_bytes=8589934592"})->limit, budget->limit) << "a config does not lift it";
  host_.num_threads = 1;
  EXPECT_LT(Plan(1)->limit, budget->limit) << "all threads of the server are to come";
  host_.mapped_limit.bytes = size_t{1} << 40;
  EXPECT_EQ(Plan(1)->limit_source, "90% of what the machine leaves");
}

TEST_F(MemoryBudgetTest, NoPlanExceedsAUlimit) {
  host_.mapped_limit = {.bytes = 500 * kMiB, .source = "ulimit -v"};
  const auto refused = Plan(1, {"models.0.kv_cache.memory_bytes=671088640"});
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << "sizes that are given, too";
  const std::string message(refused.status().message());
  EXPECT_THAT(message, HasSubstr("(90% of what ulimit -v leaves)"));
  const size_t at = message.find("a ulimit -v that is ");
  ASSERT_NE(at, std::string::npos) << message;
  host_.mapped_limit.bytes += (std::stoull(message.substr(at + 20)) + 2) * 1024;
  EXPECT_TRUE(Plan(1, {"models.0.kv_cache.memory_bytes=671088640"}).ok()) << message;
}

TEST_F(MemoryBudgetTest, AUlimitWithoutRoomForRequestsIsRefusedBeforeModelsAreLookedAt) {
  host_.mapped_limit = {.bytes = 200 * kMiB, .source = "ulimit -d"};
  const auto config = LoadConfigText(R"({"models": [{"name": "lost", "path": "/nowhere"}]})", {});
  ASSERT_TRUE(config.ok());
  const absl::Status refused = EmptyBudget(*config, host_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a ulimit -d that is "));
}

TEST_F(MemoryBudgetTest, WarnsOfAContextThatTheModelDoesNotHave) {
  EXPECT_TRUE(WarningsOf(*Plan(1, {"models.0.max_context_tokens=1024"})).empty());
  const std::vector<std::string> lines = WarningsOf(*Plan(1, {"models.0.max_context_tokens=4096"}));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "model \"m0\": models[].max_context_tokens is 4096, more than the model's 1024, which is used");
}

TEST_F(MemoryBudgetTest, WarnsOfPagesThatHoldNoContext) {
  EXPECT_TRUE(WarningsOf(*Plan(1, {"models.0.kv_cache.memory_bytes=4718592"})).empty()) << "64 pages of 16 tokens";
  const std::vector<std::string> lines = WarningsOf(*Plan(1, {"models.0.kv_cache.memory_bytes=4700000"}));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("model \"m0\": 63 KV pages hold no context of 1024 tokens"));
}

TEST_F(MemoryBudgetTest, ErrorsNameTheModel) {
  const auto config = LoadConfigText(R"({"models": [{"name": "lost", "path": "/nowhere"}]})", {});
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(std::string(PlanServerMemory(*config, {cpu_.get()}, host_).status().message()),
              HasSubstr("model \"lost\": /nowhere"));
}

// Of experts alone: 8 layers of 128 experts, three matrices of 2,048 and 768 features, rank 64 in FP32.
constexpr size_t kExpertsOfOne = size_t{8} * 128 * 3 * (2048 + 768) * 64 * 4;

TEST_F(MemoryBudgetTest, AdaptersOfExpertsTakeWhatIsLeftNextToPages) {
  const auto plan = [this](const std::string& members, size_t limit) {
    const std::string model = R"({"name": "e", "weights": "random", "shape": "qwen3-30b-a3b-8l", "device": "cpu",
                                  "precisions": ["bf16"], "max_context_tokens": 4096)";
    const auto config = LoadConfigText(R"({"models": [)" + model + members + "}]}", {});
    EXPECT_TRUE(config.ok()) << config.status();
    host_.limit.bytes = limit;
    auto budget = PlanServerMemory(*config, {cpu_.get()}, host_);
    EXPECT_TRUE(budget.ok()) << budget.status();
    return *std::move(budget);
  };
  constexpr size_t kMuch = size_t{1} << 40;
  const MemoryBudget without = plan("", kMuch);
  EXPECT_EQ(without.models[0].adapters, 0U);
  const ModelMemory all = plan(R"(, "max_adapters": 2)", kMuch).models[0];
  EXPECT_GT(all.adapters, 2 * kExpertsOfOne);
  EXPECT_LT(all.adapters, 2 * kExpertsOfOne + 400 * kMiB) << "and those of attention, the routers and the head";
  EXPECT_EQ(all.kv, without.models[0].kv);

  const size_t tight = without.total() / 9 * 10;  // 90% of it
  const ModelMemory some = plan(R"(, "max_adapters": 2)", tight).models[0];
  EXPECT_LT(some.adapters, all.adapters);
  EXPECT_LT(some.kv, all.kv);
  const double of_experts =
      static_cast<double>(some.adapters - (all.adapters - 2 * kExpertsOfOne)) / (2 * kExpertsOfOne);
  EXPECT_NEAR(of_experts, static_cast<double>(some.kv) / static_cast<double>(all.kv), 0.05) << "the same share of both";
  const ModelMemory given = plan(R"(, "max_adapters": 2, "kv_cache": {"memory_bytes": 1073741824})", kMuch).models[0];
  EXPECT_EQ(given.adapters, all.adapters);
  const ModelMemory own = plan(R"(, "max_adapters": 2, "adapter_memory_bytes": 2097152)", tight).models[0];
  EXPECT_EQ(own.adapters, 2097152U);
}

TEST_F(MemoryBudgetTest, AnEncoderHasAPlanToo) {
  const auto config = LoadConfigText(
      R"({"models": [{"name": "e", "path": ")" DUNLIN_SOURCE_DIR R"(/tests/golden/encoders/bert_sentence"}]})", {});
  ASSERT_TRUE(config.ok());
  const auto budget = PlanServerMemory(*config, {cpu_.get()}, host_);
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_FALSE(budget->models[0].kv_auto);
  EXPECT_GT(budget->models[0].workspace, 0U);
}

TEST_F(MemoryBudgetTest, DescribesEveryModelAndTheTotal) {
  const std::vector<std::string> lines = Describe(*Plan(2));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[0], HasSubstr("model \"m0\": weights "));
  EXPECT_THAT(lines[3], HasSubstr("requests: bodies "));
  EXPECT_THAT(lines[0], HasSubstr("64 contexts of 1024 tokens"));
  EXPECT_THAT(lines[2], HasSubstr("streams "));
}

}  // namespace
}  // namespace dunlin::server
