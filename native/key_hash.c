#include "key_hash.h"

#include <string.h>

#include "mmh3.h"

int
key_hash_begin(KeyHash *self, const char *algorithm, PyObject *secret)
{
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(secret, &bytes, &size) < 0) {
        return -1;
    }
    self->is_blake2b = strcmp(algorithm, "blake2b") == 0;
    if (!self->is_blake2b && strcmp(algorithm, "mmh3") != 0) {
        PyErr_Format(PyExc_ValueError, "unknown hash %s", algorithm);
        return -1;
    }
    if (self->is_blake2b ? size > BLAKE2B_MOST_KEY : size != (Py_ssize_t)sizeof self->seed) {
        PyErr_Format(PyExc_ValueError, "a secret of %zd bytes does not fit %s", size, algorithm);
        return -1;
    }
    if (self->is_blake2b) {
        blake2b_begin(&self->blake2b, (const uint8_t *)bytes, (size_t)size);
    } else {
        memcpy(&self->seed, bytes, sizeof self->seed);
    }
    return 0;
}

static void
digest_text(const KeyHash *self, const char *text, Py_ssize_t size, Digest *digest)
{
    if (self->is_blake2b) {
        blake2b_digest(&self->blake2b, (const uint8_t *)text, (size_t)size, (uint8_t *)digest);
    } else {
        mmh3_digest(self->seed, (const uint8_t *)text, (size_t)size, (uint8_t *)digest);
    }
}

/* Text that has no UTF-8 but that of its lone surrogates (crawler/seen/slices/digests.py). `key` is a reference of our
 * own: the error handler is found in a table that Python code may change. */
static int
digest_surrogates(const KeyHash *self, PyObject *key, Digest *digest)
{
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        return -1;
    }
    PyErr_Clear();
    PyObject *text = PyUnicode_AsEncodedString(key, "utf-8", "surrogatepass");
    if (text == NULL) {
        return -1;
    }
    digest_text(self, PyBytes_AsString(text), PyBytes_Size(text), digest);
    Py_DECREF(text);
    return 0;
}

static int
digest_key(const KeyHash *self, PyObject *key, Digest *digest)
{
    Py_ssize_t size;
    if (PyUnicode_Check(key)) {
        const char *text = PyUnicode_AsUTF8AndSize(key, &size);
        if (text == NULL) {
            Py_INCREF(key);
            int failed = digest_surrogates(self, key, digest);
            Py_DECREF(key);
            return failed;
        }
        digest_text(self, text, size, digest);
        return 0;
    }
    if (PyBytes_Check(key)) {
        digest_text(self, PyBytes_AsString(key), PyBytes_Size(key), digest);
        return 0;
    }
    PyObject *name = PyType_GetName(Py_TYPE(key));
    PyErr_Format(PyExc_TypeError, "a key is a str or bytes, not %U", name);
    Py_XDECREF(name);
    return -1;
}

Py_ssize_t
count_keys(PyObject *keys)
{
    if (PyList_Check(keys)) {
        return PyList_Size(keys);
    }
    if (PyTuple_Check(keys)) {
        return PyTuple_Size(keys);
    }
    return -1;
}

int
key_hash_all(const KeyHash *self, PyObject *keys, Py_ssize_t count, Digest *digests)
{
    int is_list = PyList_Check(keys);
    for (Py_ssize_t i = 0; i < count; i++) {
        /* A list that shrinks meanwhile raises IndexError here. */
        PyObject *key = is_list ? PyList_GetItem(keys, i) : PyTuple_GetItem(keys, i);
        if (key == NULL || digest_key(self, key, &digests[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* -- crawler._native.KeyHasher */

typedef struct {
    PyObject_HEAD
    KeyHash hash;
} KeyHasher;

static PyObject *
hasher_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"algorithm", "secret", NULL};
    const char *algorithm;
    PyObject *secret;
    if (!PyArg_ParseTupleAndKeywords(args, named, "sO:KeyHasher", names, &algorithm, &secret)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    KeyHasher *self = (KeyHasher *)allocate(type, 0);
    if (self != NULL && key_hash_begin(&self->hash, algorithm, secret) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
hasher_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *
hasher_digest_keys(PyObject *self, PyObject *keys)
{
    Py_ssize_t count = count_keys(keys);
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "keys are a list or a tuple");
        return NULL;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(Digest));
    if (made == NULL) {
        return NULL;
    }
    /* The bytes of a `bytes` lie at a multiple of 8: nothing less would do for a Digest. */
    if (key_hash_all(&((KeyHasher *)self)->hash, keys, count, (Digest *)(void *)PyBytes_AsString(made)) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

static PyMethodDef hasher_methods[] = {
    {"digest_keys", hasher_digest_keys, METH_O, "The digests of a list or tuple of keys, 16 bytes each."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot hasher_slots[] = {
    {Py_tp_doc, "A hash of keys with its secret."},
    {Py_tp_new, hasher_new},
    {Py_tp_dealloc, hasher_dealloc},
    {Py_tp_methods, hasher_methods},
    {0, NULL},
};

PyType_Spec key_hasher_spec = {
    .name = "crawler._native.KeyHasher",
    .basicsize = sizeof(KeyHasher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = hasher_slots,
};
