// SPDX-License-Identifier: Apache-2.0
// What a caller hears of models that its key may not use: of every method and route, nothing. And what callers without
// keys may not do where strangers can call. The endpoints come from the table of permissions.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/server/keys/any_rpc.h"
#include "tests/server/keys/keyed_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The fixture serves "tiny", "bare" and "encoder", in this order; the last one from a directory of that name.
const std::string kBareOnly =
    KeyEntry("bare-only", R"("permissions": ["infer", "metrics", "admin"], "models": ["bare"])");
const std::vector<std::string> kSecrets = {"tiny", "encoder", "bert_sentence", "byte_level_gpt2"};
const std::vector<std::string> kBearer = {"Bearer key-bare-only"};

const google::protobuf::Descriptor* RequestOf(const std::string& method) {
  const size_t slash = method.rfind('/');
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(method.substr(1, slash - 1));
  return service->FindMethodByName(method.substr(slash + 1))->input_type();
}

// A request whose fields that name a model have this name; "" if it has none.
std::string RequestNaming(const std::string& method, const std::string& model) {
  static const std::set<std::string> kNames = {"model", "model_name", "name", "service"};
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(RequestOf(method))->New());
  bool any = false;
  for (int i = 0; i < request->GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = request->GetDescriptor()->field(i);
    const bool text = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING && !field->is_repeated();
    if (!text || kNames.count(field->name()) == 0) continue;
    request->GetReflection()->SetString(request.get(), field, field->name() == "service" ? "model/" + model : model);
    any = true;
  }
  return any ? request->SerializeAsString() : "";
}

// Everything that the client sees, with the name that it gave replaced.
std::string Heard(const RpcAnswer& answer, const std::string& name) {
  const std::string all = absl::StrCat(answer.status.error_code(), "|", answer.status.error_message(), "|",
                                       answer.status.error_details(), "|", answer.message);
  return absl::StrReplaceAll(all, {{name, "NAME"}});
}

void ExpectNoSecretIn(const std::string& heard, const std::string& what) {
  for (const std::string& secret : kSecrets) EXPECT_THAT(heard, Not(HasSubstr(secret))) << what;
}

class Models : public testing::Test {
 protected:
  RpcAnswer Rpc(const std::string& method, const std::string& message = "") {
    return CallAnyRpc(server_.edge().channel(), method, kBearer, message);
  }
  std::string Http(const std::string& method, const std::string& path, const std::string& body = "") {
    return server_.Http(method, path, KeyedServer::HeaderAs("bare-only") + "x-request-id: mine\r\n", body);
  }

  KeyedServer server_{{kBareOnly, FullKeyEntry("all")}};
};

TEST_F(Models, NoMethodTellsOfOneThatTheKeyMayNotUse) {
  for (const Endpoint& endpoint : Endpoints()) {
    if (IsRpc(endpoint)) ExpectNoSecretIn(Heard(Rpc(endpoint.name), "mine"), endpoint.name);
  }
  EXPECT_THAT(Rpc("/vllm.Control/GetModelInfo").message, HasSubstr("bare"));
  EXPECT_THAT(Rpc("/vllm.grpc.engine.VllmEngine/GetModelInfo").message, HasSubstr("bare"));
  EXPECT_THAT(CallAnyRpc(server_.edge().channel(), "/vllm.Control/GetModelInfo", {"Bearer key-all"}).message,
              HasSubstr("tiny"));
}

TEST_F(Models, EveryMethodAnswersForAForbiddenOneAsForOneThatIsNotThere) {
  int num_named = 0;
  for (const Endpoint& endpoint : Endpoints()) {
    if (!IsRpc(endpoint) || RequestNaming(endpoint.name, "tiny").empty()) continue;
    ++num_named;
    for (const auto& [forbidden, missing] : {std::pair("tiny", "nada"), std::pair("encoder", "nothing")}) {
      const std::string heard = Heard(Rpc(endpoint.name, RequestNaming(endpoint.name, forbidden)), forbidden);
      EXPECT_EQ(heard, Heard(Rpc(endpoint.name, RequestNaming(endpoint.name, missing)), missing)) << endpoint.name;
    }
  }
  EXPECT_GE(num_named, 15);
}

// A body for whatever route, naming a model.
std::string BodyNaming(const std::string& model) {
  return absl::StrCat(R"({"model": ")", model, R"(", "prompt": "a", "input": "a", "text": "a", "query": "a", )",
                      R"("documents": ["a"], "tokens": [1], "max_tokens": 2, )",
                      R"("messages": [{"role": "user", "content": "a"}]})");
}

TEST_F(Models, NoRouteTellsOfOneThatTheKeyMayNotUse) {
  for (const char* path : {"/v1/models", "/v2", "/v2/models/stats", "/health", "/version", "/nowhere"}) {
    ExpectNoSecretIn(Http("GET", path), path);
  }
  ExpectNoSecretIn(Http("POST", "/v2/repository/index"), "index");
  EXPECT_THAT(Http("POST", "/v2/repository/index"), HasSubstr("bare"));
  for (const Endpoint& endpoint : Endpoints()) {
    if (IsRpc(endpoint)) continue;
    const std::string name = endpoint.name;
    const std::string method = name.substr(0, name.find(' '));
    const std::string route = name.substr(name.find(' ') + 1);
    const std::string pattern = absl::EndsWith(route, "{id}") ? "{id}" : "{path}";
    for (const char* action : {"", "/infer", "/generate", "/ready", "/config", "/stats", "/load", "/unload"}) {
      const auto ask = [&](const std::string& model) {
        const std::string path = absl::StrReplaceAll(route, {{pattern, model + action}});
        return absl::StrReplaceAll(Http(method, path, method == "POST" ? BodyNaming(model) : ""), {{model, "NAME"}});
      };
      EXPECT_EQ(ask("tiny"), ask("nada")) << name << action;
      EXPECT_EQ(ask("encoder"), ask("nothing")) << name << action;
      if (route.back() != '}') break;  // no action stands behind it
    }
  }
}

TEST(Strangers, MakeNoAdminCallsWhereTheServerHasNoKeys) {
  AccessControl access;
  EdgeServerOptions options;
  options.server.serving.access = &access;
  options.server.http.emplace();
  options.server.http->address = "127.0.0.1:0";
  options.server.http->sources = {[] { return std::string(); }, [] { return std::string(); },
                                  [] { return std::string(); }};
  EdgeServer edge(options);
  const auto http = [&edge] {
    RawClient client(edge.server().http_address());
    client.Send("POST /v2/repository/models/tiny/unload HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
    return client.ReadAll();
  };
  for (const bool forbidden : {false, true}) {
    if (forbidden) access.ForbidAdminWithoutKeys();  // no call is in progress
    for (const Endpoint& endpoint : Endpoints()) {
      if (!IsRpc(endpoint)) continue;
      const grpc::Status status = CallAnyRpc(edge.channel(), endpoint.name, {}).status;
      if (forbidden && endpoint.needed == Permission::kAdmin) {
        EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << endpoint.name;
        EXPECT_THAT(status.error_message(), HasSubstr("access.keys_file")) << endpoint.name;
      } else {
        EXPECT_NE(status.error_code(), StatusCode::PERMISSION_DENIED) << endpoint.name;
      }
    }
    EXPECT_EQ(absl::StartsWith(http(), "HTTP/1.1 403 "), forbidden);
  }
}

}  // namespace
}  // namespace dunlin::server
