const char *beside_word(void) { return "beside"; }
