// SPDX-License-Identifier: Apache-2.0
// What must hold of a repository of models: after everything that happens, when a model is removed, when a call or a
// request ends, and at the end. "" where it does, else the first contradiction.
#pragma once

#include <deque>
#include <string>

#include "absl/status/status.h"
#include "tests/simulation/fake_loading.h"
#include "tests/simulation/repository_world.h"

namespace dunlin::simulation {

// What a run knows. All outlive this.
struct RepositoryView {
  const KnownModels* models;
  const std::deque<ModelRequest>* requests;
  const server::ModelLifecycle* lifecycle;
  const server::ModelRepository* repository;
  const FakeLoading* loading;
  bool stopped = false;
};

// What is told of models is so; waits are bounded, and end in time.
std::string CheckNow(const RepositoryView& view);
// A model is about to be unknown to requests: a call or the config wants it, or it is one that requests load, nobody
// uses it, and it was idle for its time, was told to go, or was used least recently of those whose memory another one
// needs.
std::string CheckRemoval(const std::string& name, const RepositoryView& view);
// An administrator's call has ended: what it says is so, and a load that failed has left the served version.
std::string CheckCall(const RepositoryEvent& event, const absl::Status& status, const RepositoryView& view);
// A request does not get its model: for a reason that has happened.
std::string CheckRefusal(const ModelRequest& request, const absl::Status& status, const RepositoryView& view);
// Nothing happens any more, and nothing is leased.
std::string CheckEnd(const RepositoryView& view);

}  // namespace dunlin::simulation
