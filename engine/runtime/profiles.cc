// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/profiles.h"

#include <algorithm>
#include <bitset>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/weights/weight_storage.h"
#include "engine/runtime/memory_plan.h"

namespace dunlin::engine {
namespace {

using kernels::AttentionBackend;
using kernels::kAutoOrder;

// "math is not allowed for this model (models[].allowed.attention_backends is [flash, efficient])"
template <typename Row, size_t kRows, size_t kBits>
std::string NotAllowed(const char* what, const char* name, const char* key, const Row (&table)[kRows],
                       const std::bitset<kBits>& allowed) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kRows; ++i) {
    if (allowed[i]) names.emplace_back(table[i].name);
  }
  return absl::StrCat(what, name, " is not allowed for this model (", key, " is [", absl::StrJoin(names, ", "), "])");
}

// The config's switches first, then residency, then the kernel's own conditions, as PyTorch's filters report the
// run-time flag first.
std::vector<std::string> ReasonsAgainst(const ExecutionProfile& profile, const ModelConfig& config,
                                        const std::vector<Precision>& resident, const kernels::Device& device,
                                        const EngineOptions& options) {
  std::vector<std::string> reasons;
  const char* backend = kernels::Name(profile.attention_backend);
  if (!options.enabled(profile.attention_backend)) {
    reasons.push_back(absl::StrCat(backend, " is disabled by the config (", kEnableBackendKey, backend, ")"));
  }
  if (!options.allowed_backends[static_cast<size_t>(profile.attention_backend)]) {
    reasons.push_back(NotAllowed("", backend, "models[].allowed.attention_backends", kernels::kAttentionBackendTable,
                                 options.allowed_backends));
  }
  if (!options.allowed_precisions[static_cast<size_t>(profile.precision)]) {
    reasons.push_back(NotAllowed("precision ", kernels::Name(profile.precision), "models[].allowed.precisions",
                                 kernels::kPrecisionTable, options.allowed_precisions));
  }
  if (std::find(resident.begin(), resident.end(), profile.precision) == resident.end()) {
    const std::string list = absl::StrJoin(
        resident, ", ", [](std::string* out, Precision precision) { out->append(kernels::Name(precision)); });
    reasons.push_back(absl::StrCat("precision ", kernels::Name(profile.precision),
                                   " is not resident (models[].precisions is [", list, "])"));
  }
  if (!Multiplies(*device.ops, profile.precision)) {
    reasons.push_back(absl::StrCat("precision ", kernels::Name(profile.precision), " is not supported on ",
                                   kernels::Name(device.ops->kind)));
  }
  for (const kernels::AttentionTraits& traits : AttentionTraitsOf(config, profile.kv_dtype())) {
    const bool supported = device.ops->supports_attention(device.context, profile.attention_backend, traits, &reasons);
    if (!supported) break;
  }
  return reasons;
}

std::string SpeculationRefusal(const ModelConfig& config, const std::vector<Precision>& resident,
                               const kernels::Device& device, const EngineOptions& options) {
  if (config.is_encoder()) return absl::StrCat(config.architecture, " is an encoder, which draws no tokens");
  if (!PrefillMatchesDecode(device, resident, options.deterministic)) {
    return absl::StrCat("on ", kernels::Name(device.ops->kind),
                        " a token that is verified would not have the bits of one that is decoded");
  }
  if (!Traits(options.fp8.recipe).deterministic) {
    return absl::StrCat("the FP8 recipe ", Traits(options.fp8.recipe).name,
                        " makes a token depend on the guesses beside it (models[].fp8.recipe)");
  }
  return "";
}

}  // namespace

bool PrefillMatchesDecode(const kernels::Device& device, const std::vector<Precision>& resident, bool deterministic) {
  return std::all_of(resident.begin(), resident.end(), [&](Precision precision) {
    return device.ops->prefill_matches_decode(device.context, precision, deterministic);
  });
}

absl::Status CheckBackendsEnabled(const EngineOptions& options) {
  if (options.attention_backends.any()) return absl::OkStatus();
  const std::vector<std::string> names = kernels::NamesOf(kernels::kAttentionBackendTable);
  const std::string keys = absl::StrJoin(
      names, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, kEnableBackendKey, name); });
  return absl::FailedPreconditionError(absl::StrCat("no available kernel: ", kernels::ListInWords(names),
                                                    " are all disabled (", keys, "); enable at least one"));
}

ProfileTable::ProfileTable(const ModelConfig& config, const std::vector<Precision>& resident,
                           const kernels::Device& device, const EngineOptions& options,
                           std::optional<Precision> own_precision, bool int8_inputs)
    : speculation_refusal_(SpeculationRefusal(config, resident, device, options)),
      default_precision_(resident.front()),
      device_(device.ops->kind) {
  for (AttentionBackend backend : kAutoOrder) {
    for (const kernels::PrecisionTraits& traits : kernels::kPrecisionTable) {
      ProfileSupport row;
      row.profile = {.device = device_, .attention_backend = backend, .precision = traits.precision};
      if (traits.precision == Precision::kFp8) {
        row.profile.fp8_recipe = options.fp8.recipe;
        row.profile.kv_fp8 = options.kv_fp8 && !config.is_encoder();  // an encoder keeps no KV
      }
      row.profile.checkpoint_quantization = traits.precision == own_precision;
      row.profile.int8_inputs = int8_inputs && kernels::Traits(traits.format).group != 0;
      row.reasons = ReasonsAgainst(row.profile, config, resident, device, options);
      row.supported = row.reasons.empty();
      rows_.push_back(std::move(row));
    }
  }
}

absl::StatusOr<ExecutionProfile> ProfileTable::Resolve(const ExecutionChoice& choice) const {
  if (choice.device.has_value() && *choice.device != device_) {
    return absl::FailedPreconditionError(absl::StrCat("device ", kernels::Name(*choice.device),
                                                      " is not available: this model is served on ",
                                                      kernels::Name(device_), " (models[].device)"));
  }
  if (choice.max_drafts.value_or(0) > 0 && !choice.allow_fallback && !speculation_refusal_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("speculation is not available: ", speculation_refusal_));
  }
  const Precision precision = choice.precision.value_or(default_precision_);
  if (choice.attention_backend.has_value()) {
    const ProfileSupport& named = Row(*choice.attention_backend, precision);
    if (named.supported) return named.profile;
    if (!choice.allow_fallback) return Refusal(precision, {*choice.attention_backend});
  }
  for (AttentionBackend backend : kAutoOrder) {
    const ProfileSupport& row = Row(backend, precision);
    if (row.supported) return row.profile;
  }
  return Refusal(precision, {std::begin(kAutoOrder), std::end(kAutoOrder)});
}

absl::Status ProfileTable::CheckSpeculation(const EngineOptions& options, bool has_draft_model) const {
  if (speculation_refusal_.empty()) return absl::OkStatus();
  if (has_draft_model) {
    return absl::FailedPreconditionError(
        absl::StrCat("models[].speculation.draft is given, but ", speculation_refusal_, "; leave it out"));
  }
  if (options.max_drafts == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("models[].speculation asks for up to ", options.max_drafts,
                                                    " drafts, but ", speculation_refusal_, "; set it to \"off\""));
}

absl::Status ProfileTable::CheckServable() const {
  for (const ProfileSupport& row : rows_) {
    if (row.supported) return absl::OkStatus();
  }
  return Refusal(default_precision_, {std::begin(kAutoOrder), std::end(kAutoOrder)});
}

const ProfileSupport& ProfileTable::Row(AttentionBackend backend, Precision precision) const {
  return *std::find_if(rows_.begin(), rows_.end(), [&](const ProfileSupport& row) {
    return row.profile.attention_backend == backend && row.profile.precision == precision;
  });
}

absl::Status ProfileTable::Refusal(Precision precision, const std::vector<AttentionBackend>& backends) const {
  std::string message =
      absl::StrCat("no available kernel for precision ", kernels::Name(precision), " on ", kernels::Name(device_), ".");
  for (AttentionBackend backend : backends) {
    absl::StrAppend(&message, " ", kernels::Name(backend), ": ", absl::StrJoin(Row(backend, precision).reasons, "; "),
                    ".");
  }
  return absl::FailedPreconditionError(message);
}

}  // namespace dunlin::engine
