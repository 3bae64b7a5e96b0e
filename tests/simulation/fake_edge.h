// SPDX-License-Identifier: Apache-2.0
// The edge of a simulated server: what a call takes of Admission and of its tenant's quota from its message to its
// answer, held against a count of its own. Every refusal and every admission has to be the one that the count gives.
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/access/admission.h"
#include "server/access/quota.h"
#include "tests/simulation/events.h"
#include "tests/simulation/reference_bucket.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

// What a call holds while it is open.
struct Held {
  server::Admission::Ticket ticket;
  engine::TenantId tenant = engine::kSharedTenant;
  int64_t message_bytes = 0;  // until they are released
  int64_t output_bytes = 0;
  int64_t reserved = 0;  // tokens of the quota
};

class FakeEdge {
 public:
  // Of tenants 0 (without a quota) to num_tenants - 1.
  FakeEdge(Dice* dice, int32_t num_tenants, SimulationStats* stats);

  // A call with a message of so many bytes, some of them at once or piece by piece. Null: refused, and counted.
  std::optional<Held> Open(engine::TenantId tenant, int64_t message_bytes, int64_t output_bytes, engine::TimeNs now);
  // The message is tokenised: its bytes no longer wait.
  void Tokenise(Held* held);
  // The call reserves so many tokens in all. False: refused.
  bool Reserve(int64_t tokens, engine::TimeNs now, Held* held);
  // The call ends; it has used so many tokens.
  void Close(int64_t used_tokens, engine::TimeNs now, Held held);

  void Suspend(bool suspended);
  void CloseAdmission(server::AdmissionRefusal why);
  void ChangeQuota(engine::TimeNs now);

  // "" or the first contradiction so far between what Admission and the quotas say and what calls hold.
  std::string Check(engine::TimeNs now);

 private:
  struct Tenant {
    server::QuotaLimits limits;
    server::Quota quota;
    ReferenceBucket requests;
    ReferenceBucket tokens;
    int64_t streams = 0;
    int64_t calls = 0;
    int64_t message_bytes = 0;
  };

  server::QuotaLimits AnyLimits();
  Tenant& Of(engine::TenantId tenant) { return tenants_[static_cast<size_t>(tenant)]; }
  std::optional<server::Admission::Ticket> Admit(engine::TenantId tenant, int64_t message_bytes);
  bool BeginQuota(engine::TenantId tenant, engine::TimeNs now, server::Admission::Ticket* ticket);
  void CheckRefusal(server::AdmissionRefusal why, engine::TenantId tenant, int64_t wanted, int64_t taken);
  void CheckAdmitted(int64_t message_bytes);
  bool Refuse(Event event) {
    ++(*stats_)[event];
    return false;
  }
  void Expect(bool holds, const char* otherwise) {
    if (!holds && problem_.empty()) problem_ = otherwise;
  }

  Dice* dice_;
  SimulationStats* stats_;
  server::AdmissionLimits limits_;
  server::Admission admission_;
  std::vector<Tenant> tenants_;
  server::AdmissionStats held_;  // by all calls
  bool suspended_ = false;
  bool closed_ = false;
  std::string problem_;
};

}  // namespace dunlin::simulation
