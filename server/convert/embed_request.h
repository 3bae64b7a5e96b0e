// EmbedRequest -> what the encoder's engine needs, and its answer back. Every field is checked before anything is
// allocated for it. Pure functions, any thread (the text pool, in the server).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/embedding.pb.h"
#include "engine/encoder/embedding_settings.h"
#include "engine/encoder/encode_call.h"
#include "server/limits.h"

namespace dunlin::server {

// What the checks must know of a model.
struct EncoderFacts {
  int32_t hidden_dim = 0;
  bool has_tokenizer = false;
  engine::EmbeddingSettings settings;
};

// What is not in the inputs: pooling, dimensions, normalize. lengths and tokens are left empty.
struct CheckedEmbed {
  engine::EncodeRequest engine;
  engine::ExecutionChoice choice;
};

// Errors: INVALID_ARGUMENT (a field; an answer that would be larger than a message), FAILED_PRECONDITION (text without
// a tokenizer). request_id and model are not looked at: the caller did. Token ids are checked by
// EncoderEngine::Validate.
absl::StatusOr<CheckedEmbed> CheckEmbedRequest(const v1::EmbedRequest& wire, const EncoderFacts& facts,
                                               const Limits& limits);

v1::Pooling ToWire(engine::Pooling pooling);

// All but request_id and Embedding.truncated. REQUIRES: call.reason is kStop.
v1::EmbedResponse EmbedToWire(const engine::EncodeCall& call);

}  // namespace dunlin::server
