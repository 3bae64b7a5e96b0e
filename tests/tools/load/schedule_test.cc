// SPDX-License-Identifier: Apache-2.0
// Arrivals, mixes and datasets: what is sent, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tools/load/arrivals.h"
#include "tools/load/dataset.h"
#include "tools/load/mix.h"

namespace dunlin::tools::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Take(Arrivals arrivals, size_t count) {
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i) times.push_back(arrivals.Next());
  return times;
}

TEST(Arrivals, ConstantGapsAreOneOverTheRate) {
  EXPECT_THAT(Take(Arrivals(ArrivalKind::kConstant, 4, 1, 0), 4), ElementsAre(0, 0.25, 0.5, 0.75));
}

TEST(Arrivals, BurstsComeTogetherAtTheSameRateOnAverage) {
  EXPECT_THAT(Take(Arrivals(ArrivalKind::kBurst, 2, 3, 0), 7), ElementsAre(0, 0, 0, 1.5, 1.5, 1.5, 3));
}

TEST(Arrivals, PoissonGapsHaveTheMeanAndDeviationOfTheirRate) {
  const std::vector<double> times = Take(Arrivals(ArrivalKind::kPoisson, 50, 1, 3), 100000);
  double squares = 0;
  double last = 0;
  int64_t longer_than_mean = 0;
  for (const double time : times) {
    ASSERT_GE(time, last);
    squares += (time - last) * (time - last);
    longer_than_mean += time - last > 0.02 ? 1 : 0;
    last = time;
  }
  EXPECT_NEAR(times.back() / 100000, 0.02, 0.0003);
  EXPECT_NEAR(squares / 100000, 2 * 0.02 * 0.02, 3e-5) << "the second moment of an exponential is 2 / rate^2";
  EXPECT_NEAR(static_cast<double>(longer_than_mean) / 100000, std::exp(-1), 0.006);
}

TEST(Arrivals, SameSeedGivesTheSameSchedule) {
  EXPECT_EQ(Take(Arrivals(ArrivalKind::kPoisson, 10, 1, 5), 50), Take(Arrivals(ArrivalKind::kPoisson, 10, 1, 5), 50));
  EXPECT_NE(Take(Arrivals(ArrivalKind::kPoisson, 10, 1, 5), 50), Take(Arrivals(ArrivalKind::kPoisson, 10, 1, 6), 50));
}

TEST(Mix, EntriesAreSpreadEvenlyByWeight) {
  const auto mix = ParseMix("flash:bf16=3,math:fp32");
  ASSERT_TRUE(mix.ok()) << mix.status();
  EXPECT_EQ((*mix)[0].attention_backend, v1::ATTENTION_BACKEND_FLASH);
  EXPECT_EQ((*mix)[1].precision, v1::PRECISION_FP32);
  MixPicker picker(*mix);
  std::vector<size_t> order;
  for (int i = 0; i < 8; ++i) order.push_back(picker.Next());
  EXPECT_THAT(order, ElementsAre(0, 0, 1, 0, 0, 0, 1, 0));
}

TEST(Mix, ErrorsNameTheBadEntry) {
  for (const char* text :
       {"flash", "flash:bf16=0", "flash:bf16=x", "swift:bf16", "flash:int3", "flash:bf16=1=2", ","}) {
    const auto mix = ParseMix(text);
    ASSERT_FALSE(mix.ok()) << text;
    EXPECT_THAT(std::string(mix.status().message()), HasSubstr("--mix")) << text;
  }
  ASSERT_TRUE(ParseMix("").ok());
  EXPECT_EQ(ParseMix("")->size(), 1U);
}

class TempFile {
 public:
  explicit TempFile(const std::string& text) : path_("/tmp/dunlin_load_" + std::to_string(getpid())) {
    std::ofstream(path_) << text;
  }
  ~TempFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Dataset, RandomPromptsKeepTheirLengthsAndTheVocabulary) {
  DatasetOptions options;
  options.input_tokens = 40;
  options.output_tokens = 10;
  options.range_ratio = 0.5;
  options.vocab_size = 100;
  const auto dataset = OpenDataset(options);
  ASSERT_TRUE(dataset.ok());
  size_t shortest = 1000;
  size_t longest = 0;
  for (int i = 0; i < 500; ++i) {
    const Prompt prompt = (*dataset)->Next();
    shortest = std::min(shortest, prompt.token_ids.size());
    longest = std::max(longest, prompt.token_ids.size());
    EXPECT_GE(prompt.max_tokens, 5);
    EXPECT_LE(prompt.max_tokens, 15);
    for (const int32_t id : prompt.token_ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, 100);
    }
  }
  EXPECT_EQ(shortest, 20U);
  EXPECT_EQ(longest, 60U);
}

TEST(Dataset, SameSeedGivesTheSameRequests) {
  DatasetOptions options;
  const auto first = OpenDataset(options);
  const auto second = OpenDataset(options);
  options.seed = 1;
  const auto other = OpenDataset(options);
  const Prompt prompt = (*first)->Next();
  EXPECT_EQ(prompt.token_ids, (*second)->Next().token_ids);
  EXPECT_NE(prompt.token_ids, (*other)->Next().token_ids);
  EXPECT_NE(prompt.token_ids, (*first)->Next().token_ids);
}

TEST(Dataset, SharesPrefixesButNotTheRest) {
  DatasetOptions options;
  options.kind = DatasetKind::kSharedPrefix;
  options.form = PromptForm::kWords;
  options.prefix_tokens = 20;
  options.input_tokens = 5;
  const auto dataset = OpenDataset(options);
  const std::string one = (*dataset)->Next().text;
  const std::string two = (*dataset)->Next().text;
  EXPECT_EQ(one.size(), 25 * 3 - 1U) << "words of two letters";
  EXPECT_EQ(one.substr(0, 20 * 3), two.substr(0, 20 * 3));
  EXPECT_NE(one, two);
}

TEST(Dataset, RepeatsAPhraseOfEachPromptsOwn) {
  DatasetOptions options;
  options.kind = DatasetKind::kRepeated;
  options.input_tokens = 50;
  options.prefix_tokens = 8;
  const auto dataset = OpenDataset(options);
  const std::vector<int32_t> ids = (*dataset)->Next().token_ids;
  ASSERT_EQ(ids.size(), 50U);
  for (size_t i = 8; i < ids.size(); ++i) EXPECT_EQ(ids[i], ids[i - 8]);
  EXPECT_NE((*dataset)->Next().token_ids, ids);
  options.form = PromptForm::kWords;
  options.prefix_tokens = 100;  // more than a quarter of the prompt
  const std::string text = (*OpenDataset(options))->Next().text;
  ASSERT_EQ(text.size(), 50 * 3 - 1U) << "words of two letters";
  EXPECT_EQ(text.substr(0, 12 * 3), text.substr(12 * 3, 12 * 3));
  EXPECT_NE(text.substr(0, 2), text.substr(3, 2));
}

TEST(Dataset, ShareGptTakesFirstTurnsThatPassTheFilters) {
  const std::string long_text(5000, 'x');  // 1250 tokens
  const TempFile file(R"([{"conversations": [{"from": "human", "value": "How far do dunlins fly?"},
                                             {"from": "gpt", "value": "Thousands of kilometres each year."}]},
                          {"conversations": [{"from": "human", "value": "Only one turn, so it is left out"}]},
                          {"conversations": [{"value": "Hi"}, {"value": "too short a question, this one"}]},
                          {"conversations": [{"value": ")" +
                      long_text + R"("}, {"value": "too long a question"}]},
                          7])");
  DatasetOptions options;
  options.kind = DatasetKind::kShareGpt;
  options.path = file.path();
  const auto dataset = OpenDataset(options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (int i = 0; i < 3; ++i) {
    const Prompt prompt = (*dataset)->Next();
    EXPECT_EQ(prompt.text, "How far do dunlins fly?");
    EXPECT_EQ(prompt.max_tokens, 34 / 4);
  }
}

TEST(Dataset, JsonlTakesTextTokensAndLengths) {
  const TempFile file("{\"prompt\": \"a\", \"max_tokens\": 3}\n\n{\"token_ids\": [4, 5]}\n");
  DatasetOptions options;
  options.kind = DatasetKind::kJsonl;
  options.path = file.path();
  options.output_tokens = 9;
  const auto dataset = OpenDataset(options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (int i = 0; i < 4; ++i) {
    const Prompt prompt = (*dataset)->Next();
    if (prompt.text.empty()) {
      EXPECT_THAT(prompt.token_ids, ElementsAre(4, 5));
      EXPECT_EQ(prompt.max_tokens, 9);
    } else {
      EXPECT_EQ(prompt.max_tokens, 3);
    }
  }
}

TEST(Dataset, ErrorsNameTheLineOfABadFile) {
  DatasetOptions options;
  options.kind = DatasetKind::kJsonl;
  options.path = "/nonexistent/file";
  EXPECT_EQ(OpenDataset(options).status().code(), absl::StatusCode::kNotFound);
  for (const char* line :
       {"[]", "{\"prompt\": 5}", "{\"prompt\": \"a\", \"max_tokens\": 0}", "{\"token_ids\": [\"a\"]}"}) {
    const TempFile file(std::string("{\"prompt\": \"good\"}\n") + line + "\n");
    options.path = file.path();
    const auto dataset = OpenDataset(options);
    ASSERT_FALSE(dataset.ok()) << line;
    EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("line 2")) << line;
  }
}

}  // namespace
}  // namespace dunlin::tools::load
