// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_request.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/field_names.h"
#include "server/serving/record/errors.h"
#include "text/utf8.h"

namespace dunlin::server::kserve {
namespace {

using Wire = inference::ModelInferRequest;
using text::GrammarKind;

constexpr int kPeekedFields = 8;
constexpr int kMaxPeekedBytes = 256;  // longer than any model's name or any request's id

struct GuideRow {
  const char* type;
  GrammarKind kind;
};
// guided_decoding_guide_type, in TensorRT-LLM's words.
constexpr GuideRow kGuides[] = {{"json", GrammarKind::kJsonObject},
                                {"json_schema", GrammarKind::kJsonSchema},
                                {"regex", GrammarKind::kRegex},
                                {"ebnf_grammar", GrammarKind::kGrammar}};

Scalar ParameterScalar(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam:
      return parameter.bool_param();
    case inference::InferParameter::kInt64Param:
      return parameter.int64_param();
    case inference::InferParameter::kDoubleParam:
      return parameter.double_param();
    case inference::InferParameter::kUint64Param:
      return parameter.uint64_param();
    case inference::InferParameter::kStringParam:
    case inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return parameter.string_param();
}

// classification, shared memory and the like; binary_data belongs to the HTTP form.
template <class Parameters>
absl::Status RefuseTensorParameters(std::string_view tensor, const Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    if (name == "binary_data") continue;
    return InvalidField(absl::StrCat(PrintableName(tensor), ".parameters[", PrintableName(name), "]"),
                        "is not supported", "");
  }
  return absl::OkStatus();
}

// Reads fields into *fields and records the first error.
class FieldReader {
 public:
  FieldReader(CallSet call, InferFields* fields) : call_(call), fields_(fields) {}

  void Read(std::string_view name, std::vector<Scalar> elements) {
    ReadInferField(FieldValue(name, std::move(elements), &status_), call_, fields_);
  }
  void ReadJson(std::string_view text) {
    absl::StatusOr<std::vector<JsonField>> members = ReadJsonFields(kSamplingParameters, text);
    if (!members.ok()) return Note(members.status());
    for (JsonField& member : *members) Read(member.name, std::move(member.elements));
  }
  void Note(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }

 private:
  const CallSet call_;
  InferFields* const fields_;
  absl::Status status_;
};

// Later ones win: parameters, then the members of sampling_parameters, then tensors of their own.
absl::Status ReadInputs(const Wire& wire, CallSet call, InferFields* fields) {
  FieldReader reader(call, fields);
  for (const auto& [name, value] : wire.parameters()) reader.Read(name, {ParameterScalar(value)});
  const bool raw = wire.raw_input_contents_size() > 0;
  if (raw && wire.raw_input_contents_size() != wire.inputs_size()) {
    return InvalidField("raw_input_contents", absl::StrCat("has ", wire.raw_input_contents_size(), " entries"),
                        absl::StrCat(wire.inputs_size(), ", one per input"));
  }
  std::set<std::string_view> names;
  std::vector<std::pair<std::string_view, std::vector<Scalar>>> tensors;
  for (int i = 0; i < wire.inputs_size(); ++i) {
    const Wire::InferInputTensor& input = wire.inputs(i);
    if (!names.insert(input.name()).second) return InvalidField(PrintableName(input.name()), "is given twice", "once");
    if (raw && input.has_contents()) {
      return InvalidField(absl::StrCat("inputs[", PrintableName(input.name()), "].contents"),
                          "is given together with raw_input_contents", "one of the two");
    }
    if (absl::Status s = RefuseTensorParameters(input.name(), input.parameters()); !s.ok()) return s;
    absl::StatusOr<std::vector<Scalar>> elements = DecodeTensor(input, raw ? &wire.raw_input_contents(i) : nullptr);
    if (!elements.ok()) return elements.status();
    if (input.name() != kSamplingParameters) {
      tensors.emplace_back(input.name(), *std::move(elements));
      continue;
    }
    absl::Status status;
    const std::string text = FieldValue(kSamplingParameters, *std::move(elements), &status).Text();
    if (!status.ok()) return status;
    reader.ReadJson(text);
  }
  for (auto& [name, elements] : tensors) reader.Read(name, std::move(elements));
  return reader.status();
}

absl::Status ReadRequestedOutputs(const Wire& wire, OutputSet* outputs) {
  OutputSet named = 0;
  for (const Wire::InferRequestedOutputTensor& output : wire.outputs()) {
    if (absl::Status s = RefuseTensorParameters(output.name(), output.parameters()); !s.ok()) return s;
    const OutputSet one = OutputNamed(output.name());
    if (one == 0)
      return InvalidField(absl::StrCat("outputs[", PrintableName(output.name()), "]"), "is not an output", "");
    named |= one;
  }
  *outputs = named == 0 ? *outputs | kTextOutput : named;
  return absl::OkStatus();
}

absl::Status ReadGuide(const InferFields& fields, ClientRequest* request) {
  if (!fields.guide_type.has_value()) {
    if (!fields.guide.has_value()) return absl::OkStatus();
    return InvalidField("guided_decoding_guide_type", "is missing", "");
  }
  std::string types;
  for (const GuideRow& row : kGuides) {
    if (*fields.guide_type == row.type) {
      request->structured_output = text::GrammarSource{row.kind, fields.guide.value_or(""), {}};
      return absl::OkStatus();
    }
    absl::StrAppend(&types, types.empty() ? "" : ", ", row.type);
  }
  return InvalidField("guided_decoding_guide_type", UnknownName(*fields.guide_type, "name"), types);
}

absl::Status ReadText(std::optional<std::vector<std::string>> texts, ClientRequest* request) {
  if (!texts.has_value()) return absl::OkStatus();
  if (texts->size() != 1) {
    return InvalidField("text_input", absl::StrCat("has ", texts->size(), " elements"), "1 element");
  }
  request->prompt = std::move(texts->front());
  return absl::OkStatus();
}

absl::Status ReadStream(const InferFields& fields, Rpc rpc, ClientRequest* request, ResponseForm* form) {
  form->stream = fields.stream.value_or(false);
  form->empty_final_response = fields.empty_final_response;
  if (form->stream && rpc == Rpc::kInfer) {
    return InvalidField("stream", "is true", "false in ModelInfer; ModelStreamInfer streams");
  }
  const bool exclude = fields.exclude_input.value_or(form->stream);
  if (form->stream && !exclude) {
    return InvalidField("exclude_input_in_output", "is false", "true with stream");
  }
  request->output.echo = !exclude;
  return absl::OkStatus();
}

}  // namespace

bool IsServedVersion(std::string_view version) {
  return version.empty() || version == kModelVersion;
}

PeekedRequest Peek(const grpc::ByteBuffer& message) {
  using google::protobuf::internal::WireFormatLite;
  PeekedRequest peeked;
  grpc::ByteBuffer shared = message;  // the reader takes a pointer to one that it may change
  grpc::ProtoBufferReader bytes(&shared);
  if (!bytes.status().ok()) return peeked;
  google::protobuf::io::CodedInputStream input(&bytes);
  for (int i = 0; i < kPeekedFields; ++i) {
    const uint32_t tag = input.ReadTag();
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool text = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    int size = 0;
    std::string value;
    if (!text || field > Wire::kIdFieldNumber || !input.ReadVarintSizeAsInt(&size) || size > kMaxPeekedBytes ||
        !input.ReadString(&value, size)) {
      break;
    }
    if (field == Wire::kModelNameFieldNumber) {
      peeked.model = std::move(value);
    } else if (field == Wire::kIdFieldNumber) {
      peeked.id = std::move(value);
    }
  }
  if (!text::IsValidUtf8(peeked.id)) peeked.id.clear();
  return peeked;
}

absl::Status ReadIdentity(const Wire& wire, ResponseForm* form) {
  form->model = wire.model_name();
  form->id = wire.id();
  if (IsServedVersion(wire.model_version())) return absl::OkStatus();
  return UnknownModel(absl::StrCat(wire.model_name(), "/versions/", wire.model_version()));
}

absl::Status GenerateRequestOf(const Wire& wire, Rpc rpc, ClientRequest* request, ResponseForm* form) {
  InferFields fields;
  absl::Status status = ReadIdentity(wire, form);
  if (status.ok()) status = ReadInputs(wire, kGenerate, &fields);
  *request = std::move(fields.request);
  request->field_names = &kInferFieldNames;
  request->request_id = form->id;
  request->model = form->model;
  if (status.ok()) status = ReadText(std::move(fields.text_input), request);
  if (status.ok()) status = ReadStream(fields, rpc, request, form);
  if (status.ok()) status = ReadGuide(fields, request);
  form->outputs = fields.outputs;
  if (status.ok()) status = ReadRequestedOutputs(wire, &form->outputs);
  form->num_outputs = static_cast<size_t>(std::max(request->num_outputs, 1));
  if (request->num_outputs > 1 && form->stream) form->outputs |= kSequenceIndex;
  if ((form->outputs & kScoredOutputs) != 0 && !request->output.logprobs.has_value()) request->output.logprobs = 0;
  return status;
}

absl::Status EmbedRequestOf(const Wire& wire, ClientEmbedRequest* request, ResponseForm* form) {
  InferFields fields;
  absl::Status status = ReadIdentity(wire, form);
  if (status.ok()) status = ReadInputs(wire, kEmbed, &fields);
  request->field_names = &kInferFieldNames;
  request->request_id = form->id;
  request->model = form->model;
  if (fields.text_input.has_value()) {
    for (std::string& text : *fields.text_input) request->inputs.emplace_back(std::move(text));
  }
  request->pooling = fields.pooling;
  request->normalize = fields.normalize;
  request->dimensions = fields.dimensions;
  request->truncate = fields.truncate;
  request->execution = fields.request.execution;
  for (const Wire::InferRequestedOutputTensor& output : wire.outputs()) {
    if (status.ok()) status = RefuseTensorParameters(output.name(), output.parameters());
    if (status.ok() && output.name() != kEmbeddingOutput) {
      status = InvalidField(absl::StrCat("outputs[", PrintableName(output.name()), "]"), "is not an output",
                            kEmbeddingOutput);
    }
  }
  return status;
}

}  // namespace dunlin::server::kserve
