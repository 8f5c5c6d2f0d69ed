// A shared library that does not export what a candidate exports.
extern "C" int not_a_candidate() { return 0; }
