// SPDX-License-Identifier: Apache-2.0
// What a router asks of a worker besides requests: health, what it serves, its load, its tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "tests/server/fronts/smg_worker/engine_client.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using Stub = wire::VllmEngine::Stub;

grpc::Status Health(const EdgeServer& edge, wire::HealthCheckResponse* health) {
  return EngineClient(edge).Call(&Stub::HealthCheck, wire::HealthCheckRequest(), health);
}

TEST(VllmWorker, HealthCheckFailsUntilTheServerServesAndWhileItDrains) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  wire::HealthCheckResponse health;
  EXPECT_EQ(Health(edge, &health).error_code(), StatusCode::UNAVAILABLE) << "loading";
  edge.server().SetServing(true);
  ASSERT_TRUE(Health(edge, &health).ok());
  EXPECT_TRUE(health.healthy());
  edge.server().SetServing(false);
  EXPECT_EQ(Health(edge, &health).error_code(), StatusCode::UNAVAILABLE) << "calls are still taken";
  EXPECT_TRUE(EngineClient(edge).Generate(IdsRequest({40}, 1)).status.ok());
  edge.server().StartDraining();
  EXPECT_EQ(Health(edge, &health).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(EngineClient(edge).Generate(IdsRequest({40}, 1)).status.error_code(), StatusCode::UNAVAILABLE);
}

TEST(VllmWorker, DescribesItsModel) {
  EdgeServer edge;
  const EngineClient client(edge);
  wire::GetModelInfoResponse model;
  ASSERT_TRUE(client.Call(&Stub::GetModelInfo, wire::GetModelInfoRequest(), &model).ok());
  EXPECT_EQ(model.served_model_name(), "tiny");
  EXPECT_EQ(model.model_path(), edge.model("tiny").directory);
  EXPECT_EQ(model.tokenizer_path(), edge.model("tiny").directory);
  EXPECT_TRUE(model.is_generation());
  EXPECT_EQ(model.max_context_length(), static_cast<uint32_t>(kTinyContext));
  EXPECT_EQ(model.vocab_size(), static_cast<uint32_t>(kTinyVocab));
  EXPECT_EQ(model.model_type(), "gpt2");
  EXPECT_THAT(model.eos_token_ids(), testing::ElementsAre(0));
  EXPECT_THAT(model.default_sampling_params_json(), HasSubstr("\"temperature\":0.0"));

  wire::GetServerInfoResponse server;
  ASSERT_TRUE(client.Call(&Stub::GetServerInfo, wire::GetServerInfoRequest(), &server).ok());
  EXPECT_EQ(server.server_type(), "dunlin-grpc");
  EXPECT_EQ(server.attention_backend(), "flash");
  EXPECT_EQ(server.model_dtype(), "fp32");
  EXPECT_EQ(server.data_parallel_size(), 1);
  EXPECT_GT(server.uptime_seconds(), 0.0);
}

TEST(VllmWorker, StandsForTheModelOfTheConfigWithItsProfile) {
  EdgeServerOptions options;
  options.server.fronts.Set("protocols.vllm_engine_model", R"("bare@math-bf16")");
  EdgeServer edge(options);
  const EngineClient client(edge);
  wire::GetModelInfoResponse model;
  ASSERT_TRUE(client.Call(&Stub::GetModelInfo, wire::GetModelInfoRequest(), &model).ok());
  EXPECT_EQ(model.served_model_name(), "bare@math-bf16");
  ASSERT_TRUE(client.Generate(IdsRequest({40}, 1)).status.ok());
  const std::vector<RequestRecord> records = edge.observer().WaitFor(1);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].model, "bare");
  ASSERT_TRUE(records[0].profile.has_value());
  EXPECT_EQ(records[0].profile->attention_backend, engine::AttentionBackend::kMath);
  EXPECT_EQ(records[0].profile->precision, engine::Precision::kBf16);
}

TEST(VllmWorker, ReportsItsLoad) {
  EdgeServer edge;
  const EngineClient client(edge);
  wire::GetLoadsResponse idle;
  ASSERT_TRUE(client.Call(&Stub::GetLoads, wire::GetLoadsRequest(), &idle).ok());
  ASSERT_EQ(idle.loads_size(), 1);
  EXPECT_EQ(idle.loads(0).num_total_reqs(), 0);
  EXPECT_EQ(idle.loads(0).token_usage(), 0.0);
  EXPECT_GT(idle.loads(0).max_total_num_tokens(), 0);

  edge.control().step_us = 1000;
  Deadline call;
  const auto reader = client.stub()->Generate(&call.context, IdsRequest({40, 41}, 400));
  wire::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  wire::GetLoadsResponse busy;
  ASSERT_TRUE(client.Call(&Stub::GetLoads, wire::GetLoadsRequest(), &busy).ok());
  EXPECT_EQ(busy.loads(0).num_running_reqs(), 1);
  EXPECT_GT(busy.loads(0).token_usage(), 0.0);
  call.context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return edge.model("tiny").engine->stats().idle; }));
  wire::GetLoadsResponse after;
  ASSERT_TRUE(client.Call(&Stub::GetLoads, wire::GetLoadsRequest(), &after).ok());
  EXPECT_EQ(after.loads(0).token_usage(), 0.0) << "cached prefixes can be evicted";

  wire::GetLoadsRequest other_rank;
  other_rank.set_dp_rank(1);
  EXPECT_EQ(client.Call(&Stub::GetLoads, other_rank, &after).error_code(), StatusCode::INVALID_ARGUMENT);
}

std::string Sha256Of(const std::string& bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

TEST(VllmWorker, SendsItsTokenizerInChunks) {
  EdgeServer edge;
  Deadline call;
  const auto reader = EngineClient(edge).stub()->GetTokenizer(&call.context, common::GetTokenizerRequest());
  std::string archive;
  common::GetTokenizerChunk chunk;
  std::string sha256;
  while (reader->Read(&chunk)) {
    EXPECT_EQ(sha256, "") << "only the last chunk has it";
    EXPECT_LE(chunk.data().size(), size_t{64} << 10);
    archive += chunk.data();
    sha256 = chunk.sha256();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(sha256, Sha256Of(archive));
  EXPECT_EQ(archive.substr(0, 4), std::string("PK\x03\x04", 4));
  EXPECT_THAT(archive, HasSubstr("tokenizer.json"));
}

TEST(VllmWorker, AModelWithoutFilesHasNoTokenizerToSend) {
  EdgeServerOptions options;
  options.server.fronts.Set("protocols.vllm_engine_model", R"("bare")");
  EdgeServer edge(options);
  Deadline call;
  const auto reader = EngineClient(edge).stub()->GetTokenizer(&call.context, common::GetTokenizerRequest());
  common::GetTokenizerChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::FAILED_PRECONDITION);
}

TEST(VllmWorker, FlushesItsPrefixCacheAndRecordsNoProfiles) {
  EdgeServer edge;
  const EngineClient client(edge);
  const wire::GenerateRequest request = IdsRequest(std::vector<uint32_t>(100, 40), 1);
  ASSERT_TRUE(client.Generate(request).status.ok());
  EXPECT_GT(client.Generate(request).completes.at(0).cached_tokens(), 0U);
  common::FlushCacheResponse flushed;
  ASSERT_TRUE(client.Call(&Stub::FlushCache, common::FlushCacheRequest(), &flushed).ok());
  EXPECT_TRUE(flushed.success());
  EXPECT_EQ(client.Generate(request).completes.at(0).cached_tokens(), 0U);

  common::ProfileResponse profile;
  EXPECT_EQ(client.Call(&Stub::StartProfile, common::StartProfileRequest(), &profile).error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(client.Call(&Stub::StopProfile, common::StopProfileRequest(), &profile).error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST(VllmWorker, IsNotServedWhenTheConfigSaysSo) {
  EdgeServerOptions options;
  options.server.fronts.Set("protocols.vllm_engine", "false");
  EdgeServer edge(options);
  wire::HealthCheckResponse health;
  EXPECT_EQ(Health(edge, &health).error_code(), StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace dunlin::server
