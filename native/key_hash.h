/* The hash of a seen-set with its secret: what crawler/seen/slices/key_hash.py describes. */
#ifndef CRAWLER_KEY_HASH_H
#define CRAWLER_KEY_HASH_H

#include <Python.h>

#include "blake2b.h"
#include "bloom.h"

typedef struct {
    int is_blake2b;
    uint32_t seed;
    Blake2b blake2b;
} KeyHash;

/* -1 with ValueError for an unknown algorithm, or for a secret, a bytes object, that it cannot take. */
int key_hash_begin(KeyHash *self, const char *algorithm, PyObject *secret);

/* How many keys a list or a tuple has; -1, without an exception, for anything else. */
Py_ssize_t count_keys(PyObject *keys);

/* The digest of each of `count` keys; -1 with TypeError for what is neither str nor bytes. */
int key_hash_all(const KeyHash *self, PyObject *keys, Py_ssize_t count, Digest *digests);

/* The type crawler._native.KeyHasher. */
extern PyType_Spec key_hasher_spec;

#endif
