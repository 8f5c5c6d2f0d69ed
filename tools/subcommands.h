#pragma once
// The subcommands of mxcheck, one file each. add_NAME declares options on the app and, when the user has chosen the
// subcommand, leaves what to do in Context::run; main runs it and turns what it throws into one line and an exit code.

#include <CLI/CLI.hpp>

#include <functional>

namespace mxcheck {

struct Context {
  std::function<int()> run;  // returns the exit code; throws mxcheck::Error for bad input
};

void add_quantize(CLI::App& app, Context& context);
void add_dequantize(CLI::App& app, Context& context);
void add_scale(CLI::App& app, Context& context);
void add_formats(CLI::App& app, Context& context);
void add_recipes(CLI::App& app, Context& context);
void add_mma(CLI::App& app, Context& context);
void add_matmul(CLI::App& app, Context& context);
void add_route(CLI::App& app, Context& context);
void add_golden(CLI::App& app, Context& context);
void add_gate(CLI::App& app, Context& context);    // where properties/ is built
void add_replay(CLI::App& app, Context& context);  // likewise

}  // namespace mxcheck
