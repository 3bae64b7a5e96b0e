// SPDX-License-Identifier: Apache-2.0
// The files of a server's operator: the configuration with --set, and the keys.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/access/key_entry.h"
#include "server/access/key_set.h"
#include "server/config/config.h"
#include "server/config/reload.h"
#include "tests/fuzz/input_bytes.h"

namespace dunlin::fuzz {

// Input: a configuration, then "key=value" of --set, 0xFF before each.
int FuzzConfig(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const std::string text(input.Part());
  std::vector<std::string> overrides;
  while (!input.empty()) overrides.emplace_back(input.Part());
  const auto config = server::LoadConfigText(text, overrides);
  if (!config.ok()) {
    DUNLIN_FUZZ_CHECK(!config.status().message().empty(), "a refusal without a reason");
    return 0;
  }
  const server::ReloadResult reloaded = server::TakeReloadable(*config, *config);
  DUNLIN_FUZZ_CHECK(reloaded.taken.empty() && reloaded.left_out.empty(), "a configuration differs from itself");
  return 0;
}

// Input: a key file. One that is taken can be given one key more.
int FuzzKeyFile(const uint8_t* data, size_t size) {
  const std::string text(TextOf(data, size));
  const auto keys = server::KeySet::Parse(text, "keys");
  const nlohmann::ordered_json entry = {{"name", "one-more"}, {"hashes", {"sha256:" + std::string(64, 'a')}}};
  const auto added = server::WithEntry(text, entry, "keys");
  if (!keys.ok()) return 0;
  DUNLIN_FUZZ_CHECK((*keys)->size() <= server::kMaxKeyRecords, "more keys than the limit");
  if (added.ok())
    DUNLIN_FUZZ_CHECK(server::KeySet::Parse(*added, "keys").ok(), "the file with one key more is refused");
  return 0;
}

}  // namespace dunlin::fuzz
