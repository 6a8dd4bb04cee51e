/* Measures policies of libCacheSim: misses and million requests a second of CPU time, one line each.
 *
 * Called by libcachesim.sh as: beside KEYS CAPACITY POLICY...
 * KEYS has the keys of the requests, as 64-bit little-endian numbers. The requests are made from keys in memory, so that
 * no reader of traces is measured, and the hash table has room for the cache from the beginning.
 */
#include <libCacheSim.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct policy {
  const char *name;
  cache_t *(*init)(const common_cache_params_t, const char *);
};

static const struct policy POLICIES[] = {
    {"lru", LRU_init},         {"fifo", FIFO_init},
    {"clock", Clock_init},     {"lfu", LFU_init},
    {"2q", TwoQ_init},         {"arc", ARC_init},
    {"lirs", LIRS_init},       {"w-tinylfu", WTinyLFU_init},
    {"s3-fifo", S3FIFO_init},  {"sieve", Sieve_init},
    {"clock2q+", Clock2QPlus_init}, {"lhd", LHD_init},
};

static double cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static int fail(const char *what) {
  fprintf(stderr, "beside: %s\n", what);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 4) return fail("expected KEYS CAPACITY POLICY...");
  FILE *file = fopen(argv[1], "rb");
  if (!file || fseek(file, 0, SEEK_END)) return fail("cannot read the keys");
  long count = ftell(file) / 8;
  uint64_t *keys = malloc(count * 8);
  rewind(file);
  if (!keys || fread(keys, 8, count, file) != (size_t)count) return fail("cannot read the keys");
  fclose(file);

  common_cache_params_t params = {.cache_size = strtoull(argv[2], NULL, 10), .default_ttl = 86400 * 300};
  for (params.hashpower = 1; (1ULL << params.hashpower) < params.cache_size; params.hashpower++) {
  }
  for (int arg = 3; arg < argc; arg++) {
    const struct policy *policy = NULL;
    for (size_t at = 0; at < sizeof POLICIES / sizeof *POLICIES; at++)
      if (!strcmp(POLICIES[at].name, argv[arg])) policy = &POLICIES[at];
    if (!policy) return fail("unknown policy");
    cache_t *cache = policy->init(params, NULL);
    request_t *request = new_request();
    request->obj_size = 1;
    long misses = 0;
    double began = cpu();
    for (long at = 0; at < count; at++) {
      /* LHD and W-TinyLFU keep 0 for themselves. */
      request->obj_id = keys[at] + 1;
      request->clock_time = at;
      misses += !cache->get(cache, request);
    }
    printf("%s %.4f %.2f\n", policy->name, (double)misses / count, count / (cpu() - began) / 1e6);
    fflush(stdout);
    cache->cache_free(cache);
    free_request(request);
  }
  return 0;
}
