// SPDX-License-Identifier: Apache-2.0
// Every config key, declared once as data: the loader, the JSON Schema and the tests iterate this table. Adding a key
// takes one row in key_table.cc, with the field that it sets. config.cc reads those that are a model's or that fields
// do not hold as they are; front ends read their own (protocols.*).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace dunlin::server {

// kIntegerOrAuto: an integer, or the word "auto".
enum class KeyType : uint8_t { kString, kInteger, kIntegerOrAuto, kBool, kStringList };

struct Config;
// Sets the field that a key's value goes to. REQUIRES: the value has been checked.
using ConfigSetter = void (*)(const nlohmann::ordered_json& value, Config* config);

// A section with a key "enabled" may be given as that key's value: "protocols.openai": false. So may
// models[].speculation as the value of its key "tokens". path: dotted, with "[]" for the elements of a list of objects:
// "models[].kv_cache.memory_bytes".
struct ConfigKey {
  const char* path;
  KeyType type;
  const char* default_json;  // null: the key is required
  int64_t min;               // kInteger, kIntegerOrAuto: inclusive; kString and kStringList: length in bytes or entries
  int64_t max;
  const char* choices;  // allowed values of a string or of each list entry, separated by '|'; null: any
  const char* description;
  ConfigSetter set = nullptr;  // null: config.cc or a front end reads it
};

struct ConfigKeyTable {
  const ConfigKey* begin_row;
  size_t size;
  const ConfigKey* begin() const { return begin_row; }
  const ConfigKey* end() const { return begin_row + size; }
};

ConfigKeyTable ConfigKeys();

}  // namespace dunlin::server
