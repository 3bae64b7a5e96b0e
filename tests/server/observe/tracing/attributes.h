// SPDX-License-Identifier: Apache-2.0
// A span's attributes as a map from the key to the value as text: "7", "0.5", "prompt".
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "opentelemetry/proto/trace/v1/trace.pb.h"

namespace dunlin::server {

inline std::map<std::string, std::string> AttributesOf(const opentelemetry::proto::trace::v1::Span& span) {
  using Value = opentelemetry::proto::common::v1::AnyValue;
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : span.attributes()) {
    const Value& value = attribute.value();
    std::string text = value.string_value();
    if (value.value_case() == Value::kIntValue) text = absl::StrCat(value.int_value());
    if (value.value_case() == Value::kDoubleValue) text = absl::StrCat(value.double_value());
    if (!attributes.emplace(attribute.key(), text).second) attributes[attribute.key()] = "given twice";
  }
  return attributes;
}

}  // namespace dunlin::server
