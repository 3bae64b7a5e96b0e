// SPDX-License-Identifier: Apache-2.0
// One embedding call over HTTP: passes its body to an EmbedJob, and what its translator renders to the exchange.
// Thread rule: the handler's functions on the HTTP thread, the writer's as EmbedWriter says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http_calls/embed_translator.h"
#include "server/http_calls/http_call.h"
#include "server/serving/embed/embed_job.h"
#include "server/serving/output/response_writer.h"

namespace dunlin::server {

class HttpEmbedding final : public HttpCall, public EmbedWriter, public std::enable_shared_from_this<HttpEmbedding> {
 public:
  HttpEmbedding(ServingCore* core, std::unique_ptr<EmbedTranslator> translator)
      : HttpCall(core), translator_(std::move(translator)) {}

  // POST `path`, one translator per call.
  static HttpRoute Route(ServingCore* core, const char* path,
                         std::function<std::unique_ptr<EmbedTranslator>()> new_translator);

 private:
  void Serve(const ClientCall& call, Admission::Ticket ticket) override;
  std::string ErrorBody(const absl::Status& status) override { return translator_->ErrorBody(status); }
  void OnWriteDone(bool /*ok*/) override {}  // the response is whole
  void OnCancel() override {
    if (job_ != nullptr) job_->Cancel();  // null: the call was refused
  }
  void OnDone() override { job_.reset(); }

  absl::Status ReadRequest(ClientEmbedRequest* request) override;
  void Finish(const ResponseEnd& end, const EmbedResult* result) override;

  const std::unique_ptr<EmbedTranslator> translator_;
  std::shared_ptr<EmbedJob> job_;  // from Serve to OnDone
};

}  // namespace dunlin::server
