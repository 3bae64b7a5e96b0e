// SPDX-License-Identifier: Apache-2.0
// One call that generates text over HTTP: passes its body to a Generation, and what its translator renders to the
// exchange. An error before the first chunk is a status of HTTP, a later one ends the stream.
// A request with several prompts has a Generation for each, which share the response: chunks of one come while a write
// of another is outstanding, and go out with the next. The first error is the call's; the others are then cancelled.
// Thread rule: the handler's functions on the HTTP thread, a part's as ResponseWriter says, beside each other.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/http_calls/http_call.h"
#include "server/http_calls/request_translator.h"
#include "server/serving/generation/generation.h"
#include "server/serving/output/response_writer.h"

namespace dunlin::server {

// Of a response: max_tokens that applied, where the client asked for more than context and KV pool leave. Of a stream
// of several prompts, where it is known as the stream begins.
inline constexpr char kMaxTokensHeader[] = "x-dunlin-max-tokens";

class HttpGeneration final : public HttpCall, public std::enable_shared_from_this<HttpGeneration> {
 public:
  HttpGeneration(ServingCore* core, std::unique_ptr<RequestTranslator> translator)
      : HttpCall(core), translator_(std::move(translator)) {}

  // POST `path`, one translator per call.
  static HttpRoute Route(ServingCore* core, const char* path,
                         std::function<std::unique_ptr<RequestTranslator>()> new_translator);

 private:
  // Where a part's last chunk is: taken, in pending_, in the outstanding write.
  enum class PartState : uint8_t { kIdle, kPending, kInFlight };

  // The generation of one prompt, as its writer. Lives as long as the call.
  class Part final : public ResponseWriter {
   public:
    Part(HttpGeneration* call, size_t prompt) : call_(call), prompt_(prompt) {}

    absl::Status ReadRequest(ClientRequest* request) override;
    void Write(const OutputChunk& chunk) override { call_->WritePart(this, chunk); }
    void Finish(const ResponseEnd& end, const OutputChunk* last) override { call_->FinishPart(this, end, last); }
    void CutOff() override { call_->exchange()->Abort(); }

   private:
    friend class HttpGeneration;
    HttpGeneration* const call_;
    const size_t prompt_;
    ClientPrompt further_;  // a further prompt, until it is read
    // Guarded by the call's mutex.
    std::shared_ptr<Generation> generation_;  // null once it is closed
    PartState state_ = PartState::kIdle;
    bool finished_ = false;
  };
  using Generations = std::vector<std::shared_ptr<Generation>>;

  void Serve(const ClientCall& call, Admission::Ticket ticket) override;
  std::string ErrorBody(const absl::Status& status) override { return translator_->ErrorBody(status); }
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Makes the generation of a prompt; null if the client is gone.
  std::shared_ptr<Generation> AddPart(ClientPrompt further, Admission::Ticket ticket);
  absl::Status ReadFirst(ClientRequest* request);
  absl::Status StartFurther(std::vector<ClientPrompt> prompts, ClientRequest* first);
  void WritePart(Part* part, const OutputChunk& chunk);
  void FinishPart(Part* part, const ResponseEnd& end, const OutputChunk* last);

  // A reply of status 200 in the translator's form, with the headers that are known by now.
  HttpReply ReplyOf(const std::string& request_id, std::string body) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Render(const Part& part, const OutputChunk& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Renders a part's chunk, if it has one and no part has failed. False if there is nothing to send.
  bool RenderAndSend(Part* part, const OutputChunk* chunk, const std::string& request_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendPending(const std::string& request_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndResponse(const Part& part, const ResponseEnd& end, const OutputChunk* last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Generations OpenGenerations() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ClientCall call_;  // const from Serve on
  // Const once the first part has read the request.
  int32_t num_outputs_ = 1;       // of each prompt
  ClientRequest shared_request_;  // of several prompts, without one: copied by each as it is planned, so that many
                                  // prompts do not multiply the memory that a request takes

  const std::unique_ptr<RequestTranslator> translator_;

  mutable absl::Mutex mutex_;  // guards what follows; held while chunks are rendered, so that parts take turns
  std::vector<std::unique_ptr<Part>> parts_ ABSL_GUARDED_BY(mutex_);  // by prompt
  size_t num_unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string pending_ ABSL_GUARDED_BY(mutex_);  // events to send
  // Of the prompts whose output has begun, the lowest; none while no max_tokens was lowered.
  std::optional<int32_t> clamped_max_tokens_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // the stream
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // of the first part that failed
};

}  // namespace dunlin::server
