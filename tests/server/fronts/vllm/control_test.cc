// SPDX-License-Identifier: Apache-2.0
// vllm.Control over a running edge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/server/fronts/vllm/vllm_client.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using Stub = ::vllm::Control::Stub;

bool IsPaused(const EdgeServer& edge) {
  ::vllm::IsPausedResponse response;
  EXPECT_TRUE(Control(edge, &Stub::IsPaused, ::vllm::IsPausedRequest(), &response).ok());
  return response.paused();
}

grpc::Status Pause(const EdgeServer& edge, ::vllm::PauseMode mode) {
  ::vllm::PauseGenerationRequest request;
  request.set_mode(mode);
  ::vllm::PauseGenerationResponse response;
  return Control(edge, &Stub::PauseGeneration, request, &response);
}

grpc::Status Resume(const EdgeServer& edge) {
  ::vllm::ResumeGenerationResponse response;
  return Control(edge, &Stub::ResumeGeneration, ::vllm::ResumeGenerationRequest(), &response);
}

bool Idle(const EdgeServer& edge) {
  return Eventually([&edge] {
    const engine::EngineStats stats = edge.model("tiny").engine->stats();
    return stats.idle && stats.pages_used == 0;
  });
}

TEST(VllmControl, DescribesServerAndModel) {
  EdgeServerOptions options;
  options.server.version = "1.2.3";
  const EdgeServer edge(options);
  ::vllm::ServerInfo server;
  ASSERT_TRUE(Control(edge, &Stub::GetServerInfo, ::vllm::GetServerInfoRequest(), &server).ok());
  EXPECT_EQ(server.engine_version(), "1.2.3");
  EXPECT_EQ(server.api_version(), "vllm");
  EXPECT_EQ(server.instance_id().size(), 32U);
  EXPECT_EQ(server.max_model_len(), static_cast<uint32_t>(kTinyContext));
  EXPECT_EQ(server.kv_block_size(), 16U);
  EXPECT_EQ(server.total_kv_blocks(), static_cast<uint64_t>(TestModels::kNumPages));
  EXPECT_GT(server.max_running_requests(), 0U);
  EXPECT_GT(server.max_batched_tokens(), 0U);
  EXPECT_EQ(server.parallelism().data_parallel_size(), 1U);
  EXPECT_EQ(server.parallelism().world_size(), 1U);
  EXPECT_TRUE(server.has_rl_capabilities());
  EXPECT_FALSE(server.rl_capabilities().sleep_mode_enabled());
  ::vllm::ModelInfo model;
  ASSERT_TRUE(Control(edge, &Stub::GetModelInfo, ::vllm::GetModelInfoRequest(), &model).ok());
  EXPECT_EQ(model.served_model_name(), "tiny");
  EXPECT_FALSE(model.model_id().empty());
  EXPECT_TRUE(model.supports_text_input());
  EXPECT_TRUE(model.supports_token_ids_input());
  EXPECT_FALSE(model.supports_lora());
  EXPECT_FALSE(model.supports_multimodal());
}

TEST(VllmControl, SaysWhatItCannotDo) {
  const EdgeServer edge;
  ::vllm::SleepResponse slept;
  const grpc::Status sleep = Control(edge, &Stub::Sleep, ::vllm::SleepRequest(), &slept);
  EXPECT_EQ(sleep.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ReasonOf(sleep), "NOT_IMPLEMENTED");
  EXPECT_FALSE(sleep.error_message().empty());
  ::vllm::UpdateWeightsResponse updated;
  EXPECT_EQ(Control(edge, &Stub::UpdateWeights, ::vllm::UpdateWeightsRequest(), &updated).error_code(),
            StatusCode::UNIMPLEMENTED);
  ::vllm::GetWeightVersionResponse version;
  EXPECT_EQ(Control(edge, &Stub::GetWeightVersion, ::vllm::GetWeightVersionRequest(), &version).error_code(),
            StatusCode::UNIMPLEMENTED);
  ::vllm::IsSleepingResponse sleeping;
  ASSERT_TRUE(Control(edge, &Stub::IsSleeping, ::vllm::IsSleepingRequest(), &sleeping).ok());
  EXPECT_FALSE(sleeping.sleeping());
}

TEST(VllmControl, KnowsThatNoLoraIsLoaded) {
  const EdgeServer edge;
  ::vllm::ListLorasResponse list;
  ASSERT_TRUE(Control(edge, &Stub::ListLoras, ::vllm::ListLorasRequest(), &list).ok());
  EXPECT_EQ(list.adapters_size(), 0);
  ::vllm::UnloadLoraRequest unload;
  ::vllm::UnloadLoraResponse unloaded;
  EXPECT_EQ(Control(edge, &Stub::UnloadLora, unload, &unloaded).error_code(), StatusCode::INVALID_ARGUMENT);
  unload.set_lora_name("a");
  EXPECT_EQ(Control(edge, &Stub::UnloadLora, unload, &unloaded).error_code(), StatusCode::NOT_FOUND);
  ::vllm::LoadLoraRequest load;
  load.set_lora_name("a");
  ::vllm::LoadLoraResponse loaded;
  EXPECT_EQ(Control(edge, &Stub::LoadLora, load, &loaded).error_code(), StatusCode::UNIMPLEMENTED);
}

TEST(VllmControl, ShutsDownAsItIsTold) {
  std::atomic<int> shutdowns{0};
  EdgeServerOptions options;
  options.server.shut_down = [&shutdowns] { ++shutdowns; };
  const EdgeServer edge(options);
  ::vllm::ShutdownResponse response;
  EXPECT_TRUE(Control(edge, &Stub::Shutdown, ::vllm::ShutdownRequest(), &response).ok());
  EXPECT_EQ(shutdowns, 1);
}

TEST(VllmControl, NamesNoKvEventSourceWithoutAPublisher) {
  const EdgeServer edge;
  ::vllm::GetKvEventSourcesResponse response;
  ASSERT_TRUE(Control(edge, &Stub::GetKvEventSources, ::vllm::GetKvEventSourcesRequest(), &response).ok());
  EXPECT_EQ(response.sources_size(), 0);
}

TEST(VllmControl, NamesWhereKvEventsArePublished) {
  EdgeServerOptions options;
  options.engine.kv_events.max_batches = 50;
  EdgeServer edge(options);
  ASSERT_TRUE(edge.server().PublishKvEvents("tiny", {"tcp://127.0.0.1:0", "tcp://127.0.0.1:0", "kv", 100}).ok());
  ::vllm::GetKvEventSourcesResponse response;
  ASSERT_TRUE(Control(edge, &Stub::GetKvEventSources, ::vllm::GetKvEventSourcesRequest(), &response).ok());
  ASSERT_EQ(response.sources_size(), 1);
  const ::vllm::KvEventSource& source = response.sources(0);
  EXPECT_EQ(source.transport(), "zmq");
  EXPECT_THAT(source.endpoint(), testing::StartsWith("tcp://127.0.0.1:"));
  EXPECT_NE(source.endpoint(), "tcp://127.0.0.1:0");
  EXPECT_NE(source.endpoint(), source.replay_endpoint());
  EXPECT_EQ(source.topic(), "kv");
  EXPECT_EQ(source.encoding(), "msgpack");
  EXPECT_TRUE(source.has_data_parallel_rank());
  EXPECT_EQ(source.data_parallel_rank(), 0U);
}

TEST(VllmControl, RefusesToPublishWhatIsNotRecorded) {
  EdgeServer edge;
  const EventPublisherOptions options = {"tcp://127.0.0.1:0", "", "", 1};
  EXPECT_EQ(edge.server().PublishKvEvents("tiny", options).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(edge.server().PublishKvEvents("unknown", options).code(), absl::StatusCode::kNotFound);
}

TEST(VllmControl, AbortEndsAStreamAndFreesItsPages) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  ::vllm::GenerateRequest request = IdsRequest(8, 400);
  request.set_request_id("mine");
  VllmStream stream(edge, request);
  ASSERT_TRUE(stream.ReadUntilToken());
  ::vllm::AbortRequest abort;
  abort.add_request_ids("unknown");
  abort.add_request_ids("mine");
  ::vllm::AbortResponse aborted;
  ASSERT_TRUE(Control(edge, &Stub::Abort, abort, &aborted).ok());
  const grpc::Status status = stream.Rest();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream.finish.finish_reason(), ::vllm::FinishInfo::ABORTED);
  EXPECT_EQ(stream.finish.num_output_tokens(), stream.ids.size());
  EXPECT_LT(stream.ids.size(), 400U);
  EXPECT_TRUE(Idle(edge));
}

TEST(VllmControl, KeptStreamsGoOnAfterAPause) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  VllmStream stream(edge, IdsRequest(8, 60));
  ASSERT_TRUE(stream.ReadUntilToken());
  EXPECT_FALSE(IsPaused(edge));
  ASSERT_TRUE(Pause(edge, ::vllm::PAUSE_MODE_KEEP).ok());
  EXPECT_TRUE(IsPaused(edge));
  const int64_t drawn = edge.control().tokens;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(edge.control().tokens, drawn);
  EXPECT_GT(edge.model("tiny").engine->stats().pages_used, 0);
  ASSERT_TRUE(Resume(edge).ok());
  ASSERT_TRUE(stream.Rest().ok());
  ASSERT_EQ(stream.ids.size(), 60U);
  for (size_t i = 0; i < stream.ids.size(); ++i) ASSERT_EQ(stream.ids[i], 10 + i % 8);
  EXPECT_FALSE(IsPaused(edge));
}

TEST(VllmControl, APauseThatWaitsAnswersWhenRequestsHaveEnded) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  VllmStream before(edge, IdsRequest(8, 60));
  ASSERT_TRUE(before.ReadUntilToken());
  ASSERT_TRUE(Pause(edge, ::vllm::PAUSE_MODE_WAIT).ok());
  EXPECT_TRUE(IsPaused(edge));
  ASSERT_TRUE(before.Rest().ok());
  EXPECT_EQ(before.ids.size(), 60U);
  VllmStream after(edge, IdsRequest(8, 5));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ASSERT_TRUE(Resume(edge).ok());
  ASSERT_TRUE(after.Rest().ok());
  EXPECT_EQ(after.ids.size(), 5U);
}

TEST(VllmControl, APauseThatAbortsEndsStreams) {
  EdgeServer edge;
  edge.control().step_us = 1000;
  VllmStream stream(edge, IdsRequest(8, 400));
  ASSERT_TRUE(stream.ReadUntilToken());
  ASSERT_TRUE(Pause(edge, ::vllm::PAUSE_MODE_UNSPECIFIED).ok());
  ASSERT_TRUE(stream.Rest().ok());
  EXPECT_EQ(stream.finish.finish_reason(), ::vllm::FinishInfo::ABORTED);
  EXPECT_TRUE(Idle(edge));
  ASSERT_TRUE(Resume(edge).ok());
}

TEST(VllmControl, AResumeEndsAPauseThatStillWaits) {
  EdgeServer edge;
  edge.control().held = true;
  VllmStream stream(edge, IdsRequest(8, 5));
  ASSERT_TRUE(Eventually([&edge] { return !edge.model("tiny").engine->stats().idle; }));
  grpc::Status paused;
  std::thread waiting([&] { paused = Pause(edge, ::vllm::PAUSE_MODE_WAIT); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ASSERT_TRUE(Resume(edge).ok());
  waiting.join();
  EXPECT_EQ(paused.error_code(), StatusCode::CANCELLED);
  edge.control().held = false;
  EXPECT_TRUE(stream.Rest().ok());
}

TEST(VllmControl, NamesABadMode) {
  const EdgeServer edge;
  const grpc::Status status = Pause(edge, static_cast<::vllm::PauseMode>(7));
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("mode is 7"));
}

TEST(VllmControl, IsNotServedWhereItIsOff) {
  EdgeServerOptions options;
  options.server.fronts.Set("protocols.vllm", "false");
  const EdgeServer edge(options);
  ::vllm::ServerInfo server;
  const grpc::Status status = Control(edge, &Stub::GetServerInfo, ::vllm::GetServerInfoRequest(), &server);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ReasonOf(status), "");
}

}  // namespace
}  // namespace dunlin::server
