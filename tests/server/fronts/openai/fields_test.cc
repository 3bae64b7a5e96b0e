// SPDX-License-Identifier: Apache-2.0
// The tables of fields, row by row: a name stands once in a route, honoured fields refuse what they cannot read,
// ignored ones take anything or what they check, refused ones are refused by name, and docs/openai.md has the honoured.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_input.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses_input.h"
#include "server/http_calls/logprobs_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

// No field can read all of these.
const char* const kValues[] = {"true", "1.5", "\"?\"", "[{\"?\":[1]}]", "{\"?\":1}", "[\"?\",1]"};

template <class Target>
absl::Status ReadOne(const FieldRow<Target>& row, const std::string& json, Target* target) {
  const Json body = Json::parse("{\"" + std::string(row.name) + "\":" + json + "}");
  absl::Status status;
  IgnoredNames ignored;
  ReadField(JsonValue(body, &status, &ignored).At(row.name), row, target);
  return status;
}

// new_target: makes an empty target.
template <class Target, class NewTarget>
void ExpectRowIsKept(const FieldRow<Target>& row, NewTarget new_target) {
  SCOPED_TRACE(row.name);
  auto empty = new_target();
  EXPECT_TRUE(ReadOne(row, "null", &*empty).ok()) << "null is as good as absent";
  int refused = 0;
  for (const char* value : kValues) {
    auto target = new_target();
    const absl::Status status = ReadOne(row, value, &*target);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailsOf(status).field.substr(0, row.name.size()), row.name);
  }
  switch (row.use) {
    case FieldUse::kHonoured:
      EXPECT_GT(refused, 0);
      break;
    case FieldUse::kIgnored:
      EXPECT_TRUE(refused == 0 || row.read != nullptr);
      break;
    case FieldUse::kRefused: {
      auto target = new_target();
      const std::string neutral(row.neutral.empty() ? "null" : row.neutral);
      EXPECT_TRUE(ReadOne(row, neutral, &*target).ok());
      EXPECT_GE(refused, std::ssize(kValues) - 1);
      EXPECT_FALSE(row.reason.empty());
    }
  }
}

std::string Document() {
  std::ifstream stream(DUNLIN_SOURCE_DIR "/docs/openai.md");
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

template <class Target, class NewTarget>
void ExpectTablesAreKept(std::span<const FieldTable<Target>> tables, NewTarget new_target) {
  const std::string document = Document();
  std::set<std::string_view> names;
  for (const FieldTable<Target>& table : tables) {
    for (const FieldRow<Target>& row : table) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
      if (row.use == FieldUse::kHonoured) {
        EXPECT_NE(document.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name;
      }
      ExpectRowIsKept(row, new_target);
    }
  }
}

// A body and the request that it fills.
struct GenerationTarget {
  ClientRequest request;
  GenerationBody body{&request};
  GenerationBody& operator*() { return body; }
};

TEST(Fields, OfGeneratingRoutes) {
  const auto new_target = [] { return GenerationTarget(); };
  for (const auto tables : {ChatCompletionsFields(), CompletionsFields(), ResponsesFields(), MessagesFields()}) {
    ExpectTablesAreKept<GenerationBody>(tables, new_target);
  }
}

struct EmbeddingsTarget {
  ClientEmbedRequest request;
  EmbeddingsBody body{.request = &request, .base64 = false};
  EmbeddingsBody& operator*() { return body; }
};

TEST(Fields, OfEmbeddings) {
  const FieldTable<EmbeddingsBody> tables[] = {EmbeddingsFields()};
  ExpectTablesAreKept<EmbeddingsBody>(tables, [] { return EmbeddingsTarget(); });
}

struct RerankTarget {
  RerankTarget() { request.rerank.emplace(); }
  ClientEmbedRequest request;
  RerankBody body{.request = &request, .return_documents = false};
  RerankBody& operator*() { return body; }
};

TEST(Fields, OfRerank) {
  const FieldTable<RerankBody> tables[] = {RerankFields()};
  ExpectTablesAreKept<RerankBody>(tables, [] { return RerankTarget(); });
}

const char kTypingError[] = R"({"model":"m","temprature":1,"messages":[],"seed":7})";

TEST(LogprobsText, ATokenThatIsNoTextIsItsBytes) {
  EXPECT_EQ(TokenText("\xE2\x82"), "bytes:\\xe2\\x82");
}

TEST(Fields, AnUnknownOneHasNoEffectAndIsNamed) {
  ChatCompletionsTranslator translator{ResponseFacts()};
  ClientRequest request;
  ASSERT_TRUE(translator.Read(kTypingError, &request).ok());
  EXPECT_EQ(request.ignored.List(), "temprature");
  EXPECT_EQ(request.sampling.seed, 7U) << "what comes after it is read";
}

TEST(Fields, AnUnknownOneIsRefusedByNameWhereTheServerIsStrict) {
  ResponseFacts facts;
  facts.strict = true;
  ChatCompletionsTranslator translator{facts};
  ClientRequest request;
  const absl::Status status = translator.Read(kTypingError, &request);
  EXPECT_EQ(engine::StdView(status.message()), "temprature is not a field of this request");
  EXPECT_EQ(DetailsOf(status).field, "temprature");
  EXPECT_EQ(request.model, "m") << "what came before is read";
}

}  // namespace
}  // namespace dunlin::server
