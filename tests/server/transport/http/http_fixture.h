// SPDX-License-Identifier: Apache-2.0
// A server with routes for tests: GET /plain and /items/{name} are answered at once, POST /calls opens a handler that
// the test answers.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/transport/http/http_server.h"
#include "tests/server/transport/http/raw_client.h"
#include "tests/server/transport/http/recording_handler.h"

namespace dunlin::server {

class HttpFixture : public ::testing::Test {
 protected:
  static constexpr size_t kMaxBody = 1000;

  void Start(const HttpTimeouts& timeouts = {}, std::vector<std::string> cors_origins = {},
             std::vector<std::string> host_names = {}, size_t max_body = kMaxBody) {
    HttpServerOptions options;
    options.connections = {64, 64};
    options.timeouts = timeouts;
    options.cors_origins = std::move(cors_origins);
    options.host_names = std::move(host_names);
    options.has_keys = [this] { return has_keys_.load(); };
    HttpRoute plain{"GET", "/plain", [](const HttpRequest&) { return HttpReply{200, kPlainText, "plain\n"}; }};
    plain.cors = true;
    plain.refusal_body = [](const absl::Status& status) {
      const std::string code = absl::IsNotFound(status) ? "unknown" : "refused";
      return "{\"" + code + "\":\"" + std::string(status.message()) + "\"}";
    };
    plain.client_header = "plain-version";
    HttpRoute calls{"POST", "/calls"};
    calls.open = [this] { return Open(); };
    calls.max_body_bytes = max_body;
    calls.max_body_key = "limits.test";
    calls.cors = true;
    const auto item = [](const HttpRequest& request) { return HttpReply{200, kPlainText, request.parameter + "\n"}; };
    options.routes = {plain, calls, {"GET", "/items/{name}", item}};
    options.on_response = [this](std::string_view route, int status) {
      absl::MutexLock lock(&mutex_);
      ++responses_[std::string(route) + " " + std::to_string(status)];
    };
    server_ = *HttpServer::Start("127.0.0.1:0", std::move(options));
  }

  RawClient Connect(int receive_buffer = 0) { return RawClient(server_->bound_address(), receive_buffer); }

  // What comes back until the server closes.
  std::string Send(const std::string& bytes) {
    RawClient client = Connect();
    client.Send(bytes);
    return client.ReadAll();
  }

  // The handler of the n-th call, counted from 0; null after 20 s without it.
  std::shared_ptr<RecordingHandler> Handler(size_t n) {
    absl::MutexLock lock(&mutex_);
    const auto opened = [this, n]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return handlers_.size() > n; };
    const bool found = mutex_.AwaitWithTimeout(absl::Condition(&opened), absl::Seconds(20));
    EXPECT_TRUE(found);
    return found ? handlers_[n] : nullptr;
  }

  // By "ROUTE STATUS".
  std::map<std::string, int> responses() {
    absl::MutexLock lock(&mutex_);
    return responses_;
  }

  std::optional<HttpReply> refusal_;   // of every call; set before requests
  size_t max_body_bytes_ = SIZE_MAX;   // of every call's handler; set before requests
  std::atomic<bool> has_keys_{false};  // HttpServerOptions::has_keys
  std::unique_ptr<HttpServer> server_;

 private:
  std::shared_ptr<HttpHandler> Open() {
    absl::MutexLock lock(&mutex_);
    handlers_.push_back(std::make_shared<RecordingHandler>(refusal_, max_body_bytes_));
    return handlers_.back();
  }

  absl::Mutex mutex_;  // guards what follows, between the HTTP thread and the test's
  std::vector<std::shared_ptr<RecordingHandler>> handlers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> responses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
