// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/match_modules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/adapters/adapter.h"
#include "engine/adapters/adapter_ranks.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {
namespace {

bool IsScaled(const AdaptableModule& module) {
  return std::any_of(module.rows.begin(), module.rows.end(),
                     [](const ModuleRows& rows) { return rows.scaled_rows > rows.row_begin && rows.scale != 1.0F; });
}

absl::Status CheckShape(const AdapterMatrix& matrix, const std::vector<int64_t>& expected) {
  if (matrix.shape == expected) return absl::OkStatus();
  return RefuseMatrix(
      matrix, absl::StrCat("has shape ", ShapeText(matrix.shape), "; the model makes it ", ShapeText(expected)));
}

// Names of transformers' modules that checkpoints have under others.
constexpr std::pair<const char*, const char*> kOtherNames[] = {{"lm_head", "embed_out"},         // GPT-NeoX
                                                               {".mlp.", ".block_sparse_moe."},  // Mixtral and its kin
                                                               {"moe.router", "moe.router.layer"}};  // Granite

// The shapes of a pair's matrices.
struct PairShape {
  std::vector<int64_t> down;
  std::vector<int64_t> up;
};
PairShape ShapeOfPair(const AdaptableModule& module, int64_t rank, bool gguf) {
  const int64_t experts = module.num_experts;
  if (!module.is_stack()) return {{rank, module.in_features}, {module.out_features, rank}};
  if (gguf) return {{experts, rank, module.in_features}, {experts, module.out_features, rank}};
  const bool transposed = module.stack_rows == StackRows::kTransposed;
  const int64_t in_features = transposed ? module.out_features : module.in_features;
  const int64_t out_features = transposed ? module.in_features : module.out_features;
  return {{experts * rank, in_features}, {out_features, rank * experts}};
}

// The rank that the first matrix has; of experts that of each, 0 where they do not share its rows.
int64_t RankOf(const AdaptableModule& module, const std::vector<int64_t>& down, bool gguf) {
  if (!module.is_stack()) return down.empty() ? 0 : down.front();
  if (gguf) return down.size() == 3 ? down[1] : 0;
  return down.empty() || down.front() % module.num_experts != 0 ? 0 : down.front() / module.num_experts;
}

class ModuleMatcher {
 public:
  ModuleMatcher(const Model& model, int32_t max_rank) : model_(model), max_rank_(max_rank) {
    for (const AdaptableModule& module : model.adaptable().modules) by_name_.emplace(module.name, &module);
  }

  absl::StatusOr<std::vector<MatchedModule>> Match(const std::vector<AdapterModule>& modules) {
    for (const AdapterModule& module : modules) {
      if (absl::Status status = MatchNamed(module); !status.ok()) return status;
    }
    if (absl::Status status = CheckProjections(); !status.ok()) return status;
    return std::move(matched_);
  }

 private:
  using ByName = std::multimap<std::string_view, const AdaptableModule*>;
  using Found = std::pair<ByName::const_iterator, ByName::const_iterator>;

  // Those of the name, one for each projection.
  Found Find(std::string_view name) const {
    Found found = by_name_.equal_range(name);
    for (const std::string& prefix : model_.adaptable().prefixes) {
      if (found.first != found.second) break;
      if (name.starts_with(prefix)) found = by_name_.equal_range(name.substr(prefix.size()));
    }
    return found;
  }

  absl::Status MatchNamed(const AdapterModule& own) {
    Found found = Find(own.name);
    for (const auto& [name, other] : kOtherNames) {
      if (found.first == found.second) found = Find(absl::StrReplaceAll(own.name, {{name, other}}));
    }
    if (found.first == found.second) return Unknown(own);
    for (; found.first != found.second; ++found.first) {
      if (absl::Status status = MatchOne(own, found.first->second); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Unknown(const AdapterModule& own) const {
    std::set<std::string> known;
    for (const AdaptableModule& other : model_.adaptable().modules) {
      if (other.expert < 0) known.insert(LastComponent(other.name));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(own.down.file, ": module '", own.name,
                     "' is none that adapters of this model may change; those of its layers are ",
                     known.empty() ? "none" : absl::StrJoin(known, ", ")));
  }

  absl::Status MatchOne(const AdapterModule& own, const AdaptableModule* module) {
    if (!seen_.insert(module).second) {
      return RefuseMatrix(own.down,
                          absl::StrCat("adapts '", module->name, "', which it does under another name already"));
    }
    const bool gguf = model_.adaptable().gguf;
    const int64_t rank = RankOf(*module, own.down.shape, gguf);
    if (rank < 1 && module->is_stack()) {
      return RefuseMatrix(own.down, absl::StrCat("has shape ", ShapeText(own.down.shape), "; ", module->num_experts,
                                                 " experts have the same rank each, at least 1"));
    }
    if (rank < 1 || rank > max_rank_) {
      return RefuseMatrix(own.down, absl::StrCat("has rank ", rank, "; limit is [1, ", max_rank_, "]"));
    }
    if (own.rank > 0 && own.rank != rank) {
      return RefuseMatrix(own.down, absl::StrCat("has rank ", rank, "; adapter_config.json makes it ", own.rank));
    }
    const PairShape shape = ShapeOfPair(*module, rank, gguf);
    if (absl::Status status = CheckShape(own.down, shape.down); !status.ok()) return status;
    if (absl::Status status = CheckShape(own.up, shape.up); !status.ok()) return status;
    const bool as_stored = own.down.dtype == own.up.dtype && !IsScaled(*module);
    const auto divisor = static_cast<double>(rank);
    matched_.push_back({.own = &own,
                        .model = module,
                        .rank = static_cast<int32_t>(rank),
                        .dtype = as_stored ? own.down.dtype : kernels::DType::kF32,
                        .scale = static_cast<float>(own.alpha / (own.rank_stabilized ? std::sqrt(divisor) : divisor))});
    return absl::OkStatus();
  }

  // What is added to a projection of a layer, or to one of an expert.
  struct Sum {
    int64_t rank = 0;
    std::vector<Segment> parts;
  };

  // What a step's buffers have room for.
  absl::Status CheckProjections() const {
    std::map<std::tuple<int32_t, int32_t, Projection, int32_t>, Sum> sums;
    for (const MatchedModule& module : matched_) {
      for (const Segment& segment : SegmentsOf(model_, *module.model)) {
        for (int32_t i = 0; i < module.count(); ++i) {
          Sum& sum = sums[{segment.rank, module.model->layer, module.model->projection, module.expert(i)}];
          if (absl::Status status = Add(module, segment, &sum); !status.ok()) return status;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Add(const MatchedModule& module, const Segment& segment, Sum* sum) const {
    for (const Segment& other : sum->parts) {
      if (segment.target < other.target + other.count && other.target < segment.target + segment.count) {
        return RefuseMatrix(module.own->down,
                            absl::StrCat("adapts rows of '", module.model->name, "' that another module does already"));
      }
    }
    sum->parts.push_back(segment);
    sum->rank += module.rank;
    const int64_t limit = int64_t{AdapterRanks(model_.num_ranks())} * max_rank_;
    if (sum->parts.size() <= static_cast<size_t>(kernels::kLowRankPairsMax) && sum->rank <= limit) {
      return absl::OkStatus();
    }
    return RefuseMatrix(module.own->down,
                        absl::StrCat("makes the ranks of its projection ", sum->rank, " in ", sum->parts.size(),
                                     " parts; limits are ", limit, " and ", kernels::kLowRankPairsMax));
  }

  const Model& model_;
  const int32_t max_rank_;
  ByName by_name_;
  std::set<const AdaptableModule*> seen_;
  std::vector<MatchedModule> matched_;
};

}  // namespace

absl::StatusOr<std::vector<MatchedModule>> MatchModules(const Model& model, int32_t max_rank,
                                                        const std::vector<AdapterModule>& modules) {
  return ModuleMatcher(model, max_rank).Match(modules);
}

absl::Status RefuseMatrix(const AdapterMatrix& matrix, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(matrix.file, ": tensor '", matrix.tensor, "' ", why));
}

std::string LastComponent(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

}  // namespace dunlin::engine
