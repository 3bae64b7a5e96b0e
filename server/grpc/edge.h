// What every gRPC service leans on, made and owned by GrpcServer and outliving all calls. Const after start.
#pragma once

#include "engine/engine.h"
#include "server/admission.h"
#include "server/grpc/door_answers.h"
#include "server/grpc/stall_watch.h"
#include "server/limits.h"
#include "server/pressure.h"
#include "server/request_record.h"
#include "server/served_model.h"
#include "server/text_pool.h"

namespace dunlin::server {

struct Edge {
  Limits limits;
  const ModelRegistry* registry = nullptr;
  RequestObserver* observer = nullptr;  // may be null
  engine::Engine::Clock clock = nullptr;
  Admission* admission = nullptr;
  TextPool* text_pool = nullptr;
  StallWatch* stall_watch = nullptr;
  const DoorAnswers* door_answers = nullptr;
  Pressure* pressure = nullptr;
};

}  // namespace dunlin::server
