// SPDX-License-Identifier: Apache-2.0
// A certificate that changes while streams run: they go on, and new connections see the new one.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/transport/tls/tls_edge.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

std::string NameAt(const TlsEdge& tls, const std::string& address, const char* protocol) {
  TlsClientOptions options = tls.ClientOptions();
  options.protocol = protocol;
  return TlsClient(address, options).server_name();
}

TEST(EdgeTlsReload, StreamsGoOnAndNewConnectionsSeeTheNewCertificate) {
  TlsEdge tls;
  const Reply alone = tls.edge().Generate(TextRequest("abc", 40));
  ASSERT_TRUE(alone.status.ok()) << alone.status.error_message();
  TlsClient kept(tls.http_address(), tls.ClientOptions());

  tls.edge().control().step_us = 5000;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stub = v1::GenerationService::NewStub(tls.edge().channel());
  const auto reader = stub->Generate(&context, TextRequest("abc", 40));
  Reply reply;
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  Take(message, &reply);
  tls.edge().control().held = true;

  ASSERT_TRUE(*tls.Replace(tls.authority().Issue("second")));
  EXPECT_EQ(NameAt(tls, tls.http_address(), "http/1.1"), "second");
  EXPECT_EQ(NameAt(tls, tls.grpc_address(), "h2"), "second");

  tls.edge().control().held = false;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs[0].token_ids, alone.outputs.at(0).token_ids);
  EXPECT_EQ(kept.server_name(), "first");
  EXPECT_TRUE(kept.Send(kGetHealth));
  EXPECT_THAT(kept.ReadAll(), HasSubstr("200 OK"));
}

TEST(EdgeTlsReload, BrokenFilesKeepTheFormerCertificate) {
  TlsEdge tls;
  EXPECT_FALSE(tls.Replace({"nonsense", "nonsense"}).ok());
  EXPECT_FALSE(tls.Replace({tls.authority().Issue("a").certificate, tls.authority().Issue("b").key}).ok());
  EXPECT_EQ(tls.certificates().stats().failures, 2U);
  EXPECT_EQ(NameAt(tls, tls.http_address(), "http/1.1"), "first");
  EXPECT_EQ(NameAt(tls, tls.grpc_address(), "h2"), "first");
  EXPECT_TRUE(*tls.Replace(tls.authority().Issue("third")));
  EXPECT_EQ(NameAt(tls, tls.http_address(), "http/1.1"), "third");
  EXPECT_EQ(NameAt(tls, tls.grpc_address(), "h2"), "third");
}

}  // namespace
}  // namespace dunlin::server
