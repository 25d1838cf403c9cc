/* crawler._native.RecentDigests: the digests met lately, in bounded memory. It forgets, and never errs: whole digests
 * are compared.
 *
 * A digest has its place in one line of four, which is a cache line. The latest of a line comes first, and what is met
 * when the line is full takes the place of the last. The table begins small and doubles when a quarter is full, up to
 * its bound; while it doubles, the old one takes half as much again. Lines are chosen by bits of the digest: whoever
 * can choose digests can crowd one line, and gains nothing but that these are forgotten.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "bloom.h"

#define WAYS 4
#define AHEAD 8 /* digests between asking for a line and reading it */
#define FIRST 64 /* lines of a new table */

typedef struct {
    Digest at[WAYS]; /* all bits clear: nothing. That digest itself is never remembered. */
} Line;

typedef struct {
    PyObject_HEAD
    Line *lines; /* in `memory`, at the first cache line */
    void *memory;
    uint64_t mask; /* lines - 1; their number is a power of two */
    uint64_t most; /* lines that it may have */
    uint64_t used; /* digests in it */
} RecentDigests;

static int
is_nothing(const Digest *digest)
{
    return (digest->h1 | digest->h2) == 0;
}

/* Put the digest first in its line; returns whether it was there. `used` counts those that take an empty place. */
static int
put_first(Line *lines, uint64_t mask, Digest digest, uint64_t *used)
{
    Digest *at = lines[digest.h1 & mask].at;
    int way = 0, there;
    while (way < WAYS - 1 && (at[way].h1 != digest.h1 || at[way].h2 != digest.h2) && !is_nothing(&at[way])) {
        way++;
    }
    there = at[way].h1 == digest.h1 && at[way].h2 == digest.h2;
    *used += is_nothing(&at[way]);
    memmove(at + 1, at, (size_t)way * sizeof(Digest));
    at[0] = digest;
    return there;
}

/* Empty lines, each of which is a cache line: calloc aligns to 16 bytes. Returns NULL without memory for them; `memory`
 * is what to free. */
static Line *
new_lines(uint64_t lines, void **memory)
{
    *memory = calloc(1, lines * sizeof(Line) + sizeof(Line) - 1);
    if (*memory == NULL) {
        return NULL;
    }
    return (Line *)(((uintptr_t)*memory + sizeof(Line) - 1) & ~(uintptr_t)(sizeof(Line) - 1));
}

/* Twice as many lines, beside the old ones until these are moved. Without memory for them the table keeps its size. */
static void
grow(RecentDigests *self)
{
    uint64_t lines = self->mask + 1;
    void *memory = NULL;
    Line *made = new_lines(2 * lines, &memory);
    if (made == NULL) {
        self->most = lines;
        return;
    }
    self->used = 0;
    for (uint64_t line = 0; line < lines; line++) {
        for (int way = WAYS - 1; way >= 0; way--) {
            Digest digest = self->lines[line].at[way];
            if (!is_nothing(&digest)) {
                put_first(made, 2 * lines - 1, digest, &self->used);
            }
        }
    }
    free(self->memory);
    self->memory = memory;
    self->lines = made;
    self->mask = 2 * lines - 1;
}

static PyObject *
recent_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    static char *names[] = {"most", NULL};
    Py_ssize_t most;
    if (!PyArg_ParseTupleAndKeywords(args, named, "n:RecentDigests", names, &most)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    RecentDigests *self = (RecentDigests *)allocate(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->most = 1;
    while (most > 0 && 2 * self->most <= (uint64_t)most / sizeof(Line)) {
        self->most *= 2;
    }
    uint64_t lines = self->most < FIRST ? self->most : FIRST;
    self->mask = lines - 1;
    self->lines = new_lines(lines, &self->memory);
    if (self->lines == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void
recent_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(((RecentDigests *)self)->memory);
    release(self);
    Py_DECREF(type);
}

static Digest
digest_at(const char *digests, Py_ssize_t position)
{
    Digest digest;
    memcpy(&digest, digests + position * (Py_ssize_t)sizeof(Digest), sizeof(Digest));
    return digest;
}

static int
append_position(PyObject *positions, Py_ssize_t position)
{
    PyObject *number = PyLong_FromSsize_t(position);
    int failed = number == NULL ? -1 : PyList_Append(positions, number);
    Py_XDECREF(number);
    return failed;
}

static PyObject *
recent_meet(PyObject *object, PyObject *argument)
{
    RecentDigests *self = (RecentDigests *)object;
    char *digests;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(argument, &digests, &size) < 0) {
        return NULL;
    }
    if (size % (Py_ssize_t)sizeof(Digest) != 0) {
        PyErr_SetString(PyExc_ValueError, "digests have 16 bytes each");
        return NULL;
    }
    Py_ssize_t count = size / (Py_ssize_t)sizeof(Digest);
    PyObject *unmet = PyList_New(0);
    for (Py_ssize_t position = 0; unmet != NULL && position < count; position++) {
        if (position + AHEAD < count) {
            __builtin_prefetch(&self->lines[digest_at(digests, position + AHEAD).h1 & self->mask]);
        }
        Digest digest = digest_at(digests, position);
        if (!is_nothing(&digest) && put_first(self->lines, self->mask, digest, &self->used)) {
            continue;
        }
        if (append_position(unmet, position) < 0) {
            Py_CLEAR(unmet);
        }
        if (self->used > self->mask && self->mask + 1 < self->most) {
            grow(self);
        }
    }
    return unmet;
}

static PyMethodDef recent_methods[] = {
    {"meet", recent_meet, METH_O,
     "meet(digests): the positions of those that are not remembered. From then on all are, until others take their "
     "room."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot recent_slots[] = {
    {Py_tp_doc, "RecentDigests(most): the digests met lately, in at most that many bytes; while the table "
                "doubles for the last time, half as many more."},
    {Py_tp_new, recent_new},
    {Py_tp_dealloc, recent_dealloc},
    {Py_tp_methods, recent_methods},
    {0, NULL},
};

static PyType_Spec recent_spec = {
    .name = "crawler._native.RecentDigests",
    .basicsize = sizeof(RecentDigests),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = recent_slots,
};

int
add_recent(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &recent_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}
