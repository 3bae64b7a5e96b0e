// SPDX-License-Identifier: Apache-2.0
// ModelInferRequest -> the fields of a request, and from these to what the serving core takes. Pure functions, any
// thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kserve/grpc_service.pb.h"
#include "server/fronts/kserve/infer_fields.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server::kserve {

// The only version that a model has.
inline constexpr char kModelVersion[] = "1";
// Whether it is that version, or none.
bool IsServedVersion(std::string_view version);

// How the response of a generation looks.
struct ResponseForm {
  std::string model;
  std::string id;  // of the client's request; may be empty
  OutputSet outputs = 0;
  size_t num_outputs = 1;             // completions of the prompt
  bool stream = false;                // a response per chunk
  bool empty_final_response = false;  // the last one may have no outputs
};

enum class Rpc : uint8_t { kInfer, kStream };

// model_name and id of an unread message, if they stand before its other fields, as serialisers write them; else "".
// Reads no further.
struct PeekedRequest {
  std::string model;
  std::string id;
};
PeekedRequest Peek(const grpc::ByteBuffer& message);
// model_name and id, which are in *form even after an error. Errors: a model version that is not served.
absl::Status ReadIdentity(const inference::ModelInferRequest& wire, ResponseForm* form);

// Errors: a malformed tensor, a field that does not exist, is given twice, is refused or has a value of another type;
// an output that does not exist; a combination that the protocol forbids. *request and *form hold what could be read.
absl::Status GenerateRequestOf(const inference::ModelInferRequest& wire, Rpc rpc, ClientRequest* request,
                               ResponseForm* form);
absl::Status EmbedRequestOf(const inference::ModelInferRequest& wire, ClientEmbedRequest* request, ResponseForm* form);

}  // namespace dunlin::server::kserve
