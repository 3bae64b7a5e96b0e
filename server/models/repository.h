// SPDX-License-Identifier: Apache-2.0
// The models that are served now. A request leases its model: a removed model is unknown to new requests at once, and
// lives on until the last lease is gone. Whoever follows the set of models (metrics, health, watchdog) subscribes.
// Thread rule: any thread, except where a function says otherwise.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/models/served_model.h"

namespace dunlin::server {

// Keeps a model alive and its engine running. May be dropped on any thread, the model's engine thread included. The
// engine may keep a request's sink after OnFinish: a sink that owns a lease drops it when its call is over.
using ModelLease = std::shared_ptr<const ServedModel>;

// Called one at a time, on the thread that changes the repository; may lease, must not change the repository.
class RepositoryListener {
 public:
  virtual ~RepositoryListener() = default;
  // Before the model can be leased by name. A listener that keeps the lease drops it in OnModelRemoved.
  virtual void OnModelAdded(const ModelLease& model) = 0;
  // The model can no longer be leased by name.
  virtual void OnModelRemoved(const std::string& name) = 0;
};

class ModelRepository {
 public:
  ModelRepository();
  // Removes every model and waits until the last lease is gone. Subscribed listeners outlive the repository.
  ~ModelRepository();
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  // The model of that name; null when there is none. One lock, held for the look-up alone.
  ModelLease Lease(std::string_view name) const;
  // Every model, in the order they were added.
  std::vector<ModelLease> List() const;

  // ALREADY_EXISTS when a model of that name is served.
  absl::Status Add(std::unique_ptr<ServedModel> model);
  // False when there is no such model. Does not wait for leases.
  bool Remove(std::string_view name);
  // Frees the removed models whose last lease is gone; returns how many. Joins engine threads: never on one of them.
  int FreeUnleased();
  // Stops the engine of every model, also of those removed and still leased: their requests end with kShutdown.
  void StopEngines();

  // Tells the listener of every model that is there, then of every change until Unsubscribe returns.
  void Subscribe(RepositoryListener* listener);
  // Tells the listener that every model is gone, so that it drops its leases.
  void Unsubscribe(RepositoryListener* listener);

 private:
  struct Unleased;

  std::vector<ModelLease>::iterator Find(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(models_mutex_);

  absl::Mutex changes_mutex_ ABSL_ACQUIRED_BEFORE(models_mutex_);  // one change or subscription at a time
  std::vector<RepositoryListener*> listeners_ ABSL_GUARDED_BY(changes_mutex_);
  mutable absl::Mutex models_mutex_;  // guards the two lists; never held while calling out
  std::vector<ModelLease> models_ ABSL_GUARDED_BY(models_mutex_);
  std::vector<std::weak_ptr<const ServedModel>> removed_ ABSL_GUARDED_BY(models_mutex_);  // perhaps still leased
  const std::shared_ptr<Unleased> unleased_;
};

}  // namespace dunlin::server
