// SPDX-License-Identifier: Apache-2.0
// On whose behalf a call comes. Plain data.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/access/key_record.h"
#include "server/access/quota.h"

namespace dunlin::server {

struct Principal {
  std::string name;                      // of the key's record; "" is anonymous
  std::shared_ptr<const KeyRecord> key;  // what it may do, as it was when the call came; null: anonymous
  std::shared_ptr<Quota> quota;          // of all calls under that name; null: no limits
  // For the audit log; set when the server has keys.
  const char* endpoint = "";  // as the endpoint table names it
  std::string peer;           // the client's address

  bool anonymous() const { return key == nullptr; }
  // An anonymous caller gets here only where no keys are needed.
  bool MayUse(std::string_view model) const { return key == nullptr || key->MayUse(model); }
};

}  // namespace dunlin::server
