/* The interface of a library that offers `multiply`: y = factor * x, each product rounded once.
 *
 *   multiply   in  x [rows, cols] fp32;  out y [rows, cols] fp32
 */
#ifndef MXCHECK_TESTS_CANDIDATE_MULTIPLY_H_
#define MXCHECK_TESTS_CANDIDATE_MULTIPLY_H_

#include "kernels/candidate.h"

/* mxcheck_call.policy points to the first member; base.size is sizeof(multiply_policy). */
typedef struct multiply_policy {
  mxcheck_policy base;
  float factor;
} multiply_policy;

#endif
