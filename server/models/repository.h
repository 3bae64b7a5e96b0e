// SPDX-License-Identifier: Apache-2.0
// The models that are currently served. A request leases its model: a removed or replaced model is immediately unknown
// to new requests, and lives until its last lease is dropped. Components that track the set of models (metrics, health,
// watchdog) subscribe. Thread rule: any thread, except where a function says otherwise.
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

// Keeps a model alive and its engine running. May be dropped on any thread, including the model's engine thread. The
// engine may keep a request's sink after OnFinish, so a sink that owns a lease must drop it when its call is over.
using ModelLease = std::shared_ptr<const ServedModel>;

// Functions are called one at a time, on the thread that changes the repository; they may lease models, but must not
// change the repository.
class RepositoryListener {
 public:
  virtual ~RepositoryListener() = default;
  // Called before the model can be leased by name. A listener that keeps the lease must drop it in OnModelRemoved.
  virtual void OnModelAdded(const ModelLease& model) = 0;
  // Called when the model can no longer be leased by name.
  virtual void OnModelRemoved(const std::string& name) = 0;
  // Called when the name leases `model` instead of an earlier one.
  virtual void OnModelReplaced(const ModelLease& model) {
    OnModelRemoved(model->name);
    OnModelAdded(model);
  }
};

class ModelRepository {
 public:
  ModelRepository();
  // Removes every model and waits until the last lease is dropped. Subscribed listeners outlive the repository.
  ~ModelRepository();
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  // The model of that name, or null. Takes one lock, held only for the lookup.
  ModelLease Lease(std::string_view name) const;
  // Every model, in the order they were added.
  std::vector<ModelLease> List() const;

  // ALREADY_EXISTS if a model of that name is served.
  absl::Status Add(std::unique_ptr<ServedModel> model);
  // The name leases this model from now on, at the earlier one's place in the list; that one goes on until its last
  // lease is dropped. As Add if there is none of that name.
  void Replace(std::unique_ptr<ServedModel> model);
  // False if there is no such model. Does not wait for leases.
  bool Remove(std::string_view name);
  // Frees the removed models without leases and returns their number. Joins engine threads, so must not be called on
  // one. Once it returns, models without leases that another call has begun to free are freed too.
  int FreeUnleased();
  // Stops the engine of every model, including removed models that are still leased: their requests end with kShutdown.
  void StopEngines();

  // Notifies the listener of every current model, then of every change until Unsubscribe returns.
  void Subscribe(RepositoryListener* listener);
  // Notifies the listener that every model is removed, so that it drops its leases.
  void Unsubscribe(RepositoryListener* listener);

 private:
  struct Unleased;

  std::vector<ModelLease>::iterator Find(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(models_mutex_);
  ModelLease NewLease(std::unique_ptr<ServedModel> model);
  void Append(ModelLease lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_mutex_);

  absl::Mutex changes_mutex_ ABSL_ACQUIRED_BEFORE(models_mutex_);  // one change or subscription at a time
  std::vector<RepositoryListener*> listeners_ ABSL_GUARDED_BY(changes_mutex_);
  mutable absl::Mutex models_mutex_;  // guards the two lists; never held while calling out
  std::vector<ModelLease> models_ ABSL_GUARDED_BY(models_mutex_);
  std::vector<std::weak_ptr<const ServedModel>> removed_ ABSL_GUARDED_BY(models_mutex_);  // possibly still leased
  const std::shared_ptr<Unleased> unleased_;
  absl::Mutex freeing_mutex_;  // held while models are freed
};

}  // namespace dunlin::server
