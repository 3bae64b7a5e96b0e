// SPDX-License-Identifier: Apache-2.0
// Requests with rows in place of embeddings: which are refused, with the whole message, and what an engine leaves out.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

RequestLimits LimitsOfRows() {
  RequestLimits limits;
  limits.vocab_size = 100;
  limits.row_columns = 3;
  limits.max_context_tokens = 64;
  limits.max_queued_tokens = 1000;
  limits.num_pages = 12;
  limits.tokens_per_page = {16, 16, 16, 16};
  return limits;
}

// Rows at 1, 2 and 4 of six tokens.
struct RowsRequest {
  Request request;
  PromptRows rows;

  RowsRequest() {
    request.prompt = {7, kFirstRowToken, kFirstRowToken + 1, 8, kFirstRowToken + 9, 99};
    rows.spans = {{1, 2}, {4, 1}};
    rows.columns = 3;
    rows.values.assign(9, 0.5F);
  }
  absl::Status Validate(const RequestLimits& limits = LimitsOfRows()) {
    request.rows = std::make_shared<const PromptRows>(rows);
    return ValidateRequest(request, limits);
  }
};

TEST(ValidatePromptRows, AcceptsRowsWhereRowTokensStand) {
  RowsRequest good;
  EXPECT_TRUE(good.Validate().ok()) << good.Validate();
  RowsRequest all;
  all.request.prompt.assign(63, std::numeric_limits<TokenId>::max());
  all.request.stopping.max_tokens = 1;
  all.rows.spans = {{0, 63}};
  all.rows.values.resize(63 * 3);
  EXPECT_TRUE(all.Validate().ok()) << all.Validate();
}

TEST(ValidatePromptRows, NamesWhatIsWrong) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const struct {
    std::function<void(RowsRequest*)> spoil;
    const char* message;
  } cases[] = {
      {[](RowsRequest* r) { r->request.sampling.prompt_logprobs = 0; },
       "prompt_logprobs cannot be given for a prompt with images"},
      {[](RowsRequest* r) { r->rows.columns = 2; }, "prompt has rows of 2 columns; limit is 3, the model's hidden_dim"},
      {[](RowsRequest* r) { r->rows.values.pop_back(); }, "prompt has 8 values of rows; limit is 3 rows of 3"},
      {[](RowsRequest* r) { r->rows.spans[0].first = -1; },
       "prompt has 2 rows at -1; limit is 1 or more at each place, in order, within [0, 6)"},
      {[](RowsRequest* r) {
         r->rows.spans[1] = {2, 1};
       },
       "prompt has 1 rows at 2; limit is 1 or more at each place, in order, within [3, 6)"},
      {[](RowsRequest* r) { r->rows.spans[1].count = 0; },
       "prompt has 0 rows at 4; limit is 1 or more at each place, in order, within [3, 6)"},
      {[](RowsRequest* r) {
         r->rows.spans[1] = {4, kMost};
       },
       "prompt has 2147483647 rows at 4; limit is 1 or more at each place, in order, within [3, 6)"},
      {[](RowsRequest* r) {
         r->rows.spans[1] = {kMost, 1};
       },
       "prompt has 1 rows at 2147483647; limit is 1 or more at each place, in order, within [3, 6)"},
      {[](RowsRequest* r) { r->request.prompt[2] = 5; }, "prompt[2] is 5 where the prompt has a row"},
      {[](RowsRequest* r) { r->request.prompt[0] = 100; }, "prompt[0] is 100; limit is [0, 100)"},
      {[](RowsRequest* r) { r->request.prompt[3] = kFirstRowToken; }, "prompt[3] is 1073741824; limit is [0, 100)"},
      {[](RowsRequest* r) { r->request.prompt[5] = -1; }, "prompt[5] is -1; limit is [0, 100)"},
  };
  for (const auto& each : cases) {
    RowsRequest bad;
    each.spoil(&bad);
    const absl::Status status = bad.Validate();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << each.message;
    EXPECT_EQ(std::string(status.message()), each.message);
  }
}

TEST(ValidatePromptRows, RefusesRowsWhereTheModelTakesNone) {
  RequestLimits limits = LimitsOfRows();
  limits.row_columns = 0;
  RowsRequest request;
  EXPECT_EQ(std::string(request.Validate(limits).message()), "prompt has images, which the model does not take");
}

TEST(ValidatePromptRows, TakesColumnsOfImagesWhereTheModelRotatesByThemAndThereAlone) {
  RequestLimits limits = LimitsOfRows();
  RowsRequest request;
  request.rows.spans[0].image_columns = 2;
  EXPECT_EQ(std::string(request.Validate(limits).message()),
            "prompt has an image of 2 columns at 1; limit is 0 columns: the model has no positions by row and column");
  limits.image_columns = true;
  EXPECT_EQ(std::string(request.Validate(limits).message()),
            "prompt has an image of 0 columns at 4; limit is a divisor of its 1 rows");
  request.rows.spans[1].image_columns = 1;
  EXPECT_TRUE(request.Validate(limits).ok()) << request.Validate(limits);
  request.rows.spans[0].image_columns = 1;
  EXPECT_TRUE(request.Validate(limits).ok()) << request.Validate(limits);
  for (const int32_t columns : {3, 4, -1, -2, std::numeric_limits<int32_t>::min()}) {
    request.rows.spans[0].image_columns = columns;
    EXPECT_EQ(std::string(request.Validate(limits).message()),
              absl::StrCat("prompt has an image of ", columns, " columns at 1; limit is a divisor of its 2 rows"));
  }
}

TEST(ValidatePromptRows, RefusesRowTokensWithoutRows) {
  RowsRequest request;
  EXPECT_EQ(std::string(ValidateRequest(request.request, LimitsOfRows()).message()),
            "prompt[1] is 1073741824; limit is [0, 100)");
}

// Of three tokens, so that an output repeats itself and guesses are found in it.
TEST(EnginePromptRows, AreInNoTextThatIsGuessedFrom) {
  EngineSetup setup;
  setup.options.max_drafts = 4;
  setup.options.adapt_drafts = false;
  setup.runtime.vocab_size = 3;
  EngineHarness harness(setup);
  Request plain;
  plain.prompt = {1, 2, 0, 1, 2, 0};
  plain.stopping.max_tokens = 60;
  plain.stopping.ignore_eos = true;
  EngineClient guessed = harness.Submit(plain);
  EXPECT_EQ(guessed.reason(), FinishReason::kLength);
  EXPECT_GT(guessed.sink->info.drafted_tokens, 0);

  PromptRows rows;
  rows.spans = {{2, 3}};
  rows.columns = 2;
  rows.values.resize(6);
  Request request = plain;
  for (size_t i = 2; i < 5; ++i) request.prompt[i] = kFirstRowToken + static_cast<TokenId>(i);
  request.rows = std::make_shared<const PromptRows>(rows);
  request.max_drafts = 8;
  ASSERT_TRUE(harness.engine->Validate(request).ok()) << harness.engine->Validate(request);
  EngineClient client = harness.Submit(request);
  EXPECT_EQ(client.reason(), FinishReason::kLength);
  EXPECT_EQ(client.sink->tokens, simulation::RunAlone(request, {kEos}, {.vocab_size = 3}).tokens);
  EXPECT_EQ(client.sink->info.drafted_tokens, 0);
}

}  // namespace
}  // namespace dunlin::engine
