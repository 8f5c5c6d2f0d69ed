#pragma once
#include <cuda_runtime.h>
struct __nv_bfloat16 { unsigned short v; };
