// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/inference_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/fronts/vllm/generate_translator.h"
#include "server/grpc_calls/generation_stream.h"
#include "server/grpc_calls/generation_unary.h"
#include "server/grpc_calls/refused_call.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr char kRankKey[] = "x-data-parallel-rank";
constexpr size_t kMaxQuotedRank = 16;

GenerationMethod MethodOf(const char* name, const CallAdmission* admission, RunningCalls* running, bool streams) {
  const ServingCore* core = admission->core();
  return {admission, name, [core, streams] { return std::make_unique<VllmGenerateTranslator>(core, streams); },
          running};
}

// A router names the rank that it has chosen; there is one.
std::optional<GrpcReply> RankRefusal(const grpc::CallbackServerContext& context) {
  const auto rank = context.client_metadata().find(kRankKey);
  if (rank == context.client_metadata().end() || rank->second == "0") return std::nullopt;
  const std::string value(rank->second.data(), std::min(rank->second.size(), kMaxQuotedRank));
  return ToGrpcReply(InvalidField(kRankKey, absl::StrCat("is \"", absl::CHexEscape(value), "\""), "0, the only rank"));
}

}  // namespace

VllmInferenceService::VllmInferenceService(ServingCore* core)
    : admission_(core),
      whole_(MethodOf("/vllm.Inference/Generate", &admission_, &running_, false)),
      streamed_(MethodOf("/vllm.Inference/GenerateStream", &admission_, &running_, true)) {}

grpc::ServerUnaryReactor* VllmInferenceService::Generate(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  if (const auto refusal = RankRefusal(*context)) return RefusedUnary::Start(admission_.core(), context, *refusal);
  return GenerationUnary::Start(whole_, context, *request, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* VllmInferenceService::GenerateStream(grpc::CallbackServerContext* context,
                                                                                 const grpc::ByteBuffer* request) {
  if (const auto refusal = RankRefusal(*context)) return RefusedStream::Start(admission_.core(), context, *refusal);
  return GenerationStream::Start(streamed_, context, *request);
}

}  // namespace dunlin::server
