// SPDX-License-Identifier: Apache-2.0
// The fields of a request as one table: tensor names of Triton's vLLM backend, of TensorRT-LLM's ensemble and of
// Dynamo, parameters of vLLM's sampling, and the server's own. Each may stand in a tensor, in a parameter of the
// request or in sampling_parameters; a name that the table lacks is refused. Const data and pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "server/fronts/kserve/field_value.h"
#include "server/fronts/kserve/infer_outputs.h"
#include "server/json/field_table.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server::kserve {

// What the fields of a request say.
struct InferFields {
  ClientRequest request;                               // as far as fields fill it
  std::optional<std::vector<std::string>> text_input;  // one of a generation, one per input of an embedding
  std::optional<bool> stream;                          // a response per chunk
  std::optional<bool> exclude_input;                   // empty: as `stream`
  std::optional<std::string> guide_type;
  std::optional<std::string> guide;
  bool empty_final_response = false;  // triton_enable_empty_final_response
  OutputSet outputs = 0;              // asked for by return_*
  // Of an embedding.
  std::optional<engine::Pooling> pooling;
  std::optional<bool> normalize;
  std::optional<int32_t> dimensions;
  bool truncate = false;
};

// The parameter, or input of the generation, that holds sampling fields as one JSON object.
inline constexpr char kSamplingParameters[] = "sampling_parameters";

using CallSet = uint8_t;
inline constexpr CallSet kGenerate = 1;
inline constexpr CallSet kEmbed = 2;

// neutral is a number: a boolean is 0 or 1.
struct InferFieldRow : FieldRow<InferFields, FieldValue> {
  CallSet calls;
  const char* datatype = nullptr;  // of the inputs that a model's metadata lists; null: not listed
};
std::span<const InferFieldRow> InferFieldRows();

// Reads one field into *fields. Errors are recorded by value: a name without a row for this call, or the reader's.
void ReadInferField(const FieldValue& value, CallSet call, InferFields* fields);

}  // namespace dunlin::server::kserve
