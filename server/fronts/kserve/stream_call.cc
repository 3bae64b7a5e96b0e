// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/stream_call.h"

#include <utility>
#include <variant>

#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/infer_translators.h"
#include "server/fronts/kserve/stream_requests.h"
#include "server/grpc_calls/refused_call.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server::kserve {
namespace {

// Enough for the responses of many requests at once to queue without stopping the reader.
constexpr size_t kMaxWaitingResponses = 64;
constexpr char kErrorsEndStream[] = "triton_grpc_error";

bool ErrorsEndStream(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kErrorsEndStream);
  return found != context.client_metadata().end() && found->second == "true";
}

}  // namespace

StreamCall::Reactor* StreamCall::Start(const CallAdmission& admission, const char* method,
                                       grpc::CallbackServerContext* context) {
  absl::StatusOr<Principal> caller = CallerOf(*admission.core(), method, *context);
  if (!caller.ok()) return RefusedCall<Reactor>::Start(admission.core(), context, ToGrpcReply(caller.status()));
  std::shared_ptr<StreamCall> call(new StreamCall(admission, context, *std::move(caller)));
  call->self_ = call;
  call->core_->stall_watch()->Watch(call);
  absl::MutexLock lock(&call->mutex_);
  call->ReadNext();
  return call.get();
}

StreamCall::StreamCall(const CallAdmission& admission, grpc::CallbackServerContext* context, Principal caller)
    : core_(admission.core()),
      admission_(admission),
      context_(context),
      caller_(std::move(caller)),
      errors_end_stream_(ErrorsEndStream(*context)),
      call_(context->c_call(), core_->limits()) {}

void StreamCall::OnDone() {
  core_->stall_watch()->Forget(this);
  call_.OnDone();
  const std::shared_ptr<StreamCall> last = std::move(self_);
}

void StreamCall::OnReadDone(bool ok) {
  grpc::ByteBuffer message;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) {
      no_more_requests_ = true;
      return FinishIfDone();
    }
    message.Swap(&incoming_);
  }
  StartRequest(message);
  absl::MutexLock lock(&mutex_);
  ReadNext();
}

void StreamCall::StartRequest(const grpc::ByteBuffer& message) {
  auto answer = admission_.Admit(caller_, *context_, message.Length(), CallAdmission::Kind::kInference);
  PeekedRequest peeked = Peek(message);
  if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
    return Fail(nullptr, peeked.id, refusal->reply().status);
  }
  std::shared_ptr<StreamRequest> request =
      MakeStreamRequest(core_, std::get<AdmittedCall>(std::move(answer)), message, std::move(peeked), self_);
  bool broken = false;
  {
    absl::MutexLock lock(&mutex_);
    requests_.insert(request);
    broken = broken_;
  }
  request->Start();
  if (broken) request->Cancel();
}

void StreamCall::ReadNext() {
  if (reading_ || no_more_requests_ || broken_ || waiting_.size() >= kMaxWaitingResponses) return;
  reading_ = true;
  StartRead(&incoming_);
}

void StreamCall::WriteNext() {
  if (writing_ || broken_ || waiting_.empty()) return;
  written_ = std::move(waiting_.front());
  waiting_.pop_front();
  writing_ = true;
  writing_since_.store(core_->now(), std::memory_order_relaxed);
  StartWrite(&written_.message);
}

void StreamCall::Send(const std::shared_ptr<StreamRequest>& request, WireMessages* messages, bool last) {
  {
    absl::MutexLock lock(&mutex_);
    if (!broken_ && !messages->empty()) {
      while (!messages->empty()) messages->TakeFirst(&waiting_.emplace_back().message);
      waiting_.back().request = request;
      waiting_.back().last = last;
      return WriteNext();
    }
    if (last) requests_.erase(request);
    FinishIfDone();
  }
  Outgoing unsent;
  unsent.request = request;
  unsent.last = last;
  Acknowledge(unsent, false);
}

void StreamCall::Fail(const std::shared_ptr<StreamRequest>& request, const std::string& id,
                      const grpc::Status& status) {
  WireMessages error;
  if (errors_end_stream_) {
    Break(status);
  } else {
    error.Add(StreamError(id, status.error_message()));
  }
  Send(request, &error, true);
}

void StreamCall::OnWriteDone(bool ok) {
  Outgoing written;
  {
    absl::MutexLock lock(&mutex_);
    written = std::move(written_);
    writing_ = false;
    writing_since_.store(0, std::memory_order_relaxed);
    if (written.last) requests_.erase(written.request);
    if (ok) {
      WriteNext();
      ReadNext();
      FinishIfDone();
    }
  }
  if (!ok) Break(grpc::Status(grpc::StatusCode::CANCELLED, "the client is gone"));
  Acknowledge(written, ok);
}

void StreamCall::OnCancel() {
  Break(grpc::Status(grpc::StatusCode::CANCELLED, "the client is gone"));
}

void StreamCall::Break(const grpc::Status& status) {
  Requests running;
  std::deque<Outgoing> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (broken_ || finished_) return;
    broken_ = true;
    end_ = status;
    dropped = std::move(waiting_);
    waiting_.clear();
    for (const Outgoing& one : dropped) {
      if (one.last) requests_.erase(one.request);
    }
    running.assign(requests_.begin(), requests_.end());
    FinishIfDone();
  }
  for (const Outgoing& one : dropped) Acknowledge(one, false);
  for (const std::shared_ptr<StreamRequest>& request : running) request->Cancel();
}

// The call is over once nothing more can come of it; a read or a write may be outstanding if it breaks.
void StreamCall::FinishIfDone() {
  const bool all_sent = no_more_requests_ && requests_.empty() && waiting_.empty() && !writing_;
  if (finished_ || !(broken_ || all_sent)) return;
  finished_ = true;
  Finish(end_);
}

void StreamCall::Acknowledge(const Outgoing& written, bool ok) {
  if (written.request == nullptr) return;
  if (written.last) {
    written.request->OnClosed();
  } else {
    written.request->OnWritten(ok);
  }
}

}  // namespace dunlin::server::kserve
