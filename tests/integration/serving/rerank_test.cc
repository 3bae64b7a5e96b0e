// SPDX-License-Identifier: Apache-2.0
// Rerank over gRPC and HTTP by real cross-encoders: the scores of transformers, the order, and what is refused; and
// texts that a decoder of sentence-transformers embeds behind a prompt.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pair {
  std::string query;
  std::string document;
  float logit;
};

std::vector<Pair> Goldens(const std::string& folder) {
  std::ifstream file(absl::StrCat(DUNLIN_SOURCE_DIR "/tests/golden/encoders/", folder, "/goldens.json"));
  std::vector<Pair> pairs;
  for (const Json& pair : Json::parse(file).at("pairs")) {
    pairs.push_back({pair.at("query"), pair.at("document"), pair.at("logits").at(0)});
  }
  return pairs;
}

float Sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

struct Answer {
  v1::RerankResponse response;
  grpc::Status status;
};

Answer Rerank(const v1::RerankRequest& request) {
  Answer answer;
  grpc::ClientContext context;
  answer.status =
      v1::EmbeddingService::NewStub(ServedEdge::Get().channel())->Rerank(&context, request, &answer.response);
  return answer;
}

v1::RerankRequest Request(const std::string& model, const std::string& query, const std::vector<std::string>& texts) {
  v1::RerankRequest request;
  request.set_model(model);
  request.set_query(query);
  for (const std::string& text : texts) request.add_documents(text);
  return request;
}

TEST(RerankServed, ScoresAreThoseOfTransformers) {
  const std::pair<const char*, const char*> models[] = {
      {"reranker", "xlmr_rerank"}, {"bert-reranker", "bert_rerank"}, {"modernbert-reranker", "modernbert_mean_rerank"}};
  for (const auto& [model, folder] : models) {
    for (const Pair& pair : Goldens(folder)) {
      if (pair.query.empty()) continue;  // refused: see below
      v1::RerankRequest request = Request(model, pair.query, {pair.document});
      const Answer answer = Rerank(request);
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_NEAR(answer.response.results(0).score(), Sigmoid(pair.logit), 1e-5F) << model << " " << pair.query;
      EXPECT_FALSE(answer.response.raw_scores());
      request.set_raw_scores(true);
      const Answer raw = Rerank(request);
      EXPECT_NEAR(raw.response.results(0).score(), pair.logit, 1e-5F);
      EXPECT_TRUE(raw.response.raw_scores());
    }
  }
}

const std::vector<std::string> kDocuments = {
    "Worms live in mud.", "Dunlins breed in the Arctic.", "A", "", "flocks", "Dunlins breed in the Arctic."};

TEST(RerankServed, TheBestComeFirstUnlessTheOrderIsTheRequests) {
  v1::RerankRequest request = Request("reranker", "Where do dunlins breed?", kDocuments);
  const Answer all = Rerank(request);
  ASSERT_EQ(all.response.results_size(), 6);
  std::vector<float> by_index(6);
  for (int i = 0; i < 6; ++i) {
    by_index[static_cast<size_t>(all.response.results(i).index())] = all.response.results(i).score();
    EXPECT_GE(all.response.results(std::max(i - 1, 0)).score(), all.response.results(i).score());
  }
  EXPECT_EQ(by_index[1], by_index[5]) << "a score does not depend on its neighbours";
  request.set_request_order(true);
  const Answer ordered = Rerank(request);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(ordered.response.results(i).index(), i);
    EXPECT_EQ(ordered.response.results(i).score(), by_index[static_cast<size_t>(i)]);
  }
  request.set_top_n(2);
  const Answer best = Rerank(request);
  ASSERT_EQ(best.response.results_size(), 2);
  std::vector<int> expected = {all.response.results(0).index(), all.response.results(1).index()};
  std::sort(expected.begin(), expected.end());
  EXPECT_THAT(expected, ElementsAre(best.response.results(0).index(), best.response.results(1).index()));
  EXPECT_EQ(best.response.usage().prompt_tokens(), all.response.usage().prompt_tokens()) << "all are computed";
}

TEST(RerankServed, HttpGivesTheSame) {
  const ServedEdge& edge = ServedEdge::Get();
  v1::RerankRequest request = Request("reranker", "Where do dunlins breed?", kDocuments);
  request.set_top_n(3);
  const Answer wire = Rerank(request);
  for (const char* path : {"/v1/rerank", "/rerank"}) {
    const HttpAnswer answer =
        edge.Post(path, R"({"model":"reranker","query":"Where do dunlins breed?","top_n":3,"return_documents":true,
                            "documents":["Worms live in mud.",{"text":"Dunlins breed in the Arctic."},"A","","flocks",
                                         "Dunlins breed in the Arctic."]})");
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json json = answer.json();
    ASSERT_EQ(json["results"].size(), 3U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(json["results"][i]["index"], wire.response.results(i).index());
      EXPECT_EQ(json["results"][i]["relevance_score"].get<float>(), wire.response.results(i).score());
      EXPECT_EQ(json["results"][i]["document"]["text"],
                kDocuments[static_cast<size_t>(wire.response.results(i).index())]);
    }
    EXPECT_EQ(json["model"], "reranker");
    EXPECT_EQ(json["usage"]["total_tokens"], wire.response.usage().prompt_tokens());
    EXPECT_EQ(json["dunlin"]["raw_scores"], false);
  }
}

// As Cohere's ClientV2 asks and reads: what is too long loses its end.
TEST(RerankServed, CohereGetsTheSameScoresInItsOwnForm) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string body = R"({"model":"reranker","query":"Where do dunlins breed?","top_n":2,"documents":[)"
                           R"("Worms live in mud.","Dunlins breed in the Arctic.","A"])";
  const Json shared = edge.Post("/v1/rerank", body + "}").json();
  const Json json = edge.Post("/v2/rerank", body + R"(,"priority":1})").json();
  EXPECT_FALSE(json["id"].get<std::string>().empty()) << json;
  EXPECT_EQ(json["results"], shared["results"]);
  EXPECT_EQ(json["meta"]["api_version"]["version"], "2");
  EXPECT_EQ(json["meta"]["billed_units"]["search_units"], 1);
  EXPECT_EQ(json["meta"]["tokens"]["input_tokens"], shared["usage"]["total_tokens"]);

  const std::string longer(2000, 'x');
  const HttpAnswer cut =
      edge.Post("/v2/rerank", absl::StrCat(R"({"model":"reranker","query":"a","documents":["b",")", longer, R"("]})"));
  EXPECT_EQ(cut.status, 200) << cut.body;
  const HttpAnswer refused = edge.Post("/v2/rerank", R"({"model":"reranker","query":"","documents":["b"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.json()["message"].get<std::string>(), HasSubstr("query has 0 bytes"));
  EXPECT_EQ(refused.json()["error"]["param"], "query");
}

TEST(RerankServed, TokensPerDocumentCutDocumentsAlone) {
  const ServedEdge& edge = ServedEdge::Get();
  const auto tokens = [&edge](const char* more) {
    const std::string body = R"({"model":"reranker","query":"Where do dunlins breed, and when?","documents":[)"
                             R"("Dunlins breed in the Arctic, and they do so in summer, on the ground.","A"])";
    const HttpAnswer answer = edge.Post("/v1/rerank", absl::StrCat(body, more, "}"));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  };
  const Json whole = tokens("");
  const Json cut = tokens(R"(,"max_tokens_per_doc":3)");
  EXPECT_EQ(tokens(R"(,"max_tokens_per_doc":100)")["results"], whole["results"]);
  EXPECT_LT(cut["usage"]["total_tokens"], whole["usage"]["total_tokens"]);
  for (const Json& result : cut["results"]) EXPECT_EQ(result.contains("truncated"), result["index"] == 0) << result;
  const HttpAnswer refused =
      edge.Post("/v2/rerank", R"({"model":"reranker","query":"a","documents":["b"],"max_tokens_per_doc":0})");
  EXPECT_EQ(refused.status, 400) << refused.body;
}

TEST(RerankServed, WhatDoesNotFitIsNamed) {
  const std::string longer(2000, 'x');
  struct Case {
    v1::RerankRequest request;
    const char* message;
  };
  v1::RerankRequest top_n = Request("reranker", "a", {"b"});
  top_n.set_top_n(0);
  const Case cases[] = {
      {Request("reranker", "", {"b"}), "query has 0 bytes"},
      {Request("reranker", "a", {}), "documents has 0 entries; limit is 1 to 256 (limits.max_embedding_inputs)"},
      {top_n, "top_n is 0; limit is [1, 2147483647]"},
      {Request("reranker", longer, {"b"}),
       "query has, with special tokens, more than 130 tokens (models[].max_context_tokens)"},
      {Request("reranker", "a", {"b", longer}),
       "documents[1] has, with the query and special tokens, more than 130 tokens (models[].max_context_tokens)"},
      {Request("encoder", "a", {"b"}),
       "model (bert) does not rerank: it has no head of a sequence classifier (of BERT, RoBERTa or ModernBERT)"},
      {Request("tiny", "a", {"b"}), "model (llama) does not rerank: it is a decoder"},
  };
  for (const Case& c : cases) {
    const Answer answer = Rerank(c.request);
    EXPECT_FALSE(answer.status.ok());
    EXPECT_THAT(answer.status.error_message(), HasSubstr(c.message));
  }
  v1::RerankRequest truncated = Request("reranker", longer, {"b", longer});
  truncated.set_truncate(true);
  truncated.set_request_order(true);
  const Answer answer = Rerank(truncated);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.response.results(0).truncated() && answer.response.results(1).truncated());
  EXPECT_EQ(answer.response.results(1).tokens(), 130);
  const HttpAnswer http = ServedEdge::Get().Post("/rerank", R"({"model":"reranker","query":"a","documents":[7]})");
  EXPECT_EQ(http.status, 400);
  EXPECT_EQ(http.json()["error"]["param"], "documents[0]");
}

TEST(RerankServed, ModelsSayWhatTheyTake) {
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  const auto stub = v1::ModelService::NewStub(ServedEdge::Get().channel());
  ASSERT_TRUE(stub->ListModels(&context, v1::ListModelsRequest(), &models).ok());
  for (const v1::Model& model : models.models()) {
    EXPECT_EQ(model.embedding().reranks(), absl::EndsWith(model.name(), "reranker")) << model.name();
    if (model.name() != "qwen3-embedding") continue;
    EXPECT_EQ(model.kind(), v1::MODEL_KIND_ENCODER);
    EXPECT_EQ(model.embedding().pooling(), v1::POOLING_LAST);
    EXPECT_THAT(model.embedding().prompt_names(), ElementsAre("document", "query"));
  }
}

TEST(EmbedServed, APromptPrecedesEveryText) {
  const auto embed = [](const std::string& text, const std::string& prompt, grpc::Status* status) {
    v1::EmbedRequest request;
    request.set_model("qwen3-embedding");
    request.add_inputs()->set_text(text);
    request.set_prompt_name(prompt);
    v1::EmbedResponse response;
    grpc::ClientContext context;
    *status = v1::EmbeddingService::NewStub(ServedEdge::Get().channel())->Embed(&context, request, &response);
    return response;
  };
  grpc::Status status;
  const v1::EmbedResponse by_name = embed("dunlin", "query", &status);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::EmbedResponse spelled = embed("Instruct: Find the bird.\nQuery:dunlin", "", &status);
  const v1::EmbedResponse without = embed("dunlin", "document", &status);
  const auto values = [](const v1::EmbedResponse& response) {
    return std::vector<float>(response.embeddings(0).values().begin(), response.embeddings(0).values().end());
  };
  EXPECT_EQ(values(by_name), values(spelled));
  EXPECT_NE(values(by_name), values(without));
  embed("dunlin", "title", &status);
  EXPECT_EQ(status.error_message(), "prompt_name is not a prompt of the model; limit is document, query");
  const std::string body = R"({"model":"qwen3-embedding","input":"dunlin","prompt_name":"query"})";
  const Json json = ServedEdge::Get().Post("/v1/embeddings", body).json();
  EXPECT_EQ(json["data"][0]["embedding"].get<std::vector<float>>(), values(by_name));
}

}  // namespace
}  // namespace dunlin::server
