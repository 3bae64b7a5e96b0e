// SPDX-License-Identifier: Apache-2.0
#include "server/config/validate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/json.h"
#include "engine/base/string_view.h"
#include "engine/request/adapter_lease.h"
#include "server/access/listen_address.h"
#include "server/config/key_table.h"
#include "server/config/speculation.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

// Lists of objects, by their pattern without "[]".
struct ListLimit {
  std::string_view pattern;
  size_t min;
  size_t max;
};
constexpr ListLimit kListLimits[] = {{"models", 1, 16}, {"models[].adapters", 0, engine::kMaxAdapters}};
constexpr size_t kMaxShownValue = 80;
constexpr size_t kMaxNameBytes = 64;  // of a key that is compared with the known ones

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShownValue) text = absl::StrCat(text.substr(0, kMaxShownValue), "...");
  return text;
}

absl::Status Fault(const std::string& path, const Json& value, const std::string& limit) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", Shown(value), "; limit is ", limit));
}

std::string Choices(const ConfigKey& key) {
  return absl::StrCat("one of ", absl::StrJoin(absl::StrSplit(key.choices, '|'), ", "));
}

bool IsChoice(const ConfigKey& key, const std::string& word) {
  const std::vector<std::string> words = absl::StrSplit(key.choices, '|');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string Range(const ConfigKey& key, const char* unit) {
  return absl::StrCat("[", key.min, ", ", key.max, "]", unit);
}

bool InRange(const ConfigKey& key, uint64_t size) {
  return size >= static_cast<uint64_t>(key.min) && size <= static_cast<uint64_t>(key.max);
}

absl::Status CheckWord(const ConfigKey& key, const std::string& path, const Json& value) {
  if (!value.is_string()) return Fault(path, value, "a string");
  const auto& text = value.get_ref<const std::string&>();
  if (key.choices != nullptr) return IsChoice(key, text) ? absl::OkStatus() : Fault(path, value, Choices(key));
  return InRange(key, text.size()) ? absl::OkStatus() : Fault(path, value, Range(key, " bytes"));
}

absl::Status CheckInteger(const ConfigKey& key, const std::string& path, const Json& value) {
  if (!value.is_number_integer()) return Fault(path, value, "an integer");
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return Fault(path, value, Range(key, ""));
  }
  const auto number = value.get<int64_t>();
  return number >= key.min && number <= key.max ? absl::OkStatus() : Fault(path, value, Range(key, ""));
}

absl::Status CheckList(const ConfigKey& key, const std::string& path, const Json& value) {
  if (!value.is_array()) return Fault(path, value, "a list of strings");
  if (!InRange(key, value.size())) return Fault(path, value, Range(key, " entries"));
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string entry = absl::StrCat(path, "[", i, "]");
    if (!value[i].is_string() || !IsChoice(key, value[i].get<std::string>())) {
      return Fault(entry, value[i], Choices(key));
    }
    if (std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
        value.begin() + static_cast<std::ptrdiff_t>(i)) {
      return Fault(entry, value[i], "each word once");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckValue(const ConfigKey& key, const std::string& path, const Json& value) {
  switch (key.type) {
    case KeyType::kString:
      return CheckWord(key, path, value);
    case KeyType::kInteger:
      return CheckInteger(key, path, value);
    case KeyType::kIntegerOrAuto:
      if (value == "auto") return absl::OkStatus();
      return value.is_string() ? Fault(path, value, "\"auto\" or an integer") : CheckInteger(key, path, value);
    case KeyType::kBool:
      return value.is_boolean() ? absl::OkStatus() : Fault(path, value, "true or false");
    case KeyType::kStringList:
      return CheckList(key, path, value);
  }
  return absl::InternalError("key type");
}

const ConfigKey* FindKey(const std::string& pattern) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (pattern == key.path) return &key;
  }
  return nullptr;
}

// Whether the pattern ("models[]", "models[].fp8") is a prefix of some key.
bool IsSection(const std::string& pattern) {
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string_view path = key.path;
    if (path.size() > pattern.size() && path.substr(0, pattern.size()) == pattern &&
        (pattern.empty() || path[pattern.size()] == '.')) {
      return true;
    }
  }
  return false;
}

std::string Below(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : absl::StrCat(parent, ".", name);
}

// Insertions, deletions and replacements of characters that make one name of the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // of the first i characters of a
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// "presicions" below "models[0]" (pattern: "models[]") -> "models[0].precisions"; a name that only another section has
// -> that key. "" if nothing is near.
std::string NearestKey(const std::string& name, const std::string& path, const std::string& pattern) {
  std::string nearest;
  if (name.size() > kMaxNameBytes) return nearest;
  size_t least = 1 + std::max<size_t>(1, std::min<size_t>(3, name.size() / 3));
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string_view full = key.path;
    const size_t begin = pattern.empty() ? 0 : pattern.size() + 1;
    if (full.substr(0, begin) != Below(pattern, "")) continue;
    const std::string known(full.substr(begin, full.find_first_of(".[", begin) - begin));
    const size_t distance = EditDistance(name, known);
    if (distance < least) nearest = Below(path, known);
    least = std::min(least, distance);
  }
  for (const ConfigKey& key : ConfigKeys()) {
    if (nearest.empty() && absl::EndsWith(key.path, absl::StrCat(".", name))) nearest = key.path;
  }
  return nearest;
}

absl::Status UnknownKey(const std::string& name, const std::string& path, const std::string& pattern) {
  const std::string nearest = NearestKey(name, path, pattern);
  return absl::InvalidArgumentError(absl::StrCat(
      Below(path, name), " is not a config key; ",
      nearest.empty() ? std::string("`dunlin schema` prints them all") : absl::StrCat("did you mean ", nearest, "?")));
}

absl::Status CheckLength(const std::string& path, const std::string& pattern, const Json& list) {
  if (!list.is_array()) return Fault(path, list, "a list");
  for (const ListLimit& limit : kListLimits) {
    if (limit.pattern != pattern || (list.size() >= limit.min && list.size() <= limit.max)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", list.size(), " entries; limit is [", limit.min, ", ", limit.max, "]"));
  }
  return absl::OkStatus();
}

// `pattern` is `path` without list indices.
absl::Status CheckGiven(const Json& section, const std::string& path, const std::string& pattern) {
  if (!section.is_object()) return Fault(path.empty() ? "the config" : path, section, "an object");
  for (const auto& [name, value] : section.items()) {
    const std::string item_path = Below(path, name);
    const std::string item_pattern = Below(pattern, name);
    if (const ConfigKey* key = FindKey(item_pattern); key != nullptr) {
      if (absl::Status status = CheckValue(*key, item_path, value); !status.ok()) return status;
    } else if (IsSection(item_pattern)) {
      if (absl::Status status = CheckGiven(value, item_path, item_pattern); !status.ok()) return status;
    } else if (IsSection(item_pattern + "[]")) {
      if (absl::Status status = CheckLength(item_path, item_pattern, value); !status.ok()) return status;
      for (size_t i = 0; i < value.size(); ++i) {
        absl::Status status = CheckGiven(value[i], absl::StrCat(item_path, "[", i, "]"), item_pattern + "[]");
        if (!status.ok()) return status;
      }
    } else {
      return UnknownKey(name, path, pattern);
    }
  }
  return absl::OkStatus();
}

// Sections that are given as the value of their key "enabled" become objects.
void ExpandSwitches(Json* document) {
  constexpr std::string_view kSwitch = ".enabled";
  for (const ConfigKey& key : ConfigKeys()) {
    if (!absl::EndsWith(key.path, engine::AbslView(kSwitch))) continue;
    const std::string_view path(key.path);
    Json* at = document;
    for (const absl::string_view name :
         absl::StrSplit(engine::AbslView(path.substr(0, path.size() - kSwitch.size())), '.')) {
      const bool known = at != nullptr && at->is_object() && at->contains(std::string(name));
      at = known ? &(*at)[std::string(name)] : nullptr;
    }
    if (at != nullptr && at->is_boolean()) *at = Json{{"enabled", at->get<bool>()}};
  }
}

// Sets `rest` (dotted, relative to object) to its default where it is missing.
absl::Status Complete(const ConfigKey& key, const std::string& rest, const std::string& path, Json* object) {
  Json* at = object;
  std::vector<std::string> names = absl::StrSplit(rest, '.');
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    if (!at->contains(names[i])) (*at)[names[i]] = Json::object();
    at = &(*at)[names[i]];
  }
  if (at->contains(names.back())) return absl::OkStatus();
  if (key.default_json == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, " must be given"));
  (*at)[names.back()] = Json::parse(key.default_json);
  return absl::OkStatus();
}

// The same in every element of the lists that `rest` goes through. before: the path of object, with a dot; "" for none.
absl::Status CompleteAll(const ConfigKey& key, const std::string& rest, const std::string& before, Json* object) {
  constexpr std::string_view kElements = "[].";
  const size_t list = rest.find(kElements);
  if (list == std::string::npos) return Complete(key, rest, absl::StrCat(before, rest), object);
  const std::string name = rest.substr(0, list);
  if (!object->contains(name)) return absl::OkStatus();
  Json& elements = (*object)[name];
  for (size_t i = 0; i < elements.size(); ++i) {
    absl::Status status =
        CompleteAll(key, rest.substr(list + kElements.size()), absl::StrCat(before, name, "[", i, "]."), &elements[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// "without TLS (tls.cert_file, tls.key_file)", or "".
std::string Missing(const Protection& protection) {
  std::vector<std::string> missing;
  if (!protection.has_tls) missing.emplace_back("TLS (tls.cert_file, tls.key_file)");
  if (!protection.has_keys) missing.emplace_back("keys (access.keys_file)");
  return missing.empty() ? "" : absl::StrCat("without ", absl::StrJoin(missing, " and without "));
}

// A file has been checked by its parser; --set, names and folders of the command line come here. path: of value; "" for
// the document.
absl::Status CheckTexts(const Json& value, const std::string& path) {
  if (value.is_string()) {
    return text::IsValidUtf8(value.get_ref<const std::string&>()) ? absl::OkStatus() : Fault(path, value, "UTF-8");
  }
  if (!value.is_structured()) return absl::OkStatus();
  for (const auto& [name, member] : value.items()) {
    if (!text::IsValidUtf8(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a key of ", path.empty() ? "the config" : path, " is ", Shown(name), "; limit is UTF-8"));
    }
    const std::string at =
        value.is_array() ? absl::StrCat(path, "[", name, "]") : absl::StrCat(path, path.empty() ? "" : ".", name);
    if (absl::Status status = CheckTexts(member, at); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckExposure(const char* key, const std::string& address, const Protection& protection) {
  const std::string missing = Missing(protection);
  if (missing.empty() || protection.behind_proxy || IsLoopback(address)) return absl::OkStatus();
  if (address.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is \"", address, "\"; limit is HOST:PORT"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is \"", address, "\", which other machines can reach, ", missing,
                   "; limit is a loopback address such as 127.0.0.1, unless "
                   "access.behind_proxy (--behind-proxy) is true because a proxy does this"));
}

absl::Status CheckAndComplete(Json* document) {
  if (absl::Status status = CheckTexts(*document, ""); !status.ok()) return status;
  ExpandSwitches(document);
  ExpandSpeculation(document);
  if (absl::Status status = CheckGiven(*document, "", ""); !status.ok()) return status;
  if (!document->contains("models")) return absl::InvalidArgumentError("models must be given");
  for (const ConfigKey& key : ConfigKeys()) {
    if (absl::Status status = CompleteAll(key, key.path, "", document); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ApplyOverride(const std::string& assignment, Json* document) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("--set ", assignment, ": expected key=value"));
  }
  ExpandSwitches(document);
  ExpandSpeculation(document);
  Json* at = document;
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  if (std::count(path.begin(), path.end(), '.') >= engine::kMaxJsonDepth ||
      engine::IsNestedDeeper(text, engine::kMaxJsonDepth)) {
    return absl::InvalidArgumentError(absl::StrCat("--set ", path.substr(0, kMaxNameBytes),
                                                   ": is nested too deeply; limit is ", engine::kMaxJsonDepth));
  }
  for (absl::string_view piece : absl::StrSplit(path, '.')) {
    const std::string name(piece);
    size_t index = 0;
    if (at->is_array()) {
      if (!absl::SimpleAtoi(name, &index) || index >= at->size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--set ", path, ": ", name, " is not one of the ", at->size(), " entries, counted from 0"));
      }
      at = &(*at)[index];
    } else if (at->is_object() || at->is_null()) {
      at = &(*at)[name];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--set ", path, ": parent of ", name, " is not an object"));
    }
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  *at = value.is_discarded() ? Json(text) : std::move(value);
  return absl::OkStatus();
}

}  // namespace dunlin::server
