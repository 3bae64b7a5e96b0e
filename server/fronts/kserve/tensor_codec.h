// SPDX-License-Identifier: Apache-2.0
// Tensors of the Open Inference Protocol. Input: raw little-endian bytes or typed contents, into scalars, with every
// shape and length checked. Output: always raw, since clients read nothing else of numbers.
// Pure functions, any thread. Source: Open Inference Protocol, "Tensor Data"; a BYTES element is a 4-byte little-endian
// length and so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kserve/grpc_service.pb.h"

namespace dunlin::server::kserve {

inline constexpr int kMaxTensorRank = 8;
inline constexpr size_t kMaxTensorElements = size_t{1} << 16;

// An element of a tensor, or the value of a parameter. BYTES are a string.
using Scalar = std::variant<bool, int64_t, uint64_t, double, std::string>;

// A datatype that inputs may have. Half precision has none: no field of a request is of that kind.
struct DatatypeTraits {
  const char* name;            // on the wire
  inference::DataType config;  // in a model's configuration
  size_t element_bytes;        // 0: BYTES, whose elements have their own lengths
};
std::span<const DatatypeTraits> Datatypes();
// Null if there is none of that name.
const DatatypeTraits* FindDatatype(std::string_view name);

// A name that a client chose, as errors show it: escaped, and truncated if it is long.
std::string PrintableName(std::string_view name);

// The elements of an input. raw: its entry of raw_input_contents; null: it has contents. Errors: INVALID_FIELD of
// "inputs[<name>].<part>".
absl::StatusOr<std::vector<Scalar>> DecodeTensor(const inference::ModelInferRequest::InferInputTensor& input,
                                                 const std::string* raw);

// Append an output of one dimension to the response, with its raw contents.
void AddBytesOutput(std::string_view name, std::span<const std::string> values,
                    inference::ModelInferResponse* response);
void AddFp32Output(std::string_view name, std::span<const float> values, inference::ModelInferResponse* response);
void AddInt32Output(std::string_view name, std::span<const int32_t> values, inference::ModelInferResponse* response);
void AddUint32Output(std::string_view name, std::span<const int32_t> values, inference::ModelInferResponse* response);
// FP32 [rows, columns], row-major.
void AddFp32Matrix(std::string_view name, int64_t rows, int64_t columns, const float* values,
                   inference::ModelInferResponse* response);

}  // namespace dunlin::server::kserve
