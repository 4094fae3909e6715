/* Needs no loader: all of it is one stretch of the file, and it calls what it is told. */
typedef void *allocate(unsigned long);
void *NAME(allocate *malloc, int step) {
    void *volatile block = malloc(60001 + step);
    return block;
}
