// SPDX-License-Identifier: Apache-2.0
// All keys of a server, from the JSON of a key file:
//
//   {"keys": [{"name": "team-a", "hashes": ["sha256:..."], "permissions": ["infer"], "models": ["*"]}]}
//
// docs/security.md lists the fields. Constant after construction; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/key_record.h"

namespace dunlin::server {

inline constexpr size_t kMaxKeyRecords = 4096;
inline constexpr size_t kMaxKeysPerRecord = 4;
inline constexpr size_t kMaxKeyFileBytes = size_t{4} << 20;
inline constexpr size_t kMaxKeyNameBytes = 64;
inline constexpr std::string_view kUnknownKey = "unknown";  // in the audit log: a call without a valid key

// Letters, digits, '.', '_' and '-', 1 to kMaxKeyNameBytes of them; not "unknown", which the audit log uses.
bool IsKeyName(std::string_view name);

class KeySet {
 public:
  // where: starts every message, which names entry, field, value and limit. INVALID_ARGUMENT: no such JSON, an unknown
  // or missing field, a value out of its bounds, a name or a digest twice. Messages quote no digest.
  static absl::StatusOr<std::shared_ptr<const KeySet>> Parse(std::string_view text, const std::string& where);

  // The record of a key, whether it has expired or not; null: there is none. Compares the digest with all of them, each
  // in constant time, so that the time tells nothing of where it differs or which one it equals.
  std::shared_ptr<const KeyRecord> Find(const KeyDigest& digest) const;

  size_t size() const { return records_.size(); }
  const std::vector<std::shared_ptr<const KeyRecord>>& records() const { return records_; }

 private:
  struct Row {
    KeyDigest digest;
    size_t record;
  };
  std::vector<std::shared_ptr<const KeyRecord>> records_;
  std::vector<Row> rows_;
};

}  // namespace dunlin::server
