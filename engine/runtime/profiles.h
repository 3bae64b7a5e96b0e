// SPDX-License-Identifier: Apache-2.0
// Resolves the execution profile that a request asks for into the one that runs, or into every reason why none does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// One row of the table that GetModel and `dunlin inspect` print.
struct ProfileSupport {
  ExecutionProfile profile;
  bool supported = false;
  std::vector<std::string> reasons;  // empty when supported
};

// FAILED_PRECONDITION when the config disables every backend; checked at start, before anything is loaded.
absl::Status CheckBackendsEnabled(const EngineOptions& options);

// Whether a row has the same bits in prefill and in decode, in all of the precisions
// (SchedulerOptions::prefill_matches_decode).
bool PrefillMatchesDecode(const kernels::Device& device, const std::vector<Precision>& resident, bool deterministic);

// The profiles of a model on its device: every backend x every precision, the unsupported ones with their reasons.
// Immutable; any thread.
class ProfileTable {
 public:
  // resident: the precisions whose weights are loaded; the first is the default. own_precision, int8_inputs: Model's.
  ProfileTable(const ModelConfig& config, const std::vector<Precision>& resident, const kernels::Device& device,
               const EngineOptions& options, std::optional<Precision> own_precision = std::nullopt,
               bool int8_inputs = false);

  // An AUTO precision is the default one; an AUTO backend is the first of kAutoOrder that is supported. A named backend
  // that is not supported is FAILED_PRECONDITION with every reason, or replaced in AUTO's order when allow_fallback is
  // set. Another device than the model's is FAILED_PRECONDITION, as are drafts where there can be none, unless
  // allow_fallback is set.
  absl::StatusOr<ExecutionProfile> Resolve(const ExecutionChoice& choice) const;

  // Why drafts cannot be verified by a row that has the bits of a decoded one, or not be taken back; empty: they can.
  const std::string& speculation_refusal() const { return speculation_refusal_; }
  // OK unless options.max_drafts or a draft model asks for what speculation_refusal() says: FAILED_PRECONDITION, and
  // the server does not start.
  absl::Status CheckSpeculation(const EngineOptions& options, bool has_draft_model = false) const;

  // OK when some resident precision has a backend; otherwise FAILED_PRECONDITION with every reason, and the server does
  // not start.
  absl::Status CheckServable() const;

  // Backend-major in the order of kAutoOrder, all precisions each, resident or not.
  const std::vector<ProfileSupport>& rows() const { return rows_; }
  Precision default_precision() const { return default_precision_; }

 private:
  const ProfileSupport& Row(kernels::AttentionBackend backend, Precision precision) const;
  absl::Status Refusal(Precision precision, const std::vector<kernels::AttentionBackend>& backends) const;

  std::vector<ProfileSupport> rows_;
  std::string speculation_refusal_;
  Precision default_precision_;
  DeviceKind device_;
};

}  // namespace dunlin::engine
