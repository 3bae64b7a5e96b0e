// SPDX-License-Identifier: Apache-2.0
#include "server/models/repository.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::server {

// Holds models whose last lease was dropped. That may happen on the model's own engine thread, which cannot join
// itself, so the model waits here for FreeUnleased.
struct ModelRepository::Unleased {
  void Take(const ServedModel* model) {
    absl::MutexLock lock(&mutex);
    models.emplace_back(model);
    --num_alive;
  }

  absl::Mutex mutex;  // guards both
  std::vector<std::unique_ptr<const ServedModel>> models ABSL_GUARDED_BY(mutex);
  int num_alive ABSL_GUARDED_BY(mutex) = 0;  // models with a lease, held by the repository or elsewhere
};

ModelRepository::ModelRepository() : unleased_(std::make_shared<Unleased>()) {}

ModelRepository::~ModelRepository() {
  StopEngines();
  for (const ModelLease& model : List()) Remove(model->name);
  {
    absl::MutexLock lock(&unleased_->mutex);
    const auto none_alive = [this]()
                                ABSL_EXCLUSIVE_LOCKS_REQUIRED(unleased_->mutex) { return unleased_->num_alive == 0; };
    unleased_->mutex.Await(absl::Condition(&none_alive));
  }
  FreeUnleased();
}

std::vector<ModelLease>::iterator ModelRepository::Find(std::string_view name) {
  return std::find_if(models_.begin(), models_.end(), [name](const ModelLease& model) { return model->name == name; });
}

ModelLease ModelRepository::Lease(std::string_view name) const {
  absl::ReaderMutexLock lock(&models_mutex_);
  for (const ModelLease& model : models_) {
    if (model->name == name) return model;
  }
  return nullptr;
}

std::vector<ModelLease> ModelRepository::List() const {
  absl::ReaderMutexLock lock(&models_mutex_);
  return models_;
}

ModelLease ModelRepository::NewLease(std::unique_ptr<ServedModel> model) {
  {
    absl::MutexLock lock(&unleased_->mutex);
    ++unleased_->num_alive;
  }
  return {model.release(), [unleased = unleased_](const ServedModel* last) { unleased->Take(last); }};
}

void ModelRepository::Append(ModelLease lease) {
  for (RepositoryListener* listener : listeners_) listener->OnModelAdded(lease);
  absl::MutexLock lock(&models_mutex_);
  models_.push_back(std::move(lease));
}

absl::Status ModelRepository::Add(std::unique_ptr<ServedModel> model) {
  absl::MutexLock change(&changes_mutex_);
  if (Lease(model->name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("model \"", model->name, "\" is already served"));
  }
  Append(NewLease(std::move(model)));
  return absl::OkStatus();
}

void ModelRepository::Replace(std::unique_ptr<ServedModel> model) {
  absl::MutexLock change(&changes_mutex_);
  const ModelLease lease = NewLease(std::move(model));
  ModelLease replaced;
  {
    absl::MutexLock lock(&models_mutex_);
    if (const auto found = Find(lease->name); found != models_.end()) {
      replaced = std::exchange(*found, lease);
      removed_.push_back(replaced);
    }
  }
  if (replaced == nullptr) return Append(lease);
  for (RepositoryListener* listener : listeners_) listener->OnModelReplaced(lease);
}

bool ModelRepository::Remove(std::string_view name) {
  absl::MutexLock change(&changes_mutex_);
  ModelLease model;
  {
    absl::MutexLock lock(&models_mutex_);
    const auto found = Find(name);
    if (found == models_.end()) return false;
    model = std::move(*found);
    models_.erase(found);
    removed_.push_back(model);
  }
  for (RepositoryListener* listener : listeners_) listener->OnModelRemoved(model->name);
  return true;
}

int ModelRepository::FreeUnleased() {
  absl::MutexLock freeing(&freeing_mutex_);
  std::vector<std::unique_ptr<const ServedModel>> models;
  {
    absl::MutexLock lock(&unleased_->mutex);
    models.swap(unleased_->models);
  }
  const auto num_freed = static_cast<int>(models.size());
  if (num_freed == 0) return 0;
  models.clear();
  absl::MutexLock lock(&models_mutex_);
  std::erase_if(removed_, [](const auto& model) { return model.expired(); });
  return num_freed;
}

void ModelRepository::StopEngines() {
  std::vector<ModelLease> models = List();
  {
    absl::MutexLock lock(&models_mutex_);
    for (const auto& removed : removed_) models.push_back(removed.lock());
  }
  for (const ModelLease& model : models) {
    if (model == nullptr) continue;
    for (engine::ModelEngine* engine : {model->image_engine(), model->any_engine()}) {
      if (engine != nullptr) engine->Stop();  // a simulated model has none
    }
  }
}

void ModelRepository::Subscribe(RepositoryListener* listener) {
  absl::MutexLock change(&changes_mutex_);
  for (const ModelLease& model : List()) listener->OnModelAdded(model);
  listeners_.push_back(listener);
}

void ModelRepository::Unsubscribe(RepositoryListener* listener) {
  absl::MutexLock change(&changes_mutex_);
  if (std::erase(listeners_, listener) == 0) return;
  for (const ModelLease& model : List()) listener->OnModelRemoved(model->name);
}

}  // namespace dunlin::server
