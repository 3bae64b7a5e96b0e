// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/authorize.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
absl::StatusOr<Principal> Authorize(const AccessControl& access, const EndpointTable& endpoints,
                                    std::string_view endpoint, std::string_view presented,
                                    absl::FunctionRef<std::string()> peer) {
  if (!access.enabled() && !access.admin_needs_key()) return Principal();
  const Endpoint* const row = endpoints.Find(endpoint);
  if (row == nullptr) return MakeError(Reason::kInternal, "the endpoint is not in the table of permissions");
  AccessAnswer answer = access.Authorize(presented, *row, absl::Now());
  if (!access.enabled() && !answer.refusal.has_value()) return std::move(answer.principal);
  answer.principal.endpoint = row->name;
  answer.principal.peer = peer();
  if (!answer.refusal.has_value()) return std::move(answer.principal);
  const Principal& caller = answer.principal;
  const bool unknown = *answer.refusal == AccessRefusal::kUnauthenticated;
  const std::string reason = unknown ? "no valid key" : absl::StrCat("needs permission ", Name(*row->needed));
  access.Report(*answer.refusal, {unknown || caller.anonymous() ? kUnknownKey : std::string_view(caller.name),
                                  row->name, caller.peer, reason});
  return AccessRefused(*answer.refusal, caller, *row);
}

}  // namespace dunlin::server
