// SPDX-License-Identifier: Apache-2.0
// Reflection, by a client of either version that knows nothing of our protos beforehand.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "server/access/listen_address.h"
#include "server/transport/grpc/reflection_service.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using testing::Contains;

template <class Version>
class Reflection : public testing::Test {
 protected:
  using Request = typename Version::Request;
  using Response = typename Version::Response;

  // All answers come over one stream.
  static std::vector<Response> Ask(const EdgeServer& edge, const std::vector<Request>& requests) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stub = Version::Service::NewStub(edge.channel());
    const auto stream = stub->ServerReflectionInfo(&context);
    std::vector<Response> responses;
    for (const Request& request : requests) {
      EXPECT_TRUE(stream->Write(request));
      EXPECT_TRUE(stream->Read(&responses.emplace_back()));
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    return responses;
  }
  template <class Set>
  static Request Make(Set set) {
    Request request;
    set(&request);
    return request;
  }
};

using Versions = testing::Types<ReflectionV1, ReflectionV1Alpha>;
TYPED_TEST_SUITE(Reflection, Versions);

TYPED_TEST(Reflection, AStrangerCanBuildTheSchemaFromWhatItIsTold) {
  using Question = typename TypeParam::Request;
  EdgeServer edge;
  const auto answers = TestFixture::Ask(
      edge, {TestFixture::Make([](Question* r) { r->set_list_services(""); }),
             TestFixture::Make([](Question* r) { r->set_file_containing_symbol("dunlin.v1.GenerationService"); })});
  std::vector<std::string> names;
  for (const auto& service : answers[0].list_services_response().service()) names.push_back(service.name());
  for (const char* name :
       {"dunlin.v1.GenerationService", "dunlin.v1.EmbeddingService", "dunlin.v1.ModelService",
        "dunlin.v1.TokenizerService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}) {
    EXPECT_THAT(names, Contains(name));
  }

  // The files come importer first; a pool wants them the other way round.
  google::protobuf::DescriptorPool pool;
  const auto& files = answers[1].file_descriptor_response().file_descriptor_proto();
  for (int i = files.size() - 1; i >= 0; --i) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[i]));
    EXPECT_NE(pool.BuildFile(file), nullptr) << file.name();
  }
  EXPECT_NE(pool.FindMethodByName("dunlin.v1.GenerationService.Generate"), nullptr);
}

TYPED_TEST(Reflection, AnswersByFileNameAndSaysWhatIsUnknown) {
  using Question = typename TypeParam::Request;
  EdgeServer edge;
  const auto answers = TestFixture::Ask(
      edge, {TestFixture::Make([](Question* r) { r->set_file_by_filename("dunlin/v1/model.proto"); }),
             TestFixture::Make([](Question* r) { r->set_file_by_filename("no/such.proto"); }),
             TestFixture::Make([](Question* r) { r->set_file_containing_symbol("no.such.Symbol"); }),
             TestFixture::Make([](Question* r) { r->set_all_extension_numbers_of_type("dunlin.v1.Model"); }),
             TestFixture::Make([](Question* r) { r->set_all_extension_numbers_of_type("no.such.Type"); }),
             TestFixture::Make([](Question* r) {
               r->mutable_file_containing_extension()->set_containing_type("dunlin.v1.Model");
               r->mutable_file_containing_extension()->set_extension_number(1);
             }),
             Question()});
  EXPECT_EQ(answers[0].file_descriptor_response().file_descriptor_proto_size(), 4);  // with those it imports
  constexpr int kNotFound = 5;
  EXPECT_EQ(answers[1].error_response().error_code(), kNotFound);
  EXPECT_EQ(answers[2].error_response().error_code(), kNotFound);
  EXPECT_EQ(answers[3].all_extension_numbers_response().base_type_name(), "dunlin.v1.Model");
  EXPECT_EQ(answers[4].error_response().error_code(), kNotFound);
  EXPECT_EQ(answers[5].error_response().error_code(), kNotFound);
  EXPECT_EQ(answers[6].error_response().error_code(), 3);
}

TEST(ReflectionOption, CanBeSwitchedOff) {
  EdgeServerOptions options;
  options.server.reflection = false;
  EdgeServer edge(options);
  grpc::ClientContext context;
  const auto stub = ReflectionV1::Service::NewStub(edge.channel());
  const auto stream = stub->ServerReflectionInfo(&context);
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

grpc::StatusCode CodeOfReflection(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stub = ReflectionV1::Service::NewStub(channel);
  const auto stream = stub->ServerReflectionInfo(&context);
  stream->WritesDone();
  return stream->Finish().error_code();
}

// Unset is what `auto` of listen.reflection becomes.
TEST(ReflectionOption, UnsetIsOnForLoopbackAndOffForAnyOtherAddress) {
  const struct {
    const char* host;
    std::optional<bool> reflection;
    bool answers;
  } rows[] = {
      {"127.0.0.1", std::nullopt, true},
      {"0.0.0.0", std::nullopt, false},
      {"0.0.0.0", true, true},
      {"127.0.0.1", false, false},
  };
  for (const auto& row : rows) {
    TestModels models({});
    Edge edge;
    EdgeOptions options;
    options.reflection = row.reflection;
    const auto port = edge.Start(std::string(row.host) + ":0", {}, &models.repository(), nullptr, options);
    ASSERT_TRUE(port.ok()) << port.status();
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(*port), grpc::InsecureChannelCredentials());
    EXPECT_EQ(CodeOfReflection(channel), row.answers ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED)
        << row.host;
  }
}

TEST(ReflectionOption, KnowsLoopbackAddresses) {
  for (const char* address :
       {"127.0.0.1:50051", "127.8.9.10:1", "localhost:0", "[::1]:50051", "unix:/run/dunlin/socket"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.0.0.1:1", "192.168.127.1:1", "dunlin.example:1",
                              "localhost.example:1", "127.example:1", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace dunlin::server
