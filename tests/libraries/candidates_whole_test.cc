// The whole quick suite on the reference as a candidate, every variant of every operation: minutes each.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::expect_right, mxcheck::test::gate_on_reference;

TEST(RightLibrariesWhole, quantization) {
  expect_right(gate_on_reference("operations=quantize,quantize_dual,dequantize,scale_layout,cast", "--seed 1"));
}
TEST(RightLibrariesWhole, matmul) { expect_right(gate_on_reference("operations=matmul", "--seed 1")); }
TEST(RightLibrariesWhole, routers) {
  expect_right(gate_on_reference(
      "operations=route,route_round,route_metadata,route_backward,route_balance_loss,route_z_loss", "--seed 1"));
}
TEST(RightLibrariesWhole, layers) {
  expect_right(gate_on_reference("operations=moe_forward,moe_backward", "--seed 1"));
}
TEST(RightLibrariesWhole, ranks) { expect_right(gate_on_reference("operations=dispatch,combine", "--seed 1")); }

}  // namespace
