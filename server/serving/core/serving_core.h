// SPDX-License-Identifier: Apache-2.0
// What all calls of a server share, independent of their protocol: admission, the text pool, the models, the observer.
// Created once; outlives every front end, transport and call. Thread rule: any thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "engine/request/model_engine.h"
#include "server/access/access_control.h"
#include "server/access/admission.h"
#include "server/access/limits.h"
#include "server/models/repository.h"
#include "server/process/monotonic_clock.h"
#include "server/serving/core/overload.h"
#include "server/serving/core/stall_watch.h"
#include "server/serving/core/text_budget.h"
#include "server/serving/core/text_pool.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

class ModelLifecycle;

struct ServingOptions {
  int text_threads = 2;                             // of the text pool; [1, 64]
  engine::ModelEngine::Clock clock = &MonotonicNs;  // the engines' clock
  const AccessControl* access = nullptr;            // outlives the core; null: no keys
  const EndpointTable* endpoints = nullptr;         // what calls are authorised against; outlives the core; null: none
  bool traces = false;                              // the observer makes spans of calls
  bool profile_aliases = false;                     // lists of models have their profiles, too
  ModelLifecycle* lifecycle = nullptr;              // outlives the core; null: models neither come nor go
};

class ServingCore {
 public:
  // models and observer outlive this object; observer may be null. Admission opens with Open.
  ServingCore(const Limits& limits, const ModelRepository& models, RequestObserver* observer,
              const ServingOptions& options);

  const Limits& limits() const { return limits_; }
  const ModelRepository& models() const { return models_; }
  // Null if no model of that name is served.
  ModelLease Lease(std::string_view name) const { return models_.Lease(name); }
  engine::TimeNs now() const { return clock_(); }
  engine::ModelEngine::Clock clock() const { return clock_; }
  RequestObserver* observer() const { return observer_; }
  const AccessControl& access() const { return access_ == nullptr ? open_access_ : *access_; }
  const EndpointTable& endpoints() const { return endpoints_ == nullptr ? no_endpoints_ : *endpoints_; }
  // Whether front ends read the trace of a call.
  bool traces() const { return traces_; }
  // Whether lists of models name every profile (profile_alias.h).
  bool profile_aliases() const { return profile_aliases_; }
  // Null: models neither come nor go while the server runs.
  ModelLifecycle* lifecycle() const { return lifecycle_; }
  // Whether a request may have to wait for its model to be loaded (resolve/model_use.h).
  bool loads_for_requests() const;
  TextPool* text_pool() { return &text_pool_; }
  const TextPool* text_pool() const { return &text_pool_; }
  TextBudget* text_budget() const { return &text_budget_; }
  // Of limits.max_value_bytes (parse_share.h).
  TextBudget* value_budget() const { return &value_budget_; }
  StallWatch* stall_watch() { return &stall_watch_; }
  Overload* overload() { return &overload_; }

  // Admission's, called before a call's message is parsed, or read. A refusal for lack of capacity counts as overload.
  std::variant<Admission::Ticket, AdmissionRefusal> TryAdmit(engine::TenantId payer, size_t message_bytes);
  std::variant<Admission::Ticket, AdmissionRefusal> TryReceive(engine::TenantId payer, size_t announced_bytes);
  // Counts a refusal by a ticket as theirs are.
  void CountRefusal(AdmissionRefusal refusal);
  // The status of a refused call. Prebuilt, so that refusals stay cheap under overload.
  const absl::Status& StatusOf(AdmissionRefusal refusal) const;
  // Notifies the observer of a generation or an embedding that was refused.
  void ReportRefused(AdmissionRefusal refusal, engine::TimeNs arrival) const;
  // The same for a refusal by the caller's quota.
  void ReportRefused(const absl::Status& status, engine::TimeNs arrival) const;

  void Open() { admission_.Open(); }
  // Admission::Suspend.
  void Suspend(std::optional<AdmissionRefusal> why) { admission_.Suspend(why); }
  // From now on, refuses new calls for this reason; those in flight continue.
  void StartDraining(AdmissionRefusal why) { admission_.Close(why); }
  std::optional<AdmissionRefusal> refusal() const { return admission_.refusal(); }
  // Waits until every call has ended; false if `deadline` passed first.
  bool WaitUntilIdle(absl::Time deadline) const { return admission_.WaitUntilIdle(deadline); }
  AdmissionStats admission_stats() const { return admission_.stats(); }

 private:
  const Limits limits_;
  const ModelRepository& models_;
  RequestObserver* const observer_;
  const engine::ModelEngine::Clock clock_;
  const AccessControl* const access_;
  const AccessControl open_access_;  // if access_ is null
  const EndpointTable* const endpoints_;
  const EndpointTable no_endpoints_;  // if endpoints_ is null
  const bool traces_;
  const bool profile_aliases_;
  ModelLifecycle* const lifecycle_;
  std::array<RequestRecord, kNumAdmissionRefusals> refused_records_;  // const after construction
  Admission admission_;
  mutable TextBudget text_budget_;
  mutable TextBudget value_budget_;
  StallWatch stall_watch_;
  Overload overload_;
  TextPool text_pool_;  // its ticks sweep stall_watch_, whatever transports there are
};

}  // namespace dunlin::server
