/* crawler._native.SeenKernel: test-and-set of batches of keys over all Bloom slices of a seen-set, on their own memory.
 *
 * It does what crawler/seen/filters/chain.py does with numpy, and leaves the same bits and gives the same answers;
 * counts, growth, figures and snapshots remain there. A chunk of keys is hashed, looked up in one slice after the other
 * (only what the newer ones do not hold), compared with itself exactly, and put into the newest slice.
 *
 * Locks. A kernel is also the lock of its filter: all that the filter does is done inside `with kernel`, and add_keys
 * takes the lock itself, which costs a tenth of what the statement costs. The interpreter's lock is kept for the whole
 * of a chunk, half a millisecond at most: strings of a list that another thread may change are only safe under it, and
 * the filter's lock would let no other thread do anything useful meanwhile. The two calls of Python code in the middle
 * (`watch`, `added`) let other threads run: they find the filter locked.
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
    PyThread_type_lock lock;
    KeyHash hash;
    uint64_t multiplier;
    PyObject *watched; /* the WatchedKeys of the filter */
    PyObject *known;   /* the first halves of their digests */
    uint64_t mask;     /* a key is watched only if these bits of its second half are clear */
    Py_ssize_t count;
    Held *held;      /* the slices, the newest first */
    size_t room;     /* keys that the newest one still takes */
    PyObject *added; /* the name of the method of the filter */
} SeenKernel;

/* The memory of one call: a kernel has none of its own, since calls may overlap when `watch` lets other threads run. */
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
static Digest *
begin_work(Work *work, size_t count, int hashed)
{
    work->taken = NULL;
    work->digests = work->small.digests;
    work->positions = work->small_positions;
    work->table = work->small_table;
    if (count <= SMALL) {
        return work->small.digests;
    }
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

static void
end_work(Work *work)
{
    PyMem_Free(work->taken);
}

/* -- making one */

static int
layout_of(const char *name)
{
    static const char *const names[] = {"blocked", "paired", "classic", "guava"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "no layout %s", name);
    return -1;
}

static int
hold_slice(Held *held, PyObject *stated)
{
    PyObject *memory;
    const char *name;
    unsigned long long size, hashes;
    if (!PyArg_ParseTuple(stated, "OsKK;a slice is (memory, layout, size, hashes)", &memory, &name, &size, &hashes)) {
        return -1;
    }
    int layout = layout_of(name);
    if (layout < 0) {
        return -1;
    }
    uint64_t words = bloom_words((Layout)layout, size, hashes), bytes;
    if (words == 0) {
        PyErr_Format(PyExc_ValueError, "no %s slice has the size %llu and %llu hashes", name, size, hashes);
        return -1;
    }
    if (PyObject_GetBuffer(memory, &held->memory, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    bytes = (uint64_t)held->memory.len;
    if (bytes != words * sizeof(uint64_t) || (uintptr_t)held->memory.buf % sizeof(uint64_t) != 0) {
        PyErr_Format(PyExc_ValueError, "a slice of %llu words cannot lie in %llu bytes at %p",
                     (unsigned long long)words, (unsigned long long)bytes, held->memory.buf);
        PyBuffer_Release(&held->memory);
        return -1;
    }
    held->slice = (Slice){held->memory.buf, (Layout)layout, (int)hashes, size};
    return 0;
}

static void
release_slices(Held *held, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyBuffer_Release(&held[i].memory);
    }
    PyMem_Free(held);
}

static Held *
hold_slices(PyObject *slices, Py_ssize_t count)
{
    if (count < 1 || count > MOST_SLICES) {
        PyErr_Format(PyExc_ValueError, "a seen-set has 1 to %d slices, not %zd", MOST_SLICES, count);
        return NULL;
    }
    Held *held = PyMem_Calloc((size_t)count, sizeof(Held));
    if (held == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *stated = PyTuple_GetItem(slices, i);
        int is_tuple = PyTuple_Check(stated);
        if (!is_tuple) {
            PyErr_SetString(PyExc_TypeError, "a slice is a tuple");
        }
        if (!is_tuple || hold_slice(&held[i], stated) < 0) {
            release_slices(held, i);
            return NULL;
        }
    }
    return held;
}

/* WatchedKeys looks at more bits as it fills: only its own code changes the mask, so it is read after each call. */
static int
read_mask(SeenKernel *self)
{
    PyObject *mask = PyObject_GetAttrString(self->watched, "mask");
    if (mask == NULL) {
        return -1;
    }
    self->mask = PyLong_AsUnsignedLongLong(mask);
    Py_DECREF(mask);
    return self->mask == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static int
begin_watching(SeenKernel *self, PyObject *watched)
{
    self->watched = Py_NewRef(watched);
    self->known = PyObject_GetAttrString(watched, "known");
    if (self->known == NULL || read_mask(self) < 0) {
        return -1;
    }
    if (PyDict_Check(self->known)) {
        return 0;
    }
    PyErr_SetString(PyExc_TypeError, "the known keys are a dict");
    return -1;
}

static PyObject *
kernel_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"algorithm", "secret", "multiplier", "watched", NULL};
    const char *algorithm;
    unsigned long long multiplier;
    PyObject *secret, *watched;
    if (!PyArg_ParseTupleAndKeywords(args, named, "sOKO:SeenKernel", names, &algorithm, &secret, &multiplier,
                                     &watched)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    SeenKernel *self = (SeenKernel *)allocate(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->multiplier = multiplier | 1;
    self->added = PyUnicode_InternFromString("added");
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        PyErr_NoMemory();
    }
    if (self->lock == NULL || self->added == NULL || key_hash_begin(&self->hash, algorithm, secret) < 0 ||
        begin_watching(self, watched) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* There is no clear, as a tuple has none: whatever a kernel refers to does not refer to it, so a cycle through it has
 * another member that can be cleared. */
static int
kernel_traverse(PyObject *made, visitproc visit, void *arg)
{
    SeenKernel *self = (SeenKernel *)made;
    Py_VISIT(Py_TYPE(made));
    Py_VISIT(self->watched);
    Py_VISIT(self->known);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->held[i].memory.obj);
    }
    return 0;
}

static void
kernel_dealloc(PyObject *made)
{
    SeenKernel *self = (SeenKernel *)made;
    PyTypeObject *type = Py_TYPE(made);
    PyObject_GC_UnTrack(made);
    release_slices(self->held, self->count);
    Py_XDECREF(self->watched);
    Py_XDECREF(self->known);
    Py_XDECREF(self->added);
    if (self->lock != NULL) {
        PyThread_free_lock(self->lock);
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(made);
    Py_DECREF(type);
}

static PyObject *
kernel_take(PyObject *made, PyObject *args)
{
    SeenKernel *self = (SeenKernel *)made;
    PyObject *slices;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(args, "O!n:take", &PyTuple_Type, &slices, &room)) {
        return NULL;
    }
    if (room < 0) {
        PyErr_SetString(PyExc_ValueError, "there is no room below 0");
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(slices), before = self->count;
    Held *held = hold_slices(slices, count), *old = self->held;
    if (held == NULL) {
        return NULL;
    }
    self->held = held;
    self->count = count;
    self->room = (size_t)room;
    release_slices(old, before);
    return Py_NewRef(Py_None);
}

/* -- the lock */

/* Like threading.Lock: a signal that comes while it waits is handled, and may raise. */
static int
lock_kernel(SeenKernel *self)
{
    if (PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
        return 0;
    }
    PyLockStatus got;
    do {
        Py_BEGIN_ALLOW_THREADS
        got = PyThread_acquire_lock_timed(self->lock, -1, 1);
        Py_END_ALLOW_THREADS
        if (got == PY_LOCK_INTR && PyErr_CheckSignals() < 0)
            return -1;
    } while (got != PY_LOCK_ACQUIRED);
    return 0;
}

static PyObject *
kernel_enter(PyObject *made, PyObject *Py_UNUSED(none))
{
    return lock_kernel((SeenKernel *)made) < 0 ? NULL : Py_NewRef(made);
}

static PyObject *
kernel_exit(PyObject *made, PyObject *Py_UNUSED(what))
{
    SeenKernel *self = (SeenKernel *)made;
    /* Whoever has it held may release it; if nobody has, it is held now. */
    PyThread_acquire_lock(self->lock, NOWAIT_LOCK);
    PyThread_release_lock(self->lock);
    return Py_NewRef(Py_None);
}

/* -- asking and adding */

static size_t
all_positions(uint32_t *positions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        positions[i] = (uint32_t)i;
    }
    return count;
}

static size_t
find_unseen(const SeenKernel *self, Work *work, size_t count)
{
    size_t left = all_positions(work->positions, count);
    for (Py_ssize_t i = 0; i < self->count && left > 0; i++) {
        left = bloom_unseen(&self->held[i].slice, work->digests, work->positions, left, work->positions);
    }
    return left;
}

static int
watch_one(SeenKernel *self, Digest digest, int is_new)
{
    PyObject *first = PyLong_FromUnsignedLongLong(digest.h1);
    if (first == NULL) {
        return -1;
    }
    int known = PyDict_Contains(self->known, first);
    if (known == 0) {
        PyObject *told = PyObject_CallMethod(self->watched, "watch_unknown", "OKO", first,
                                             (unsigned long long)digest.h2, is_new ? Py_True : Py_False);
        known = told == NULL ? -1 : read_mask(self);
        Py_XDECREF(told);
    }
    Py_DECREF(first);
    return known < 0 ? -1 : 0;
}

/* Report the keys whose marked bits (crawler/seen/filters/watched_keys.py) are all clear; `fresh` of them are new. */
static int
watch_all(SeenKernel *self, const Work *work, size_t count, size_t fresh)
{
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        int is_new = next < fresh && work->positions[next] == i;
        next += (size_t)is_new;
        if (!(work->digests[i].h2 & self->mask) && watch_one(self, work->digests[i], is_new) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The digests of the new keys for which there is no room. */
static PyObject *
digests_of_rest(const Work *work, size_t put, size_t fresh)
{
    PyObject *rest = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((fresh - put) * sizeof(Digest)));
    char *to = rest == NULL ? NULL : PyBytes_AsString(rest);
    for (size_t i = put; rest != NULL && i < fresh; i++, to += sizeof(Digest)) {
        memcpy(to, &work->digests[work->positions[i]], sizeof(Digest));
    }
    return rest;
}

static int
tell_added(PyObject *filter, PyObject *name, const Work *work, size_t put, size_t fresh)
{
    PyObject *rest = digests_of_rest(work, put, fresh), *number = PyLong_FromSize_t(put), *told = NULL;
    if (rest != NULL && number != NULL) {
        told = PyObject_CallMethodObjArgs(filter, name, number, rest, NULL);
    }
    Py_XDECREF(rest);
    Py_XDECREF(number);
    Py_XDECREF(told);
    return told == NULL ? -1 : 0;
}

static int
check_writable(const SeenKernel *self)
{
    if (self->count > 0 && !self->held[0].memory.readonly) {
        return 0;
    }
    PyErr_SetString(PyExc_BufferError, "the seen-set has no slice that can be written");
    return -1;
}

/* How many of the `count` digests are new; their positions are in `work`. Those for which there is no room in the
 * newest slice are for `filter`, which opens another. */
static Py_ssize_t
add_all(SeenKernel *self, PyObject *filter, Work *work, size_t count)
{
    if (check_writable(self) < 0) {
        return -1;
    }
    size_t fresh = find_unseen(self, work, count);
    fresh = bloom_first_occurrences(work->digests, work->positions, fresh, work->table, self->multiplier);
    if (watch_all(self, work, count, fresh) < 0) {
        return -1;
    }
    if (fresh == 0) {
        return 0;
    }
    /* What was called may have been anything: nothing of the slices is older than this. */
    if (check_writable(self) < 0) {
        return -1;
    }
    size_t put = fresh < self->room ? fresh : self->room;
    bloom_put(&self->held[0].slice, work->digests, work->positions, put);
    self->room -= put;
    return tell_added(filter, self->added, work, put, fresh) < 0 ? -1 : (Py_ssize_t)fresh;
}

static PyObject *
listed(const Work *work, Py_ssize_t count, Py_ssize_t start)
{
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromSsize_t(start + (Py_ssize_t)work->positions[i]);
        if (number == NULL || PyList_SetItem(list, i, number) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static int
expect(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted) {
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", wanted, given);
    return -1;
}

static PyObject *
kernel_add_keys(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    SeenKernel *self = (SeenKernel *)made;
    if (expect(given, 2) < 0) {
        return NULL;
    }
    Py_ssize_t count = count_keys(args[1]);
    if (count < 0 || count > CHUNK) {
        return Py_NewRef(Py_None);
    }
    Work work;
    Digest *digests = begin_work(&work, (size_t)count, 1);
    if (digests == NULL) {
        return NULL;
    }
    PyObject *list = NULL;
    if (key_hash_all(&self->hash, args[1], count, digests) == 0 && lock_kernel(self) == 0) {
        Py_ssize_t fresh = add_all(self, args[0], &work, (size_t)count);
        PyThread_release_lock(self->lock);
        list = fresh < 0 ? NULL : listed(&work, fresh, 0);
    }
    end_work(&work);
    return list;
}

/* The digests in `memory` from number `start` on, at most a chunk of them. */
static int
read_digests(PyObject *memory, Py_ssize_t start, Py_buffer *view, Py_ssize_t *count)
{
    if (PyObject_GetBuffer(memory, view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
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

static PyObject *
kernel_add_digests(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer view;
    Py_ssize_t start, count;
    if (expect(given, 3) < 0) {
        return NULL;
    }
    start = PyLong_AsSsize_t(args[2]);
    if ((start == -1 && PyErr_Occurred()) || read_digests(args[1], start, &view, &count) < 0) {
        return NULL;
    }
    Work work;
    PyObject *list = NULL;
    if (begin_work(&work, (size_t)count, 0) != NULL) {
        work.digests = (const Digest *)view.buf + start;
        Py_ssize_t fresh = add_all((SeenKernel *)made, args[0], &work, (size_t)count);
        list = fresh < 0 ? NULL : listed(&work, fresh, start);
        end_work(&work);
    }
    PyBuffer_Release(&view);
    return list;
}

static PyObject *
answers(const Work *work, size_t count, size_t unseen)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    size_t next = 0;
    for (size_t i = 0; list != NULL && i < count; i++) {
        int is_unseen = next < unseen && work->positions[next] == i;
        next += (size_t)is_unseen;
        if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(is_unseen ? Py_False : Py_True)) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
kernel_holds_digests(PyObject *made, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer view;
    Py_ssize_t start, count;
    if (expect(given, 2) < 0) {
        return NULL;
    }
    start = PyLong_AsSsize_t(args[1]);
    if ((start == -1 && PyErr_Occurred()) || read_digests(args[0], start, &view, &count) < 0) {
        return NULL;
    }
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

static PyObject *
kernel_put_digests(PyObject *made, PyObject *memory)
{
    SeenKernel *self = (SeenKernel *)made;
    Py_buffer view;
    Py_ssize_t count;
    if (check_writable(self) < 0 || read_digests(memory, 0, &view, &count) < 0) {
        return NULL;
    }
    Work work;
    size_t all = (size_t)view.len / sizeof(Digest);
    if (all > CHUNK) {
        PyErr_Format(PyExc_ValueError, "at most %d digests at once, not %zu", CHUNK, all);
    }
    if (PyErr_Occurred() || begin_work(&work, all, 0) == NULL) {
        PyBuffer_Release(&view);
        return NULL;
    }
    bloom_put(&self->held[0].slice, view.buf, work.positions, all_positions(work.positions, all));
    /* The caller has the counts: should an interrupt have come between them and this, they decide. */
    self->room -= all < self->room ? all : self->room;
    end_work(&work);
    PyBuffer_Release(&view);
    return Py_NewRef(Py_None);
}

static PyMethodDef kernel_methods[] = {
    {"take", kernel_take, METH_VARARGS,
     "take(slices, room): work on these slices, the newest first, each (memory, layout, size, hashes); that many keys "
     "have room in the newest."},
    {"add_keys", (PyCFunction)(void (*)(void))kernel_add_keys, METH_FASTCALL,
     "add_keys(filter, keys): lock, and add keys. The positions of the new ones; None, with nothing done, unless "
     "`keys` is a list or a tuple of a chunk at most. If there are new ones, filter.added(put, rest) is called: `put` "
     "were put in, and the digests `rest` had no room."},
    {"add_digests", (PyCFunction)(void (*)(void))kernel_add_digests, METH_FASTCALL,
     "add_digests(filter, digests, start): the same for a chunk of digests from number `start` on, without locking."},
    {"holds_digests", (PyCFunction)(void (*)(void))kernel_holds_digests, METH_FASTCALL,
     "holds_digests(digests, start): for a chunk of digests from number `start` on, whether each is in."},
    {"put_digests", kernel_put_digests, METH_O,
     "put_digests(digests): set the bits of at most a chunk of digests in the newest slice, whatever room it has."},
    {"__enter__", kernel_enter, METH_NOARGS, "Lock the filter."},
    {"__exit__", kernel_exit, METH_VARARGS, "Unlock it."},
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

static int
add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

int
add_seen(PyObject *module)
{
    return add_type(module, &key_hasher_spec) < 0 ? -1 : add_type(module, &kernel_spec);
}
