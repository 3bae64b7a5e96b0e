// SPDX-License-Identifier: Apache-2.0
// Loads, replaces and unloads models while the server runs. A new version is loaded next to the served one and replaces
// it in the repository at once; requests that run finish with the version that they began with. A load that fails
// changes nothing but the model's status.
// Models with idle_unload_s are loaded by their requests (BeginUse, EndUse) and unloaded when nothing has used them for
// that time, or when another such model needs their memory: then the one that was used least recently goes first.
// One thread of its own loads, one model at a time. Thread rule: LoadAll, Start and Stop on the owner's thread, in this
// order; the rest from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/config/config.h"
#include "server/models/model_loading.h"
#include "server/models/model_state.h"
#include "server/models/repository.h"

namespace dunlin::server {

// Called on the loader's thread; must not call the lifecycle.
struct LifecycleHooks {
  // Before a model is loaded: what observes its steps. May be null.
  std::function<std::shared_ptr<engine::StepObserver>(const std::string& model)> on_loading;
  // It could not be loaded, and no earlier version is served.
  std::function<void(const std::string& model)> on_failed;
  // It is in the repository. An error fails the start; later on it is logged.
  std::function<absl::Status(const ModelSettings& settings)> on_served;
};

class ModelLifecycle {
 public:
  static constexpr size_t kMaxQueuedCalls = 64;  // of Load, Reload and Unload; further ones are refused
  // After a load that failed, requests load the model again once this time is over.
  static constexpr absl::Duration kRetryAfter = absl::Seconds(10);

  // The result of a call; once, on any thread, possibly within the call. Must not block.
  using Done = std::function<void(const absl::Status&)>;

  // repository and loading outlive this object. drain_limit: how long a load waits for the memory of models that drain.
  ModelLifecycle(ModelRepository* repository, ModelLoading* loading, LifecycleHooks hooks, absl::Duration drain_limit);
  // Calls Stop.
  ~ModelLifecycle();
  ModelLifecycle(const ModelLifecycle&) = delete;
  ModelLifecycle& operator=(const ModelLifecycle&) = delete;

  // Loads the models of a config, within its memory plan; the first one that fails ends it. Those with idle_unload_s
  // are not loaded: each is planned alone, next to the others. CANCELLED soon after stop became true.
  absl::Status LoadAll(const Config& config, const std::atomic<bool>& stop);
  // From now on, the calls below are carried out, in the order in which they came.
  void Start();
  // What the loader's thread does again and again, for a simulation that has none: carries out one call, if there is
  // any, and unloads what is idle. wait: for a call, or until it is time to look at idle models. False: stopped.
  bool RunNext(bool wait);
  // Ends a load as soon as it can be; calls that were not carried out are UNAVAILABLE. Idempotent.
  void Stop();

  // The models of a config that has changed, by their names: loads what is not served, replaces what has other values,
  // unloads what it does not have. only_changed: leaves models alone whose values have not changed and whose last load
  // did not fail, also those that a call has unloaded.
  void Follow(const std::vector<ModelSettings>& models, bool only_changed = false);

  // Load: no-op for a model that is served as it is configured. Reload: reads its files again. Unload: once done, the
  // model takes no requests; it is freed when those that run have ended; no-op if it is not served.
  // Errors: NOT_FOUND for a model that the config does not have; FAILED_PRECONDITION with the reason where it cannot be
  // loaded; RESOURCE_EXHAUSTED where the memory plan has no room for it; ABORTED where too many calls wait; UNAVAILABLE
  // once stopped.
  void Load(const std::string& model, Done done);
  void Reload(const std::string& model, Done done);
  void Unload(const std::string& model, Done done);

  // A LoRA adapter of a served model, in addition to those of the config, from this call on until UnloadAdapter; new
  // versions of the model have it, too, as long as its files can be read. in_place: one of that name is replaced, else
  // it is ALREADY_EXISTS. Sequences that run go on with the weights that they began with.
  // ReloadAdapter: reads the files of an adapter again. UnloadAdapter: its name is unknown once done; its memory is
  // freed when the sequences that run with it have ended. An adapter of the config comes back when the config is read.
  // Errors: NOT_FOUND (the adapter, or nothing at its path), INVALID_ARGUMENT (CheckAdapterName, ResolveAdapterPath),
  // FAILED_PRECONDITION with the reason where it cannot be loaded, RESOURCE_EXHAUSTED (models[].max_adapters,
  // models[].adapter_memory_bytes), ABORTED and UNAVAILABLE as above.
  void LoadAdapter(const std::string& model, const AdapterSource& adapter, bool in_place, Done done);
  void ReloadAdapter(const std::string& adapter, Done done);
  void UnloadAdapter(const std::string& adapter, Done done);
  // The model that has this adapter, or should have it; "" if there is none.
  std::string ModelOfAdapter(std::string_view adapter) const;

  // A request's use of a model, from before its lease to its end.
  struct Use {
    uint64_t id = 0;    // for EndUse; 0: no request loads this model, and there is nothing to end
    bool ready = true;  // false: it is being loaded; `done` is called once that has ended
  };
  // Of a request, before it leases its model: a model with idle_unload_s is loaded unless it is served, and stays until
  // EndUse. deadline: the request's. done: not within this call; OK, or why the request cannot go on: DEADLINE_EXCEEDED
  // after load_wait_ms or at the deadline, NOT_FOUND if the config drops the model, else an error of Load. Errors:
  // ABORTED where scheduler.max_queued_requests wait for the model.
  absl::StatusOr<Use> BeginUse(std::string_view model, absl::Time deadline, Done done);
  // The same of a request that names an adapter of a served model, once BeginUse is over. The request keeps the lease
  // to its end: the adapter stays in the device's memory. An empty one that is ready: nothing of that name is there, or
  // no adapter leaves the memory. done: OK with the lease, as soon as one that no request uses has made room; requests
  // wait in the order in which they came, those of one adapter together. Errors of done: DEADLINE_EXCEEDED after
  // load_wait_ms or at the deadline, UNAVAILABLE where the model is unloaded, else those of AdapterSet::Restore. EndUse
  // ends a wait.
  struct AdapterUse {
    uint64_t id = 0;    // for EndUse, of a wait
    bool ready = true;  // false: `done` is called
    engine::AdapterLease lease;
  };
  using AdapterDone = std::function<void(absl::StatusOr<engine::AdapterLease>)>;
  absl::StatusOr<AdapterUse> BeginAdapterUse(const std::string& model, const std::string& adapter, absl::Time deadline,
                                             AdapterDone done);
  // No-op for an id whose wait has ended with an error. `done` may still be called for a short time.
  void EndUse(std::string_view model, uint64_t id);
  // Ends the idle time of a model with idle_unload_s: it is unloaded as soon as no request uses it, unless one begins
  // to use it before. False: it is not in memory, or no request loads it.
  bool EndIdleTime(std::string_view model);
  // Ends the waits whose time is over: to be called several times a second.
  void EndLateWaits(absl::Time now);
  // Whether the config has a model with idle_unload_s, or whose adapters leave the memory; false: BeginUse and
  // BeginAdapterUse need not be called.
  bool loads_for_requests() const { return loads_for_requests_.load(std::memory_order_relaxed); }

  // Every model that the config has, and those that drain, by name.
  std::vector<ModelStatus> List() const;
  std::optional<ModelStatus> Find(std::string_view model) const;
  bool Knows(std::string_view model) const;

 private:
  // A request that waits for its model.
  struct Wait {
    Done done;
    absl::Time until;
  };
  // A request that waits for an adapter of a served model.
  struct AdapterWait {
    std::string adapter;
    AdapterDone done;
    absl::Time until;
  };
  // An adapter that a model should have.
  struct WantedAdapter {
    std::string path;
    bool configured = false;  // else a call has loaded it
    std::string failure;      // AdapterStatus::failure
  };
  struct Entry {
    ModelSettings settings;
    std::map<std::string, WantedAdapter, std::less<>> adapters;  // by name
    std::string served_values;                                   // ModelSettings::values of the served version
    int32_t served_adapters = 0;                                 // AdapterSettings::max_adapters of the served version
    std::string failed_values;                                   // the same of the last load that failed
    bool configured = true;                                      // else the config has dropped it
    bool held = false;                                           // a call has unloaded it: requests do not load it
    ModelStatus status;                                          // but for kUnloading, on_request and waiting
    std::map<uint64_t, Wait> waits;                              // by the id of the use
    std::map<uint64_t, AdapterWait> adapter_waits;               // the same
    std::set<uint64_t> uses;                                     // of requests that do not wait
    absl::Time used = absl::InfinitePast();                      // when the last use ended, or it was loaded
    bool expired = false;                                        // EndIdleTime was called since
    absl::Time failed = absl::InfinitePast();                    // the last load that did
  };
  enum class Action : uint8_t {
    kLoad,
    kReload,
    kUnload,
    kDrop,
    kLoadForRequests,
    kLoadAdapter,
    kReloadAdapter,
    kUnloadAdapter
  };
  struct Call {
    Action action = Action::kLoad;
    std::string model;
    Done done;  // null: of Follow and BeginUse
    AdapterSource adapter = {};
    bool in_place = false;
  };

  // Whether each of the models that are loaded later fits next to those of the start.
  absl::Status CheckLaterModels(const Config& config, const std::vector<PlannedModel>& at_start);
  void Enqueue(Call call);
  void EnqueueForConfig(Action action, const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Carry(const Call& call);
  absl::Status Load(const std::string& model, bool again);
  void Unload(const std::string& model);
  // Loads and unloads adapters of the served version until it has those that it should have; each failure is logged.
  void FollowAdapters(const std::string& model) ABSL_LOCKS_EXCLUDED(mutex_);
  // The adapters of a version that is being built. Errors: as LoadAdapter's, of an adapter of the config; those of
  // calls are left out with a line in the log.
  absl::Status LoadAdapters(const ModelSettings& settings, ServedModel* served) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the served version; counts and remembers the outcome.
  absl::Status LoadOneAdapter(const std::string& model, const AdapterSource& adapter) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CarryAdapter(const Call& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void UnloadOneAdapter(const std::string& model, const std::string& adapter) ABSL_LOCKS_EXCLUDED(mutex_);
  // Brings what requests wait for to memory, as far as adapters without requests make room.
  void RestoreAdapters() ABSL_LOCKS_EXCLUDED(mutex_);
  void RestoreAdapters(const std::string& model) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the waits for an adapter of the model; "" for any.
  void EndAdapterWaits(const std::string& model, const std::string& adapter,
                       const absl::StatusOr<engine::AdapterLease>& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  bool AdaptersAwaited() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adapters that calls have loaded under names that the config has now.
  void DropShadowedAdapters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a call, with its path resolved. Errors: INVALID_ARGUMENT.
  absl::StatusOr<AdapterSource> CheckAdapter(const std::string& model, const AdapterSource& adapter) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::string FindModelOf(std::string_view adapter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddAdapters(const Entry& entry, ModelStatus* status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends every wait for the model with this status; after OK they are uses.
  void EndWaits(const std::string& model, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Unloads what has been idle for its time.
  void UnloadIdle();
  // When it is unloaded if nothing uses it until then. REQUIRES: a served model with idle_unload_s.
  absl::Time UnloadTimeOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The served models with idle_unload_s that no request uses, the least recently used first.
  std::vector<std::string> IdleModels() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Unloads such a model, and counts it. False if a request uses it now, or it was used after `since`.
  bool UnloadUnused(const std::string& model, absl::Time since, uint64_t ModelStatus::*count);
  // Unloads the least recently used idle model but for this one. False if there is none, and none that may become idle.
  bool Evict(const std::string& but);
  void Configure(const ModelSettings& settings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A new version, ready to be served.
  absl::StatusOr<std::unique_ptr<ServedModel>> Build(const ModelSettings& settings);
  absl::StatusOr<PlannedModel> Plan(const ModelSettings& settings);
  absl::StatusOr<std::unique_ptr<ServedModel>> BuildPlanned(PlannedModel planned, const std::atomic<bool>& stop);
  std::vector<ModelMemory> Residents() ABSL_LOCKS_EXCLUDED(mutex_);
  static void NotePlan(const ModelMemory& memory, ModelStatus* status);
  ModelStatus StatusOf(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool InMemory(const std::string& model) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ModelRepository* const repository_;
  ModelLoading* const loading_;
  const LifecycleHooks hooks_;
  const absl::Duration drain_limit_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> loads_for_requests_{false};
  std::thread thread_;

  mutable absl::Mutex mutex_;  // guards what follows; not held while models are loaded or freed
  bool accepts_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t last_use_ ABSL_GUARDED_BY(mutex_) = 0;
  bool adapter_wait_began_ ABSL_GUARDED_BY(mutex_) = false;  // since the loader's thread has looked
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  // Of every model in memory: ServedModel::memory.
  std::vector<std::weak_ptr<const ModelMemory>> residents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
