// The text pool's part of taking a Generate call: from the message's bytes to requests the engine will take.
// Pure but for the tokenizer's work. Thread rule: any thread; takes time linear in the prompt.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/convert/generate_request.h"
#include "server/grpc/edge.h"
#include "server/grpc/output_text.h"
#include "server/request_record.h"

namespace dunlin::server {

struct GeneratePlan {
  const ServedModel* model = nullptr;
  CheckedRequest request;           // prompt, profile and max_tokens final; arrival and deadline not set
  OutputText::Options output_text;  // of each output; prompt_tail points into request.engine.prompt
};

// Parses, checks, tokenises, resolves the profile and asks Engine::Validate. Fills what it learns into *record
// (request_id, model, profile, sizes), also when it then refuses.
absl::StatusOr<GeneratePlan> PlanGenerate(const grpc::ByteBuffer& wire, const grpc::CallbackServerContext& context,
                                          const Edge& edge, RequestRecord* record);

// The model of that name, which goes into the record. INVALID_ARGUMENT (none is named), NOT_FOUND.
absl::StatusOr<const ServedModel*> FindModel(const std::string& name, const Edge& edge, RequestRecord* record);

ModelFacts FactsOf(const ServedModel& model);

// FAILED_PRECONDITION with every reason that the profile table gives against the choice.
absl::Status RefuseProfile(const engine::ProfileTable& table, const engine::ExecutionChoice& choice,
                           const absl::Status& refusal);

}  // namespace dunlin::server
