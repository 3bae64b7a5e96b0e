// SPDX-License-Identifier: Apache-2.0
#include "tests/server/http_calls/http_front.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/string_view.h"
#include "server/http_calls/http_embedding.h"
#include "server/http_calls/http_generation.h"
#include "server/http_calls/http_text_call.h"
#include "server/serving/record/errors.h"
#include "tests/server/http_calls/test_translator.h"

namespace dunlin::server {
namespace {

class TestEmbedTranslator final : public EmbedTranslator {
 public:
  absl::Status Read(std::string_view body, ClientEmbedRequest* request) override {
    request->model = "encoder";
    request->inputs.emplace_back(std::string(body));
    return absl::OkStatus();
  }
  std::string Document(const EmbedResult& result) const override {
    return absl::StrCat(result.call.request.lengths.size(), " vectors");
  }
  std::string ErrorBody(const absl::Status& status) const override { return "error " + ReasonName(status); }
};

absl::StatusOr<std::string> Capitals(const ServingCore& /*core*/, const Principal& /*caller*/, std::string_view body,
                                     IgnoredNames* ignored) {
  if (absl::StartsWith(engine::AbslView(body), "odd")) ignored->Add("odd");
  if (body.empty()) return MakeError(Reason::kMalformedMessage, "the body is empty");
  return absl::AsciiStrToUpper(std::string(body));
}

std::string ErrorText(const absl::Status& status) {
  return "error " + ReasonName(status);
}

}  // namespace

HttpFront::HttpFront(const HttpFrontOptions& options)
    : models_(options.engine), core_(options.limits, models_.repository(), &observer_, options.serving) {
  HttpServerOptions http;
  http.connections = options.connections;
  http.timeouts = options.timeouts;
  http.timeouts.write = std::chrono::milliseconds(options.limits.slow_reader_timeout_ms);  // as Edge does
  http.routes = {HttpGeneration::Route(&core_, "/generate", &TestTranslator::New),
                 HttpEmbedding::Route(&core_, "/embed", [] { return std::make_unique<TestEmbedTranslator>(); }),
                 HttpTextCall::Route(&core_, "/text", {&Capitals, &ErrorText})};
  server_ = *HttpServer::Start("127.0.0.1:0", std::move(http));
  core_.Open();
}

// As Edge::Shutdown.
HttpFront::~HttpFront() {
  control().held = false;
  core_.StartDraining(AdmissionRefusal::kDraining);
  server_->StartDraining();
  EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(10)));
  models_.repository().StopEngines();
  server_->AbortExchangesAfter(std::chrono::milliseconds(0));
  EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(10)));
}

std::string HttpFront::Request(const std::string& path, const std::string& body, const std::string& headers) {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nContent-Length: ", body.size(), "\r\n", headers, "\r\n", body);
}

std::string HttpFront::Call(const std::string& path, const std::string& body, const std::string& headers) const {
  RawClient client = Connect();
  client.Send(Request(path, body, headers + "Connection: close\r\n"));
  return client.ReadAll();
}

}  // namespace dunlin::server
