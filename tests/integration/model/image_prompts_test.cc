// SPDX-License-Identifier: Apache-2.0
// Prompts with images of models that rotate by row and column, against tests/golden/models/image_prompts.json:
// positions, logits, greedy continuations, and that chunks, neighbours, cached prefixes and preemptions change no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/request/image_positions.h"
#include "engine/runtime/kv_demand.h"
#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kImageTolerance = 1e-4F;
constexpr float kLeastGap = 1e-3F;
const std::vector<Precision> kImagePrecisions = {Precision::kFp32, Precision::kBf16};

struct ImagePrompt {
  std::vector<TokenId> tokens;
  std::shared_ptr<const PromptRows> rows;
  GoldenPrompt golden;
};

nlohmann::json ReadImagePrompts() {
  std::ifstream file(SourcePath("tests/golden/models/image_prompts.json"));
  return nlohmann::json::parse(file);
}

std::vector<PromptRows::Span> SpansOf(const nlohmann::json& images) {
  std::vector<PromptRows::Span> spans;
  for (const nlohmann::json& image : images) {
    const auto [first, height, width] = image.get<std::array<int32_t, 3>>();
    spans.push_back({.first = first, .count = height * width, .image_columns = width});
  }
  return spans;
}

// Ids of rows are `id` and up.
ImagePrompt PromptOf(const nlohmann::json& item, TokenId id) {
  ImagePrompt prompt;
  item.at("tokens").get_to(prompt.tokens);
  PromptRows rows;
  rows.spans = SpansOf(item.at("images"));
  size_t num_rows = 0;
  for (TokenId& token : prompt.tokens) {
    if (token < 0) token = kFirstRowToken + id + static_cast<TokenId>(num_rows++);
  }
  for (const nlohmann::json& value : item.at("rows")) rows.values.push_back(value.get<float>() / 64.0F);
  rows.columns = static_cast<int32_t>(rows.values.size() / num_rows);
  prompt.rows = std::make_shared<const PromptRows>(std::move(rows));
  item.at("greedy_tokens").get_to(prompt.golden.greedy_tokens);
  item.at("greedy_gaps").get_to(prompt.golden.greedy_gaps);
  for (const nlohmann::json& row : item.at("logits")) {
    prompt.golden.logits.push_back({row.at("position").get<int32_t>(), row.at("values").get<std::vector<float>>()});
  }
  return prompt;
}

std::vector<ImagePrompt> PromptsOf(const std::string& model) {
  std::vector<ImagePrompt> prompts;
  const nlohmann::json file = ReadImagePrompts();
  for (const nlohmann::json& item : file.at("prompts")) {
    if (item.at("model") == model) prompts.push_back(PromptOf(item, 1000 * static_cast<TokenId>(prompts.size())));
  }
  return prompts;
}

// By sequence, row and column, of the token with this index.
std::array<int32_t, 3> PositionsAt(const PromptRows& rows, int32_t index) {
  for (const PromptRows::Span& span : rows.spans) {
    const int32_t in_image = index - span.first;
    if (in_image < 0 || in_image >= span.count) continue;
    const int32_t first = span.first - PositionShift(rows, index);
    return {first, first + in_image / span.image_columns, first + in_image % span.image_columns};
  }
  const int32_t position = index - PositionShift(rows, index);
  return {position, position, position};
}

TEST(ImagePositions, AreThoseOfTransformers) {
  const nlohmann::json file = ReadImagePrompts();
  size_t num_compared = 0;
  for (const char* list : {"prompts", "plans"}) {
    for (const nlohmann::json& item : file.at(list)) {
      PromptRows rows;
      rows.spans = SpansOf(item.at("images"));
      const auto expected = item.at("positions").get<std::array<std::vector<int32_t>, 3>>();
      for (size_t i = 0; i < expected[0].size(); ++i, ++num_compared) {
        const std::array<int32_t, 3> at_index = {expected[0][i], expected[1][i], expected[2][i]};
        ASSERT_EQ(PositionsAt(rows, static_cast<int32_t>(i)), at_index) << item.at("images") << " at " << i;
      }
    }
  }
  EXPECT_GT(num_compared, 1000U);
}

class ImagePrompts : public ::testing::TestWithParam<std::tuple<Place, std::string>> {
 protected:
  void SetUp() override {
    const auto& [place, name] = GetParam();
    const std::string path = GoldenModelPath(name);
    std::string reason;
    auto device = OpenPlace(place, 2, &reason);
    if (device == nullptr || !Serves(*device, path, &reason)) GTEST_SKIP() << reason;
    test_ = LoadTestModel(path, std::move(device), kImagePrecisions);
    prompts_ = PromptsOf(name);
    texts_ = ReadGoldens(path);
    ASSERT_EQ(prompts_.size(), 4U);
  }

  const ModelConfig& config() const { return test_.model->config(); }
  std::vector<ExecutionProfile> profiles() const { return SupportedProfiles(*test_.model, kImagePrecisions); }

  static Request RequestOf(const ImagePrompt& prompt, const ExecutionProfile& profile) {
    Request request;
    request.prompt = prompt.tokens;
    request.rows = prompt.rows;
    request.profile = profile;
    request.sampling.temperature = 0.0F;
    request.sampling.logprobs = 2;
    request.stopping.max_tokens = static_cast<int32_t>(prompt.golden.greedy_tokens.size());
    request.stopping.ignore_eos = true;
    return request;
  }

  // Of a request alone in one chunk, with room for everything.
  Response Alone(const Request& request) {
    if (alone_ == nullptr) {
      EngineOptions options;
      options.prefix_cache = false;
      alone_ = std::make_unique<EngineClient>(test_.model.get(), options);
    }
    return alone_->Run(request);
  }

  // The largest error of a prompt's logits, in chunks.
  float ErrorOf(const ExecutionProfile& profile, const std::vector<TokenId>& tokens, const PromptRows* rows,
                const std::vector<GoldenLogits>& golden, int32_t chunk_size) const {
    DirectRunOptions options;
    options.rows = rows;
    DirectRun run(test_.model.get(), profile, static_cast<int32_t>(tokens.size()) + 8, options);
    const auto logits = run.Logits(tokens, chunk_size);
    float worst = 0.0F;
    for (const GoldenLogits& row : golden) {
      worst = std::max(worst, LargestError(logits[static_cast<size_t>(row.position)], row.values));
    }
    return worst;
  }

  TestModel test_;
  std::vector<ImagePrompt> prompts_;
  std::vector<GoldenPrompt> texts_;
  std::unique_ptr<EngineClient> alone_;
};

// In BF16 as close as texts are, twice over.
TEST_P(ImagePrompts, HaveTheLogitsOfTransformers) {
  for (const ExecutionProfile& profile : profiles()) {
    float allowed = kImageTolerance;
    if (profile.precision == Precision::kBf16) {
      for (const GoldenPrompt& text : texts_) {
        allowed = std::max(allowed, 2.0F * ErrorOf(profile, text.tokens, nullptr, text.logits, 1 << 20));
      }
    }
    float worst = 0.0F;
    for (const ImagePrompt& prompt : prompts_) {
      for (const int32_t chunk_size : {1 << 20, 13, 1}) {
        const int32_t chunk = std::min(chunk_size, static_cast<int32_t>(prompt.tokens.size()));
        const float error = ErrorOf(profile, prompt.tokens, prompt.rows.get(), prompt.golden.logits, chunk);
        EXPECT_LE(error, allowed) << kernels::Name(profile.attention_backend) << " " << kernels::Name(profile.precision)
                                  << " in chunks of " << chunk;
        worst = std::max(worst, error);
      }
    }
    std::printf("%s %s: largest error %g, allowed %g\n", kernels::Name(profile.attention_backend),
                kernels::Name(profile.precision), static_cast<double>(worst), static_cast<double>(allowed));
  }
}

TEST_P(ImagePrompts, GoOnAsTransformersDoes) {
  EngineClient client(test_.model.get(), {});
  EXPECT_TRUE(client.engine().limits().image_columns);
  for (const ExecutionProfile& profile : profiles()) {
    if (profile.precision != Precision::kFp32) continue;
    for (const ImagePrompt& prompt : prompts_) {
      const float least_gap = *std::min_element(prompt.golden.greedy_gaps.begin(), prompt.golden.greedy_gaps.end());
      ASSERT_GE(least_gap, kLeastGap);
      const Request request = RequestOf(prompt, profile);
      EXPECT_EQ(TokenIds(client.Run(request)), prompt.golden.greedy_tokens) << prompt.tokens.size() << " tokens";
      const Response again = client.Run(request);
      EXPECT_EQ(TokenIds(again), prompt.golden.greedy_tokens);
      EXPECT_GT(again.finish.cached_tokens, 0);
    }
  }
}

TEST_P(ImagePrompts, HaveTheSameBitsInChunksOfAnySize) {
  for (const int32_t step_tokens : {1, 7, 13}) {
    EngineOptions options;
    options.max_tokens_per_step = step_tokens;
    EngineClient client(test_.model.get(), options);
    for (const ExecutionProfile& profile : profiles()) {
      for (const ImagePrompt& prompt : prompts_) {
        const Request request = RequestOf(prompt, profile);
        std::string why;
        EXPECT_TRUE(SameBits(client.Run(request), Alone(request), &why))
            << why << "; " << kernels::Name(profile.precision) << ", " << step_tokens << " tokens a step";
      }
    }
  }
}

TEST_P(ImagePrompts, HaveTheSameBitsBesideNeighboursAndAfterPreemption) {
  EngineOptions options;
  options.max_tokens_per_step = 24;
  options.max_sequences = 6;
  const int64_t most = KvGroupsOf(config()).MostPages(config().max_context, 8, options.max_tokens_per_step);
  options.kv_memory_bytes =
      static_cast<size_t>(most) * KvLayoutOf(config(), Precision::kFp32).page_bytes + 6 * StateBytesOf(config());
  std::vector<Request> requests;
  for (const ExecutionProfile& profile : profiles()) {
    for (const ImagePrompt& prompt : prompts_) requests.push_back(RequestOf(prompt, profile));
    Request text = requests.back();
    text.prompt = texts_.back().tokens;
    text.rows = nullptr;
    requests.push_back(text);
  }
  for (Request& request : requests) {
    request.stopping.max_tokens = config().max_context - static_cast<int32_t>(request.prompt.size());
  }
  EngineClient client(test_.model.get(), options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : requests) sinks.push_back(client.Submit(request));
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), Alone(requests[i]), &why)) << i << ": " << why;
  }
  client.engine().Stop();
  EXPECT_GT(client.engine().stats().preemptions, 0U);
  EXPECT_EQ(client.engine().stats().pages_used, 0);
}

// A text after a prompt that is in the cache, images and all: its positions go on from the images'.
TEST_P(ImagePrompts, HaveTheSameBitsAfterACachedPrefix) {
  EngineClient client(test_.model.get(), {});
  for (const ExecutionProfile& profile : profiles()) {
    const Request request = RequestOf(prompts_.back(), profile);
    client.Run(request);
    Request longer = request;
    longer.prompt.insert(longer.prompt.end(), {5, 6, 7, 8, 9});
    longer.stopping.max_tokens = 9;
    const Response cached = client.Run(longer);
    std::string why;
    EXPECT_GE(cached.finish.cached_tokens, 64);
    EXPECT_TRUE(SameBits(cached, Alone(longer), &why)) << why;
    // The same rows as an image of another shape are another image.
    Request turned = request;
    auto rows = std::make_shared<PromptRows>(*request.rows);
    rows->spans.front().image_columns = 1;
    turned.rows = std::move(rows);
    turned.bypass_prefix_cache = true;
    EXPECT_FALSE(SameBits(client.Run(turned), Alone(request), &why)) << "columns are not read";
  }
}

const auto kImageModels = ::testing::Values("qwen25_vl_tiny", "qwen3_vl_tiny", "qwen35_tiny");
INSTANTIATE_TEST_SUITE_P(Cpu, ImagePrompts, ::testing::Combine(::testing::ValuesIn(BestCpuPlace()), kImageModels),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Fake, ImagePrompts, ::testing::Combine(::testing::ValuesIn(FakePlaces()), kImageModels),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Cuda, ImagePrompts, ::testing::Combine(::testing::ValuesIn(CudaPlaces()), kImageModels),
                         PlacedModelName);

}  // namespace
}  // namespace dunlin::engine
