// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/infer_fields.h"
#include "server/fronts/kserve/infer_outputs.h"
#include "server/fronts/kserve/json_object.h"
#include "server/fronts/kserve/json_tensor.h"
#include "server/fronts/kserve/tensor_codec.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

using Wire = inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

constexpr char kParameters[] = "parameters";
constexpr char kBody[] = "body";  // in errors
constexpr char kBinaryDataSize[] = "binary_data_size";
constexpr char kBinaryData[] = "binary_data";
constexpr char kBinaryDataOutput[] = "binary_data_output";

// The member as a text; "" if it is absent. Errors: another type.
absl::Status ReadString(const Json& object, const char* name, std::string* out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_string()) return InvalidField(name, "is not a string", "");
  *out = found->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadParameter(const std::string& name, const Json& value, inference::InferParameter* out) {
  if (value.is_boolean()) {
    out->set_bool_param(value.get<bool>());
  } else if (value.is_number_unsigned()) {
    out->set_uint64_param(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    out->set_int64_param(value.get<int64_t>());
  } else if (value.is_number_float()) {
    out->set_double_param(value.get<double>());
  } else if (value.is_string()) {
    out->set_string_param(value.get<std::string>());
  } else {
    return InvalidField(absl::StrCat("parameters[", PrintableName(name), "]"), "is another type",
                        "a boolean, a number or a string");
  }
  return absl::OkStatus();
}

absl::Status ReadParameters(const Json& object, Parameters* out) {
  const auto found = object.find(kParameters);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_object()) return InvalidField(kParameters, "is not an object", "");
  for (const auto& [name, value] : found->items()) {
    if (absl::Status s = ReadParameter(name, value, &(*out)[name]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Takes the parameter out; nothing if it is absent or no boolean.
std::optional<bool> TakeFlag(const char* name, Parameters* parameters) {
  const auto found = parameters->find(name);
  if (found == parameters->end() || !found->second.has_bool_param()) return std::nullopt;
  const bool flag = found->second.bool_param();
  parameters->erase(found);
  return flag;
}

absl::Status ReadShape(const std::string& tensor, const Json& object, Wire::InferInputTensor* out) {
  const auto found = object.find("shape");
  const auto fail = [&tensor] {
    return InvalidField(absl::StrCat("inputs[", tensor, "].shape"), "is not a list of integers", "");
  };
  if (found == object.end() || !found->is_array() || found->size() > size_t{kMaxTensorRank}) return fail();
  for (const Json& dimension : *found) {
    if (!dimension.is_number_integer()) return fail();
    out->add_shape(dimension.get<int64_t>());
  }
  return absl::OkStatus();
}

// One input. binary: the bytes behind the JSON that no input has taken yet.
absl::Status ReadInput(const Json& object, std::string_view* binary, Wire* wire) {
  if (!object.is_object()) return InvalidField("inputs[*]", "is not an object", "");
  Wire::InferInputTensor* input = wire->add_inputs();
  absl::Status status = ReadString(object, "name", input->mutable_name());
  if (status.ok()) status = ReadString(object, "datatype", input->mutable_datatype());
  const std::string tensor = PrintableName(input->name());
  if (status.ok()) status = ReadShape(tensor, object, input);
  if (status.ok()) status = ReadParameters(object, input->mutable_parameters());
  if (!status.ok()) return status;
  std::string* raw = wire->add_raw_input_contents();
  const auto data = object.find("data");
  const auto size = input->parameters().find(kBinaryDataSize);
  if (size == input->parameters().end()) {
    if (data == object.end()) return InvalidField(absl::StrCat("inputs[", tensor, "].data"), "is missing", "");
    return AppendJsonData(*input, *data, raw);
  }
  const uint64_t bytes = size->second.uint64_param();
  if (!size->second.has_uint64_param() || bytes > binary->size()) {
    return InvalidField(absl::StrCat("inputs[", tensor, "].parameters[", kBinaryDataSize, "]"),
                        "is not a number of bytes that follow", absl::StrCat(binary->size(), " bytes"));
  }
  if (data != object.end()) {
    return InvalidField(absl::StrCat("inputs[", tensor, "].data"), "is given together with binary data",
                        "one of the two");
  }
  raw->assign(binary->substr(0, bytes));
  binary->remove_prefix(bytes);
  input->mutable_parameters()->erase(kBinaryDataSize);
  return absl::OkStatus();
}

absl::Status ReadOutput(const Json& object, Wire* wire, BinaryOutputs* binary) {
  if (!object.is_object()) return InvalidField("outputs[*]", "is not an object", "");
  Wire::InferRequestedOutputTensor* output = wire->add_outputs();
  absl::Status status = ReadString(object, "name", output->mutable_name());
  if (status.ok()) status = ReadParameters(object, output->mutable_parameters());
  if (!status.ok()) return status;
  const std::optional<bool> flag = TakeFlag(kBinaryData, output->mutable_parameters());
  if (flag.has_value()) (*flag ? binary->binary : binary->json).push_back(output->name());
  return absl::OkStatus();
}

// Each element of a member that is a list; nothing if it is absent.
template <class Read>
absl::Status ReadList(const Json& object, const char* name, Read read) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_array()) return InvalidField(name, "is not a list", "");
  for (const Json& element : *found) {
    if (absl::Status s = read(element); !s.ok()) return s;
  }
  return absl::OkStatus();
}

Json JsonOf(const google::protobuf::Message& message);

Json ValueOf(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field, int index) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& in = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      return many ? in.GetRepeatedBool(message, &field, index) : in.GetBool(message, &field);
    case Field::CPPTYPE_INT32:
      return many ? in.GetRepeatedInt32(message, &field, index) : in.GetInt32(message, &field);
    case Field::CPPTYPE_INT64:
      return many ? in.GetRepeatedInt64(message, &field, index) : in.GetInt64(message, &field);
    case Field::CPPTYPE_UINT32:
      return many ? in.GetRepeatedUInt32(message, &field, index) : in.GetUInt32(message, &field);
    case Field::CPPTYPE_UINT64:
      return many ? in.GetRepeatedUInt64(message, &field, index) : in.GetUInt64(message, &field);
    case Field::CPPTYPE_FLOAT:
      return many ? in.GetRepeatedFloat(message, &field, index) : in.GetFloat(message, &field);
    case Field::CPPTYPE_DOUBLE:
      return many ? in.GetRepeatedDouble(message, &field, index) : in.GetDouble(message, &field);
    case Field::CPPTYPE_ENUM:
      return (many ? in.GetRepeatedEnum(message, &field, index) : in.GetEnum(message, &field))->name();
    case Field::CPPTYPE_STRING:
      return many ? in.GetRepeatedString(message, &field, index) : in.GetString(message, &field);
    case Field::CPPTYPE_MESSAGE:
      break;
  }
  return JsonOf(many ? in.GetRepeatedMessage(message, &field, index) : in.GetMessage(message, &field));
}

Json JsonOf(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  Json object = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!field.is_repeated()) {
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      object[field.name()] = ValueOf(message, field, 0);
      continue;
    }
    Json list = field.is_map() ? Json::object() : Json::array();
    for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
      Json element = ValueOf(message, field, k);
      if (field.is_map()) {
        list[element["key"].get<std::string>()] = std::move(element["value"]);
      } else {
        list.push_back(std::move(element));
      }
    }
    object[field.name()] = std::move(list);
  }
  return object;
}

// The parameters of a response of this server are texts.
Json TextsOf(const Parameters& parameters) {
  Json texts = Json::object();
  for (const auto& [name, value] : parameters) texts[name] = value.string_param();
  return texts;
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool BinaryOutputs::Has(std::string_view output) const {
  return Contains(binary, output) || (others && !Contains(json, output));
}

absl::Status ReadInferBody(std::string_view body, std::optional<size_t> json_bytes, Wire* wire, BinaryOutputs* binary) {
  const size_t size = json_bytes.value_or(body.size());
  if (size > body.size()) {
    return InvalidField("Inference-Header-Content-Length", absl::StrCat("is ", size),
                        absl::StrCat("the body's ", body.size(), " bytes"));
  }
  absl::StatusOr<Json> object = ParseObject(kBody, body.substr(0, size));
  if (!object.ok()) return object.status();
  std::string_view tensors = body.substr(size);
  absl::Status status = ReadString(*object, "id", wire->mutable_id());
  if (status.ok()) status = ReadParameters(*object, wire->mutable_parameters());
  if (status.ok()) {
    binary->others = TakeFlag(kBinaryDataOutput, wire->mutable_parameters()).value_or(false);
    status = ReadList(*object, "inputs", [&](const Json& input) { return ReadInput(input, &tensors, wire); });
  }
  if (status.ok()) {
    status = ReadList(*object, "outputs", [&](const Json& output) { return ReadOutput(output, wire, binary); });
  }
  if (!status.ok() || tensors.empty()) return status;
  return InvalidField("body", absl::StrCat("has ", tensors.size(), " bytes behind its last tensor"), "0 bytes");
}

absl::Status ReadGenerateBody(std::string_view body, bool streams, Wire* wire) {
  absl::StatusOr<Json> object = ParseObject(kBody, body);
  if (!object.ok()) return object.status();
  if (absl::Status s = ReadString(*object, "id", wire->mutable_id()); !s.ok()) return s;
  nlohmann::json fields = nlohmann::json::object();  // not a Json, which would compare each name with all before it
  if (const auto found = object->find(kParameters); found != object->end()) {
    if (!found->is_object()) return InvalidField(kParameters, "is not an object", "");
    fields = *found;
  }
  for (const auto& [name, value] : object->items()) {
    if (name != "id" && name != kParameters) fields[name] = value;
  }
  (*wire->mutable_parameters())["stream"].set_bool_param(streams);  // the least of the places where it may stand
  Wire::InferInputTensor* input = wire->add_inputs();
  input->set_name(kSamplingParameters);
  input->set_datatype("BYTES");
  input->add_shape(1);
  input->mutable_contents()->add_bytes_contents(fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return absl::OkStatus();
}

absl::Status ReadRepositoryBody(std::string_view body, const char* member, bool* set) {
  *set = false;
  if (body.empty()) return absl::OkStatus();
  const absl::StatusOr<Json> object = ParseObject(kBody, body);
  if (!object.ok()) return object.status();
  for (const auto& [name, value] : object->items()) {
    if (name != member) return InvalidField("body", "has an unknown member", member);
    if (!value.is_object() && !value.is_boolean()) return InvalidField(member, "is not an object or a boolean", "");
    *set = value.is_object() ? !value.empty() : value.get<bool>();
  }
  return absl::OkStatus();
}

InferBody InferBodyOf(const inference::ModelInferResponse& response, const BinaryOutputs& binary) {
  Json document = {{"id", response.id()},
                   {"model_name", response.model_name()},
                   {"model_version", response.model_version()},
                   {"parameters", TextsOf(response.parameters())},
                   {"outputs", Json::array()}};
  if (response.id().empty()) document.erase("id");
  std::string tensors;
  bool has_binary = false;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    const std::string& raw = response.raw_output_contents(i);
    Json entry = {{"name", output.name()}, {"datatype", output.datatype()}, {"shape", Json::array()}};
    for (const int64_t dimension : output.shape()) entry["shape"].push_back(dimension);
    if (binary.Has(output.name())) {
      has_binary = true;
      entry["parameters"] = {{kBinaryDataSize, raw.size()}};
      tensors += raw;
    } else {
      entry["data"] = JsonDataOf(output.datatype(), raw);
    }
    document["outputs"].push_back(std::move(entry));
  }
  InferBody body{DumpJson(document), 0};
  if (has_binary) body.json_bytes = body.bytes.size();
  body.bytes += tensors;
  return body;
}

std::string GenerateBodyOf(const inference::ModelInferResponse& response) {
  Json document = Json::object();
  if (!response.id().empty()) document["id"] = response.id();
  document["model_name"] = response.model_name();
  document["model_version"] = response.model_version();
  for (int i = 0; i < response.outputs_size(); ++i) {
    Json data = JsonDataOf(response.outputs(i).datatype(), response.raw_output_contents(i));
    if (data.size() == 1) data = Json(data.front());
    document[response.outputs(i).name()] = std::move(data);
  }
  for (const char* name : {kDraftedTokens, kAcceptedTokens, kConstraintError}) {
    const auto found = response.parameters().find(name);
    if (found != response.parameters().end()) document[name] = found->second.string_param();
  }
  return DumpJson(document);
}

std::string DocumentOf(const google::protobuf::Message& message) {
  return DumpJson(JsonOf(message));
}

std::string ErrorDocument(std::string_view message) {
  return DumpJson(Json{{"error", message}});
}

}  // namespace dunlin::server::kserve
