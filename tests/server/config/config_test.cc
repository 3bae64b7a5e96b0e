// SPDX-License-Identifier: Apache-2.0
// The loader against the key table: defaults, overrides, and each way a config can be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/request/fp8_recipe.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/config/key_table.h"
#include "server/config/validate.h"
#include "tests/server/config/config_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

TEST_F(ConfigTest, FillsInDefaultsFromTheTable) {
  const auto config = Load(kSmallest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->grpc_address, "127.0.0.1:50051");
  EXPECT_EQ(config->http_address, "127.0.0.1:8080");
  ASSERT_EQ(config->models.size(), 1U);
  EXPECT_EQ(config->models[0].source.precisions, std::vector{engine::Precision::kBf16});
  EXPECT_EQ(config->models[0].engine.kv_memory_bytes, kAutoBytes);
  EXPECT_EQ(config->memory.limit_bytes, kAutoBytes);
  EXPECT_EQ(config->memory.share_percent, 90);
  EXPECT_FALSE(config->models[0].engine.kv_fp8);
  EXPECT_TRUE(config->models[0].engine.attention_backends.all());
  EXPECT_EQ(config->limits.max_unsent_tokens, 1024);
  EXPECT_EQ(config->limits.busy_message_interval_ms, 50);
}

TEST_F(ConfigTest, ReadsTheOptionsOfFp8Recipes) {
  const auto config =
      Load(kSmallest, {"models.0.fp8.recipe=delayed", "models.0.deterministic=false", "models.0.fp8.margin=3",
                       "models.0.fp8.amax_history_len=7", "models.0.fp8.amax_compute_algo=most_recent"});
  ASSERT_TRUE(config.ok()) << config.status();
  const engine::Fp8Options& fp8 = config->models[0].engine.fp8;
  EXPECT_EQ(fp8.recipe, engine::Fp8Recipe::kDelayed);
  EXPECT_EQ(fp8.margin, 3);
  EXPECT_EQ(fp8.amax_history_len, 7);
  EXPECT_EQ(fp8.amax_compute_algo, engine::AmaxComputeAlgo::kMostRecent);
}

TEST_F(ConfigTest, ReadsFp8Kv) {
  const auto config = Load(kSmallest, {"models.0.kv_cache.fp8=true"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->models[0].engine.kv_fp8);
}

TEST_F(ConfigTest, SizesAreNumbersOrAuto) {
  const auto config = Load(kSmallest, {"models.0.kv_cache.memory_bytes=1048576", "memory.limit_bytes=1073741824"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].engine.kv_memory_bytes, 1048576U);
  EXPECT_EQ(config->memory.limit_bytes, 1073741824U);
  EXPECT_TRUE(Load(kSmallest, {"models.0.kv_cache.memory_bytes=auto"}).ok());
  const auto refused = Load(kSmallest, {"models.0.kv_cache.memory_bytes=all"});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("models[0].kv_cache.memory_bytes is \"all\"; limit is \"auto\" or an integer"));
}

TEST(ConfigText, TakesPathsAsGiven) {
  const auto config = LoadConfigText(kSmallest, {"listen.grpc=127.0.0.1:0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].source.path, "here");
  EXPECT_EQ(config->grpc_address, "127.0.0.1:0");
  EXPECT_EQ(LoadConfigText("{", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ConfigTest, ReadsWhatAModelAllowsAndTheBoundsOfSteps) {
  const auto all = Load(kSmallest);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->models[0].engine.allowed_backends.all());
  EXPECT_TRUE(all->models[0].engine.allowed_precisions.all());
  EXPECT_EQ(all->models[0].engine.min_priority, -engine::kMaxPriority);
  EXPECT_EQ(all->models[0].engine.max_priority, engine::kMaxPriority);
  EXPECT_EQ(all->models[0].engine.step_time_target_ms, 200);
  EXPECT_TRUE(all->models[0].engine.plan_ahead);
  EXPECT_EQ(all->limits.max_output_bytes, 268435456);
  const auto some = Load(
      kSmallest, {R"(models.0.allowed.attention_backends=["math"])", R"(models.0.allowed.precisions=["fp8", "bf16"])",
                  "models.0.allowed.min_priority=-3", "models.0.allowed.max_priority=4",
                  "scheduler.step_time_target_ms=50", "scheduler.plan_ahead=false"});
  ASSERT_TRUE(some.ok()) << some.status();
  const engine::EngineOptions& engine = some->models[0].engine;
  EXPECT_EQ(engine.allowed_backends.count(), 1U);
  EXPECT_TRUE(engine.allowed_backends[static_cast<size_t>(engine::AttentionBackend::kMath)]);
  EXPECT_EQ(engine.allowed_precisions.count(), 2U);
  EXPECT_TRUE(engine.allowed_precisions[static_cast<size_t>(engine::Precision::kFp8)]);
  EXPECT_EQ(engine.min_priority, -3);
  EXPECT_EQ(engine.max_priority, 4);
  EXPECT_EQ(engine.step_time_target_ms, 50);
  EXPECT_FALSE(engine.plan_ahead);
}

TEST_F(ConfigTest, TakesModelPathsFromTheFilesFolder) {
  const auto config = Load(kSmallest);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->models[0].source.path, std::filesystem::absolute(folder_ + "/here").lexically_normal().string());
}

TEST_F(ConfigTest, TakesOverriddenPathsAsGiven) {
  const auto config = Load(kSmallest, {"models.0.path=there"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->models[0].source.path, "there");
}

TEST_F(ConfigTest, AChatTemplateIsAFileOrItsText) {
  const auto config = Load(R"({"models": [
      {"name": "a", "path": "here"},
      {"name": "b", "path": "here", "chat_template": "chat.jinja"},
      {"name": "c", "path": "here", "chat_template": "{{ x }}", "chat_special_tokens": true}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].chat_template, "");
  EXPECT_FALSE(config->models[0].chat_special_tokens);
  EXPECT_EQ(config->models[1].chat_template,
            std::filesystem::absolute(folder_ + "/chat.jinja").lexically_normal().string());
  EXPECT_EQ(config->models[2].chat_template, "{{ x }}");
  EXPECT_TRUE(config->models[2].chat_special_tokens);
  EXPECT_TRUE(IsTemplateText("{% if x %}") && IsTemplateText("a\nb"));
  EXPECT_FALSE(IsTemplateText("") || IsTemplateText("/models/{m}/x.jinja"));
}

TEST_F(ConfigTest, ParsersOfChatsAreKnownByName) {
  const auto config = Load(R"({"models": [{"name": "a", "path": "here"},
      {"name": "b", "path": "here", "tool_parser": "hermes", "reasoning_parser": "none"}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].tool_parser, "auto");
  EXPECT_EQ(config->models[0].reasoning_parser, "auto");
  EXPECT_EQ(config->models[1].tool_parser, "hermes");
  EXPECT_EQ(config->models[1].reasoning_parser, "none");
}

TEST_F(ConfigTest, AllowsComments) {
  EXPECT_TRUE(Load("// why\n{\"models\": [/* one */ {\"name\": \"m\", \"path\": \"p\"}]}").ok());
}

TEST_F(ConfigTest, AKeyThatAppearsTwiceIsAFault) {
  const absl::StatusOr<Config> config = Load(R"({"models": [{"name": "m", "path": "here", // the first
                           "name": "n"}]})");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("config.json: key 'name' appears twice"));
}

TEST_F(ConfigTest, ATextThatIsNotUtf8IsAFault) {
  const absl::StatusOr<Config> config = Load(kSmallest, {"models.0.name=caf\xe9"});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message(), R"(models[0].name is "caf\ufffd"; limit is UTF-8)");
  EXPECT_EQ(Load(kSmallest, {"listen.caf\xe9=1"}).status().message(),
            R"(a key of listen is "caf\ufffd"; limit is UTF-8)");
  EXPECT_EQ(Load(kSmallest, {"model_repository.path=caf\xe9"}).status().message(),
            R"(model_repository.path is "caf\ufffd"; limit is UTF-8)");
}

TEST_F(ConfigTest, OverridesTakeJsonOrWords) {
  const auto config = Load(kSmallest, {"listen.grpc=127.0.0.1:0", "scheduler.max_sequences=3",
                                       "models.0.precisions=[\"fp8\",\"fp32\"]", "attention.enable_math=false"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->grpc_address, "127.0.0.1:0");
  EXPECT_EQ(config->models[0].engine.max_sequences, 3);
  EXPECT_FALSE(config->models[0].engine.enabled(kernels::AttentionBackend::kMath));
  EXPECT_EQ(config->models[0].source.precisions, (std::vector{engine::Precision::kFp8, engine::Precision::kFp32}));
}

TEST_F(ConfigTest, OverridesAreNotNestedDeeply) {
  std::string path = "a";
  for (int i = 0; i < 50'000; ++i) path += ".a";
  const std::string lists = std::string(50'000, '[') + std::string(50'000, ']');
  const std::string within = std::string(32, '[') + std::string(32, ']');
  for (const std::string& assignment : {path + "=1", "x=" + lists, "models.0.precisions=" + lists}) {
    EXPECT_THAT(std::string(Load(kSmallest, {assignment}).status().message()),
                HasSubstr(": is nested too deeply; limit is 32"));
  }
  EXPECT_THAT(std::string(Load(kSmallest, {"x=" + within}).status().message()), HasSubstr("x is not a config key"));
}

TEST_F(ConfigTest, MissingFileIsNotFound) {
  EXPECT_EQ(LoadConfig(folder_ + "/none.json", {}).status().code(), absl::StatusCode::kNotFound);
}

struct BadConfig {
  const char* text;
  const char* message;
};

const BadConfig kBadConfigs[] = {
    {R"({"models": [{"name": "m", "path": "p", "tool_parser": "hermse"}]})",
     "models[0].tool_parser is \"hermse\"; limit is one of auto, none, gpt_oss, muse_glimmer, deepseek, mistral, "
     "kimi_k2, minimax_m2, minimax_m3, gemma4, functiongemma, dsml, lfm2, seed_oss, qwen3_coder, glm, hy_v3, "
     "hunyuan, olmo3, nemotron, cohere, phi4_mini, granite, hermes, pythonic, llama3_json"},
    {R"({"models": [{"name": "m", "path": "p", "reasoning_parser": "r1"}]})",
     "models[0].reasoning_parser is \"r1\"; limit is one of auto, none, gpt_oss, muse_glimmer, gemma4, kimi_k2, "
     "minimax_m3, seed_oss, cohere, hunyuan, ernie4_5, qwen3, think_tags, mistral"},
    {"{", "config.json: parse error at line 1, column 2: "},
    {R"({"limits": 1e400})", "config.json: number overflow parsing '1e400'"},
    {"[]", "the config is []; limit is an object"},
    {"{}", "models must be given"},
    {R"({"models": []})", "models has 0 entries; limit is [1, 16]"},
    {R"({"models": {}})", "models is {}; limit is a list"},
    {R"({"models": [{"path": "p"}]})", "models[0].name must be given"},
    {R"({"models": [{"name": "m"}]})", "models[0].path must be given"},
    {R"({"models": [{"name": "", "path": "p"}]})", "models[0].name is \"\"; limit is [1, 128] bytes"},
    {R"({"models": [{"name": "m", "path": "p", "presicions": []}]})",
     "models[0].presicions is not a config key; did you mean models[0].precisions?"},
    {R"({"models": [{"name": "m", "path": "p"}], "listen": {"tcp": "x"}})",
     "listen.tcp is not a config key; `dunlin schema` prints them all"},
    {R"({"models": [{"name": "m", "path": "p"}], "limit": 3})", "limit is not a config key; did you mean limits?"},
    {R"({"model": [{"name": "m", "path": "p"}]})", "model is not a config key; did you mean models?"},
    {R"({"models": [{"name": "m", "path": "p", "fp8": {"recipy": "static"}}]})",
     "models[0].fp8.recipy is not a config key; did you mean models[0].fp8.recipe?"},
    {R"({"models": [{"name": "m", "path": "p", "memory_bytes": 1}]})",
     "models[0].memory_bytes is not a config key; did you mean models[].kv_cache.memory_bytes?"},
    {R"({"models": [{"name": "m", "path": "p"}], "max_concurrent_requests": 3})",
     "max_concurrent_requests is not a config key; did you mean limits.max_concurrent_requests?"},
    {R"({"models": [{"name": "m", "path": "p"}], "listen": 3})", "listen is 3; limit is an object"},
    {R"({"models": [{"name": "m", "path": "p", "precisions": ["int2"]}]})",
     "models[0].precisions[0] is \"int2\"; limit is one of fp32, bf16, fp16, fp8, int8, int4"},
    {R"({"models": [{"name": "m", "path": "p", "precisions": ["fp8", "fp8"]}]})",
     "models[0].precisions[1] is \"fp8\"; limit is each word once"},
    {R"({"models": [{"name": "m", "path": "p", "allowed": {"precisions": ["fp32"]}}]})",
     "models[0].allowed.precisions is [\"fp32\"]; limit is a list with bf16, the default of requests "
     "(models[0].precisions)"},
    {R"({"models": [{"name": "m", "path": "p", "allowed": {"max_priority": -1}}]})",
     "models[0].allowed.max_priority is -1; limit is [0, 100]"},
    {R"({"models": [{"name": "m", "path": "p", "fp8": {"recipe": "blockwise"}}]})",
     "models[0].fp8.recipe is \"blockwise\"; limit is one of per_token, static, current, delayed"},
    {R"({"models": [{"name": "m", "path": "p", "kv_cache": {"memory_bytes": 5}}]})",
     "models[0].kv_cache.memory_bytes is 5; limit is [1048576, 1099511627776]"},
    {R"({"models": [{"name": "m", "path": "p"}], "scheduler": {"max_sequences": 0}})",
     "scheduler.max_sequences is 0; limit is [1, 1024]"},
    {R"({"models": [{"name": "m", "path": "p"}], "scheduler": {"max_sequences": 1e99}})",
     "scheduler.max_sequences is 1e+99; limit is an integer"},
    {R"({"models": [{"name": "m", "path": "p"}], "scheduler": {"max_sequences": 18446744073709551615}})",
     "limit is [1, 1024]"},
    {R"({"models": [{"name": "m", "path": "p"}], "attention": {"enable_flash": "yes"}})",
     "attention.enable_flash is \"yes\"; limit is true or false"},
    {R"({"models": [{"name": "m", "path": "p"}], "log": {"level": "loud"}})",
     "log.level is \"loud\"; limit is one of debug, info, warn, error"},
    {R"({"models": [{"name": "m", "path": "p"}, {"name": "m", "path": "q"}]})", "models[1].name is \"m\""},
    {R"({"models": [{"name": "m", "path": "p"}], "tracing": {"otlp_endpoint": "https://c:4317/v1"}})",
     "tracing.otlp_endpoint is \"https://c:4317/v1\"; limit is host:port"},
    {R"({"models": [{"name": "m", "path": "p"}], "tracing": {"otlp_endpoint": "c:4317", "ca_file": "a"}})",
     "must be given with an https:// address"},
    {R"({"models": [{"name": "m", "path": "p"}], "tracing": {"otlp_endpoint": "https://c:1", "cert_file": "a"}})",
     "tracing.cert_file and tracing.key_file must be given together"},
    {R"({"models": [{"name": "m", "path": "p"}], "tracing": {"otlp_endpoint": "collector"}})",
     "tracing.otlp_endpoint is \"collector\"; limit is host:port"},
    {R"({"models": [{"name": "m", "weights": "random"}]})", "models[0].shape must be given with random weights"},
};

TEST_F(ConfigTest, NamesPathValueAndLimitOfEveryFault) {
  for (const BadConfig& bad : kBadConfigs) {
    const auto config = Load(bad.text);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << bad.text;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(bad.message)) << bad.text;
  }
}

TEST_F(ConfigTest, RefusesOverridesThatPointNowhere) {
  for (const char* assignment : {"models.7.path=x", "models.x.path=y", "=3", "listen", "models.0.name.deep=1"}) {
    EXPECT_EQ(Load(kSmallest, {assignment}).status().code(), absl::StatusCode::kInvalidArgument) << assignment;
  }
}

TEST(ConfigKeys, EveryDefaultPassesItsOwnCheck) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.default_json == nullptr) continue;
    EXPECT_FALSE(nlohmann::json::parse(key.default_json, nullptr, false).is_discarded()) << key.path;
    EXPECT_GT(std::string(key.description).size(), 10U) << key.path;
  }
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(R"({"models": [{"name": "m"}]})");
  ASSERT_TRUE(CheckAndComplete(&document).ok());
  EXPECT_TRUE(CheckAndComplete(&document).ok()) << "a completed document is valid";
}

TEST(ConfigKeys, EachLimitIsSetByOneKey) {
  std::map<ptrdiff_t, std::string> keys;  // by the first byte that a key changes
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.set == nullptr || key.type != KeyType::kInteger) continue;
    Config config;
    const auto* bytes = reinterpret_cast<const std::byte*>(&config.limits);
    const std::vector<std::byte> before(bytes, bytes + sizeof(Limits));
    key.set(nlohmann::ordered_json(0x55), &config);
    const ptrdiff_t changed = std::mismatch(before.begin(), before.end(), bytes).first - before.begin();
    if (changed == static_cast<ptrdiff_t>(sizeof(Limits))) continue;  // another part of the config
    EXPECT_TRUE(keys.emplace(changed, key.path).second) << key.path << " sets what " << keys[changed] << " sets";
  }
  EXPECT_GT(keys.size(), 20U);
}

TEST(ConfigKeys, EveryBackendDevicePrecisionAndRecipeHasItsKey) {
  std::map<std::string, const ConfigKey*> keys;
  for (const ConfigKey& key : ConfigKeys()) keys[key.path] = &key;
  const auto choices = [&keys](const char* path) { return std::string("|") + keys.at(path)->choices + "|"; };
  for (const kernels::AttentionBackendTraits& row : kernels::kAttentionBackendTable) {
    const std::string path = absl::StrCat("attention.enable_", row.name);
    ASSERT_TRUE(keys.contains(path)) << path;
    EXPECT_EQ(keys[path]->description, absl::StrCat("Offer the ", row.label, " backend"));
  }
  for (const auto& row : kernels::kDeviceKindTable) {
    EXPECT_THAT(choices("models[].device"), HasSubstr(absl::StrCat("|", row.name, "|")));
  }
  for (const auto& row : kernels::kPrecisionTable) {
    EXPECT_THAT(choices("models[].precisions"), HasSubstr(absl::StrCat("|", row.name, "|")));
  }
  for (const auto& row : engine::kFp8RecipeTable) {
    EXPECT_THAT(choices("models[].fp8.recipe"), HasSubstr(absl::StrCat("|", row.name, "|")));
  }
}

TEST_F(ConfigTest, AKeyDisablesItsBackendOnly) {
  for (const kernels::AttentionBackendTraits& row : kernels::kAttentionBackendTable) {
    const auto config = Load(kSmallest, {absl::StrCat("attention.enable_", row.name, "=false")});
    ASSERT_TRUE(config.ok()) << config.status();
    const engine::EngineOptions& options = config->models[0].engine;
    EXPECT_FALSE(options.enabled(row.backend));
    EXPECT_EQ(options.attention_backends.count(), options.attention_backends.size() - 1);
  }
}

TEST(ConfigKeys, SchemaInTheTreeIsTheTables) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/configs/schema.json");
  const auto schema = nlohmann::ordered_json::parse(file, nullptr, false);
  EXPECT_EQ(schema, ConfigSchema()) << "run: dunlin schema > configs/schema.json";
}

TEST(Configs, EveryConfigInTheTreeLoads) {
  for (const char* name : {"demo", "cpu"}) {
    const auto config = LoadConfig(std::string(DUNLIN_SOURCE_DIR "/configs/") + name + ".json", {});
    EXPECT_TRUE(config.ok()) << config.status();
  }
}

// Of a divided model on CUDA, in the order of its ranks.
TEST_F(ConfigTest, RanksHaveTheDevicesThatAreListed) {
  const auto with = [&](const std::string& parallel) {
    return Load(R"({"models": [{"name": "m", "path": "here", "parallel": )" + parallel + "}]}");
  };
  EXPECT_TRUE(with(R"({"tensor": 2})")->models[0].rank_devices.empty());
  EXPECT_EQ(with(R"({"tensor": 2, "devices": ["3", "1"]})")->models[0].rank_devices, (std::vector<int32_t>{3, 1}));
  EXPECT_THAT(
      std::string(with(R"({"tensor": 2, "devices": ["0"]})").status().message()),
      testing::HasSubstr("parallel.devices has 1 entries; limit is one for each rank, 2 (models[0].parallel.tensor)"));
  EXPECT_FALSE(with(R"({"tensor": 2, "devices": ["0", "0"]})").ok());
  EXPECT_FALSE(with(R"({"tensor": 2, "devices": ["0", "gpu1"]})").ok());
}

}  // namespace
}  // namespace dunlin::server
