// SPDX-License-Identifier: Apache-2.0
#include "server/access/key_set.h"

#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/base/string_view.h"
#include "engine/request/options.h"

namespace dunlin::server {
namespace {

using engine::JsonFields;
using Json = nlohmann::json;

constexpr std::string_view kNameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr size_t kMaxModels = 256;
constexpr int64_t kMaxPerMinute = int64_t{1} << 40;
constexpr int64_t kMaxConcurrent = 1 << 20;
constexpr const char* kFields[] = {"name",
                                   "hashes",
                                   "permissions",
                                   "models",
                                   "max_priority",
                                   "requests_per_minute",
                                   "tokens_per_minute",
                                   "max_concurrent",
                                   "attention_backends",
                                   "precisions",
                                   "not_after"};

void RefuseUnknownFields(const Json& object, std::span<const char* const> known, JsonFields* fields) {
  for (const auto& [name, unused] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) fields->Fail("unknown field \"" + name + "\"");
  }
}

// A list that must be there, with at least one entry.
std::vector<std::string> Entries(const char* name, size_t max_count, JsonFields* fields) {
  std::vector<std::string> entries = fields->TextListOr(name, max_count);
  if (entries.empty()) fields->Fail(absl::StrCat(name, " has no entry; limit is [1, ", max_count, "]"));
  return entries;
}

// Which rows of a table the list names.
template <typename Row, size_t kRows>
std::bitset<kRows> Choices(const char* name, const Row (&table)[kRows], JsonFields* fields) {
  std::bitset<kRows> chosen;
  for (const std::string& entry : Entries(name, kRows, fields)) {
    const Row* row = kernels::FindByName(table, entry);
    if (row == nullptr) {
      std::string allowed;
      for (const Row& choice : table) absl::StrAppend(&allowed, allowed.empty() ? "" : "|", choice.name);
      fields->Fail(absl::StrCat(name, " has \"", entry, "\"; limit is ", allowed));
      continue;
    }
    chosen.set(static_cast<size_t>(row - table));
  }
  return chosen;
}

// The same; all of them if the field is absent.
template <typename Row, size_t kRows>
std::bitset<kRows> ChoicesOrAll(const char* name, const Row (&table)[kRows], JsonFields* fields) {
  return fields->Mentions(name) ? Choices(name, table, fields) : std::bitset<kRows>().set();
}

void ReadDigests(JsonFields* fields, KeyRecord* record) {
  for (const std::string& text : Entries("hashes", kMaxKeysPerRecord, fields)) {
    const std::optional<KeyDigest> digest = ParseDigest(text);
    if (!digest.has_value())
      fields->Fail("hashes has an entry that is not sha256: and 64 lower-case hexadecimal digits");
    if (digest.has_value()) record->digests.push_back(*digest);
  }
}

void ReadModels(JsonFields* fields, KeyRecord* record) {
  record->models = Entries("models", kMaxModels, fields);
  record->all_models = std::find(record->models.begin(), record->models.end(), "*") != record->models.end();
  if (record->all_models && record->models.size() > 1)
    fields->Fail("models has \"*\" and others; limit is \"*\" alone");
}

std::optional<int64_t> Limit(const char* name, int64_t max, JsonFields* fields) {
  if (!fields->Has(name)) return std::nullopt;
  return fields->Int(name, 0, max);
}

void ReadNotAfter(JsonFields* fields, KeyRecord* record) {
  if (!fields->Mentions("not_after")) return;
  const std::string text = fields->TextOr("not_after", "");
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &record->not_after, &error)) {
    fields->Fail(absl::StrCat("not_after is \"", text, "\"; limit is a time as 2030-01-31T00:00:00Z"));
  }
}

absl::StatusOr<std::shared_ptr<const KeyRecord>> ReadRecord(const Json& object, const std::string& where) {
  if (!object.is_object()) return absl::InvalidArgumentError(where + ": not an object");
  JsonFields fields(object, where);
  auto record = std::make_shared<KeyRecord>();
  RefuseUnknownFields(object, kFields, &fields);
  record->name = fields.TextOr("name", "");
  if (!IsKeyName(record->name)) {
    fields.Fail(absl::StrCat("name is not 1 to ", kMaxKeyNameBytes, " letters, digits, '.', '_' or '-', and not \"",
                             engine::AbslView(kUnknownKey), "\""));
  }
  ReadDigests(&fields, record.get());
  record->permissions = Choices("permissions", kPermissionTable, &fields);
  ReadModels(&fields, record.get());
  record->max_priority =
      static_cast<int32_t>(fields.IntOr("max_priority", -engine::kMaxPriority, engine::kMaxPriority, 0));
  record->quota.requests_per_minute = Limit("requests_per_minute", kMaxPerMinute, &fields);
  record->quota.tokens_per_minute = Limit("tokens_per_minute", kMaxPerMinute, &fields);
  record->quota.concurrent_streams = Limit("max_concurrent", kMaxConcurrent, &fields);
  record->attention_backends = ChoicesOrAll("attention_backends", kernels::kAttentionBackendTable, &fields);
  record->precisions = ChoicesOrAll("precisions", kernels::kPrecisionTable, &fields);
  ReadNotAfter(&fields, record.get());
  if (!fields.status().ok()) return fields.status();
  return std::shared_ptr<const KeyRecord>(std::move(record));
}

}  // namespace

bool IsKeyName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxKeyNameBytes && name.find_first_not_of(kNameBytes) == name.npos &&
         name != kUnknownKey;
}

absl::StatusOr<std::shared_ptr<const KeySet>> KeySet::Parse(std::string_view text, const std::string& where) {
  const absl::StatusOr<Json> document = engine::ParseJsonObject(text, where);
  if (!document.ok()) return document.status();
  JsonFields fields(*document, where);
  constexpr const char* kTopFields[] = {"keys"};
  RefuseUnknownFields(*document, kTopFields, &fields);
  const auto list = document->find("keys");
  if (list == document->end() || !list->is_array()) fields.Fail("keys is not a list");
  if (!fields.status().ok()) return fields.status();
  if (list->size() > kMaxKeyRecords) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": keys has ", list->size(), " entries; limit is ", kMaxKeyRecords));
  }
  auto keys = std::make_shared<KeySet>();
  std::set<std::string> names;
  std::set<KeyDigest> digests;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string at = absl::StrCat(where, ": keys[", i, "]");
    absl::StatusOr<std::shared_ptr<const KeyRecord>> record = ReadRecord((*list)[i], at);
    if (!record.ok()) return record.status();
    if (!names.insert((*record)->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(at, ".name is \"", (*record)->name, "\"; limit is one entry a name"));
    }
    for (const KeyDigest& digest : (*record)->digests) {
      if (!digests.insert(digest).second) {
        return absl::InvalidArgumentError(at + ".hashes has an entry that is in the file twice");
      }
      keys->rows_.push_back({digest, i});
    }
    keys->records_.push_back(*std::move(record));
  }
  return std::shared_ptr<const KeySet>(std::move(keys));
}

std::shared_ptr<const KeyRecord> KeySet::Find(const KeyDigest& digest) const {
  size_t found = 0;  // the record's number and 1
  for (const Row& row : rows_) {
    const auto equal = static_cast<size_t>(EqualInConstantTime(row.digest, digest));
    found |= (row.record + 1) & (size_t{0} - equal);
  }
  return found == 0 ? nullptr : records_[found - 1];
}

}  // namespace dunlin::server
