// SPDX-License-Identifier: Apache-2.0
#include "server/json/execution_fields.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/request/speculation.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"

namespace dunlin::server {
namespace {

// The enumerator of a table's row, by its name in any case; "auto" leaves the choice empty.
template <class Row, size_t kRows, class Enum>
void ReadName(const JsonValue& value, const Row (&table)[kRows], Enum Row::*enumerator, std::optional<Enum>* choice) {
  if (!value.ExpectText()) return;
  const std::string name = value.Text();
  std::string names = "auto";
  std::optional<Enum> named;
  for (const Row& row : table) {
    if (absl::EqualsIgnoreCase(name, row.name)) named = row.*enumerator;
    absl::StrAppend(&names, ", ", row.name);
  }
  if (!named.has_value()) {
    if (!absl::EqualsIgnoreCase(name, "auto")) value.FailName("name", names);
    return;
  }
  if (choice->has_value() && *choice != named)
    return value.Fail("is another one than the request has elsewhere", "one");
  *choice = named;
}

}  // namespace

void ReadDevice(const JsonValue& value, engine::ExecutionChoice* choice) {
  ReadName(value, kernels::kDeviceKindTable, &kernels::DeviceKindTraits::kind, &choice->device);
}

void ReadAttentionBackend(const JsonValue& value, engine::ExecutionChoice* choice) {
  ReadName(value, kernels::kAttentionBackendTable, &kernels::AttentionBackendTraits::backend,
           &choice->attention_backend);
}

void ReadPrecision(const JsonValue& value, engine::ExecutionChoice* choice) {
  ReadName(value, kernels::kPrecisionTable, &kernels::PrecisionTraits::precision, &choice->precision);
}

void ReadSpeculation(const JsonValue& value, engine::ExecutionChoice* choice) {
  const bool is_number = value.json().is_number();
  const std::string word = is_number ? DumpJson(value.json()) : value.is_string() ? value.Text() : "";
  choice->max_drafts = engine::MaxDraftsNamed(word);
  if (choice->max_drafts.has_value()) return;
  value.is_string() ? value.FailName("word", engine::kSpeculationWords)
                    : value.Fail(value.Shown(), engine::kSpeculationWords);
}

}  // namespace dunlin::server
