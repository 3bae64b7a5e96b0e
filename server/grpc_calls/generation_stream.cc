// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/generation_stream.h"

#include <utility>
#include <variant>

#include "server/grpc_calls/refused_call.h"

namespace dunlin::server {

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationStream::Start(const GenerationMethod& method,
                                                                    grpc::CallbackServerContext* context,
                                                                    const grpc::ByteBuffer& message) {
  const CallAdmission& admission = *method.admission;
  auto answer = admission.Admit(method.name, *context, message.Length(), CallAdmission::Kind::kInference);
  if (const auto* refusal = std::get_if<CallRefusal>(&answer)) {
    return RefusedStream::Start(admission.core(), context, refusal->reply());
  }
  std::shared_ptr<GenerationStream> call(new GenerationStream(method, context, message));
  call->Begin(std::get<AdmittedCall>(std::move(answer)), call);
  return call.get();
}

bool GenerationStream::WriteNext() {
  if (messages_.empty()) return false;
  messages_.TakeFirst(&outgoing_);
  if (last_is_rendered_ && messages_.empty()) {
    finished_ = true;
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    writing_ = true;
    StartWrite(&outgoing_);
  }
  return true;
}

void GenerationStream::Render(const OutputChunk& chunk) {
  if (!std::exchange(announced_, true)) {
    AnnounceRequestId(chunk.request_id);
    translator()->OnChunk(chunk, &messages_);
    if (messages_.empty()) StartSendInitialMetadata();
    return;
  }
  translator()->OnChunk(chunk, &messages_);
}

void GenerationStream::Write(const OutputChunk& chunk) {
  bool taken = false;
  {
    absl::MutexLock lock(&mutex_);
    Render(chunk);
    taken = !WriteNext();
  }
  if (taken) generation()->OnWriteDone(true);
}

// A write may be outstanding; if the call has ended OK, what was rendered goes out behind it.
void GenerationStream::Finish(const ResponseEnd& end, const OutputChunk* last) {
  const std::shared_ptr<GenerationCall> alive = self();  // OnDone may come before the lock is released
  absl::MutexLock lock(&mutex_);
  if (end.status.ok()) {
    if (last != nullptr) Render(*last);
    translator()->OnEnd(&messages_);
    last_is_rendered_ = true;
  } else if (translator()->OnError(end.status, &messages_)) {
    if (!std::exchange(announced_, true)) AnnounceRequestId(end.request_id);
    last_is_rendered_ = true;
  }
  if (last_is_rendered_) {
    if (writing_ || WriteNext()) return;
    finished_ = true;
    return ServerWriteReactor::Finish(grpc::Status::OK);
  }
  messages_.Clear();
  finished_ = true;
  ServerWriteReactor::Finish(FailureOf(end, announced_));
}

void GenerationStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (finished_) return;
    if (!ok) messages_.Clear();  // the client is gone
    if (WriteNext()) return;
    if (last_is_rendered_) {
      finished_ = true;
      return ServerWriteReactor::Finish(grpc::Status::OK);
    }
  }
  generation()->OnWriteDone(ok);
}

}  // namespace dunlin::server
