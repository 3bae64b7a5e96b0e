// SPDX-License-Identifier: Apache-2.0
// What a key's entry allows of a call, what one holder may learn of another, the audit log, and keys that change while
// calls run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dunlin/v1/model.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/http_calls/route_guard.h"
#include "server/transport/grpc/call_access.h"
#include "tests/server/keys/keyed_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckResponse;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kTinyOnly =
    KeyEntry("tiny-only", R"("permissions": ["infer"], "models": ["tiny"], "max_priority": 2, )"
                          R"("attention_backends": ["math", "efficient"], "precisions": ["bf16"])");

template <class Stub, class Request, class Response>
grpc::Status Call(KeyedServer* server, const std::string& name,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request,
                  Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  KeyedServer::As(name)(&context);
  Stub stub(server->edge().channel());
  return (stub.*method)(&context, request, response);
}

class Tenants : public testing::Test {
 protected:
  Reply Generate(const v1::GenerateRequest& request, const std::string& name) {
    return server_.edge().Generate(request, KeyedServer::As(name));
  }

  KeyedServer server_{{kTinyOnly, FullKeyEntry("all"), FullKeyEntry("other")}};
};

TEST_F(Tenants, AModelThatAKeyMayNotUseIsAsUnknownAsOneThatIsNotThere) {
  v1::ListModelsResponse models;
  ASSERT_TRUE(Call(&server_, "tiny-only", &v1::ModelService::Stub::ListModels, v1::ListModelsRequest(), &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).name(), "tiny");
  EXPECT_THAT(server_.Http("GET", "/v1/models", KeyedServer::HeaderAs("tiny-only")),
              AllOf(HasSubstr(R"("id":"tiny")"), Not(HasSubstr("bare"))));
  EXPECT_THAT(server_.Http("GET", "/v1/models", KeyedServer::HeaderAs("all")), HasSubstr("bare"));
  EXPECT_THAT(server_.Http("GET", "/v1/models/bare", KeyedServer::HeaderAs("tiny-only")), StartsWith("HTTP/1.1 404 "));

  v1::GetModelRequest get;
  v1::GetModelResponse model;
  v1::TokenizeRequest tokenize;
  v1::TokenizeResponse tokens;
  v1::GenerateRequest generate = TextRequest("abc", 2);
  for (const char* name : {"bare", "nowhere"}) {
    const std::string message = std::string("model \"") + name + "\" is not served";
    get.set_name(name);
    grpc::Status status = Call(&server_, "tiny-only", &v1::ModelService::Stub::GetModel, get, &model);
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), message);
    tokenize.set_model(name);
    status = Call(&server_, "tiny-only", &v1::TokenizerService::Stub::Tokenize, tokenize, &tokens);
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), message);
    generate.set_model(name);
    const Reply reply = Generate(generate, "tiny-only");
    EXPECT_EQ(reply.status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(reply.status.error_message(), message);
  }
  EXPECT_THAT(server_.denials(), Contains("tiny-only /dunlin.v1.GenerationService/Generate model not allowed"));
  EXPECT_THAT(server_.denials(), Contains("tiny-only GET /v1/models/{id} model not allowed"));
}

TEST_F(Tenants, HealthOfAModelIsForKeysThatMayUseIt) {
  grpc::health::v1::HealthCheckRequest request;
  HealthCheckResponse response;
  const auto check = [&](const std::string& name, const std::string& service) {
    request.set_service(service);
    return Call(&server_, name, &grpc::health::v1::Health::Stub::Check, request, &response).error_code();
  };
  EXPECT_EQ(check("nobody", ""), StatusCode::OK) << "probes have no key";
  EXPECT_EQ(check("nobody", "dunlin.v1.GenerationService"), StatusCode::OK);
  EXPECT_EQ(check("nobody", "model/tiny"), StatusCode::NOT_FOUND);
  EXPECT_EQ(check("tiny-only", "model/tiny"), StatusCode::OK);
  EXPECT_EQ(check("tiny-only", "model/bare"), StatusCode::NOT_FOUND);
  EXPECT_EQ(check("all", "model/bare"), StatusCode::OK);

  const auto watch = [&](const std::string& name, const std::string& service) {
    grpc::ClientContext context;
    KeyedServer::As(name)(&context);
    request.set_service(service);
    const auto reader = grpc::health::v1::Health::NewStub(server_.edge().channel())->Watch(&context, request);
    EXPECT_TRUE(reader->Read(&response));
    context.TryCancel();
    while (reader->Read(&response)) {
    }
    reader->Finish();
    return response.status();
  };
  EXPECT_EQ(watch("tiny-only", "model/tiny"), HealthCheckResponse::SERVING);
  EXPECT_EQ(watch("tiny-only", "model/bare"), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(watch("nobody", "model/tiny"), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_F(Tenants, WhatAKeyDoesNotAllowIsNamedWithItsValueAndWhatIsAllowed) {
  v1::GenerateRequest request = TextRequest("abc", 2);
  request.set_priority(3);
  Reply reply = Generate(request, "tiny-only");
  EXPECT_EQ(reply.status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(reply.status.error_message(), "priority is 3; the key allows at most 2");
  EXPECT_EQ(reply.reason(), "PERMISSION_DENIED");
  EXPECT_EQ(reply.Get<google::rpc::ErrorInfo>().metadata().at("field"), "priority");
  request.set_priority(2);
  EXPECT_TRUE(Generate(request, "tiny-only").status.ok());

  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_FLASH);
  reply = Generate(request, "tiny-only");
  EXPECT_EQ(reply.status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(reply.status.error_message(), "execution.attention_backend is flash; the key allows math, efficient");
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_MATH);
  request.mutable_execution()->set_precision(v1::PRECISION_FP32);
  reply = Generate(request, "tiny-only");
  EXPECT_EQ(reply.status.error_message(), "execution.precision is fp32; the key allows bf16");
  EXPECT_THAT(server_.denials(),
              ElementsAre("tiny-only /dunlin.v1.GenerationService/Generate priority not allowed",
                          "tiny-only /dunlin.v1.GenerationService/Generate execution.attention_backend not allowed",
                          "tiny-only /dunlin.v1.GenerationService/Generate execution.precision not allowed"));
  const std::string body = R"({"model":"tiny","prompt":"abc","max_tokens":2,"priority":3})";
  EXPECT_THAT(server_.Http("POST", "/v1/completions", KeyedServer::HeaderAs("tiny-only"), body),
              AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("priority is 3; the key allows at most 2")));
}

TEST_F(Tenants, WhatIsNotNamedIsChosenAmongWhatTheKeyAllows) {
  v1::GenerateRequest request = TextRequest("abc", 2);
  EXPECT_EQ(Generate(request, "all").messages.at(0).execution().attention_backend(), v1::ATTENTION_BACKEND_FLASH);
  const Reply reply = Generate(request, "tiny-only");
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.messages.at(0).execution().attention_backend(), v1::ATTENTION_BACKEND_EFFICIENT);
  EXPECT_EQ(reply.messages.at(0).execution().precision(), v1::PRECISION_BF16) << "the model's first is fp32";
}

TEST_F(Tenants, PrefixesAreSharedWithinAKeyAlone) {
  v1::GenerateRequest request = TextRequest(std::string(100, 'a'), 2);
  request.set_cache_salt("the same");
  const auto cached = [&](const std::string& name) {
    const Reply reply = Generate(request, name);
    EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
    return reply.outputs.at(0).finish.usage().cached_tokens();
  };
  EXPECT_EQ(cached("all"), 0);
  EXPECT_GT(cached("all"), 0);
  EXPECT_EQ(cached("other"), 0) << "an equal salt of another key";
  request.clear_cache_salt();
  EXPECT_EQ(cached("all"), 0) << "another salt of the key";
  EXPECT_GT(cached("all"), 0);
  EXPECT_EQ(cached("other"), 0);
  request.set_cache_salt(std::string(129, 's'));
  EXPECT_EQ(Generate(request, "all").status.error_code(), StatusCode::INVALID_ARGUMENT) << "its bound is the client's";
}

TEST_F(Tenants, TheAuditLogHasTheNameOfTheKeyAndNeverTheKey) {
  server_.Http("GET", "/metrics", "Authorization: Bearer key-nobody\r\n");
  server_.Http("GET", "/metrics", KeyedServer::HeaderAs("tiny-only"));
  Generate(TextRequest("abc", 1), "nobody");
  EXPECT_THAT(server_.denials(),
              ElementsAre("unknown GET /metrics no valid key", "tiny-only GET /metrics needs permission metrics",
                          "unknown /dunlin.v1.GenerationService/Generate no valid key"));
  EXPECT_EQ(server_.access().stats().unauthenticated, 2U);
  EXPECT_EQ(server_.access().stats().denied, 1U);
}

TEST_F(Tenants, ACallInProgressOutlivesItsKey) {
  server_.edge().control().held = true;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  KeyedServer::As("all")(&context);
  const auto stub = server_.edge().stub();
  const auto reader = stub->Generate(&context, TextRequest("abc", 20));
  ASSERT_TRUE(Eventually([&] { return server_.edge().server().admission_stats().requests == 1; }));
  server_.SetKeys({FullKeyEntry("other")});
  EXPECT_EQ(Generate(TextRequest("abc", 2), "all").status.error_code(), StatusCode::UNAUTHENTICATED);
  server_.edge().control().held = false;
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.outputs.at(0).token_ids.size(), 20U);
}

TEST_F(Tenants, KeysMayChangeUnderLoad) {
  std::atomic<bool> stop{false};
  std::atomic<int> num_ok{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([this, &stop, &num_ok, i] {
      while (!stop) {
        if (i == 0) {
          EXPECT_TRUE(Generate(TextRequest("abc", 3), "all").status.ok());
        } else {
          EXPECT_THAT(server_.Http("GET", "/v1/models", KeyedServer::HeaderAs("all")), StartsWith("HTTP/1.1 200 "));
        }
        ++num_ok;
      }
    });
  }
  for (int i = 0; i < 100 || num_ok < 20; ++i) {
    server_.SetKeys({i % 2 == 0 ? FullKeyEntry("other") : kTinyOnly, FullKeyEntry("all")});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

// A call that is open, and has begun.
struct OpenCall {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
};

TEST(Shares, AKeysFloodLeavesRequestsToOthers) {
  KeyedServer server({FullKeyEntry("flood"), FullKeyEntry("light")}, {.max_concurrent_requests = 16});
  server.edge().control().held = true;
  std::vector<std::unique_ptr<OpenCall>> calls;
  const auto open = [&](const std::string& name) {
    calls.push_back(std::make_unique<OpenCall>());
    calls.back()->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    KeyedServer::As(name)(&calls.back()->context);
    calls.back()->reader = server.edge().stub()->Generate(&calls.back()->context, TextRequest("abc", 3));
    const auto opened = static_cast<int32_t>(calls.size());
    return Eventually([&] { return server.edge().server().admission_stats().requests == opened; });
  };
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(open("flood")) << i;
  const Reply refused = server.edge().Generate(TextRequest("abc", 3), KeyedServer::As("flood"));
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason(), "TOO_MANY_REQUESTS");
  EXPECT_EQ(refused.status.error_message(),
            "the caller has its share of the requests in flight, at most 7 times as many as are free of 16 "
            "(limits.max_concurrent_requests)");
  EXPECT_EQ(refused.Get<google::rpc::RetryInfo>().retry_delay().seconds(), 1);
  const std::string body = R"({"model":"tiny","prompt":"abc","max_tokens":2})";
  EXPECT_THAT(server.Http("POST", "/v1/completions", KeyedServer::HeaderAs("flood"), body),
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("\r\nRetry-After: 1\r\n")));
  EXPECT_TRUE(open("light"));
  server.edge().control().held = false;
  for (const std::unique_ptr<OpenCall>& call : calls) {
    Reply reply;
    ReadAll(call->reader.get(), &call->context, &reply);
    EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  }
}

TEST(Shares, BodiesThatAKeyHoldsBackLeaveBytesToOthersAndToItsOwnSmallRequests) {
  KeyedServer server({FullKeyEntry("flood"), FullKeyEntry("light")},
                     {.max_queued_bytes = 1 << 20, .max_http_body_bytes = 1 << 20});
  const std::string body = R"({"model":"tiny","prompt":"abc","max_tokens":2})";
  std::vector<RawClient> held;
  const auto hold = [&](int num_bodies, size_t bytes) {
    for (int i = 0; i < num_bodies; ++i) {
      held.emplace_back(server.edge().server().http_address());
      held.back().Send(absl::StrCat("POST /v1/completions HTTP/1.1\r\nContent-Length: 200000\r\n",
                                    KeyedServer::HeaderAs("flood"), "\r\n", std::string(bytes, ' ')));
    }
  };
  for (const size_t bytes : {size_t{0}, size_t{199'999}}) {
    hold(16, bytes);
    if (bytes > 0) {
      EXPECT_TRUE(Eventually([&] { return server.edge().server().admission_stats().queued_bytes > 600'000; }));
    }
    const auto complete = [&](const char* name) {
      return server.Http("POST", "/v1/completions", KeyedServer::HeaderAs(name), body);
    };
    EXPECT_THAT(complete("light"), StartsWith("HTTP/1.1 200 ")) << "beside " << bytes;
    // While bodies of its own still arrive, the key may be at its share; those that go beyond it are refused and leave.
    std::string own;
    EXPECT_TRUE(Eventually([&] { return (own = complete("flood")).starts_with("HTTP/1.1 200 "); }))
        << "beside " << bytes << ": " << own;
    const int64_t queued_bytes = server.edge().server().admission_stats().queued_bytes;
    EXPECT_LE(queued_bytes, 917'504);
    if (bytes > 0) {
      EXPECT_GT(queued_bytes, 600'000);
    }
  }
  RawClient large(server.edge().server().http_address());
  large.Send(absl::StrCat("POST /v1/completions HTTP/1.1\r\nContent-Length: 100000\r\nConnection: close\r\n",
                          KeyedServer::HeaderAs("light"), "\r\n", body, std::string(100'000 - body.size(), ' ')));
  EXPECT_THAT(large.ReadAll(), StartsWith("HTTP/1.1 200 ")) << "a large one of another";
}

TEST(Endpoints, AServerWithAnEndpointThatIsNotInTheTableDoesNotStart) {
  const AccessControl access;
  std::vector<HttpRoute> routes = {{"GET", "/new", [](const HttpRequest&) { return HttpReply(); }}};
  const absl::Status status = GuardRoutes(access, Endpoints(), &routes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("GET /new has no row"));
  EXPECT_TRUE(CheckEndpointsListed({"dunlin.v1.ModelService"}, Endpoints()).ok());
}

}  // namespace
}  // namespace dunlin::server
