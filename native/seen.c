/* crawler._native.SeenKernel: test-and-set of batches of keys over all Bloom slices of a seen-set, on their own memory.
 *
 * It does what crawler/filters/chain.py does with numpy, and leaves the same bits and gives the same answers; growth,
 * figures and snapshots remain there. A chunk of keys is hashed, looked up in one slice after the other (only what the
 * newer ones do not hold), compared with itself exactly, and put into the newest slice.
 *
 * The interpreter's lock is kept for the whole of a chunk, which takes half a millisecond at most: strings of a list
 * that another thread may change are only safe under it, and the filter's own lock would let no other thread do
 * anything useful meanwhile.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "key_hash.h"

#define CHUNK 4096 /* keys that are compared with the same state, as in chain.py */
#define SMALL 64   /* keys of a batch that needs no memory but the stack's */
#define MOST_SLICES 65536

typedef struct {
    Slice slice;
    Py_buffer memory;
} Held;

typedef struct {
    PyObject_HEAD
    KeyHash hash;
    uint64_t multiplier;
    PyObject *known; /* first halves of the digests of watched keys */
    PyObject *watch; /* called with both halves, and whether it is new, of a watched key that is not known */
    Py_ssize_t count;
    Held *held; /* the newest first */
} SeenKernel;

/* The memory of one call: a kernel has none of its own, so that calls may overlap when `watch` lets other threads run. */
typedef struct {
    const Digest *digests;
    uint32_t *positions;
    uint16_t *table;
    void *taken;
    union {
        Digest digests[SMALL];
        uint64_t aligned;
    } small;
    uint32_t small_positions[SMALL];
    uint16_t small_table[2 * SMALL];
} Work;

/* Room for `count` keys, and for their digests if they are to be `hashed`; they are returned. */
static Digest *begin_work(Work *work, size_t count, int hashed)
{
    work->taken = NULL;
    work->digests = work->small.digests;
    work->positions = work->small_positions;
    work->table = work->small_table;
    if (count <= SMALL)
        return work->small.digests;
    size_t for_digests = hashed ? count * sizeof(Digest) : 0, for_positions = count * sizeof(uint32_t);
    char *taken = PyMem_Malloc(for_digests + for_positions + bloom_table(count) * sizeof(uint16_t));
    if (taken == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    work->taken = taken;
    work->digests = (Digest *)(void *)taken;
    work->positions = (uint32_t *)(void *)(taken + for_digests);
    work->table = (uint16_t *)(void *)(taken + for_digests + for_positions);
    return (Digest *)(void *)taken;
}

static void end_work(Work *work)
{
    PyMem_Free(work->taken);
}

/* -- making one */

static int layout_of(const char *name)
{
    static const char *const names[] = {"blocked", "paired", "classic", "guava"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    PyErr_Format(PyExc_ValueError, "no layout %s", name);
    return -1;
}

static int hold_slice(Held *held, PyObject *stated)
{
    PyObject *memory;
    const char *name;
    unsigned long long size, hashes;
    if (!PyArg_ParseTuple(stated, "OsKK;a slice is (memory, layout, size, hashes)", &memory, &name, &size, &hashes))
        return -1;
    int layout = layout_of(name);
    if (layout < 0)
        return -1;
    size_t words = bloom_words((Layout)layout, size, hashes);
    if (words == 0) {
        PyErr_Format(PyExc_ValueError, "no %s slice has the size %llu and %llu hashes", name, size, hashes);
        return -1;
    }
    if (PyObject_GetBuffer(memory, &held->memory, PyBUF_SIMPLE) < 0)
        return -1;
    size_t bytes = (size_t)held->memory.len;
    if (bytes != words * sizeof(uint64_t) || (uintptr_t)held->memory.buf % sizeof(uint64_t) != 0) {
        PyErr_Format(PyExc_ValueError, "a slice of %zu words cannot lie in %zu bytes at %p", words, bytes,
                     held->memory.buf);
        PyBuffer_Release(&held->memory);
        return -1;
    }
    held->slice = (Slice){held->memory.buf, (Layout)layout, (int)hashes, size};
    return 0;
}

static int hold_slices(SeenKernel *self, PyObject *slices)
{
    Py_ssize_t count = PyTuple_Size(slices);
    if (count < 1 || count > MOST_SLICES) {
        PyErr_Format(PyExc_ValueError, "a seen-set has 1 to %d slices, not %zd", MOST_SLICES, count);
        return -1;
    }
    self->held = PyMem_Calloc((size_t)count, sizeof(Held));
    if (self->held == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; self->count < count; self->count++) {
        PyObject *stated = PyTuple_GetItem(slices, self->count);
        if (!PyTuple_Check(stated)) {
            PyErr_SetString(PyExc_TypeError, "a slice is a tuple");
            return -1;
        }
        if (hold_slice(&self->held[self->count], stated) < 0)
            return -1;
    }
    return 0;
}

static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"algorithm", "secret", "multiplier", "slices", "known", "watch", NULL};
    const char *algorithm, *secret;
    Py_ssize_t size;
    unsigned long long multiplier;
    PyObject *slices, *known, *watch, *dict_type = (PyObject *)&PyDict_Type;
    if (!PyArg_ParseTupleAndKeywords(args, named, "sy#KO!O!O:SeenKernel", names, &algorithm, &secret, &size,
                                     &multiplier, &PyTuple_Type, &slices, dict_type, &known, &watch))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    SeenKernel *self = (SeenKernel *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->multiplier = multiplier | 1;
    self->known = Py_NewRef(known);
    self->watch = Py_NewRef(watch);
    if (key_hash_begin(&self->hash, algorithm, secret, size) < 0 || hold_slices(self, slices) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* There is no clear, as a tuple has none: whatever a kernel refers to was there before it, so a cycle through it has
 * another member that can be cleared. */
static int kernel_traverse(PyObject *made, visitproc visit, void *arg)
{
    SeenKernel *self = (SeenKernel *)made;
    Py_VISIT(Py_TYPE(made));
    Py_VISIT(self->known);
    Py_VISIT(self->watch);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->held[i].memory.obj);
    return 0;
}

static void kernel_dealloc(PyObject *made)
{
    SeenKernel *self = (SeenKernel *)made;
    PyTypeObject *type = Py_TYPE(made);
    PyObject_GC_UnTrack(made);
    for (Py_ssize_t i = 0; i < self->count; i++)
        PyBuffer_Release(&self->held[i].memory);
    PyMem_Free(self->held);
    Py_XDECREF(self->known);
    Py_XDECREF(self->watch);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(made);
    Py_DECREF(type);
}

/* -- asking and adding */

static size_t all_positions(uint32_t *positions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        positions[i] = (uint32_t)i;
    return count;
}

static size_t find_unseen(const SeenKernel *self, Work *work, size_t count)
{
    size_t left = all_positions(work->positions, count);
    for (Py_ssize_t i = 0; i < self->count && left > 0; i++)
        left = bloom_unseen(&self->held[i].slice, work->digests, work->positions, left, work->positions);
    return left;
}

static int watch_one(const SeenKernel *self, Digest digest, int is_new)
{
    PyObject *first = PyLong_FromUnsignedLongLong(digest.h1);
    if (first == NULL)
        return -1;
    int known = PyDict_Contains(self->known, first);
    if (known == 0) {
        PyObject *told = PyObject_CallFunction(self->watch, "OKO", first, (unsigned long long)digest.h2,
                                               is_new ? Py_True : Py_False);
        known = told == NULL ? -1 : 1;
        Py_XDECREF(told);
    }
    Py_DECREF(first);
    return known < 0 ? -1 : 0;
}

/* Report the keys whose marked bits (crawler/filters/watched_keys.py) are all clear; `fresh` of them are new. The mask
 * may become stricter meanwhile: then `watch` knows better. */
static int watch_all(const SeenKernel *self, const Work *work, size_t count, size_t fresh, uint64_t mask)
{
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        int is_new = next < fresh && work->positions[next] == i;
        next += (size_t)is_new;
        if (!(work->digests[i].h2 & mask) && watch_one(self, work->digests[i], is_new) < 0)
            return -1;
    }
    return 0;
}

/* How many of the `count` digests are new; their positions are in `work`. Of these the first `room` are put in. */
static Py_ssize_t add_all(SeenKernel *self, Work *work, size_t count, size_t room, uint64_t mask)
{
    const Held *newest = &self->held[0];
    if (newest->memory.readonly) {
        PyErr_SetString(PyExc_BufferError, "the newest slice of the seen-set is read-only");
        return -1;
    }
    size_t fresh = find_unseen(self, work, count);
    fresh = bloom_first_occurrences(work->digests, work->positions, fresh, work->table, self->multiplier);
    if (watch_all(self, work, count, fresh, mask) < 0)
        return -1;
    bloom_put(&newest->slice, work->digests, work->positions, fresh < room ? fresh : room);
    return (Py_ssize_t)fresh;
}

static PyObject *listed(const Work *work, Py_ssize_t count, Py_ssize_t start)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(start + (Py_ssize_t)work->positions[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* `room` and `mask`, the last two arguments of what adds. */
static int read_limits(PyObject *const *args, size_t *room, uint64_t *mask)
{
    Py_ssize_t asked = PyLong_AsSsize_t(args[0]);
    if (asked < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "there is no room below 0");
        return -1;
    }
    *room = (size_t)asked;
    *mask = PyLong_AsUnsignedLongLong(args[1]);
    return *mask == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static int expect(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", wanted, given);
    return -1;
}

static int too_many(Py_ssize_t count)
{
    if (count <= CHUNK)
        return 0;
    PyErr_Format(PyExc_ValueError, "at most %d keys at once, not %zd", CHUNK, count);
    return -1;
}

static PyObject *kernel_add_keys(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    SeenKernel *self = (SeenKernel *)made;
    size_t room;
    uint64_t mask;
    if (expect(given, 3) < 0 || read_limits(args + 1, &room, &mask) < 0)
        return NULL;
    Py_ssize_t count = count_keys(args[0]);
    if (count < 0 || too_many(count) < 0)
        return NULL;
    Work work;
    Digest *digests = begin_work(&work, (size_t)count, 1);
    if (digests == NULL)
        return NULL;
    PyObject *list = NULL;
    if (key_hash_all(&self->hash, args[0], count, digests) == 0) {
        Py_ssize_t fresh = add_all(self, &work, (size_t)count, room, mask);
        list = fresh < 0 ? NULL : listed(&work, fresh, 0);
    }
    end_work(&work);
    return list;
}

/* The digests in `memory` from number `start` on, at most a chunk of them. */
static int read_digests(PyObject *memory, Py_ssize_t start, Py_buffer *view, Py_ssize_t *count)
{
    if (PyObject_GetBuffer(memory, view, PyBUF_SIMPLE) < 0)
        return -1;
    Py_ssize_t size = (Py_ssize_t)sizeof(Digest);
    if (view->len % size != 0 || (uintptr_t)view->buf % sizeof(uint64_t) != 0) {
        PyErr_Format(PyExc_ValueError, "%zd bytes at %p are no digests", view->len, view->buf);
        PyBuffer_Release(view);
        return -1;
    }
    if (start < 0 || start > view->len / size) {
        PyErr_Format(PyExc_ValueError, "there is no digest %zd of %zd", start, view->len / size);
        PyBuffer_Release(view);
        return -1;
    }
    Py_ssize_t left = view->len / size - start;
    *count = left < CHUNK ? left : CHUNK;
    return 0;
}

static PyObject *kernel_add_digests(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    size_t room;
    uint64_t mask;
    Py_buffer view;
    Py_ssize_t start, count;
    if (expect(given, 4) < 0 || read_limits(args + 2, &room, &mask) < 0)
        return NULL;
    start = PyLong_AsSsize_t(args[1]);
    if ((start == -1 && PyErr_Occurred()) || read_digests(args[0], start, &view, &count) < 0)
        return NULL;
    Work work;
    PyObject *list = NULL;
    if (begin_work(&work, (size_t)count, 0) != NULL) {
        work.digests = (const Digest *)view.buf + start;
        Py_ssize_t fresh = add_all((SeenKernel *)made, &work, (size_t)count, room, mask);
        list = fresh < 0 ? NULL : listed(&work, fresh, start);
        end_work(&work);
    }
    PyBuffer_Release(&view);
    return list;
}

static PyObject *answers(const Work *work, size_t count, size_t unseen)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    size_t next = 0;
    for (size_t i = 0; list != NULL && i < count; i++) {
        int is_unseen = next < unseen && work->positions[next] == i;
        next += (size_t)is_unseen;
        if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(is_unseen ? Py_False : Py_True)) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *kernel_holds_digests(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer view;
    Py_ssize_t start, count;
    if (expect(given, 2) < 0)
        return NULL;
    start = PyLong_AsSsize_t(args[1]);
    if ((start == -1 && PyErr_Occurred()) || read_digests(args[0], start, &view, &count) < 0)
        return NULL;
    Work work;
    PyObject *list = NULL;
    if (begin_work(&work, (size_t)count, 0) != NULL) {
        work.digests = (const Digest *)view.buf + start;
        list = answers(&work, (size_t)count, find_unseen((SeenKernel *)made, &work, (size_t)count));
        end_work(&work);
    }
    PyBuffer_Release(&view);
    return list;
}

static PyObject *kernel_put_digests(PyObject *made, PyObject *memory)
{
    const Held *newest = &((SeenKernel *)made)->held[0];
    Py_buffer view;
    Py_ssize_t count;
    if (newest->memory.readonly) {
        PyErr_SetString(PyExc_BufferError, "the newest slice of the seen-set is read-only");
        return NULL;
    }
    if (read_digests(memory, 0, &view, &count) < 0)
        return NULL;
    Work work;
    if (too_many(view.len / (Py_ssize_t)sizeof(Digest)) < 0 || begin_work(&work, (size_t)count, 0) == NULL) {
        PyBuffer_Release(&view);
        return NULL;
    }
    bloom_put(&newest->slice, view.buf, work.positions, all_positions(work.positions, (size_t)count));
    end_work(&work);
    PyBuffer_Release(&view);
    return Py_NewRef(Py_None);
}

static PyMethodDef kernel_methods[] = {
    {"add_keys", (PyCFunction)(void (*)(void))kernel_add_keys, METH_FASTCALL,
     "add_keys(keys, room, mask): add keys; the positions of the new ones, of which the first `room` were put in."},
    {"add_digests", (PyCFunction)(void (*)(void))kernel_add_digests, METH_FASTCALL,
     "add_digests(digests, start, room, mask): the same for a chunk of digests from number `start` on."},
    {"holds_digests", (PyCFunction)(void (*)(void))kernel_holds_digests, METH_FASTCALL,
     "holds_digests(digests, start): for a chunk of digests from number `start` on, whether each is in."},
    {"put_digests", kernel_put_digests, METH_O, "Set the bits of at most a chunk of digests in the newest slice."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "Test-and-set over the slices of a seen-set, the newest first."},
    {Py_tp_new, kernel_new},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_methods, kernel_methods},
    {0, NULL},
};

static PyType_Spec kernel_spec = {
    .name = "crawler._native.SeenKernel",
    .basicsize = sizeof(SeenKernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = kernel_slots,
};

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

int add_seen(PyObject *module)
{
    return add_type(module, &key_hasher_spec) < 0 ? -1 : add_type(module, &kernel_spec);
}
