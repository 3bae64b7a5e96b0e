// SPDX-License-Identifier: Apache-2.0
// What the service tells of the server and its models, over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kserve/grpc_service.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server::kserve {
namespace {

using grpc::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Stub = inference::GRPCInferenceService::Stub;

template <class Request, class Response>
grpc::Status Call(const EdgeServer& edge, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stub = inference::GRPCInferenceService::NewStub(edge.channel());
  return (stub.get()->*method)(&context, request, response);
}

template <class Tensors>
std::set<std::string> NamesOf(const Tensors& tensors) {
  std::set<std::string> names;
  for (const auto& tensor : tensors) names.insert(tensor.name());
  return names;
}

TEST(KserveDocuments, TellLivenessAndReadiness) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  inference::ServerLiveResponse live;
  ASSERT_TRUE(Call(edge, &Stub::ServerLive, inference::ServerLiveRequest(), &live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(Call(edge, &Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_FALSE(ready.ready());
  edge.server().SetServing(true);
  ASSERT_TRUE(Call(edge, &Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelReadyRequest asked;
  inference::ModelReadyResponse model;
  asked.set_name("tiny");
  ASSERT_TRUE(Call(edge, &Stub::ModelReady, asked, &model).ok());
  EXPECT_TRUE(model.ready());
  asked.set_version("2");
  ASSERT_TRUE(Call(edge, &Stub::ModelReady, asked, &model).ok());
  EXPECT_FALSE(model.ready());
}

TEST(KserveDocuments, ListOnlyExtensionsThatAreThere) {
  EdgeServerOptions options;
  options.server.version = "1.2.3";
  EdgeServer edge(options);
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(Call(edge, &Stub::ServerMetadata, inference::ServerMetadataRequest(), &server).ok());
  EXPECT_EQ(server.name(), "dunlin");
  EXPECT_EQ(server.version(), "1.2.3");
  EXPECT_THAT(server.extensions(), Contains("statistics"));
  EXPECT_THAT(server.extensions(), Not(Contains(HasSubstr("shared_memory"))));
}

TEST(KserveDocuments, DescribeAModelThatGenerates) {
  EdgeServer edge;
  inference::ModelMetadataRequest asked;
  asked.set_name("tiny");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(Call(edge, &Stub::ModelMetadata, asked, &metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  EXPECT_THAT(NamesOf(metadata.inputs()), Contains("text_input"));
  EXPECT_THAT(NamesOf(metadata.inputs()), Contains("sampling_parameters"));
  EXPECT_EQ(metadata.outputs(0).name(), "text_output");
  EXPECT_THAT(metadata.outputs(0).shape(), ElementsAre(-1));
  inference::ModelConfigRequest config_asked;
  config_asked.set_name("tiny");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(Call(edge, &Stub::ModelConfig, config_asked, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 0);
  EXPECT_TRUE(config.config().model_transaction_policy().decoupled());
  EXPECT_EQ(NamesOf(config.config().input()), NamesOf(metadata.inputs()));
  for (const inference::ModelInput& input : config.config().input()) {
    EXPECT_EQ(input.optional(), input.name() != "text_input") << input.name();
    EXPECT_NE(input.data_type(), inference::TYPE_INVALID) << input.name();
  }
}

TEST(KserveDocuments, DescribeAModelThatEmbeds) {
  EdgeServer edge;
  inference::ModelConfigRequest asked;
  asked.set_name("encoder");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(Call(edge, &Stub::ModelConfig, asked, &config).ok());
  EXPECT_FALSE(config.config().model_transaction_policy().decoupled());
  EXPECT_THAT(config.config().input(0).dims(), ElementsAre(-1));
  ASSERT_EQ(config.config().output_size(), 1);
  EXPECT_THAT(config.config().output(0).dims(), ElementsAre(-1, 36));
}

TEST(KserveDocuments, RefuseModelsAndVersionsThatAreNotServed) {
  EdgeServer edge;
  inference::ModelMetadataRequest asked;
  inference::ModelMetadataResponse metadata;
  asked.set_name("nobody");
  EXPECT_EQ(Call(edge, &Stub::ModelMetadata, asked, &metadata).error_code(), StatusCode::NOT_FOUND);
  asked.set_name("tiny");
  asked.set_version("3");
  EXPECT_EQ(Call(edge, &Stub::ModelMetadata, asked, &metadata).error_code(), StatusCode::NOT_FOUND);
  inference::ModelStatisticsRequest statistics;
  statistics.set_name("nobody");
  inference::ModelStatisticsResponse counts;
  EXPECT_EQ(Call(edge, &Stub::ModelStatistics, statistics, &counts).error_code(), StatusCode::NOT_FOUND);
}

TEST(KserveDocuments, ListTheRepositoryAndSayThatItIsLoadedAtStart) {
  EdgeServer edge;
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(Call(edge, &Stub::RepositoryIndex, inference::RepositoryIndexRequest(), &index).ok());
  EXPECT_THAT(NamesOf(index.models()), ElementsAre("bare", "encoder", "tiny"));
  EXPECT_EQ(index.models(0).state(), "READY");
  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("tiny");
  EXPECT_TRUE(Call(edge, &Stub::RepositoryModelLoad, load, &loaded).ok());
  load.set_model_name("nobody");
  EXPECT_EQ(Call(edge, &Stub::RepositoryModelLoad, load, &loaded).error_code(), StatusCode::UNIMPLEMENTED);
  inference::RepositoryModelUnloadRequest unload;
  inference::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("tiny");
  const grpc::Status status = Call(edge, &Stub::RepositoryModelUnload, unload, &unloaded);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("models[]"));
}

TEST(KserveDocuments, ReadSettingsAndRefuseToChangeThem) {
  EdgeServer edge;
  inference::LogSettingsResponse logs;
  ASSERT_TRUE(Call(edge, &Stub::LogSettings, inference::LogSettingsRequest(), &logs).ok());
  ASSERT_TRUE(logs.settings().contains("log_error"));
  EXPECT_TRUE(logs.settings().at("log_error").bool_param());
  EXPECT_EQ(logs.settings().at("log_verbose_level").uint32_param(), 0U);
  inference::LogSettingsRequest log;
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  (*log.mutable_settings())["log_file"].set_string_param("/x");
  grpc::Status status = Call(edge, &Stub::LogSettings, log, &logs);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("settings[\"log_file\"] cannot be set"));

  inference::TraceSettingResponse traces;
  ASSERT_TRUE(Call(edge, &Stub::TraceSetting, inference::TraceSettingRequest(), &traces).ok());
  EXPECT_THAT(traces.settings().at("trace_level").value(), ElementsAre("OFF"));
  inference::TraceSettingRequest trace;
  trace.set_model_name("none");
  EXPECT_EQ(Call(edge, &Stub::TraceSetting, trace, &traces).error_code(), StatusCode::NOT_FOUND);
  trace.set_model_name("tiny");
  (*trace.mutable_settings())["trace_level"].add_value("TENSORS");
  status = Call(edge, &Stub::TraceSetting, trace, &traces);
  EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("settings[\"trace_level\"] cannot be set"));
}

}  // namespace
}  // namespace dunlin::server::kserve
