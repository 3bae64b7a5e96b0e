// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/stream_requests.h"

#include <string>
#include <utility>

#include "server/fronts/kserve/infer_translators.h"
#include "server/serving/embed/embed_job.h"
#include "server/serving/generation/generation.h"
#include "server/serving/resolve/model_changes.h"
#include "server/serving/resolve/profile_alias.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server::kserve {
namespace {

class StreamGeneration final : public StreamRequest,
                               public ResponseWriter,
                               public std::enable_shared_from_this<StreamGeneration> {
 public:
  StreamGeneration(const grpc::ByteBuffer& message, std::string id, std::shared_ptr<StreamCall> stream)
      : message_(message), id_(std::move(id)), stream_(std::move(stream)) {}
  // Once, before Start.
  void Own(ServingCore* core, AdmittedCall admitted) {
    generation_ = std::make_shared<Generation>(core, std::move(admitted.ticket), admitted.client, shared_from_this());
  }

  void Start() override { generation_->Start(); }
  void Cancel() override { generation_->Cancel(); }
  void OnWritten(bool ok) override { generation_->OnWriteDone(ok); }
  void OnClosed() override { generation_->OnClosed(); }

  absl::Status ReadRequest(ClientRequest* request) override {
    absl::Status status = translator_.Read(message_, request);
    message_.Clear();
    if (!translator_.id().empty()) id_ = translator_.id();
    return status;
  }
  void Write(const OutputChunk& chunk) override {
    translator_.OnChunk(chunk, &messages_);
    if (messages_.empty()) return generation_->OnWriteDone(true);
    stream_->Send(shared_from_this(), &messages_, false);
  }
  void Finish(const ResponseEnd& end, const OutputChunk* last) override {
    if (!end.status.ok()) return stream_->Fail(shared_from_this(), id_, ToGrpcStatus(end.status));
    if (last != nullptr) translator_.OnChunk(*last, &messages_);
    translator_.OnEnd(&messages_);
    stream_->Send(shared_from_this(), &messages_, true);
  }
  void CutOff() override { stream_->CutOff(); }

 private:
  grpc::ByteBuffer message_;  // until it is parsed
  std::string id_;
  const std::shared_ptr<StreamCall> stream_;
  std::shared_ptr<Generation> generation_;  // const after Own; drops this writer in OnClosed
  GenerateTranslator translator_{Rpc::kStream};
  WireMessages messages_;
};

class StreamEmbedding final : public StreamRequest,
                              public EmbedWriter,
                              public std::enable_shared_from_this<StreamEmbedding> {
 public:
  StreamEmbedding(const grpc::ByteBuffer& message, std::string id, std::shared_ptr<StreamCall> stream)
      : message_(message), id_(std::move(id)), stream_(std::move(stream)) {}
  void Own(ServingCore* core, AdmittedCall admitted) {
    job_ = std::make_shared<EmbedJob>(core, std::move(admitted.ticket), admitted.client, shared_from_this());
  }

  void Start() override { job_->Start(); }
  void Cancel() override { job_->Cancel(); }
  void OnWritten(bool /*ok*/) override {}
  void OnClosed() override {}

  absl::Status ReadRequest(ClientEmbedRequest* request) override {
    absl::Status status = translator_.Read(message_, request);
    message_.Clear();
    if (!translator_.id().empty()) id_ = translator_.id();
    return status;
  }
  void Finish(const ResponseEnd& end, const EmbedResult* result) override {
    if (!end.status.ok()) return stream_->Fail(shared_from_this(), id_, ToGrpcStatus(end.status));
    WireMessages messages;
    messages.Add(translator_.StreamResponse(*result));
    stream_->Send(shared_from_this(), &messages, true);
  }

 private:
  grpc::ByteBuffer message_;  // until it is parsed
  std::string id_;
  const std::shared_ptr<StreamCall> stream_;
  std::shared_ptr<EmbedJob> job_;  // const after Own; drops this writer after its Finish
  EmbedTranslator translator_;
};

template <class Request>
std::shared_ptr<StreamRequest> Make(ServingCore* core, AdmittedCall admitted, const grpc::ByteBuffer& message,
                                    std::string id, std::shared_ptr<StreamCall> stream) {
  auto request = std::make_shared<Request>(message, std::move(id), std::move(stream));
  request->Own(core, std::move(admitted));
  return request;
}

}  // namespace

bool Embeds(const ServingCore& core, const Principal& caller, const std::string& model) {
  const NamedModel named = FindNamed(core, model);
  if (named.model != nullptr) return named.model->encoder != nullptr && caller.MayUse(named.name);
  // One that is loaded with this call.
  const absl::StatusOr<ModelStatus> status = ModelStatusFor(core, caller, FindKnown(core, model).model);
  return status.ok() && status->encoder;
}

std::shared_ptr<StreamRequest> MakeStreamRequest(ServingCore* core, AdmittedCall admitted,
                                                 const grpc::ByteBuffer& message, PeekedRequest peeked,
                                                 std::shared_ptr<StreamCall> stream) {
  const auto make =
      Embeds(*core, admitted.client.principal, peeked.model) ? Make<StreamEmbedding> : Make<StreamGeneration>;
  return make(core, std::move(admitted), message, std::move(peeked.id), std::move(stream));
}

}  // namespace dunlin::server::kserve
