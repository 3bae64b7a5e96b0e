// SPDX-License-Identifier: Apache-2.0
// How the value of a key reaches the Config, for rows of the key table: a field of it, or of one of its sections. A
// value of another type than the field's throws nlohmann's exception; the table's types are checked before.
#pragma once

#include <nlohmann/json.hpp>

#include "server/config/config.h"
#include "server/config/key_table.h"

namespace dunlin::server {

template <auto kMember>
void Set(const nlohmann::ordered_json& value, Config* config) {
  value.get_to(config->*kMember);
}
template <auto kSection, auto kMember>
void SetIn(const nlohmann::ordered_json& value, Config* config) {
  value.get_to(config->*kSection.*kMember);
}
template <auto kMember>
constexpr ConfigSetter kLimit = SetIn<&Config::limits, kMember>;

}  // namespace dunlin::server
