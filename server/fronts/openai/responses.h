// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses, without state: nothing is stored, and every call brings its whole input.
// Owner: the call. Thread rule: one function at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/fronts/openai/generation_body.h"
#include "server/fronts/openai/output_blocks.h"
#include "server/http_calls/request_translator.h"
#include "server/http_calls/response_facts.h"

namespace dunlin::server {

class ResponsesTranslator final : public RequestTranslator {
 public:
  explicit ResponsesTranslator(const ResponseFacts& facts) : facts_(facts) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;
  bool streams() const override { return stream_; }
  void OnChunk(const OutputChunk& chunk, std::string* out) override;
  void OnEnd(const ResponseEnd& end, std::string* out) override;
  std::string ErrorBody(const absl::Status& status) override;

 private:
  class Events;

  void Begin(const OutputChunk& first);
  // The response object. failure: null, or why it failed.
  void AppendResponse(const char* status, const absl::Status* failure, std::string* out) const;
  void AppendUsage(std::string* out) const;
  // The head of an event, whose other members follow, each with a leading comma.
  void BeginEvent(const char* type, std::string* out);
  static void EndEvent(std::string* out) { out->append("}\n\n"); }
  void AppendResponseEvent(const char* type, const char* status, const absl::Status* failure, std::string* out);
  void AppendItem(size_t index, const OutputBlock& block, std::string_view status, std::string* out) const;
  // `"name":...`, with the namespace of a function that has one. offered: its name among the chat's tools.
  void AppendFunctionName(const std::string& offered, std::string* out) const;
  std::string ItemId(size_t index, const OutputBlock& block) const;
  const char* final_status() const { return incomplete_ ? "incomplete" : "completed"; }

  const ResponseFacts facts_;
  bool stream_ = false;
  std::string model_;
  std::string echoed_;                                           // members of the response that repeat the request's
  absl::flat_hash_map<std::string, NamespacedTool> namespaced_;  // by the name that is offered
  std::string request_id_;                                       // "" before the first chunk
  std::string head_;                                             // of the response object: "id" to "created_at"
  std::string execution_;                                        // in JSON
  std::string fingerprint_;
  bool incomplete_ = false;
  int64_t sequence_number_ = 0;
  OutputBlocks blocks_;
  CallTotals totals_;
};

}  // namespace dunlin::server
