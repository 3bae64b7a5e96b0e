// SPDX-License-Identifier: Apache-2.0
// The "data" of a tensor in JSON, nested or flat, to and from its raw bytes. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kserve/grpc_service.pb.h"
#include "server/json/json_value.h"

namespace dunlin::server::kserve {

// Appends the elements to *raw as the input's datatype has them. An unknown datatype appends nothing: DecodeTensor
// refuses it. Errors: INVALID_FIELD, an element of another type or out of the datatype's range.
absl::Status AppendJsonData(const inference::ModelInferRequest::InferInputTensor& input, const Json& data,
                            std::string* raw);

// A flat list. datatype: of an output of this server (BYTES, FP32, INT32, UINT32). Bytes that are not UTF-8 are
// replaced when the list becomes text, numbers that are not finite become null.
Json JsonDataOf(std::string_view datatype, std::string_view raw);

}  // namespace dunlin::server::kserve
