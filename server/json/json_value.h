// SPDX-License-Identifier: Apache-2.0
// Strict JSON of request bodies: bounded in depth, keys and values, no key twice in an object. Every error names the
// place in the body ("messages[2].content") and quotes no string of the client's but a short name (FailName).
// Owner: the call's translator. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/serving/record/ignored_names.h"

namespace dunlin::server {

// Keeps the order of keys, which is a part of schemas and of what chat templates render.
using Json = nlohmann::ordered_json;

inline constexpr size_t kMaxBodyDepth = 64;
inline constexpr size_t kMaxObjectKeys = 4096;             // of one object
inline constexpr size_t kMaxBodyValues = size_t{1} << 20;  // of the whole body: 16 MiB, and the strings

// Memory of a body's tree, the strings apart (engine::JsonTreeBytes): a million numbers take 32 MiB.
inline constexpr size_t kMaxBodyTreeBytes = size_t{48} << 20;

// Why a text was not parsed.
struct JsonFault {
  enum class Kind : uint8_t {
    kMalformed,  // not JSON, not UTF-8, or something after the value
    kNumber,     // a number out of range
    kTwice,      // a key that its object has already
    kBound,      // too deep, too many keys or values, or too much memory for them
  };
  Kind kind;
  std::string path;     // where: "messages[2].content"; "": the text as a whole
  std::string problem;  // "appears twice"
  std::string limit;    // "" when the problem says it all
};

// One JSON value of any type, within the bounds above.
std::optional<JsonFault> ParseJson(std::string_view text, Json* value);

// One JSON object. name: what errors call the whole of it. Errors: MALFORMED_MESSAGE (not JSON, not UTF-8, or something
// after the object; with the byte); INVALID_FIELD with its path (too deep, too many keys or values, too much memory for
// them, a key twice, a number out of range).
absl::StatusOr<Json> ParseBody(std::string_view body, std::string_view name = "the body");

// A text that is one JSON object, of any size: it is not built.
bool IsJsonObject(std::string_view text);

// Compact, in the order of the keys. All strings of a parsed body are UTF-8.
std::string DumpJson(const Json& json);

// A value of a body, and where it stands. Readers return an empty value after an error, and record the body's first
// error in *status. A value does not outlive its parent.
class JsonValue {
 public:
  // The body itself. ignored: takes the names of what has no effect (Ignore, LeaveOut); null: it is refused.
  JsonValue(const Json& body, absl::Status* status, IgnoredNames* ignored = nullptr)
      : json_(&body), status_(status), ignored_(ignored) {}

  // A member of an object; null if there is none. Keeps a view of key.
  JsonValue At(std::string_view key) const;
  // A member that a loop over the object has come to. Keeps a view of key.
  JsonValue Of(std::string_view key, const Json& member) const { return {member, this, key, 0}; }
  // An element of an array. REQUIRES: index < size().
  JsonValue At(size_t index) const;

  const Json& json() const { return *json_; }
  bool is_null() const { return json_->is_null(); }
  bool is_string() const { return json_->is_string(); }
  bool is_array() const { return json_->is_array(); }
  bool is_object() const { return json_->is_object(); }
  size_t size() const { return json_->size(); }

  // Errors: another type; a number that the result cannot represent; for lists also an element of another type. 3.0 is
  // an integer.
  std::string Text() const;
  bool Bool() const;
  int32_t Int() const;
  int32_t AtLeast(int32_t min) const;
  uint64_t Unsigned64() const;  // a negative number modulo 2^64
  float Number() const;
  std::vector<std::string> Texts() const;
  std::vector<std::string> TextOrTexts() const;
  std::vector<engine::TokenId> TokenIds() const;
  // Record an error unless the value is of that type.
  bool ExpectObject() const;
  bool ExpectArray() const;
  bool ExpectText() const;

  // "<path> <problem>; limit is <limit>", unless an error has been recorded.
  void Fail(std::string_view problem, std::string_view limit) const;
  // The same of a text that is none of the names of `limit`, which it quotes if it is a name (UnknownName).
  void FailName(std::string_view noun, std::string_view limit) const;
  // This member, which the API does not have, has no effect: "messages[].mood". null is as good as absent. Records an
  // error where members without effect are refused.
  void Ignore() const;
  // The same of all members of this object but the known ones, separated by spaces.
  void IgnoreAllBut(std::string_view known) const;
  // This element of a list is left out, which the value of its member `type` names: "tools[web_search]". Records an
  // error of that member, with this limit, where elements that are left out are refused.
  void LeaveOut(std::string_view type, std::string_view limit) const;
  // "is 1.5", "is a string", "is missing".
  std::string Shown() const;
  bool ok() const { return status_->ok(); }
  std::string Path() const;

 private:
  // The path without indices: "messages[].content[]".
  std::string Place() const;
  JsonValue(const Json& json, const JsonValue* parent, std::string_view key, size_t index)
      : json_(&json), status_(parent->status_), ignored_(parent->ignored_), parent_(parent), key_(key), index_(index) {}
  int64_t Integer(int64_t min, int64_t max) const;

  const Json* json_;
  absl::Status* status_;
  IgnoredNames* ignored_;
  const JsonValue* parent_ = nullptr;
  std::string_view key_;  // of an object's member
  size_t index_ = 0;      // of an array's element
};

}  // namespace dunlin::server
