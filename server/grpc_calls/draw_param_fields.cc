// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/draw_param_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>

namespace dunlin::server {
namespace {

using engine::DrawParamTraits;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool HoldsParam(const FieldDescriptor* field, const DrawParamTraits& row) {
  if (field == nullptr || field->is_repeated()) return false;
  const FieldDescriptor::CppType type = field->cpp_type();
  if (std::holds_alternative<engine::FloatParam>(row.param)) return type == FieldDescriptor::CPPTYPE_FLOAT;
  return type == FieldDescriptor::CPPTYPE_INT32 || type == FieldDescriptor::CPPTYPE_UINT32;
}

int32_t IntegerOf(const Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) return reflection.GetInt32(message, field);
  constexpr uint32_t kLargest = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::min(reflection.GetUInt32(message, field), kLargest));
}

void ReadParam(const Message& message, const FieldDescriptor* field, const DrawParamTraits& row,
               engine::DrawParamOverrides* out) {
  const Reflection& reflection = *message.GetReflection();
  if (field->has_presence() && !reflection.HasField(message, field)) return;
  const auto is_absent = [&](auto value) { return !field->has_presence() && value == 0 && !AllowsZero(row); };
  if (const auto* number = std::get_if<engine::FloatParam>(&row.param)) {
    const float value = reflection.GetFloat(message, field);
    if (!is_absent(value)) out->*number->given = value;
  } else {
    const int32_t value = IntegerOf(message, field);
    if (!is_absent(value)) out->*std::get<engine::IntParam>(row.param).given = value;
  }
}

}  // namespace

DrawParamFields::DrawParamFields(const google::protobuf::Descriptor& request, const FieldNames& names) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const DrawParamTraits& row = engine::kDrawParamTable[i];
    const std::string path = names[row.field];
    const size_t dot = path.find('.');
    const google::protobuf::Descriptor* type = &request;
    Place place;
    if (dot != std::string::npos) {
      place.parent = request.FindFieldByName(path.substr(0, dot));
      if (place.parent == nullptr) continue;
      type = place.parent->message_type();
    }
    place.field = type == nullptr ? nullptr : type->FindFieldByName(path.substr(dot + 1));  // all of it without a dot
    if (HoldsParam(place.field, row)) places_[i] = place;
  }
}

void DrawParamFields::Read(const Message& request, engine::DrawParamOverrides* out) const {
  const Reflection& reflection = *request.GetReflection();
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.field == nullptr) continue;
    const Message& message = place.parent == nullptr ? request : reflection.GetMessage(request, place.parent);
    ReadParam(message, place.field, engine::kDrawParamTable[i], out);
  }
}

void WriteDrawParams(const kernels::DrawParams& defaults, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  for (const DrawParamTraits& row : engine::kDrawParamTable) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(row.name());
    if (!row.config_low.has_value() || !HoldsParam(field, row)) continue;
    if (const auto* number = std::get_if<engine::FloatParam>(&row.param)) {
      reflection.SetFloat(message, field, defaults.*number->value);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      reflection.SetInt32(message, field, defaults.*std::get<engine::IntParam>(row.param).value);
    }
  }
}

}  // namespace dunlin::server
