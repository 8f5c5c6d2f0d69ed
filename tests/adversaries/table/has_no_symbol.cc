// A shared library, but no candidate.
extern "C" int answer(void);
extern "C" int answer(void) { return 42; }
