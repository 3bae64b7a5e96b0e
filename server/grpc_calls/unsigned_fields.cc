// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/unsigned_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

using Names = std::initializer_list<std::string_view>;

constexpr uint32_t kLargest = std::numeric_limits<int32_t>::max();
constexpr int kMaxMapEntries = 4096;  // to look at its keys, a map is copied; the core takes fewer

bool HasName(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status TooLarge(const std::string& field, uint32_t value) {
  return InvalidField(field, absl::StrCat("is ", value), absl::StrCat("[0, ", kLargest, "]"));
}

absl::Status CheckList(const Message& message, const FieldDescriptor* field, const std::string& path) {
  const auto list = message.GetReflection()->GetRepeatedFieldRef<uint32_t>(message, field);
  const auto found = std::find_if(list.begin(), list.end(), [](uint32_t value) { return value > kLargest; });
  if (found == list.end()) return absl::OkStatus();
  return TooLarge(absl::StrCat(path, "[", std::distance(list.begin(), found), "]"), *found);
}

absl::Status CheckKeys(const Message& message, const FieldDescriptor* field, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  if (key->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) return absl::OkStatus();
  const int size = reflection.FieldSize(message, field);
  if (size > kMaxMapEntries) return absl::OkStatus();
  for (int i = 0; i < size; ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    const uint32_t value = entry.GetReflection()->GetUInt32(entry, key);
    if (value > kLargest) return TooLarge(absl::StrCat(path, " key"), value);
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const Message& message, Names but, const std::string& prefix);

absl::Status CheckMessages(const Message& message, const FieldDescriptor* field, Names but, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  if (!field->is_repeated()) {
    return CheckMessage(reflection.GetMessage(message, field), but, absl::StrCat(path, "."));
  }
  const int size = reflection.FieldSize(message, field);
  for (int i = 0; i < size; ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    absl::Status status = CheckMessage(entry, but, absl::StrCat(path, "[", i, "]."));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckField(const Message& message, const FieldDescriptor* field, Names but, const std::string& path) {
  if (field->is_map()) return CheckKeys(message, field, path);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return CheckMessages(message, field, but, path);
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_UINT32 || HasName(but, field->name())) return absl::OkStatus();
  if (field->is_repeated()) return CheckList(message, field, path);
  const uint32_t value = message.GetReflection()->GetUInt32(message, field);
  return value > kLargest ? TooLarge(path, value) : absl::OkStatus();
}

// prefix: of the names of its fields, "sampling.".
absl::Status CheckMessage(const Message& message, Names but, const std::string& prefix) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    absl::Status status = CheckField(message, field, but, absl::StrCat(prefix, field->name()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUnsignedFields(const Message& message, Names but) {
  return CheckMessage(message, but, "");
}

}  // namespace dunlin::server
