// SPDX-License-Identifier: Apache-2.0
// The JSON form of the protocol's messages: bodies of infer with JSON data or binary tensors behind the JSON, bodies of
// generate, and documents. Pure functions, any thread. Source: Open Inference Protocol, "HTTP/REST"; Triton's
// extensions "binary tensor data" and "generate".
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kserve/grpc_service.pb.h"

namespace dunlin::server::kserve {

// Which outputs of a response stand as bytes behind its JSON.
struct BinaryOutputs {
  bool others = false;  // those that neither list names
  std::vector<std::string> binary;
  std::vector<std::string> json;
  bool Has(std::string_view output) const;
};

// Reads the body of infer into *wire, its tensors into raw_input_contents. json_bytes: the length of the JSON at the
// head of the body; nothing: all of it. Errors: INVALID_FIELD of the part that is malformed; values are not quoted.
absl::Status ReadInferBody(std::string_view body, std::optional<size_t> json_bytes, inference::ModelInferRequest* wire,
                           BinaryOutputs* binary);

// Reads the body of generate: its members, and those of its object "parameters", are fields of the request.
// streams: the route streams unless the body says otherwise.
absl::Status ReadGenerateBody(std::string_view body, bool streams, inference::ModelInferRequest* wire);

// Reads the body of a request to the repository, which may be empty: an object that may have `member` and nothing else,
// and whether that member, an object, holds anything ("parameters" of a load) or is true ("ready" of an index).
absl::Status ReadRepositoryBody(std::string_view body, const char* member, bool* set);

struct InferBody {
  std::string bytes;
  size_t json_bytes = 0;  // of a body with binary outputs; 0: it is JSON alone
};
InferBody InferBodyOf(const inference::ModelInferResponse& response, const BinaryOutputs& binary);

// A document with an output per member, one element as itself, several as a list; what the response's parameters say of
// its outputs are members, too, as text: guesses, and the bound of a grammar.
std::string GenerateBodyOf(const inference::ModelInferResponse& response);

// The message by the names of its fields; empty lists stay, numbers are numbers.
std::string DocumentOf(const google::protobuf::Message& message);
// {"error": message}
std::string ErrorDocument(std::string_view message);

}  // namespace dunlin::server::kserve
