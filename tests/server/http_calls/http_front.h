// SPDX-License-Identifier: Apache-2.0
// The serving core over the models of tests/server/serving/test_models.h, behind an HTTP port with the routes
// POST /generate (test_translator.h), /embed (a document of "N vectors") and /text (the body, in capitals).
#pragma once

#include <memory>
#include <string>

#include "server/serving/core/serving_core.h"
#include "server/transport/http/http_server.h"
#include "tests/server/serving/test_models.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {

struct HttpFrontOptions {
  Limits limits;
  engine::EngineOptions engine;
  ConnectionLimits connections{64, 64};
  HttpTimeouts timeouts;
  ServingOptions serving;
};

class HttpFront {
 public:
  explicit HttpFront(const HttpFrontOptions& options = {});
  ~HttpFront();

  TestModels& models() { return models_; }
  RuntimeControl& control() { return models_.control(); }
  RecordingObserver& observer() { return observer_; }
  ServingCore& core() { return core_; }
  HttpServer& server() { return *server_; }
  const ServedModel& model(const std::string& name) const { return models_.model(name); }

  RawClient Connect(int receive_buffer = 0) const { return RawClient(server_->bound_address(), receive_buffer); }
  // The request of a call with more header lines, each ended by "\r\n".
  static std::string Request(const std::string& path, const std::string& body, const std::string& headers = "");
  // One call on a connection of its own; everything that comes back.
  std::string Call(const std::string& path, const std::string& body, const std::string& headers = "") const;

 private:
  TestModels models_;
  RecordingObserver observer_;
  ServingCore core_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace dunlin::server
