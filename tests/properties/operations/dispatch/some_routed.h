#pragma once
// Cases of dispatch and combine, one of each kind.

#include <vector>

#include "properties/operations/dispatch/fields.h"

namespace mxcheck::test {

inline std::vector<Case> some_routed() {
  std::vector<Case> all;
  for (const char* text : {
           "op=dispatch x=bf16 rows=13 cols=9 ranks=0,5,5,13 homes=turns num=6 k=3 drops=10 data=slots seed=4",
           "op=dispatch x=e4m3 rows=13 cols=130 ranks=0,5,13 homes=scattered num=6 k=3 hot=60 capacity=4 data=bits "
           "seed=5",
           "op=dispatch x=e5m2 rows=4 cols=128 homes=one num=2 k=2 data=normal seed=6",
           "op=dispatch x=bf16 rows=0 cols=3 ranks=0,0 homes=blocks num=2 k=1 data=zeros seed=1",
           "op=combine x=bf16 weighted=0 rows=13 cols=9 ranks=0,5,5,13 homes=turns num=6 k=3 drops=10 data=boundaries "
           "seed=4",
           "op=combine x=bf16 weighted=1 rows=13 cols=30 ranks=0,5,13 homes=scattered num=6 k=3 hot=60 capacity=4 "
           "data=normal seed=5",
           "op=combine x=bf16 weighted=1 rows=5 cols=3 homes=blocks num=1 k=1 drops=100 data=normal seed=5",
       })
    all.push_back(parse_case(text));
  return all;
}

}  // namespace mxcheck::test
