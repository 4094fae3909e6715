// Allocates for a plug-in that releases.
extern "C" int *help(int value) { return new int(value); }
