// SPDX-License-Identifier: Apache-2.0
// One generation over HTTP: passes its body to a Generation, and what its translator renders to the exchange. An error
// before the first chunk is a status of HTTP, a later one ends the stream of events.
// Thread rule: the handler's functions on the HTTP thread, the writer's as ResponseWriter says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http_calls/http_call.h"
#include "server/http_calls/request_translator.h"
#include "server/serving/generation.h"
#include "server/serving/response_writer.h"

namespace dunlin::server {

class HttpGeneration final : public HttpCall,
                             public ResponseWriter,
                             public std::enable_shared_from_this<HttpGeneration> {
 public:
  HttpGeneration(ServingCore* core, std::unique_ptr<RequestTranslator> translator)
      : HttpCall(core), translator_(std::move(translator)) {}

  // POST `path`, one translator per call.
  static HttpRoute Route(ServingCore* core, const char* path,
                         std::function<std::unique_ptr<RequestTranslator>()> new_translator);

 private:
  void Serve(const ClientCall& call, Admission::Ticket ticket) override;
  std::string ErrorBody(const absl::Status& status) override { return translator_->ErrorBody(status); }
  void OnWriteDone(bool ok) override { generation_->OnWriteDone(ok); }
  void OnCancel() override { generation_->Cancel(); }
  void OnDone() override { std::exchange(generation_, nullptr)->OnClosed(); }

  absl::Status ReadRequest(ClientRequest* request) override;
  void Write(const OutputChunk& chunk) override;
  void Finish(const ResponseEnd& end, const OutputChunk* last) override;
  void CutOff() override { exchange()->Abort(); }

  const std::unique_ptr<RequestTranslator> translator_;
  std::shared_ptr<Generation> generation_;  // from Serve to OnDone
  bool begun_ = false;                      // of the writer: the stream
};

}  // namespace dunlin::server
