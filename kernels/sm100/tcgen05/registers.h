#pragma once
// The register lists of tcgen05.ld and tcgen05.st, whose asm statements name each register: 1 to 128 of a Fragment.
// Their numbers are the statement's operands %0, %1, ..; what else it has follows as %N, %(N + 1), ..

// clang-format off

#define MXCHECK_SM100_NAMES_1 "%0"
#define MXCHECK_SM100_NAMES_2 "%0, %1"
#define MXCHECK_SM100_NAMES_4 "%0, %1, %2, %3"
#define MXCHECK_SM100_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MXCHECK_SM100_NAMES_16 MXCHECK_SM100_NAMES_8 \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MXCHECK_SM100_NAMES_32 MXCHECK_SM100_NAMES_16 \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MXCHECK_SM100_NAMES_64 MXCHECK_SM100_NAMES_32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MXCHECK_SM100_NAMES_128 MXCHECK_SM100_NAMES_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// Operands with the constraint C, an "=r" or an "r": the registers from I on of the fragment F.
#define MXCHECK_SM100_REGISTERS_1(C, F, I) C((F).r[I])
#define MXCHECK_SM100_REGISTERS_2(C, F, I) MXCHECK_SM100_REGISTERS_1(C, F, I), MXCHECK_SM100_REGISTERS_1(C, F, (I) + 1)
#define MXCHECK_SM100_REGISTERS_4(C, F, I) MXCHECK_SM100_REGISTERS_2(C, F, I), MXCHECK_SM100_REGISTERS_2(C, F, (I) + 2)
#define MXCHECK_SM100_REGISTERS_8(C, F, I) MXCHECK_SM100_REGISTERS_4(C, F, I), MXCHECK_SM100_REGISTERS_4(C, F, (I) + 4)
#define MXCHECK_SM100_REGISTERS_16(C, F, I) MXCHECK_SM100_REGISTERS_8(C, F, I), MXCHECK_SM100_REGISTERS_8(C, F, (I) + 8)
#define MXCHECK_SM100_REGISTERS_32(C, F, I) \
  MXCHECK_SM100_REGISTERS_16(C, F, I), MXCHECK_SM100_REGISTERS_16(C, F, (I) + 16)
#define MXCHECK_SM100_REGISTERS_64(C, F, I) \
  MXCHECK_SM100_REGISTERS_32(C, F, I), MXCHECK_SM100_REGISTERS_32(C, F, (I) + 32)
#define MXCHECK_SM100_REGISTERS_128(C, F, I) \
  MXCHECK_SM100_REGISTERS_64(C, F, I), MXCHECK_SM100_REGISTERS_64(C, F, (I) + 64)

// OTHER_N_K is the name of operand K, from 0, after the registers of a statement with N of them.
#define MXCHECK_SM100_OTHER_1_0 "%1"
#define MXCHECK_SM100_OTHER_2_0 "%2"
#define MXCHECK_SM100_OTHER_4_0 "%4"
#define MXCHECK_SM100_OTHER_8_0 "%8"
#define MXCHECK_SM100_OTHER_16_0 "%16"
#define MXCHECK_SM100_OTHER_32_0 "%32"
#define MXCHECK_SM100_OTHER_64_0 "%64"
#define MXCHECK_SM100_OTHER_128_0 "%128"
#define MXCHECK_SM100_OTHER_1_1 "%2"
#define MXCHECK_SM100_OTHER_2_1 "%3"
#define MXCHECK_SM100_OTHER_4_1 "%5"
#define MXCHECK_SM100_OTHER_8_1 "%9"
#define MXCHECK_SM100_OTHER_16_1 "%17"
#define MXCHECK_SM100_OTHER_32_1 "%33"
#define MXCHECK_SM100_OTHER_64_1 "%65"
#define MXCHECK_SM100_OTHER_128_1 "%129"
#define MXCHECK_SM100_OTHER_1_2 "%3"
#define MXCHECK_SM100_OTHER_2_2 "%4"
#define MXCHECK_SM100_OTHER_4_2 "%6"
#define MXCHECK_SM100_OTHER_8_2 "%10"
#define MXCHECK_SM100_OTHER_16_2 "%18"
#define MXCHECK_SM100_OTHER_32_2 "%34"
#define MXCHECK_SM100_OTHER_64_2 "%66"
#define MXCHECK_SM100_OTHER_128_2 "%130"
#define MXCHECK_SM100_OTHER_1_3 "%4"
#define MXCHECK_SM100_OTHER_2_3 "%5"
#define MXCHECK_SM100_OTHER_4_3 "%7"
#define MXCHECK_SM100_OTHER_8_3 "%11"
#define MXCHECK_SM100_OTHER_16_3 "%19"
#define MXCHECK_SM100_OTHER_32_3 "%35"
#define MXCHECK_SM100_OTHER_64_3 "%67"
#define MXCHECK_SM100_OTHER_128_3 "%131"

// clang-format on
