// SPDX-License-Identifier: Apache-2.0
// Rows in place of a prompt's embeddings: those that stand in the model's own table give the tokens and the bits that
// their tokens give, wherever chunks, neighbours, cached prefixes and preemptions cut the prompt. The table is read
// from the checkpoint, and scaled as transformers scales it.
#include <gtest/gtest.h>

#include "engine/layers/embedding.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/load/inspect.h"
#include "engine/runtime/kv_demand.h"
#include "kernels/api/float_formats.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using Spans = std::vector<PromptRows::Span>;

const std::vector<Precision> kRowPrecisions = {Precision::kFp32, Precision::kBf16};
constexpr int32_t kRowPrompt = 50;
// At both ends, alone, and over the borders of pages.
const Spans kSomeRows = {{0, 5}, {9, 1}, {12, 30}, {47, 3}};
const Spans kAllRows = {{0, kRowPrompt}};

// [vocab_size, hidden_dim] as the file has it, in BF16.
std::vector<uint16_t> ReadTable(const std::string& path) {
  const absl::StatusOr<Directory> directory = Directory::Open(path);
  const auto checkpoint = *Checkpoint::Open(*directory);
  const TensorInfo* table = checkpoint->Find("model.embed_tokens.weight");
  std::vector<uint16_t> values(static_cast<size_t>(table->end - table->begin) / sizeof(uint16_t));
  EXPECT_TRUE(checkpoint->Read(*table, 0, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

class PromptRowsBits : public ::testing::TestWithParam<std::tuple<Place, std::string>> {
 protected:
  void SetUp() override {
    const auto& [place, name] = GetParam();
    const std::string path = GoldenModelPath(name);
    std::string reason;
    auto device = OpenPlace(place, 2, &reason);
    if (device == nullptr || !Serves(*device, path, &reason)) GTEST_SKIP() << reason;
    test_ = LoadTestModel(path, std::move(device), kRowPrecisions);
    table_ = ReadTable(path);
  }

  const ModelConfig& config() const { return test_.model->config(); }
  std::vector<ExecutionProfile> profiles() const { return SupportedProfiles(*test_.model, kRowPrecisions); }

  Request TokensFrom(const ExecutionProfile& profile, TokenId first) const {
    Request request;
    request.profile = profile;
    for (int32_t i = 0; i < kRowPrompt; ++i) request.prompt.push_back((first + i * i) % (config().vocab_size - 3) + 3);
    request.stopping.max_tokens = 30;
    request.stopping.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(first);
    request.sampling.logprobs = 2;
    return request;
  }

  // The same with rows of the table in place of its tokens at the spans, each named by its token.
  Request WithRows(Request request, const Spans& spans) const {
    auto rows = std::make_shared<PromptRows>();
    rows->spans = spans;
    rows->columns = config().hidden_dim;
    const float scale = RoundedScale(config().embedding.scale, request.profile.precision);
    for (const PromptRows::Span& span : spans) {
      for (int32_t i = span.first; i < span.first + span.count; ++i) {
        TokenId& token = request.prompt[static_cast<size_t>(i)];
        const size_t first = static_cast<size_t>(token) * static_cast<size_t>(rows->columns);
        for (size_t k = first; k < first + static_cast<size_t>(rows->columns); ++k) {
          rows->values.push_back(kernels::Bf16ToFloat(table_[k]) * scale);
        }
        token += kFirstRowToken;
      }
    }
    request.rows = std::move(rows);
    return request;
  }

  // Of requests alone, with room for everything.
  Response Alone(const Request& request) {
    if (alone_ == nullptr) {
      EngineOptions options;
      options.prefix_cache = false;
      alone_ = std::make_unique<EngineClient>(test_.model.get(), options);
    }
    return alone_->Run(request);
  }

  TestModel test_;
  std::vector<uint16_t> table_;
  std::unique_ptr<EngineClient> alone_;
};

TEST_P(PromptRowsBits, AreThoseOfTheTokensInChunksOfAnySize) {
  ASSERT_TRUE(TakesRows(config(), 1));
  for (const int32_t step_tokens : {1, 7, 64}) {
    EngineOptions options;
    options.max_tokens_per_step = step_tokens;
    EngineClient client(test_.model.get(), options);
    EXPECT_EQ(client.engine().limits().row_columns, config().hidden_dim);
    for (const ExecutionProfile& profile : profiles()) {
      const Request tokens = TokensFrom(profile, 17);
      const Response expected = Alone(tokens);
      for (const Spans& spans : {kSomeRows, kAllRows}) {
        std::string why;
        EXPECT_TRUE(SameBits(client.Run(WithRows(tokens, spans)), expected, &why))
            << why << "; " << kernels::Name(profile.attention_backend) << " " << kernels::Name(profile.precision)
            << ", " << step_tokens << " tokens a step";
      }
      Request other = WithRows(tokens, kSomeRows);
      other.rows = WithRows(TokensFrom(profile, 18), kSomeRows).rows;
      other.bypass_prefix_cache = true;
      std::string why;
      EXPECT_FALSE(SameBits(client.Run(other), expected, &why)) << "the rows are not read";
    }
  }
}

// Several outputs of a request, beside requests without rows, in a pool that does not hold them.
TEST_P(PromptRowsBits, AreThoseOfTheTokensBesideNeighboursAndAfterPreemption) {
  constexpr int32_t kLongOutput = 90;
  EngineOptions options;
  options.max_tokens_per_step = 24;
  options.max_sequences = 6;
  options.max_context_tokens = kRowPrompt + kLongOutput;
  const int64_t most = KvGroupsOf(config()).MostPages(kRowPrompt + kLongOutput, 8, options.max_tokens_per_step);
  options.kv_memory_bytes = static_cast<size_t>(most * 3 / 2) * KvLayoutOf(config(), Precision::kFp32).page_bytes +
                            5 * StateBytesOf(config());
  std::vector<std::pair<Response, Request>> requests;
  for (const ExecutionProfile& profile : profiles()) {
    for (const TokenId first : {17, 40}) {
      Request tokens = TokensFrom(profile, first);
      tokens.stopping.max_tokens = kLongOutput;
      Request request = WithRows(tokens, first == 17 ? kSomeRows : kAllRows);
      for (int32_t output = 0; output < 3; ++output) {
        tokens.output_index = request.output_index = output;
        // Counted in the output alone.
        tokens.sampling.frequency_penalty = request.sampling.frequency_penalty = output == 1 ? 0.7F : 0.0F;
        requests.emplace_back(Alone(tokens), request);
        if (output == 2) requests.emplace_back(requests.back().first, tokens);
      }
    }
  }
  EngineClient client(test_.model.get(), options);
  const kernels::Device& device = *test_.device;
  const kernels::DeviceMemory before = device.ops->memory(device.context);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const auto& [expected, request] : requests) sinks.push_back(client.Submit(request));
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), requests[i].first, &why)) << i << ": " << why;
  }
  client.engine().Stop();
  EXPECT_GT(client.engine().stats().preemptions, 0U);
  EXPECT_EQ(client.engine().stats().pages_used, 0);
  EXPECT_EQ(device.ops->memory(device.context).allocations, before.allocations);
}

TEST_P(PromptRowsBits, AreFoundInThePrefixCacheByTheirIds) {
  EngineClient client(test_.model.get(), {});
  for (const ExecutionProfile& profile : profiles()) {
    const Request tokens = TokensFrom(profile, 17);
    const Request request = WithRows(tokens, kSomeRows);
    EXPECT_EQ(client.Run(request).finish.cached_tokens, 0);
    Request longer = request;
    longer.prompt.insert(longer.prompt.end(), {5, 6, 7});
    Request longer_tokens = tokens;
    longer_tokens.prompt.insert(longer_tokens.prompt.end(), {5, 6, 7});
    // Another row in the middle, from which on nothing is shared.
    Request other_tokens = tokens;
    other_tokens.prompt[20] = tokens.prompt[20] == 4 ? 5 : 4;
    const Request other = WithRows(other_tokens, kSomeRows);
    const Response again = client.Run(longer);
    const Response differs = client.Run(other);
    std::string why;
    EXPECT_GE(again.finish.cached_tokens, 48);
    EXPECT_TRUE(SameBits(again, Alone(longer_tokens), &why)) << why;
    EXPECT_LE(differs.finish.cached_tokens, 20);
    EXPECT_TRUE(SameBits(differs, Alone(other_tokens), &why)) << why;
    EXPECT_EQ(client.Run(tokens).finish.cached_tokens, 0) << "tokens are not their rows";
  }
}

// Families that see images, and those whose first layer reads more than an embedding or whose layers read tokens.
TEST(PromptRowsOfModels, AreTakenByMostFamilies) {
  std::string error;
  const auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {1, ""}, &error);
  const auto takes_rows = [&device](const char* name) {
    ModelSource source;
    source.path = GoldenModelPath(name);
    const absl::StatusOr<ModelSummary> summary = InspectModel(source, *device->ops);
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() && TakesRows(summary->config, 1);
  };
  for (const char* name : {"gemma3_tiny", "gemma4_tiny", "glm4v_tiny", "internvl_tiny", "kimi_k25_tiny", "lfm2_tiny",
                           "llama4_tiny", "ministral3_tiny", "mistral4_tiny", "qwen25_vl_tiny", "qwen3_vl_moe_tiny",
                           "qwen3_vl_tiny", "qwen35_tiny", "qwen35moe_tiny"}) {
    EXPECT_TRUE(takes_rows(name)) << name;
  }
  for (const char* name : {"bloom_tiny", "deepseek_v4_tiny", "gemma4_e_tiny", "gpt2_tiny", "muse_glimmer_tiny"}) {
    EXPECT_FALSE(takes_rows(name)) << name;
  }
}

TEST(PromptRowsOfModels, AreRefusedOfOneThatIsDivided) {
  ModelSource source;
  source.path = GoldenModelPath("llama_gqa");
  source.precisions = {Precision::kFp32};
  const RankedModel divided = LoadRankedModel(source, "", 2, 2);
  EngineClient client(divided.model.get(), {});
  EXPECT_EQ(client.engine().limits().row_columns, 0);
  Request request;
  request.prompt = {kFirstRowToken};
  request.rows = std::make_shared<PromptRows>();
  EXPECT_EQ(std::string(client.engine().Validate(request).message()),
            "prompt has images, which the model does not take");
}

// A plain decoder, one that scales its embeddings and has windows, one with states.
const auto kRowModels = ::testing::Values("llama_gqa", "gemma3_tiny", "qwen3next_tiny");
INSTANTIATE_TEST_SUITE_P(Cpu, PromptRowsBits, ::testing::Combine(::testing::ValuesIn(BestCpuPlace()), kRowModels),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Fake, PromptRowsBits, ::testing::Combine(::testing::ValuesIn(FakePlaces()), kRowModels),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Cuda, PromptRowsBits, ::testing::Combine(::testing::ValuesIn(CudaPlaces()), kRowModels),
                         PlacedModelName);

}  // namespace
}  // namespace dunlin::engine
