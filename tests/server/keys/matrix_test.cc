// SPDX-License-Identifier: Apache-2.0
// Every RPC and every route of a server against every kind of credential. The endpoints come from the rows of the
// fronts and transports, which are compared with what the server registers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "server/fronts/table.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/probe_routes.h"
#include "tests/server/keys/any_rpc.h"
#include "tests/server/keys/keyed_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAreArray;

// A credential, and what its key may do.
struct Credential {
  const char* name;
  const char* authorization;  // null: none is sent
  std::vector<Permission> permissions;
  bool valid() const { return !permissions.empty(); }
};
const std::vector<Credential> kCredentials = {
    {"no key", nullptr, {}},
    {"nothing behind Bearer", "Bearer ", {}},
    {"another scheme", "Basic key-infer", {}},
    {"no scheme", "key-infer", {}},
    {"wrong", "Bearer key-nobody", {}},
    {"a hash instead of a key", "Bearer sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", {}},
    {"withdrawn", "Bearer key-withdrawn", {}},
    {"expired", "Bearer key-expired", {}},
    {"infer", "Bearer key-infer", {Permission::kInfer}},
    {"metrics", "Bearer key-metrics", {Permission::kMetrics}},
    {"admin", "Bearer key-admin", {Permission::kAdmin}},
    {"all", "bearer key-all", {Permission::kInfer, Permission::kMetrics, Permission::kAdmin}},
};

std::string WithPermission(const std::string& name) {
  return KeyEntry(name, absl::StrCat(R"("permissions": [")", name, R"("], "models": ["*"])"));
}

const std::vector<std::string> kKeys = {
    KeyEntry("expired", R"("permissions": ["infer"], "models": ["*"], "not_after": "2020-01-01T00:00:00Z")"),
    WithPermission("infer"), WithPermission("metrics"), WithPermission("admin"), FullKeyEntry("all")};

std::vector<std::string> NamesOf(const std::vector<HttpRoute>& routes) {
  std::vector<std::string> names;
  for (const HttpRoute& route : routes) names.push_back(route.method + " " + route.path);
  return names;
}

bool Allows(const Credential& credential, const Endpoint& endpoint) {
  return !endpoint.needed.has_value() || std::find(credential.permissions.begin(), credential.permissions.end(),
                                                   *endpoint.needed) != credential.permissions.end();
}

class Matrix : public testing::Test {
 protected:
  Matrix() : server_(std::vector<std::string>{FullKeyEntry("withdrawn")}) {
    EXPECT_TRUE(Rpc("/dunlin.v1.ModelService/ListModels", "Bearer key-withdrawn").ok());
    server_.SetKeys(kKeys);
  }

  // An empty message to any method. OK if it answers and goes on.
  grpc::Status Rpc(const std::string& method, const char* authorization, size_t times = 1) {
    const std::vector<std::string> values(authorization == nullptr ? 0 : times,
                                          authorization == nullptr ? "" : authorization);
    return CallAnyRpc(server_.edge().channel(), method, values).status;
  }

  KeyedServer server_;
};

TEST_F(Matrix, EveryRpcAsksForItsPermission) {
  for (const Endpoint& endpoint : Endpoints()) {
    if (!IsRpc(endpoint)) continue;
    for (const Credential& credential : kCredentials) {
      const grpc::Status status = Rpc(endpoint.name, credential.authorization);
      const std::string what = absl::StrCat(endpoint.name, " with ", credential.name, ": ", status.error_message());
      if (Allows(credential, endpoint)) {
        EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED) << what;
        EXPECT_NE(status.error_code(), StatusCode::PERMISSION_DENIED) << what;
        if (status.error_code() == StatusCode::UNIMPLEMENTED) {
          EXPECT_THAT(status.error_details(), HasSubstr("NOT_IMPLEMENTED")) << what << ": no such method";
        }
      } else if (!credential.valid()) {
        EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED) << what;
        EXPECT_EQ(status.error_message(), "the call needs a valid key: authorization: Bearer KEY") << what;
        EXPECT_THAT(status.error_details(), HasSubstr("UNAUTHENTICATED")) << what;
      } else {
        EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << what;
        EXPECT_THAT(status.error_message(), HasSubstr(Name(*endpoint.needed))) << what;
        EXPECT_THAT(status.error_details(), HasSubstr("PERMISSION_DENIED")) << what;
      }
    }
  }
}

TEST_F(Matrix, TwoKeysAreNone) {
  EXPECT_EQ(Rpc("/dunlin.v1.ModelService/ListModels", "Bearer key-all", 2).error_code(), StatusCode::UNAUTHENTICATED);
  const std::string line = "Authorization: Bearer key-all\r\n";
  EXPECT_THAT(server_.Http("GET", "/v1/models", line + line), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(server_.Http("GET", "/v1/models", line + "x-api-key: key-nobody\r\n"), StartsWith("HTTP/1.1 200 "))
      << "Authorization counts";
  EXPECT_THAT(server_.Http("GET", "/v1/models", "x-api-key: key-all\r\nAuthorization: Bearer key-nobody\r\n"),
              StartsWith("HTTP/1.1 401 "));
}

TEST_F(Matrix, EveryRouteAsksForItsPermissionBeforeItReadsABody) {
  for (const Endpoint& endpoint : Endpoints()) {
    if (IsRpc(endpoint)) continue;
    const std::string name = endpoint.name;
    const std::string method = name.substr(0, name.find(' '));
    std::string path = name.substr(name.find(' ') + 1);
    if (absl::EndsWith(path, "{id}")) path = "/v1/models/tiny";
    if (path == "/v2/repository/models/{path}") path = "/v2/repository/models/tiny/load";
    if (absl::EndsWith(path, "{path}")) path = method == "POST" ? "/v2/models/tiny/infer" : "/v2/models/tiny";
    for (const Credential& credential : kCredentials) {
      const std::string headers =
          credential.authorization == nullptr ? "" : absl::StrCat("Authorization: ", credential.authorization, "\r\n");
      const std::string what = absl::StrCat(name, " with ", credential.name);
      if (Allows(credential, endpoint)) {
        const std::string reply = server_.Http(method, path, headers, "{}");
        EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 "), Not(StartsWith("HTTP/1.1 401 ")),
                                 Not(StartsWith("HTTP/1.1 403 ")), Not(HasSubstr("not found\n"))))
            << what;
        continue;
      }
      const std::string body_to_come = method == "POST" ? "Content-Length: 2\r\n" : "";
      RawClient client(server_.edge().server().http_address());
      client.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\n", body_to_come, headers, "\r\n"));
      const std::string reply = client.ReadAll();
      EXPECT_THAT(reply, Not(HasSubstr("key-"))) << what;
      if (credential.valid()) {
        EXPECT_THAT(reply, StartsWith("HTTP/1.1 403 ")) << what;
        EXPECT_THAT(reply, HasSubstr(Name(*endpoint.needed))) << what;
      } else {
        EXPECT_THAT(reply,
                    AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Bearer realm=\"dunlin\"\r\n"),
                          HasSubstr("the call needs a valid key")))
            << what;
      }
    }
  }
}

TEST_F(Matrix, RefusalsHaveTheFormOfTheirApi) {
  EXPECT_THAT(server_.Http("POST", "/v1/chat/completions", ""),
              AllOf(HasSubstr("Content-Type: application/json"), HasSubstr(R"({"error":{"message":"the call needs)"),
                    HasSubstr(R"("type":"authentication_error")"), HasSubstr(R"("code":"UNAUTHENTICATED")")));
  EXPECT_THAT(server_.Http("POST", "/v1/messages", "x-api-key: key-metrics\r\n"),
              AllOf(HasSubstr(R"({"type":"error","error":{"type":"permission_error")"),
                    HasSubstr(R"("reason":"PERMISSION_DENIED")")));
  EXPECT_THAT(
      server_.Http("GET", "/metrics", KeyedServer::HeaderAs("infer")),
      AllOf(HasSubstr("Content-Type: text/plain"), HasSubstr("needs the permission \"metrics\"; key \"infer\"")));
  EXPECT_THAT(server_.Http("POST", "/v1/messages", "X-API-Key: key-infer\r\n", "{}"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(Matrix, PathsAndMethodsThatAreNotServedSayNothing) {
  EXPECT_THAT(server_.Http("GET", "/nothing", ""), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(server_.Http("OPTIONS", "/v1/models", ""), StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(server_.Http("HEAD", "/metrics", ""), StartsWith("HTTP/1.1 401 "));
}

TEST_F(Matrix, TheTableHasEveryMethodOfTheServerAndNoOther) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer key-infer");
  const auto stub = grpc::reflection::v1::ServerReflection::NewStub(server_.edge().channel());
  const auto stream = stub->ServerReflectionInfo(&context);
  grpc::reflection::v1::ServerReflectionRequest request;
  request.set_list_services("");
  grpc::reflection::v1::ServerReflectionResponse response;
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  std::vector<std::string> services;
  for (const auto& service : response.list_services_response().service()) services.push_back(service.name());
  std::vector<std::string> listed;
  for (const Endpoint& endpoint : Endpoints()) {
    if (IsRpc(endpoint)) listed.emplace_back(endpoint.name);
  }
  EXPECT_THAT(listed, UnorderedElementsAreArray(MethodsOf(services)));
}

TEST(Endpoints, HaveOneRowEach) {
  std::set<std::string> names;
  for (const Endpoint& endpoint : Endpoints()) EXPECT_TRUE(names.insert(endpoint.name).second) << endpoint.name;
  EXPECT_EQ(Endpoints().Find("GET /metrics")->needed, Permission::kMetrics);
  EXPECT_EQ(Endpoints().Find("GET /metric"), nullptr);
}

// What a front serves is what its row lists: no more, no less.
TEST(Fronts, HaveARowForEveryMethodAndRouteAndNoOther) {
  TestModels models{engine::EngineOptions()};
  ServingCore core(Limits(), models.repository(), nullptr, {});
  std::vector<HttpRoute> routes = ProbeRoutes({});
  std::vector<std::string> probes;
  for (const Endpoint& endpoint : kProbeEndpoints) probes.emplace_back(endpoint.name);
  EXPECT_THAT(probes, UnorderedElementsAreArray(NamesOf(routes)));
  for (const FrontRow* row : Fronts()) {
    const std::unique_ptr<RequestObserver> observer =
        row->observe == nullptr ? nullptr : row->observe(models.repository());
    FrontSources sources;
    sources.core = &core;
    sources.observer = observer.get();
    const std::unique_ptr<Front> front = row->make(sources);
    std::vector<GrpcService> services;
    front->AddServices(&services);
    routes.clear();
    front->AddRoutes(&routes);
    std::vector<std::string> names;
    for (const GrpcService& service : services) names.push_back(service.name);
    std::vector<std::string> served = MethodsOf(names);
    for (const std::string& route : NamesOf(routes)) served.push_back(route);
    std::vector<std::string> listed;
    for (const Endpoint& endpoint : row->endpoints) listed.emplace_back(endpoint.name);
    EXPECT_THAT(listed, UnorderedElementsAreArray(served)) << row->name;
    EXPECT_FALSE(served.empty()) << row->name;
  }
}

}  // namespace
}  // namespace dunlin::server
