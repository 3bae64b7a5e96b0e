// The text pool's part of taking an Embed call: from the message's bytes to a call the encoder will take.
// Thread rule: any thread; takes time linear in the inputs.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/encoder/encode_call.h"
#include "server/grpc/edge.h"
#include "server/request_record.h"

namespace dunlin::server {

struct EmbedPlan {
  const ServedModel* model = nullptr;
  std::unique_ptr<engine::EncodeCall> call;  // validated, with room for its vectors; arrival and deadline not set
  std::vector<bool> truncated;               // by input
};

// Parses, checks, tokenises, resolves the profile and asks EncoderEngine::Validate. Fills what it learns into *record,
// also when it then refuses.
absl::StatusOr<EmbedPlan> PlanEmbed(const grpc::ByteBuffer& wire, const grpc::CallbackServerContext& context,
                                    const Edge& edge, RequestRecord* record);

}  // namespace dunlin::server
