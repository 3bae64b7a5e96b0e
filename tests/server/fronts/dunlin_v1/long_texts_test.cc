// SPDX-License-Identifier: Apache-2.0
// Texts of megabytes that cannot fit are refused before they cost anything, and what a text's special tokens are is the
// client's choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

TEST(LongTexts, AreRefusedWhileAStreamGoesOn) {
  EdgeServer edge;
  edge.control().step_us = 2000;
  Reply neighbour;
  std::thread reader([&] {
    grpc::ClientContext context;
    const auto stream = edge.stub()->Generate(&context, TextRequest("abc", 300));
    ReadAll(stream.get(), &context, &neighbour);
  });
  std::vector<std::string> texts;
  for (const char* unit : {"a", "word ", "1, 2, ", "!"}) {
    std::string text;
    while (text.size() < 3'900'000) text += unit;
    texts.push_back(std::move(text));
  }
  std::vector<std::thread> clients;
  for (const std::string& text : texts) {
    clients.emplace_back([&edge, &text] {
      const auto channel = edge.NewChannel();
      grpc::ClientContext context;
      Reply reply;
      const auto stream = v1::GenerationService::NewStub(channel)->Generate(&context, TextRequest(text, 1));
      ReadAll(stream.get(), &context, &reply);
      EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
      EXPECT_EQ(
          reply.status.error_message(),
          "text has more than 1022 tokens; limit is 511, one less than the context (models[].max_context_tokens)");
    });
  }
  for (std::thread& client : clients) client.join();
  reader.join();
  EXPECT_TRUE(neighbour.status.ok()) << neighbour.status.error_message();
  EXPECT_EQ(neighbour.outputs.at(0).token_ids.size(), 300U);
}

TEST(LongTexts, BytesCountUntilTheirTextIsTokenised) {
  EdgeServerOptions options;
  options.server.serving.text_threads = 1;
  EdgeServer edge(options);
  EXPECT_EQ(edge.server().admission_stats().queued_bytes, 0);
  const Reply reply = edge.Generate(TextRequest(std::string(1'000'000, 'a'), 1));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Eventually([&] { return edge.server().admission_stats().queued_bytes == 0; }));
}

TEST(SpecialTokens, OfATextAreTextUnlessTheClientSaysSo) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("a<|endoftext|>b", 4);
  request.mutable_stopping()->set_ignore_eos(true);
  const Reply plain = edge.Generate(request);
  ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
  EXPECT_GT(plain.outputs.at(0).finish.usage().prompt_tokens(), 3);
  request.set_parse_special_tokens(true);
  const Reply parsed = edge.Generate(request);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status.error_message();
  EXPECT_EQ(parsed.outputs.at(0).finish.usage().prompt_tokens(), 3);
  EXPECT_EQ(parsed.outputs.at(0).token_ids.at(1), 0) << "the scripted model repeats its prompt";
}

}  // namespace
}  // namespace dunlin::server
