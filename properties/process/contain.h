#pragma once
// Limits on what a candidate's process can do to the gate from where it is: replies that are none.

#include <string>

#include "properties/process/wire.h"

namespace mxcheck {

// The reason why these bytes are no worker's reply to this message; empty where they can be one. The process is the
// library's too, and writes what it likes: of a reply that passes, each text ends, and each count is within bounds.
std::string reply_problem(const wire::Message& message, const wire::Reply& reply);

}  // namespace mxcheck
