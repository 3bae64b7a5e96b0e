// SPDX-License-Identifier: Apache-2.0
// A call over HTTP whose work is one function on the text pool: body in, document out. Thread rule: the handler's
// functions on the HTTP thread, the work on the text pool.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http_calls/http_call.h"
#include "server/serving/core/text_pool.h"

namespace dunlin::server {

// The work of a route, and how it renders errors: pure functions of their arguments and constant state. ignored: takes
// what of the body has no effect; null: such members are refused.
struct TextWork {
  absl::StatusOr<std::string> (*document)(const ServingCore& core, const Principal& caller, std::string_view body,
                                          IgnoredNames* ignored);
  std::string (*error_body)(const absl::Status& status);
  bool strict = false;  // members without effect are refused
};

class HttpTextCall final : public HttpCall, public TextTask {
 public:
  HttpTextCall(ServingCore* core, const TextWork& work) : HttpCall(core), work_(work) {}

  // POST `path`.
  static HttpRoute Route(ServingCore* core, const char* path, const TextWork& work);

 private:
  void Serve(const ClientCall& call, Admission::Ticket ticket) override;
  std::string ErrorBody(const absl::Status& status) override { return work_.error_body(status); }
  bool has_record() const override { return false; }
  void OnWriteDone(bool /*ok*/) override {}  // the response is whole
  void OnCancel() override {}                // the work is short
  void OnDone() override { ticket_ = Admission::Ticket(); }

  void Run() override;

  const TextWork work_;
  Principal caller_;
  Admission::Ticket ticket_;
};

}  // namespace dunlin::server
