// SPDX-License-Identifier: Apache-2.0
// On whose behalf a call comes. Plain data.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/access/key_record.h"
#include "server/access/quota.h"
#include "server/access/tenant.h"

namespace dunlin::server {

struct Principal {
  std::string name;                                  // of the key's record; "" is anonymous
  std::shared_ptr<const KeyRecord> key;              // what it may do, as it was when the call came; null: anonymous
  std::shared_ptr<Quota> quota;                      // of all calls under that name; null: no limits
  engine::TenantId address = engine::kSharedTenant;  // of the client's address; set when the server has no keys
  // For the audit log; set when the server has keys.
  const char* endpoint = "";  // as the endpoint table names it
  std::string peer;           // the client's address

  bool anonymous() const { return key == nullptr; }
  // Whose share its message bytes count towards: its name's, or without one its address's.
  engine::TenantId payer() const { return name.empty() ? address : TenantOf(name); }
  // Whether calls of both may be ended by either: of one name, or without names of one address.
  bool SameCaller(const Principal& other) const { return name == other.name && payer() == other.payer(); }
  // An anonymous caller gets here only where no keys are needed.
  bool MayUse(std::string_view model) const { return key == nullptr || key->MayUse(model); }
};

}  // namespace dunlin::server
