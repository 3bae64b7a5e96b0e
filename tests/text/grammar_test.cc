// SPDX-License-Identifier: Apache-2.0
// Grammars over the demo model's tokens. Random walks through the masks of every schema of tests/golden/grammar stand
// for a model: what they finish is validated by Python's jsonschema.
#include "text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kVocab = 4100;  // wider than the vocabulary
constexpr size_t kWords = (kVocab + 31) / 32;
constexpr int kFinished = 1000;
constexpr int kMaxTokens = 300;
constexpr char kGoldens[] = DUNLIN_SOURCE_DIR "/tests/golden/grammar";

bool Has(const std::vector<uint32_t>& mask, engine::TokenId id) {
  const auto at = static_cast<size_t>(id);
  return (mask[at / 32] >> (at % 32) & 1U) != 0;
}

class GrammarTest : public testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::Load(DUNLIN_SOURCE_DIR "/models/demo", 4096);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    eos_ = *tokenizer_->eos_token_id();
    const std::vector<engine::TokenId> eos = {eos_};
    auto compiler = GrammarCompiler::Create(*tokenizer_, eos, kVocab);
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
    std::ifstream file(absl::StrCat(kGoldens, "/schemas.json"));
    cases_ = Json::parse(file);
  }

  std::shared_ptr<const engine::TokenConstraint> Compile(GrammarKind kind, const std::string& text) const {
    auto constraint = compiler_->Compile({kind, text, {}});
    EXPECT_TRUE(constraint.ok()) << constraint.status() << "\n" << text;
    return constraint.ok() ? *constraint : nullptr;
  }

  // What the mask allows; each end of a text exactly where the state accepts.
  std::vector<uint32_t> Mask(engine::ConstraintState* state) const {
    std::vector<uint32_t> mask(kWords, ~0U);
    EXPECT_TRUE(state->FillMask(std::span(mask)).ok());
    EXPECT_EQ(Has(mask, eos_), state->is_accepting());
    return mask;
  }

  // Whether every token of the text is in its mask and the text may end behind it.
  bool Takes(const engine::TokenConstraint& constraint, const std::string& text) const {
    const std::unique_ptr<engine::ConstraintState> state = constraint.Start();
    const auto ids = tokenizer_->Encode(text, {.add_special_tokens = false});
    EXPECT_TRUE(ids.ok()) << ids.status();
    for (const engine::TokenId id : *ids) {
      if (!Has(Mask(state.get()), id)) return false;
      EXPECT_TRUE(state->Accept(id).ok());
    }
    return state->is_accepting();
  }

  // Draws among the allowed tokens, and more and more often those that close something. nullopt: kMaxTokens.
  std::optional<std::string> Walk(const engine::TokenConstraint& constraint, std::mt19937* random) const {
    const std::unique_ptr<engine::ConstraintState> state = constraint.Start();
    std::vector<engine::TokenId> output;
    while (output.size() < kMaxTokens) {
      const std::vector<uint32_t> mask = Mask(state.get());
      std::vector<engine::TokenId> allowed;
      std::vector<engine::TokenId> closing;
      for (engine::TokenId id = 0; id < kVocab; ++id) {
        if (id == eos_ || !Has(mask, id)) continue;
        allowed.push_back(id);
        if (tokenizer_->TokenText(id)->find_first_of("\"]}") != std::string::npos) closing.push_back(id);
      }
      const auto urge = static_cast<unsigned>(output.size());
      const bool may_end = state->is_accepting();
      if (may_end && (allowed.empty() || (*random)() % 4 == 0)) return *tokenizer_->Decode(output);
      EXPECT_FALSE(allowed.empty()) << *tokenizer_->Decode(output);
      if (allowed.empty()) return std::nullopt;
      const std::vector<engine::TokenId>& from = !closing.empty() && (*random)() % 60 < urge ? closing : allowed;
      output.push_back(from[(*random)() % from.size()]);
      EXPECT_TRUE(state->Accept(output.back()).ok()) << output.back();
    }
    return std::nullopt;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarCompiler> compiler_;
  engine::TokenId eos_ = 0;
  Json cases_;
};

TEST_F(GrammarTest, TakesValidInstancesAndNoOthers) {
  ASSERT_GE(cases_.size(), 40U);
  for (const Json& example : cases_) {
    const std::string schema = example["schema"].dump();
    const auto constraint = Compile(GrammarKind::kJsonSchema, schema);
    if (constraint == nullptr) continue;
    for (const Json& text : example["valid"]) EXPECT_TRUE(Takes(*constraint, text)) << schema << " " << text;
    for (const Json& text : example["invalid"]) EXPECT_FALSE(Takes(*constraint, text)) << schema << " " << text;
  }
}

TEST_F(GrammarTest, ThousandRandomOutputsValidateByJsonschema) {
  std::vector<std::shared_ptr<const engine::TokenConstraint>> constraints;
  for (const Json& example : cases_) {
    constraints.push_back(Compile(GrammarKind::kJsonSchema, example["schema"].dump()));
    ASSERT_NE(constraints.back(), nullptr);
  }
  const std::string path = absl::StrCat(testing::TempDir(), "/grammar_outputs.jsonl");
  std::ofstream outputs(path);
  std::map<size_t, int> finished;
  int total = 0;
  for (unsigned seed = 0; seed < 4 * kFinished && total < kFinished; ++seed) {
    const size_t index = seed % constraints.size();
    std::mt19937 random(seed);
    const std::optional<std::string> text = Walk(*constraints[index], &random);
    if (!text.has_value()) continue;
    outputs << Json({{"schema", index}, {"text", *text}}).dump() << "\n";
    ++finished[index];
    ++total;
  }
  outputs.close();
  EXPECT_EQ(total, kFinished);
  EXPECT_EQ(finished.size(), constraints.size()) << "a schema of which no walk ends";
  const std::string command =
      absl::StrCat("python3 -W ignore ", kGoldens, "/validate_outputs.py ", kGoldens, "/schemas.json ", path);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST_F(GrammarTest, JsonObjectsAreObjects) {
  const auto constraint = Compile(GrammarKind::kJsonObject, "");
  ASSERT_NE(constraint, nullptr);
  EXPECT_TRUE(Takes(*constraint, R"({"a": [1, null, {"b": "c"}]})"));
  EXPECT_TRUE(Takes(*constraint, "{}"));
  for (const char* text : {"[]", "1", "{\"a\":1}", "{ }", "{} "}) EXPECT_FALSE(Takes(*constraint, text)) << text;
}

TEST_F(GrammarTest, SameSeedSameWalkWhateverOthersDo) {
  const auto constraint = Compile(GrammarKind::kJsonObject, "");
  std::mt19937 alone(7);
  const auto expected = Walk(*constraint, &alone);
  std::vector<std::optional<std::string>> walks(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < walks.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 other(static_cast<unsigned>(i));
      if (i != 0) Walk(*constraint, &other);
      std::mt19937 random(7);
      walks[i] = Walk(*constraint, &random);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& walk : walks) EXPECT_EQ(walk, expected);
}

TEST_F(GrammarTest, StateOutlivesGrammarAndCompiler) {
  std::unique_ptr<engine::ConstraintState> state = Compile(GrammarKind::kRegex, "ab?")->Start();
  compiler_.reset();
  const engine::TokenId a = tokenizer_->Encode("a", {.add_special_tokens = false})->front();
  EXPECT_FALSE(state->is_accepting());
  EXPECT_TRUE(Has(Mask(state.get()), a));
  EXPECT_TRUE(state->Accept(a).ok());
  EXPECT_TRUE(state->is_accepting());
  EXPECT_EQ(state->Accept(a).code(), absl::StatusCode::kInvalidArgument) << "not in the mask";
  std::vector<uint32_t> mask(kWords);
  EXPECT_EQ(state->FillMask(std::span(mask)).code(), absl::StatusCode::kResourceExhausted) << "unusable";
}

// Copies go other ways, some to where nothing goes on; masks stay those of a state without copies.
TEST_F(GrammarTest, ACopyOfAStateGoesOnByItself) {
  const auto constraint = Compile(GrammarKind::kJsonSchema, R"({"type": "object", "properties": {
      "name": {"type": "string", "pattern": "[a-z]{1,9}"}, "ages": {"type": "array", "items": {"type": "integer"}}},
      "required": ["name", "ages"], "additionalProperties": false})");
  const auto ids = tokenizer_->Encode(R"({"name": "linda", "ages": [1, 23, -456]})", {.add_special_tokens = false});
  ASSERT_TRUE(ids.ok());
  const std::unique_ptr<engine::ConstraintState> state = constraint->Start();
  const std::unique_ptr<engine::ConstraintState> alone = constraint->Start();
  std::mt19937 random(3);
  for (const engine::TokenId id : *ids) {
    const std::unique_ptr<engine::ConstraintState> copy = state->Clone();
    EXPECT_EQ(copy->is_accepting(), state->is_accepting());
    for (int i = 0; i < 6; ++i) {
      const std::vector<uint32_t> mask = Mask(copy.get());
      std::vector<engine::TokenId> allowed;
      for (engine::TokenId next = 0; next < kVocab; ++next) {
        if (next != eos_ && Has(mask, next)) allowed.push_back(next);
      }
      if (allowed.empty()) break;
      ASSERT_TRUE(copy->Accept(allowed[random() % allowed.size()]).ok());
    }
    EXPECT_FALSE(copy->Accept(eos_).ok());
    EXPECT_EQ(Mask(state.get()), Mask(alone.get()));
    ASSERT_TRUE(state->Accept(id).ok() && alone->Accept(id).ok());
  }
  EXPECT_TRUE(state->is_accepting());
}

TEST_F(GrammarTest, CompleteMatchLeavesOnlyTheEndOfTheText) {
  const std::vector<engine::TokenId> eos = {eos_, 5, 4099};
  const auto compiler = GrammarCompiler::Create(*tokenizer_, eos, kVocab);
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto constraint = (*compiler)->Compile({GrammarKind::kChoice, "", {"a"}});
  ASSERT_TRUE(constraint.ok()) << constraint.status();
  const std::unique_ptr<engine::ConstraintState> state = (*constraint)->Start();
  for (const engine::TokenId id : eos) EXPECT_FALSE(Has(Mask(state.get()), id)) << id;
  ASSERT_TRUE(state->Accept(tokenizer_->Encode("a", {.add_special_tokens = false})->front()).ok());
  const std::vector<uint32_t> mask = Mask(state.get());
  for (engine::TokenId id = 0; id < kVocab; ++id) EXPECT_EQ(Has(mask, id), id == eos_ || id == 5 || id == 4099) << id;
}

TEST_F(GrammarTest, RefusalsSayWhichKind) {
  const auto code = [this](const GrammarSource& source) { return compiler_->Compile(source).status().code(); };
  EXPECT_EQ(code({GrammarKind::kJsonSchema, "{", {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({GrammarKind::kJsonSchema, R"({"not": {}})", {}}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code({GrammarKind::kRegex, "^a", {}}), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code({GrammarKind::kRegex, std::string(kMaxRegexBytes + 1, 'a'), {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({GrammarKind::kGrammar, std::string(kMaxGrammarBytes + 1, 'a'), {}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({GrammarKind::kChoice, "", {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({GrammarKind::kJsonSchema, R"({"type": "array", "maxItems": 100000})", {}}),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(GrammarCompiler::Create(*tokenizer_, {}, 0).ok());
}

GrammarSource Part(GrammarKind kind, const std::string& text, std::vector<std::string> choices = {}) {
  return {kind, text, std::move(choices)};
}

GrammarSource Composed(const std::string& lark, std::vector<GrammarSource> parts) {
  GrammarSource source = {GrammarKind::kComposed, lark, {}};
  source.parts = std::move(parts);
  return source;
}

TEST_F(GrammarTest, ComposedTakesWhatItsPartsTakeWhereTheyStand) {
  const auto constraint = compiler_->Compile(
      Composed("start: \"a:\" @part_0 \" b:\" @part_1 (\", \" @part_2)* \" c:\" @part_3 \" d:\" @part_4\n",
               {Part(GrammarKind::kJsonSchema, R"({"type": "integer", "maximum": 99})"),
                Part(GrammarKind::kChoice, "", {"yes", "no/"}), Part(GrammarKind::kRegex, "x/y+"),
                Part(GrammarKind::kJsonObject, ""), Part(GrammarKind::kGrammar, "root ::= \"<\" [0-9] \">\"")}));
  ASSERT_TRUE(constraint.ok()) << constraint.status();
  EXPECT_TRUE(Takes(**constraint, "a:7 b:yes c:{} d:<1>"));
  EXPECT_TRUE(Takes(**constraint, R"(a:-12 b:no/, x/yy, x/y c:{"k": [1]} d:<9>)"));
  for (const char* text : {"a:100 b:yes c:{} d:<1>", "a:7 b:maybe c:{} d:<1>", "a:7 b:yes, x/ c:{} d:<1>",
                           "a:7 b:yes c:[] d:<1>", "a:7 b:yes c:{} d:1", "a:7 b:yes c:{} d:", "b:yes c:{} d:<1>"}) {
    EXPECT_FALSE(Takes(**constraint, text)) << text;
  }
}

TEST_F(GrammarTest, ComposedMayNameTokensAndTextUpToAMarker) {
  const std::string end = absl::StrCat("<[", eos_, "]>");
  const auto constraint = compiler_->Compile(
      Composed("start: thought @part_0\nthought[suffix=\"</think>\"]: /(?s:.*)/\n", {Part(GrammarKind::kRegex, "a")}));
  ASSERT_TRUE(constraint.ok()) << constraint.status();
  EXPECT_TRUE(Takes(**constraint, "Hm </thin> \n</think>a"));
  EXPECT_TRUE(Takes(**constraint, "</think>a"));
  EXPECT_FALSE(Takes(**constraint, "</think>a</think>a"));
  EXPECT_FALSE(Takes(**constraint, "Hm a"));
  const auto token = compiler_->Compile(Composed("start: /[^x]*/ " + end + " \"b\"\n", {}));
  ASSERT_TRUE(token.ok()) << token.status();
  const std::unique_ptr<engine::ConstraintState> state = (*token)->Start();
  ASSERT_TRUE(state->Accept(tokenizer_->Encode("a", {.add_special_tokens = false})->front()).ok());
  EXPECT_FALSE(state->is_accepting());
}

TEST_F(GrammarTest, ErrorsOfAPartSayWhichAndBoundsHoldForAllParts) {
  const auto refused = [this](const GrammarSource& source) { return compiler_->Compile(source).status(); };
  GrammarSource good = Part(GrammarKind::kJsonSchema, R"({"type": "integer"})");
  GrammarSource bad = Part(GrammarKind::kJsonSchema, R"({"properties": {"a": {"not": {}}}})");
  good.of = "function \"f\"";
  bad.of = "function \"g\"";
  const absl::Status named = refused(Composed("start: @part_0 | @part_1\n", {good, bad}));
  EXPECT_EQ(named.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(named.message(), "in function \"g\" has \"not\" at #/properties/a, which is not supported");
  bad.of.clear();
  EXPECT_EQ(refused(Composed("start: @part_0\n", {bad})).message(),
            "has \"not\" at #/properties/a, which is not supported");

  EXPECT_EQ(refused(Composed("start: @part_0\n", {Part(GrammarKind::kRegex, "^a")})).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused(Composed("start: @part_0\n", {Part(GrammarKind::kGrammar, "start: %json {}")})).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused(Composed("start: @part_0\n", {Composed("start: \"a\"\n", {})})).code(),
            absl::StatusCode::kInvalidArgument);

  // 3 * 2,000 schemas: each part alone is within the bound.
  Json wide = {{"type", "object"}};
  for (int i = 0; i < 1000; ++i) wide["properties"]["p" + std::to_string(i)] = {{"items", {{"type", "null"}}}};
  const GrammarSource part = Part(GrammarKind::kJsonSchema, wide.dump());
  EXPECT_THAT(refused(Composed("start: @part_0 @part_1 @part_2\n", {part, part, part})).message(),
              testing::HasSubstr("has more than 4000 schemas"));
  const GrammarSource large =
      Part(GrammarKind::kJsonSchema, absl::StrCat(R"({"const": ")", std::string(kMaxGrammarBytes / 2, 'x'), "\"}"));
  EXPECT_THAT(refused(Composed("start: @part_0\n", std::vector<GrammarSource>(9, large))).message(),
              testing::HasSubstr(absl::StrCat("limit is ", kMaxComposedBytes)));
  std::string strings = "start: \"a\"\n";
  for (int i = 0; i < 2001; ++i) absl::StrAppend(&strings, "r", i, ": \"x", i, "\"\n");
  EXPECT_THAT(refused(Composed(strings, {})).message(), testing::HasSubstr("has more than 2000 strings"));
}

}  // namespace
}  // namespace dunlin::text
